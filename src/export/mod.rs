//! Writers: pure functions from a report to bytes.

pub mod csv;
pub mod figures;
mod heads;
pub mod json;
mod numbers;
pub mod page;
mod palette;
pub mod summary;
pub mod svg;

use std::path::PathBuf;

use anyhow::Result;

use crate::report::Report;

/// Where a report goes, and in which format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// JSON on standard output.
    Stdout,
    /// A file.
    File(PathBuf, Writer),
}

/// A report format, chosen by the file's extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The whole report.
    Json,
    /// One row per head.
    Csv,
    /// The page.
    Html,
}

impl Writer {
    /// All writers by file extension.
    pub const ALL: &[(&str, Writer)] = &[("json", Writer::Json), ("csv", Writer::Csv), ("html", Writer::Html)];

    /// The report in this format.
    ///
    /// # Errors
    ///
    /// If the report cannot be expressed in it.
    pub fn render(self, report: &Report) -> Result<Vec<u8>> {
        match self {
            Self::Json => json::render(report),
            Self::Csv => csv::render(report),
            Self::Html => page::render(report),
        }
    }
}
