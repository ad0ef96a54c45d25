//! Ledger of a batch, saved beside the reports: inputs, summary and digests of each report. Also decides which work is left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use super::inputs::RunInputs;
use crate::export::{ReportFormat, json};
use crate::passes::observation::partial;
use crate::report::Report;
use crate::report::roles::RoleCounts;
use crate::system::counts::{format_count, plural};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output::{self, Output};
use crate::system::json::describe_error_in_line;

const FILE_NAME: &str = "batch.json";

/// Version of the ledger's format, raised when a key changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// Size limit of a ledger in bytes: 64 MiB. A run takes about 2 kB, and there are at most 10,000 runs.
const MAX_LEDGER_BYTES: u64 = 1 << 26;

/// Status of a run of the table, after a `headscope batch` command.
pub enum RunStatus {
    /// The run was analysed by this command.
    Done,
    /// The inputs were unchanged; missing formats were made from the saved report.
    FromSavedReport,
    /// The files are unchanged since an earlier command wrote them.
    UpToDate,
    /// The run has a report by an earlier command, which this command did not check.
    NotChecked,
    /// Not analysed by this command, although a report or a format is missing or out of date.
    NotRun,
    /// The last attempt failed with this error message. Outputs of an earlier run stay.
    Failed(String),
}

impl RunStatus {
    /// Name of the status for people, as in `runs.csv`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::FromSavedReport => "from saved report",
            Self::UpToDate => "up to date",
            Self::NotChecked => "earlier",
            Self::NotRun => "missing",
            Self::Failed(_) => "failed",
        }
    }

    /// Error message of a failed run; `None` for any other status.
    pub fn failure_message(&self) -> Option<&str> {
        if let Self::Failed(message) = self { Some(message) } else { None }
    }
}

/// Ledger of a batch, in memory and in its file.
pub struct Ledger {
    path: PathBuf,
    ledger_runs: LedgerRuns,
}

#[derive(Default, Serialize, Deserialize)]
struct LedgerRuns {
    /// Entry of each run that has a report, by the name of the run.
    runs: BTreeMap<String, LedgerEntry>,
    /// Error message of each run that failed when it was last tried, by the name of the run.
    #[serde(default)]
    failed: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct LedgerFile {
    schema_version: u32,
    #[serde(flatten)]
    known: LedgerRuns,
}

/// Inputs, files and summary of a run that has a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    pub inputs: RunInputs,
    /// SHA-256 of each file that was written for the run, by file name.
    pub reports: BTreeMap<String, String>,
    /// Summary of the current report.
    pub found: ReportSummary,
    /// Summary of the report before the current one; `None` for the first report.
    #[serde(default)]
    pub before: Option<ReportSummary>,
}

/// Summary of a report, for the overview of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportSummary {
    pub model: String,
    pub layers: usize,
    /// Number of heads per layer.
    pub heads: usize,
    pub corpus: String,
    /// Number of analysed sentences.
    pub sentences: u64,
    pub words: u64,
    pub tokens: u64,
    /// Number of sentences that were skipped.
    pub skipped: u64,
    /// Number of heads that have a firm role.
    pub firm: usize,
    /// Number of labels per label family (such as `syntactic:<relation>`), over all heads.
    pub label_counts: BTreeMap<String, u64>,
    /// Number of firm labels per label family, over all heads; empty in entries of versions that did not count them.
    #[serde(default)]
    pub firm_label_counts: BTreeMap<String, u64>,
}

impl ReportSummary {
    pub fn new(report: &Report) -> Self {
        let (model, corpus) = (&report.model, &report.corpus);
        Self {
            model: model.id.clone(),
            layers: model.layers,
            heads: model.heads,
            corpus: corpus.name.clone(),
            sentences: corpus.sentences,
            words: corpus.words,
            tokens: corpus.tokens,
            skipped: corpus.skipped.values().sum(),
            firm: RoleCounts::new(report).firm_roles,
            label_counts: report.label_counts.clone(),
            firm_label_counts: report.firm_label_counts(),
        }
    }

    pub fn firm_role_count_text(&self) -> String {
        let (heads, have) = (format_count(self.layers * self.heads, "head"), plural(&self.firm, "has", "have"));
        format!("{} of {heads} {have} a firm role", self.firm)
    }
}

impl LedgerEntry {
    pub fn new<'a>(
        inputs: RunInputs,
        found: ReportSummary,
        before: Option<ReportSummary>,
        written: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<Self> {
        Self { inputs, reports: BTreeMap::new(), found, before }.with_file_digests(written)
    }

