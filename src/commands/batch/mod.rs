//! `headscope batch`: runs the analyses of a table that are missing or whose inputs have changed.
//!
//! Runs of one model follow each other, so that the model is loaded once.

mod inputs;
pub mod ledger;
mod overview;
pub mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow, ensure};

use super::analyze::loaded::{self, LoadedModel, RequiredParts};
use super::analyze::observe::PreparedRun;
use super::analyze::options::{AnalysisOutput, AnalyzeOptions};
use super::analyze::run_to_report;
use super::reporting::{self, ReportOptions, make_folder};
use crate::evaluation::askable::ModelTraits;
use crate::export::{OutputTarget, ReportFormat, json};
use crate::model::files::ModelFiles;
use crate::model::source::ModelRef;
use crate::model::{Hashes, PendingHashes};
use crate::passes::run::{check_heads, token_limit};
use crate::system::counts::format_count;
use crate::system::errors::{ErrorClass, ErrorExt, ErrorFormat};
use crate::system::files::output::Output;
use crate::system::interrupt;
use crate::system::printable::{one_line, without_passwords};
use crate::system::progress::Downloads;
use crate::system::terminal::{print, print_to_stderr};
use inputs::{CorpusInputsCache, RunInputs};
use itertools::Itertools as _;
use ledger::{Ledger, LedgerEntry, OutstandingWork, ReportSummary, RunFormat, RunStatus};
use overview::RunRow;
use table::{BatchTable, OptionSyntax, TableRun};

pub struct BatchOptions {
    pub table: PathBuf,
    /// Folder for the reports, the ledger and the overview.
    pub folder: PathBuf,
    /// Patterns of run names, in which `*` matches any text; empty for all runs.
    pub run_patterns: Vec<String>,
    /// Whether to go on after a failed run.
    pub keep_going: bool,
    /// Whether to print which runs are outstanding, and to analyse none.
    pub dry_run: bool,
    /// Formats of each run's files, with their file extensions.
    pub formats: Vec<(&'static str, RunFormat)>,
    /// Whether to take models from the cache, without a request to the Hub.
    pub offline: bool,
    pub quiet: bool,
    pub errors: ErrorFormat,
}

/// Runs the missing analyses of a table and writes an overview.
/// Fails if the table or the folder cannot be used.
/// Fails if a run failed: at once, or with `keep_going` after all other runs.
pub fn batch(options: &BatchOptions, syntax: &OptionSyntax) -> Result<()> {
    let table = table::read_table(&options.table, syntax, options.offline)?;
    let selected = selected_runs(&table.runs, &options.run_patterns).class(ErrorClass::Usage)?;
    if !options.dry_run {
        make_folder(&options.folder)?;
        interrupt::set_interrupt_message(
            "the reports that are done are kept",
            "the same command goes on with the other runs",
        );
    }
    let mut batch = Batch {
        options,
        table: &table,
        ledger: Ledger::read(&options.folder)?,
        corpora: CorpusInputsCache::default(),
        statuses: BTreeMap::new(),
        failures: Vec::new(),
    };
    let groups: Vec<_> = group_by_model(&selected)
        .into_iter()
        .map(|(model, runs)| (model, batch.runs_with_valid_options(model, runs)))
        .collect();
    for (model, runs) in groups.into_iter().filter(|(_, runs)| !runs.is_empty()) {
        if batch.must_stop() {
            break;
        }
        batch.run_model(model, &runs)?;
    }
    batch.finish(selected.len())
}

/// Runs whose names match some pattern of `only`; all runs if it is empty. Fails if a pattern matches no run.
fn selected_runs<'a>(all: &'a [TableRun], only: &[String]) -> Result<Vec<&'a TableRun>> {
    for pattern in only {
        let is_any_match = all.iter().any(|run| matches_pattern(pattern, &run.name));
        let names = || all.iter().take(10).map(|run| run.name.as_str()).join(", ");
        let and_more = if all.len() > 10 { format!(" and {} more", all.len() - 10) } else { String::new() };
        ensure!(is_any_match, "--only {}: there is no such run, but {}{and_more}", pattern.escape_debug(), names());
    }
    let is_wanted = |run: &&TableRun| only.is_empty() || only.iter().any(|pattern| matches_pattern(pattern, &run.name));
    Ok(all.iter().filter(is_wanted).collect())
}

