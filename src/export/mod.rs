//! Writers: pure functions from a report to bytes.

pub mod attention;
pub mod card;
pub mod figures;
mod heads;
pub mod json;
mod numbers;
pub mod page;
mod palette;
pub mod summary;
pub mod svg;
pub mod tables;

use std::path::PathBuf;

use anyhow::Result;

use crate::report::Report;
use crate::study::show::table::Table;

/// The destination of a report, and its format.
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

/// A format of flat tables, chosen by the file's extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableWriter {
    /// Text.
    Csv,
    /// Columns with their types, compressed.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl TableWriter {
    /// All writers by file extension.
    pub const ALL: &[(&str, TableWriter)] = &[
        ("csv", TableWriter::Csv),
        #[cfg(feature = "parquet")]
        ("parquet", TableWriter::Parquet),
    ];

    /// The table in this format.
    /// Fails if it cannot be expressed in it.
    pub fn render(self, table: &Table) -> Result<Vec<u8>> {
        match self {
            Self::Csv => tables::csv::table(table),
            #[cfg(feature = "parquet")]
            Self::Parquet => tables::parquet::table(table),
        }
    }
}

impl Writer {
    /// All writers by file extension.
    pub const ALL: &[(&str, Writer)] = &[("json", Writer::Json), ("csv", Writer::Csv), ("html", Writer::Html)];

    /// The report in this format.
    /// Fails if the report cannot be expressed in it.
    pub fn render(self, report: &Report) -> Result<Vec<u8>> {
        match self {
            Self::Json => json::render(report),
            Self::Csv => tables::csv::render(report),
            Self::Html => page::render(report),
        }
    }
}
