//! What texts and pages of comparisons have in common.

use std::fmt::{self, Write};

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::described::{Described, Fact, LeftAside};
use crate::export::page;
use crate::system::printable::one_line;

/// The longest lists that are shown unless all is asked for.
const FACTS: usize = 6;
const NAMES: usize = 6;

/// The characters of a value that are shown: digests and lists of files are longer.
const VALUE: usize = 40;

/// The characters before the first difference of two long values that are shown with it.
const CONTEXT: usize = 12;

pub fn sides(out: &mut impl Write, [a, b]: [&Described; 2]) -> fmt::Result {
    writeln!(out, "\na  {}\nb  {}\n", one_line(&a.in_words()), one_line(&b.in_words()))
}

/// Parts that were not compared, and why; with `full` every name.
pub fn left_aside(out: &mut impl Write, all: &[LeftAside], full: bool) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot compared:")?;
    for aside in all {
        let names: Vec<String> = aside.of.iter().take(most(NAMES, full)).map(|name| one_line(name)).collect();
        let more = if aside.of.len() > names.len() { ", ..." } else { "" };
        let names = if names.is_empty() { String::new() } else { format!(" ({}{more})", names.join(", ")) };
        writeln!(out, "  {} {}{names}", aside.count, aside.why)?;
    }
    Ok(())
}

/// The facts that the two do not share; with `full` all of them, each whole.
pub fn not_shared(out: &mut impl Write, facts: &[Fact], full: bool) -> fmt::Result {
    if facts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nSettings and facts that differ (a | b), not counted as changes:")?;
    for fact in facts.iter().take(most(FACTS, full)) {
        let [a, b] = values([&fact.a, &fact.b], full);
        writeln!(out, "  {}: {a} | {b}", one_line(&fact.key))?;
    }
    match facts.len().saturating_sub(most(FACTS, full)) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more: --full"),
    }
}

/// Both values, of long ones the part where they begin to differ.
fn values(values: [&Value; 2], full: bool) -> [String; 2] {
    let whole = values.map(|value| one_line(&value.to_string()).chars().collect::<Vec<char>>());
    let same = whole[0].iter().zip(&whole[1]).take_while(|(a, b)| a == b).count();
    let shown = most(VALUE, full);
    let from = if same + CONTEXT < shown { 0 } else { same - CONTEXT };
    whole.map(|text| {
        let part: String = text.iter().skip(from).take(shown).collect();
        let [before, after] =
            [from > 0, text.len() > from + part.chars().count()].map(|cut| if cut { "..." } else { "" });
        format!("{before}{part}{after}")
    })
}

/// The length of a list of `usual` length.
pub fn most(usual: usize, full: bool) -> usize {
    if full { usize::MAX } else { usual }
}

#[derive(Serialize)]
pub struct ComparisonPage {
    pub title: &'static str,
    pub facts: Vec<(&'static str, String)>,
    pub verdict: String,
    pub findings: Vec<String>,
    pub how: String,
    pub parts: Vec<PageTable>,
    pub footer: &'static str,
}

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
    pub fn render(&self) -> Result<Vec<u8>> {
        page::filled("changes", self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_long_values_the_part_that_differs_is_shown() {
        let [a, b] = ["1.2", "1.3"].map(|end| json!(format!("{}{end}{}", "x".repeat(60), "y".repeat(60))));
        let shown = values([&a, &b], false);
        assert_eq!(shown, ["2", "3"].map(|digit| format!("...{}1.{digit}{}...", "x".repeat(10), "y".repeat(27))));
        assert_eq!(values([&a, &b], true), [a.to_string(), b.to_string()]);
        assert_eq!(values([&json!(1), &json!(null)], false), ["1", "null"]);
        // A difference near the beginning is shown with the beginning.
        let [a, b] = ["p", "q"].map(|first| json!(format!("{first}{}", "x".repeat(60))));
        assert_eq!(values([&a, &b], false)[0], format!("\"p{}...", "x".repeat(38)));
    }

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