/// Whether a name matches a pattern, in which `*` matches any text.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).filter(|&at| name.is_char_boundary(at)).any(|at| matches_pattern(rest, &name[at..]))
        }),
    }
}

/// Groups runs by model and classification layer, in the order of the table.
fn group_by_model<'a>(runs: &[&'a TableRun]) -> Vec<(&'a ModelRef, Vec<&'a TableRun>)> {
    let mut groups: Vec<(&ModelRef, Vec<&TableRun>)> = Vec::new();
    for run in runs {
        // A model is loaded with one output head, so runs with different classification heads are separate groups.
        let is_alike = |(model, of_model): &&mut (&ModelRef, Vec<&TableRun>)| {
            **model == run.options.model && of_model[0].options.classified_unit() == run.options.classified_unit()
        };
        match groups.iter_mut().find(is_alike) {
            Some((_, group)) => group.push(run),
            None => groups.push((&run.options.model, vec![run])),
        }
    }
    groups
}

struct Batch<'a> {
    options: &'a BatchOptions,
    table: &'a BatchTable,
    ledger: Ledger,
    corpora: CorpusInputsCache,
    statuses: BTreeMap<String, RunStatus>,
    /// Name of each failed run, with the class of its error.
    failures: Vec<(String, ErrorClass)>,
}

