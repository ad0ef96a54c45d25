//! The page of two analyses: a verdict, and sortable tables.

use anyhow::Result;
use serde::Serialize;

use crate::export::page;

/// The page of a comparison.
#[derive(Serialize)]
pub struct ComparisonPage {
    /// Its title.
    pub title: &'static str,
    /// The two analyses.
    pub facts: Vec<(&'static str, String)>,
    /// What was found, in a sentence.
    pub verdict: String,
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
    /// Its title.
    pub title: String,
    /// The headings of its columns.
    pub columns: &'static [&'static str],
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl ComparisonPage {
    /// The page as a file.
    /// Fails for no comparison.
    pub fn render(&self) -> Result<Vec<u8>> {
        page::filled("changes", self)
    }
}