    /// Changes in the number of firm labels since the previous report, as (label family, difference), without zeros.
    /// Returns `None` if there is no previous report.
    pub fn label_count_changes(&self) -> Option<Vec<(&str, i64)>> {
        let [after, before] = [&self.found, self.before.as_ref()?].map(|found| &found.firm_label_counts);
        let families: BTreeSet<&str> = after.keys().chain(before.keys()).map(String::as_str).collect();
        let count = |counts: &BTreeMap<String, u64>, family| counts.get(family).map_or(0, |count| count.cast_signed());
        let changes = families.into_iter().map(|family| (family, count(after, family) - count(before, family)));
        Some(changes.filter(|(_, change)| *change != 0).collect())
    }

    /// Adds the digests of the files `more`, which were written for the run. Fails if a file is gone.
    pub fn with_file_digests<'a>(mut self, more: impl IntoIterator<Item = &'a PathBuf>) -> Result<Self> {
        for path in more {
            let digest = output::previous_sha256(path);
            let digest = digest.with_context(|| format!("`{}` was written, and is gone", path.display()));
            self.reports.insert(file_name(path), digest.with_file(path.display()).class(ErrorClass::Output)?);
        }
        Ok(self)
    }

    /// Whether a file still has the digest that was recorded when it was written.
    pub fn is_unmodified(&self, path: &Path) -> bool {
        let recorded = self.reports.get(&file_name(path));
        recorded.is_some() && output::previous_sha256(path).as_ref() == recorded
    }
}

impl Ledger {
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE_NAME);
        Ok(Self { ledger_runs: read_ledger_runs(&path).class(ErrorClass::Input)?, path })
    }

    pub fn entry(&self, name: &str) -> Option<&LedgerEntry> {
        self.ledger_runs.runs.get(name)
    }

    /// Names of the run's recorded files that still exist.
    pub fn report_files(&self, name: &str) -> Vec<&str> {
        let written = self.entry(name).into_iter().flat_map(|entry| entry.reports.keys());
        written.map(String::as_str).filter(|file| self.path_of_file(file).exists()).collect()
    }

    pub fn failure_message(&self, name: &str) -> Option<&str> {
        self.ledger_runs.failed.get(name).map(String::as_str)
    }

    pub fn path_of_file(&self, file: &str) -> PathBuf {
        self.path.with_file_name(file)
    }

    /// Existing files of a run that are not in `asked`: unmodified files with their formats, and files that somebody changed.
    /// A repeated run also rewrites the unmodified files, so that no two formats contradict each other.
    pub fn files_in_other_formats(
        &self,
        name: &str,
        asked: &[(PathBuf, RunFormat)],
    ) -> (Vec<(PathBuf, RunFormat)>, Vec<PathBuf>) {
        let (mut kept, mut changed) = (Vec::new(), Vec::new());
        for (file, digest) in self.entry(name).iter().flat_map(|entry| &entry.reports) {
            let path = self.path_of_file(file);
            if asked.iter().any(|(one, _)| file_name(one) == *file) || !path.exists() {
                continue;
            }
            let extension = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
            let format =
                RunFormat::all_with_extensions().find(|(known, _)| Some(*known) == extension).map(|(_, format)| format);
            match format.filter(|_| output::previous_sha256(&path).as_ref() == Some(digest)) {
                Some(format) => kept.push((path, format)),
                None => changed.push(path),
            }
        }
        (kept, changed)
    }

    /// Records the entry of a run that succeeded, and clears its earlier failure.
    pub fn record_run(&mut self, name: &str, entry: &LedgerEntry) -> Result<()> {
        self.update(|known| {
            known.failed.remove(name);
            known.runs.insert(name.to_owned(), entry.clone());
        })
    }

    /// Records the outcomes `tried`, each the name of a run and its error message, or `None` if the run did not fail.
    /// A recorded failure of a run that now did not fail is cleared.
    pub fn record_failures<'a>(&mut self, tried: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Result<()> {
        let news: Vec<_> = tried.into_iter().filter(|(name, failure)| self.failure_message(name) != *failure).collect();
        if news.is_empty() {
            return Ok(());
        }
        self.update(|known| {
            for &(name, failure) in &news {
                known.failed.remove(name);
                known.failed.extend(failure.map(|message| (name.to_owned(), message.to_owned())));
            }
        })
    }

    /// Applies a change to the ledger in memory and in its file.
    /// Reads the file again first, so that entries of other processes stay.
    fn update(&mut self, change: impl Fn(&mut LedgerRuns)) -> Result<()> {
        change(&mut self.ledger_runs);
        let mut known = read_ledger_runs(&self.path).class(ErrorClass::Input)?;
        change(&mut known);
        let output = Output::open(&self.path)?;
        output.finish(json::to_indented_json(&LedgerFile { schema_version: SCHEMA_VERSION, known })?.as_bytes())
    }
}

