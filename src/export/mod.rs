//! Writers: pure functions from a report to bytes.

pub mod attention;
pub mod card;
pub mod figures;
mod heads;
pub mod json;
pub mod page;
mod palette;
pub mod summary;
pub mod svg;
pub mod tables;

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use crate::report::Report;
use crate::study::show::table::Table;
use json::JsonForm;

/// Where a report goes, and in which format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Stdout(JsonForm),
    File(PathBuf, Writer),
}

/// File format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Json(JsonForm),
    Csv,
    Html,
}

/// File format of a flat table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableWriter {
    Csv,
    /// A `tabular` of LaTeX.
    Latex,
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Runs `write` on an empty text, and returns the text.
pub fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("writing to a string does not fail");
    text
}

impl TableWriter {
    /// All writers of flat tables, each with its file extension.
    pub const ALL: &[(&str, TableWriter)] = &[
        ("csv", TableWriter::Csv),
        ("tex", TableWriter::Latex),
        #[cfg(feature = "parquet")]
        ("parquet", TableWriter::Parquet),
    ];

    /// Renders a table in this format; only LaTeX has the caption.
    pub fn render(self, table: &Table, caption: &str) -> Result<Vec<u8>> {
        match self {
            Self::Csv => tables::csv::table(table),
            Self::Latex => Ok(tables::latex::table(table, caption).into_bytes()),
            #[cfg(feature = "parquet")]
            Self::Parquet => tables::parquet::table(table),
        }
    }
}

impl Writer {
    /// All writers of reports, each with its file extension.
    pub const ALL: &[(&str, Writer)] = &[
        ("json", Writer::Json(JsonForm { compact: false, packed: false })),
        ("json.gz", Writer::Json(JsonForm { compact: false, packed: true })),
        ("csv", Writer::Csv),
        ("html", Writer::Html),
    ];

    /// Whether the output holds the complete report, from which all other outputs can be made.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Json(_))
    }

    pub fn render(self, report: &Report) -> Result<Vec<u8>> {
        match self {
            Self::Json(form) => json::render(report, form),
            Self::Csv => tables::csv::render(report),
            Self::Html => page::render(report),
        }
    }
}
