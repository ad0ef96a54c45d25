//! The page of two analyses: a verdict, and sortable tables.

use anyhow::Result;
use serde::Serialize;

use crate::export::page;

/// The page of a comparison.
#[derive(Serialize)]
pub struct ComparisonPage {
    pub title: &'static str,
    /// The two analyses.
    pub facts: Vec<(&'static str, String)>,
    /// The finding, in a sentence.
    pub verdict: String,
    /// The sentences after it.
    pub findings: Vec<String>,
    /// How it was found.
    pub how: String,
    /// The tables.
    pub parts: Vec<PageTable>,
    /// The line at the end.
    pub footer: &'static str,
}

/// A table of the page.
#[derive(Serialize)]
pub struct PageTable {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl PageTable {
    /// A table of these rows, without the columns in which no row has anything.
    pub fn new(title: impl Into<String>, columns: &[&'static str], mut rows: Vec<Vec<String>>) -> Self {
        let is_filled = |column: usize| rows.is_empty() || rows.iter().any(|row| !matches!(&*row[column], "" | "-"));
        let filled: Vec<bool> = (0..columns.len()).map(is_filled).collect();
        let columns = columns.iter().zip(&filled).filter(|(_, filled)| **filled).map(|(column, _)| *column).collect();
        for row in &mut rows {
            let mut filled = filled.iter();
            row.retain(|_| *filled.next().expect("a row has a cell in each column"));
        }
        Self { title: title.into(), columns, rows }
    }
}

impl ComparisonPage {
    /// The page as a file.
    /// Fails for no comparison.
    pub fn render(&self) -> Result<Vec<u8>> {
        page::filled("changes", self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_anything_are_left_out() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table = PageTable::new("t", &["x", "y", "z"], vec![row(["1", "-", ""]), row(["2", "-", "3"])]);
        assert_eq!(
            (table.columns, table.rows),
            (vec!["x", "z"], vec![vec!["1".to_owned(), String::new()], vec!["2".to_owned(), "3".to_owned()]])
        );
        assert_eq!(PageTable::new("t", &["x", "y"], Vec::new()).columns, ["x", "y"]);
    }
}