impl Batch<'_> {
    /// Whether the batch ends now, because a run failed and `keep_going` is off.
    fn must_stop(&self) -> bool {
        !self.options.keep_going && !self.failures.is_empty()
    }

    /// Returns the runs whose options fit the model's `config.json`; other runs fail here, before hours of computation.
    /// All runs of a model on the Hub are returned unchecked.
    fn runs_with_valid_options<'b>(&mut self, model: &ModelRef, runs: Vec<&'b TableRun>) -> Vec<&'b TableRun> {
        if !model.is_local() {
            return runs;
        }
        let files = match model.resolve(&Downloads::default()) {
            Ok(files) => files,
            Err(error) => {
                self.record_failure(&runs, error);
                return Vec::new();
            }
        };
        let mut fit = Vec::new();
        for run in runs {
            match ensure_options_fit(&run.options, &files).class(ErrorClass::Usage) {
                Ok(()) => fit.push(run),
                Err(error) => self.record_failure(&[run], error),
            }
        }
        fit
    }

    /// Executes the outstanding runs of one model, and records each run that fails.
    /// Fails if the ledger or standard output cannot be written.
    fn run_model(&mut self, model: &ModelRef, runs: &[&TableRun]) -> Result<()> {
        let is_dry = self.options.dry_run;
        let source = if is_dry { model.clone().without_network() } else { model.clone() };
        let (files, hashes) = match source.resolve(&Downloads::default()).and_then(hash_files) {
            Ok(resolved) => resolved,
            Err(_) if is_dry && matches!(model, ModelRef::Hub { offline: false, .. }) => {
                let message = "to do: its model is not in the cache of the Hub yet";
                return runs.iter().try_for_each(|run| self.record_status(run, RunStatus::NotRun, message));
            }
            Err(error) => {
                self.record_failure(runs, error);
                return Ok(());
            }
        };
        let mut pending = Vec::new();
        for run in runs {
            let inputs = self.corpora.corpus_inputs(&run.options);
            match inputs.and_then(|corpus| RunInputs::new(run, &files, &hashes, corpus)) {
                Ok(inputs) => {
                    match OutstandingWork::new(&self.ledger, &run.name, &inputs, &self.requested_files(run)) {
                        None => self.record_status(run, RunStatus::UpToDate, "up to date")?,
                        Some(outstanding) if is_dry => {
                            self.record_status(run, RunStatus::NotRun, &outstanding.in_words())?;
                        }
                        Some(OutstandingWork { saved_report: Some((report, targets)), .. }) => {
                            match self.export_missing_formats(run, &report, &targets) {
                                Ok(Some(message)) => self.record_status(run, RunStatus::FromSavedReport, &message)?,
                                Ok(None) => pending.push((*run, inputs)),
                                Err(error) => self.record_failure(&[run], error),
                            }
                        }
                        Some(_) => pending.push((*run, inputs)),
                    }
                }
                Err(error) => self.record_failure(&[run], error),
            }
            if self.must_stop() {
                return Ok(());
            }
        }
        // The model is loaded for the most demanding run. If that fails, only this run fails, and the next one is tried.
        let required = |(run, _): &(&TableRun, RunInputs)| RequiredParts::new(&run.options);
        while let Some(most) = pending.iter().map(required).max() {
            let first = pending.iter().position(|one| required(one) == most).expect("one has the most");
            match LoadedModel::new(files.clone(), hashes.clone(), &pending[first].0.options) {
                Ok(loaded) => {
                    for (run, inputs) in pending {
                        match self.run_analysis(run, &loaded, inputs) {
                            Ok(message) => self.record_status(run, RunStatus::Done, &message)?,
                            Err(error) => self.record_failure(&[run], error),
                        }
                        if self.must_stop() {
                            break;
                        }
                    }
                    return Ok(());
                }
                Err(error) => self.record_failure(&[pending.remove(first).0], error),
            }
            if self.must_stop() {
                break;
            }
        }
        Ok(())
    }

    /// Output files of a run, one for each requested format.
    fn requested_files(&self, run: &TableRun) -> Vec<(PathBuf, RunFormat)> {
        let path = |extension: &str| self.options.folder.join(format!("{}.{extension}", run.name));
        self.options.formats.iter().map(|(extension, format)| (path(extension), *format)).collect()
    }

    /// Writes missing files from the saved report and returns the status line; `None` if the saved report cannot be read.
    fn export_missing_formats(
        &mut self,
        run: &TableRun,
        saved: &Path,
        missing: &[(PathBuf, ReportFormat)],
    ) -> Result<Option<String>> {
        let targets: Vec<_> = missing.iter().map(|(path, writer)| OutputTarget::File(path.clone(), *writer)).collect();
        let outputs = reporting::open_targets(&targets)?;
        let report = match json::read_previous_report(saved) {
            Ok(report) => report,
            Err(error) => {
                print_to_stderr(&format!("note: {}: {error:#}: it is run again", run.name));
                return Ok(None);
            }
        };
        reporting::write_report(&report, outputs)?;
        let entry = self.ledger.entry(&run.name).expect("it has a saved report").clone();
        self.ledger.record_run(&run.name, &entry.with_file_digests(missing.iter().map(|(path, _)| path))?)?;
        let written: Vec<_> = missing.iter().map(|(path, _)| ledger::file_name(path)).collect();
        Ok(Some(format!("{}: {}", RunStatus::FromSavedReport.name(), written.join(", "))))
    }

    /// Analyses the corpus of a run, writes its files, and returns the status line.
    fn run_analysis(&mut self, run: &TableRun, loaded: &LoadedModel, inputs: RunInputs) -> Result<String> {
        let AnalysisOutput::Report { options, .. } = &run.options.output else { unreachable!("a table has no shards") };
        let mut files = self.requested_files(run);
        let (kept, changed) = self.ledger.files_in_other_formats(&run.name, &files);
        for path in changed {
            print_to_stderr(&format!(
                "note: {}: `{}` was changed since it was written and stays as it is: it is of the run before this one",
                run.name,
                path.display()
            ));
        }
        files.extend(kept);
        let target =
            |(path, format): &(PathBuf, RunFormat)| Some(OutputTarget::File(path.clone(), format.report_format()?));
        let targets = files.iter().filter_map(target).collect();
        let options = ReportOptions { outputs: targets, summary_detail: None, ..options.clone() };
        let outputs = options.open_outputs()?;
        let sums = files.iter().find(|(_, format)| *format == RunFormat::Partial);
        let sums = sums.map(|(path, _)| Output::open(path)).transpose()?;
        let policy = options.policy.load_policy()?;
        let corpus = loaded::open_corpus(&run.options)?;
        let mut ready = PreparedRun::new(&run.options, loaded, corpus)?;
        let report =
            run_to_report(&mut ready, &options, policy, None, sums, |corpus| inputs.ensure_same_corpus(corpus))?;
        reporting::write_report(&report, outputs)?;
        let summary = ReportSummary::new(&report);
        let message = format!("done: {}", summary.firm_role_count_text());
        let before = self.ledger.entry(&run.name).map(|entry| entry.found.clone());
        self.ledger
            .record_run(&run.name, &LedgerEntry::new(inputs, summary, before, files.iter().map(|(path, _)| path))?)?;
        Ok(message)
    }

    /// Records the status of a run and prints it, unless the batch is quiet.
    fn record_status(&mut self, run: &TableRun, status: RunStatus, message: &str) -> Result<()> {
        self.statuses.insert(run.name.clone(), status);
        if self.options.quiet { Ok(()) } else { print(&format!("{}: {}\n", run.name, one_line(message))) }
    }

    /// Prints an error, and records it as the failure of each of these runs.
    fn record_failure(&mut self, runs: &[&TableRun], error: Error) {
        let error = self.table.with_location(runs[0], error);
        let class = ErrorClass::from_error(&error);
        let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        let message = without_passwords(&format!("{error:#}")).into_owned();
        let shown = if names.len() == 1 { names[0].to_owned() } else { format!("runs {}", names.join(", ")) };
        self.options.errors.print_error(&error.context(shown));
        for name in names {
            self.statuses.insert(name.to_owned(), RunStatus::Failed(message.clone()));
            self.failures.push((name.to_owned(), class));
        }
    }

    /// Records failed runs and writes the overview of the batch. Fails if a requested run failed.
    fn finish(mut self, run_count: usize) -> Result<()> {
        if !self.options.dry_run {
            let tried = self.statuses.iter().map(|(name, status)| (name.as_str(), status.failure_message()));
            self.ledger.record_failures(tried)?;
        }
        let mut rows = Vec::new();
        for run in &self.table.runs {
            let (entry, failure) = (self.ledger.entry(&run.name), self.ledger.failure_message(&run.name));
            let before = || match (failure, entry) {
                (Some(message), _) => RunStatus::Failed(message.to_owned()),
                (None, Some(_)) => RunStatus::NotChecked,
                (None, None) => RunStatus::NotRun,
            };
            let status = self.statuses.remove(&run.name).unwrap_or_else(before);
            rows.push(RunRow { run: &run.name, status, entry, report_files: self.ledger.report_files(&run.name) });
        }
        if !self.options.dry_run {
            overview::write_overview(&self.options.folder, &rows)?;
        }
        let Some((_, first)) = self.failures.first() else { return Ok(()) };
        let class = if self.failures.iter().all(|(_, class)| class == first) { *first } else { ErrorClass::Other };
        let names: Vec<&str> = self.failures.iter().map(|(name, _)| name.as_str()).collect();
        Err(anyhow!("{} of {} failed: {}", names.len(), format_count(run_count, "run"), names.join(", ")).class(class))
    }
}

