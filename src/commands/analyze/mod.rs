//! `headscope analyze`: runs a model over a corpus and writes a report, or the partial (file of sums) of one shard.

pub mod loaded;
pub mod observe;
pub mod options;
mod parts;
pub mod selection;

use std::path::Path;

use anyhow::Result;

use super::reporting::{
    self, PolicyOptions, ReportOptions, compute_report, ensure_corpus_readable, round_and_check, write_partial,
};
use crate::corpus::{CorpusIdentity, UnitHalf};
use crate::export::summary;
use crate::passes::observation::{Observation, partial};
use crate::report::Report;
use crate::study::labels::policy::Policy;
use crate::system::files::output::Output;
use crate::system::interrupt;
use crate::system::terminal::{print, print_to_stderr};
use loaded::LoadedModel;
use observe::{FirstStage, PreparedRun};
use options::{AnalysisOutput, AnalyzeOptions, PartialOptions};
use parts::ShardFile;

/// Runs a model over a corpus and writes the report, or the partial of one shard.
/// Fails if the model, the corpus or an output cannot be used; each error names the cause and a remedy.
pub fn analyze(options: &AnalyzeOptions) -> Result<()> {
    match &options.output {
        AnalysisOutput::Report { options: wanted, parts_folder: parts, partial_file: partial } => {
            analyze_to_report(options, wanted, parts.as_deref(), partial.as_deref())
        }
        AnalysisOutput::Partial(wanted) => analyze_shard(options, wanted),
    }
}

/// Analyses the whole corpus and writes the report.
/// Also writes the sums to the path `sums`, and saves the parts of the run in `folder`, where these are given.
fn analyze_to_report(
    options: &AnalyzeOptions,
    wanted: &ReportOptions,
    folder: Option<&Path>,
    sums: Option<&Path>,
) -> Result<()> {
    interrupt::set_interrupt_message(
        interrupt::REMOVED_OUTPUTS_MESSAGE,
        "give the command again; with `--resume FOLDER` it goes on where it was",
    );
    let outputs = wanted.open_outputs()?;
    let sums = sums.map(Output::open).transpose()?;
    let policy = wanted.policy.load_policy()?;
    let (loaded, corpus) = LoadedModel::load_with_corpus(options)?;
    let mut ready = PreparedRun::new(options, &loaded, corpus)?;
    reporting::write_report(&run_to_report(&mut ready, wanted, policy, folder, sums, |_| Ok(()))?, outputs)
}

/// Runs a prepared analysis and returns its report.
/// Also writes the sums to `sums`, and saves the parts of the run in `folder`, where these are given.
/// Fails if `check` fails for the corpus of the run. With `--strict`, fails also if the model could not read the corpus.
pub fn run_to_report(
    ready: &mut PreparedRun<'_>,
    wanted: &ReportOptions,
    policy: Policy,
    folder: Option<&Path>,
    sums: Option<Output>,
    check: impl FnOnce(&CorpusIdentity) -> Result<()>,
) -> Result<Report> {
    // A sentence that cannot be shown is refused before anything runs.
    let shown = ready.requested_attention_maps()?;
    let observation = ready.observe(folder, &policy)?;
    check(&observation.identity.corpus)?;
    if let Some(sums) = sums {
        write_partial(&observation, sums)?;
    }
    let report = ready.with_attention_maps(compute_report(observation, policy, wanted.threads)?, shown);
    if ready.options.strict {
        ensure_corpus_readable(&report)?;
    }
    let parts: Vec<_> = folder.map(Path::to_owned).into_iter().collect();
    round_and_check(report, wanted.digits, &parts)
}

/// Runs the model over one half of the sampling units and returns the sums. The sums of two halves cannot be merged.
pub fn observe_half(options: &AnalyzeOptions, half: UnitHalf) -> Result<Observation> {
    let options = AnalyzeOptions { unit_half: Some(half), ..options.clone() };
    let (loaded, corpus) = LoadedModel::load_with_corpus(&options)?;
    PreparedRun::new(&options, &loaded, corpus)?.observe(None, &PolicyOptions::default().load_policy()?)
}

fn analyze_shard(options: &AnalyzeOptions, request: &PartialOptions) -> Result<()> {
    let shard = request.shard;
    interrupt::set_interrupt_message(
        format!("nothing of this run of shard {shard} is kept"),
        format!("run it again, from its beginning; in more shards than {} each takes less time", shard.shard_count()),
    );
    let part = ShardFile::open(request)?;
    let (loaded, corpus) = LoadedModel::load_with_corpus(options)?;
    let mut ready = PreparedRun::new(options, &loaded, corpus)?;
    let first =
        request.first_stage_file.as_deref().map(|path| FirstStage::read(path, &ready, &request.policy)).transpose()?;
    if part.is_saved(&ready.stage_after(first.as_ref()), || ready.identity())? {
        print_to_stderr(&format!("shard {} of this analysis is in `{}` already", shard, request.path.display()));
        return Ok(());
    }
    let observation = ready.observe_shard(shard, first.as_ref())?;
    part.output.finish(&partial::serialize(shard, &observation)?)?;
    if request.prints_summary { print(&summary::shard_summary(shard, &observation)) } else { Ok(()) }
}
