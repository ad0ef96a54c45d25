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

use std::path::PathBuf;

use anyhow::Result;

use crate::report::Report;
use crate::study::show::table::Table;
use json::JsonForm;

/// Where a report goes, and in which format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputTarget {
    Stdout(JsonForm),
    File(PathBuf, ReportFormat),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    Json(JsonForm),
    Csv,
    Html,
}

/// File format of a flat table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    Csv,
    /// A `tabular` of LaTeX.
    Latex,
    #[cfg(feature = "parquet")]
    Parquet,
}

impl TableFormat {
    /// All writers of flat tables, each with its file extension.
    pub const ALL: &[(&str, TableFormat)] = &[
        ("csv", TableFormat::Csv),
        ("tex", TableFormat::Latex),
        #[cfg(feature = "parquet")]
        ("parquet", TableFormat::Parquet),
    ];

    /// Renders a table in this format; only LaTeX has the caption.
    pub fn render(self, table: &Table, caption: &str) -> Result<Vec<u8>> {
        match self {
            Self::Csv => tables::csv::table_csv(table),
            Self::Latex => Ok(tables::latex::latex_table(table, caption).into_bytes()),
            #[cfg(feature = "parquet")]
            Self::Parquet => tables::parquet::parquet_table(table),
        }
    }
}

impl ReportFormat {
    /// All writers of reports, each with its file extension.
    pub const ALL: &[(&str, ReportFormat)] = &[
        ("json", ReportFormat::Json(JsonForm { is_compact: false, is_gzipped: false })),
        ("json.gz", ReportFormat::Json(JsonForm { is_compact: false, is_gzipped: true })),
        ("csv", ReportFormat::Csv),
        ("html", ReportFormat::Html),
    ];

    /// Whether the output holds the complete report, from which all other outputs can be made.
    pub fn holds_report(self) -> bool {
        matches!(self, Self::Json(_))
    }

    pub fn render(self, report: &Report) -> Result<Vec<u8>> {
        match self {
            Self::Json(form) => json::to_json(report, form),
            Self::Csv => tables::csv::report_csv(report),
            Self::Html => page::render(report),
        }
    }
}
