//! The work left for a run so that its reports are there and up to date.

use std::path::{Path, PathBuf};

use super::formats::RunFormat;
use super::inputs::Inputs;
use super::ledger::{Ledger, file_name};
use super::overview::Status;
use crate::export::Writer;

/// The work left for a run, and why.
pub enum Outstanding {
    /// The run itself.
    Run {
        /// Why.
        reason: String,
    },
    /// Reports in some formats alone: nothing has changed, and the whole report is there as it was written.
    Formats {
        /// The whole report.
        saved: PathBuf,
        /// The formats that are made of it.
        lacking: Vec<(PathBuf, Writer)>,
        /// Why.
        reason: String,
    },
}

impl Outstanding {
    /// The work left for a run with these inputs so that the files `asked` are there and up to date; `None`: nothing.
    pub fn of(ledger: &Ledger, run: &str, inputs: &Inputs, asked: &[(PathBuf, RunFormat)]) -> Option<Self> {
        let Some(entry) = ledger.entry(run) else {
            let failed = |message| format!("it failed when it was last tried: {message}");
            let reason = ledger.failure(run).map_or_else(|| "there is no report yet".to_owned(), failed);
            return Some(Self::Run { reason });
        };
        if let Some(reason) = inputs.changed(&entry.inputs) {
            return Some(Self::Run { reason });
        }
        let lacking: Vec<_> = asked.iter().filter(|(path, _)| !entry.has_as_written(path)).collect();
        if lacking.is_empty() {
            return None;
        }
        let why = |path: &Path| if path.exists() { "is not what was written" } else { "is missing" };
        let reasons: Vec<_> = lacking.iter().map(|(path, _)| format!("{} {}", file_name(path), why(path))).collect();
        let reason = reasons.join(", ");
        let whole = RunFormat::all().filter(|(_, format)| format.is_whole());
        let mut saved = whole.map(|(extension, _)| ledger.path_of(&format!("{run}.{extension}")));
        let saved = saved.find(|path| entry.has_as_written(path));
        // Sums cannot be made of a report.
        let of_report: Option<_> =
            lacking.iter().map(|(path, format)| Some((path.clone(), format.writer()?))).collect();
        Some(match (saved, of_report) {
            (Some(saved), Some(lacking)) => Self::Formats { saved, lacking, reason },
            _ => Self::Run { reason },
        })
    }

    /// The work in words.
    pub fn in_words(&self) -> String {
        match self {
            Self::Run { reason } => format!("to do: {reason}"),
            Self::Formats { reason, .. } => format!("to do {}: {reason}", Status::FromSavedReport.name()),
        }
    }
}
