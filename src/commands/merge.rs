//! `headscope merge`: adds up the partials of all shards into one report or one partial.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow, ensure};
use itertools::Itertools as _;

use super::reporting::{self, ReportOptions, compute_report, round_and_check};
use crate::evaluation::plan::Plan;
use crate::passes::observation::{Observation, Stage, merge, partial};
use crate::sequences::shard::Shard;
use crate::system::counts::{format_count, format_ranges, plural};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output::Output;
use crate::system::terminal::{print, print_to_stderr};

pub struct MergeOptions {
    /// Partials of the shards, or folders that hold partials.
    pub partial_paths: Vec<PathBuf>,
    /// Whether the report says when, how long and where the shards ran.
    pub has_run_info: bool,
    pub output: MergeOutput,
}

pub enum MergeOutput {
    Report(ReportOptions),
    /// Writes one partial of all shards, after which a second stage can run (`--after`).
    Partial(PathBuf),
    /// Merges nothing, and prints which of this many shards are missing.
    MissingShards(u32),
}

/// Adds up the partials of all shards and writes the report or the partial of the whole corpus, or prints the missing shards.
/// Fails if a partial cannot be used, the partials do not form one complete run, or an output cannot be written.
pub fn merge(options: &MergeOptions) -> Result<()> {
    match &options.output {
        MergeOutput::Report(wanted) => merge_into_report(options, wanted),
        // The partial that one run over the whole corpus would write.
        MergeOutput::Partial(path) => {
            let output = Output::open(path)?;
            output.finish(&partial::serialize(Shard::WHOLE, &merge_partials(options)?)?)
        }
        MergeOutput::MissingShards(of) => print_missing(&options.partial_paths, *of),
    }
}

/// Merges the partials into a report, and writes the report.
fn merge_into_report(options: &MergeOptions, report_options: &ReportOptions) -> Result<()> {
    let outputs = report_options.open_outputs()?;
    let policy = report_options.policy.load_policy()?;
    let observation = merge_partials(options)?;
    ensure!(observation.stage.is_complete(), no_second_stage_error());
    report_options.policy.ensure_studies_ran(&observation.identity.protocol.studies)?;
    let report = round_and_check(
        compute_report(observation, policy, report_options.threads)?,
        report_options.digits,
        &options.partial_paths,
    )?;
    reporting::write_report(&report, outputs)
}

/// Error for partials that lack the second of two stages; its hint says how to run that stage.
fn no_second_stage_error() -> Error {
    let way_out = format!(
        "merge those of the first into one, `-o merged.{0}`, run each shard again with `--after merged.{0}`, and merge both",
        partial::EXTENSION
    );
    anyhow!("all shards of the second of two stages are missing").hint(way_out).class(ErrorClass::Incomplete)
}

/// Prints the numbers of the missing shards in the format of job arrays, such as `3,7-9`.
/// If only the second of two stages is missing, prints nothing and fails; the hint says how to start that stage.
fn print_missing(paths: &[PathBuf], shard_count: u32) -> Result<()> {
    let files = partial_files(paths);
    let missing = files.and_then(|files| merge::find_missing_shards(&files, shard_count)).class(ErrorClass::Input)?;
    missing.damaged.iter().for_each(|problem| print_to_stderr(&format!("warning: {problem}")));
    if missing.numbers.is_empty() {
        return if missing.is_first_stage { Err(no_second_stage_error()) } else { Ok(()) };
    }
    print(&format!("{}\n", format_ranges(&missing.numbers)))?;
    let (shards, are) = (format_count(shard_count, "shard"), plural(&missing.numbers.len(), "is", "are"));
    Err(anyhow!("{} of {shards} {are} missing", missing.numbers.len())).class(ErrorClass::Incomplete)
}

/// Lists the files named by `paths`. A folder contributes its partials, sorted by name.
fn partial_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let is_partial =
            |path: &PathBuf| path.extension().is_some_and(|ext| ext == partial::EXTENSION) && path.is_file();
        let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.cannot("read the folder", path.display())?;
        files.extend(entries.iter().map(fs::DirEntry::path).filter(is_partial).sorted());
    }
    Ok(files)
}

/// Adds up the partials of all shards. Drops the recorded time, duration, threads and machine unless `has_run_info`.
fn merge_partials(options: &MergeOptions) -> Result<Observation> {
    let files = partial_files(&options.partial_paths).class(ErrorClass::Input)?;
    let mut observation = merge::merge_all(&files, &Plan::restore).class(ErrorClass::Input)?;
    observation.run_info = observation.run_info.filter(|_| options.has_run_info);
    Ok(observation)
}

/// Reads the sums of a first stage, which `--after` names.
/// Fails unless the file is a partial of a complete first stage.
pub fn read_first_stage(path: &Path) -> Result<Observation> {
    let shown = path.display();
    let (shard, first) = partial::read(path, &Plan::restore)?;
    ensure!(
        first.stage == Stage::First,
        anyhow!("--after `{shown}`: no shard is run after it, it is no partial of the first of two stages")
            .with_file(shown)
    );
    ensure!(
        shard == Shard::WHOLE,
        anyhow!("--after `{shown}`: it is shard {shard}")
            .with_file(shown)
            .hint(format!("merge all shards first, `headscope merge PART... -o merged.{}`", partial::EXTENSION))
    );
    Ok(first)
}