/// Name of a file without its folder.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads the runs of a ledger file; none if the file is missing.
/// Fails if this program did not write the file, or wrote another schema version.
fn read_ledger_runs(path: &Path) -> Result<LedgerRuns> {
    let shown = path.display();
    let way_out = "remove it, and all runs are done again";
    let text = output::read_previous_output(path, MAX_LEDGER_BYTES).cannot("read", &shown)?;
    let Some(text) = text else { return Ok(LedgerRuns::default()) };
    let file: LedgerFile = serde_json::from_str(&text).map_err(|error| {
        let problem = anyhow!("this is not what `headscope batch` writes ({})", describe_error_in_line(&error));
        problem.hint(way_out).at_line(&shown, error.line() as u64)
    })?;
    let overflows = |entry: &&LedgerEntry| entry.found.layers.checked_mul(entry.found.heads).is_none();
    if let Some(entry) = file.known.runs.values().find(overflows) {
        let ReportSummary { layers, heads, .. } = &entry.found;
        let error = anyhow!("{shown}: a run has {layers} layers of {heads} heads, which no model has");
        return Err(error.with_file(shown).hint(way_out));
    }
    match file.schema_version {
        SCHEMA_VERSION => Ok(file.known),
        other => {
            let error = anyhow!("{shown}: its schema_version is {other}, this program reads {SCHEMA_VERSION}");
            Err(error.with_file(shown).hint(way_out))
        }
    }
}

/// Format of a run's file: a format of reports, or the partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFormat {
    Report(ReportFormat),
    /// The sums of the run, which no report contains.
    Partial,
}

impl RunFormat {
    /// Every format of a run's files, each with its file extension.
    pub fn all_with_extensions() -> impl Iterator<Item = (&'static str, Self)> {
        let reports = ReportFormat::ALL.iter().map(|(extension, writer)| (*extension, Self::Report(*writer)));
        reports.chain([(partial::EXTENSION, Self::Partial)])
    }

    /// Report format of the file; `None` for a partial.
    pub fn report_format(self) -> Option<ReportFormat> {
        if let Self::Report(writer) = self { Some(writer) } else { None }
    }

    /// Whether the format holds the complete report, from which the other report formats can be made.
    pub fn is_complete_report(self) -> bool {
        self.report_format().is_some_and(ReportFormat::holds_report)
    }
}

/// Work that remains for a run: to run it again, or only to write missing files from a saved report.
pub struct OutstandingWork {
    /// Text on why the run is not up to date.
    reason: String,
    /// A saved report whose inputs are unchanged, and the missing files to make from it; `None`: the run must be repeated.
    pub saved_report: Option<(PathBuf, Vec<(PathBuf, ReportFormat)>)>,
}

impl OutstandingWork {
    /// Returns the work that brings the files `files` of a run up to date with `inputs`; `None` if there is none.
    pub fn new(ledger: &Ledger, run: &str, inputs: &RunInputs, files: &[(PathBuf, RunFormat)]) -> Option<Self> {
        let Some(entry) = ledger.entry(run) else {
            let failed = |message| format!("it failed when it was last tried: {message}");
            let reason = ledger.failure_message(run).map_or_else(|| "there is no report yet".to_owned(), failed);
            return Some(Self { reason, saved_report: None });
        };
        if let Some(reason) = inputs.first_change_since(&entry.inputs) {
            return Some(Self { reason, saved_report: None });
        }
        let missing: Vec<_> = files.iter().filter(|(path, _)| !entry.is_unmodified(path)).collect();
        if missing.is_empty() {
            return None;
        }
        let why = |path: &Path| if path.exists() { "is not what was written" } else { "is missing" };
        let reasons: Vec<_> = missing.iter().map(|(path, _)| format!("{} {}", file_name(path), why(path))).collect();
        let complete = RunFormat::all_with_extensions().filter(|(_, format)| format.is_complete_report());
        let mut reports = complete.map(|(extension, _)| ledger.path_of_file(&format!("{run}.{extension}")));
        let report = reports.find(|path| entry.is_unmodified(path));
        // Sums cannot be made from a report.
        let targets: Option<_> =
            missing.iter().map(|(path, format)| Some((path.clone(), format.report_format()?))).collect();
        Some(Self { reason: reasons.join(", "), saved_report: report.zip(targets) })
    }

    /// Formats the remaining work, and why it remains.
    pub fn in_words(&self) -> String {
        let from =
            if self.saved_report.is_some() { format!(" {}", RunStatus::FromSavedReport.name()) } else { String::new() };
        format!("to do{from}: {}", self.reason)
    }
}