/// Fails if options contradict a model's `config.json`.
fn ensure_options_fit(options: &AnalyzeOptions, files: &ModelFiles) -> Result<()> {
    let config = &files.architecture.config;
    check_heads(files.grid(), &options.removed_heads)?;
    token_limit(config, options.max_tokens, options.context.unwrap_or_default())?;
    let is_decoder = config.visibility.are_causal();
    // Facts that only tokenizer and weights tell are assumed to allow every study.
    let askable = ModelTraits {
        has_residue_tokens: false,
        is_decoder,
        predicts_tokens: true,
        lacks_heads: !config.absent.is_empty(),
    };
    options.selection.for_model(&files.id, askable).map(drop)
}

/// Hashes the files of a model, and returns the files with their hashes.
fn hash_files(files: ModelFiles) -> Result<(ModelFiles, Hashes)> {
    let hashes = PendingHashes::spawn(&files).finish()?;
    Ok((files, hashes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("a.b", "a.b", true),
            ("a", "a.b", false),
            ("a.*", "a.b", true),
            ("*.b", "a.b", true),
            ("*.b", "a.b.c", false),
            ("*b*", "a.b.c", true),
            ("a*c*", "a.b.c", true),
            ("*", "", true),
            ("**", "x", true),
            ("a*b", "ab", true),
            ("a*b", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
