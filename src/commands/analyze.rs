//! `headscope analyze` and `headscope merge`: the pipeline, top to bottom.
//!
//! A corpus is observed, here or in shards elsewhere; what was observed is measured, labelled and reported.

use std::num::NonZeroUsize;
use std::time::Instant;

use anyhow::Result;

use crate::commands::options::{AnalyzeOptions, MergeOptions, Outcome, PolicyOptions, ReportOptions};
use crate::export::{Target, Writer, summary};
use crate::passes::control::Control;
use crate::passes::merge;
use crate::passes::observation::{Identity, Observation};
use crate::passes::partial;
use crate::passes::run::observe;
use crate::report::{ControlReport, CorpusInfo, Findings, Report, Settings};
use crate::sequences::shard::Shard;
use crate::stats::bootstrap::BOOTSTRAP;
use crate::studies::clark2019::Clark2019;
use crate::studies::labels::{self, Policy, Verdict};
use crate::studies::metrics::Measurements;
use crate::studies::observe::Sums;
use crate::system::output::Output;
use crate::system::terminal::{print, to_stdout};

/// Runs a model over a corpus and writes what each head does, or what one shard adds to that.
///
/// # Errors
///
/// If the model, the corpus or an output cannot be used; each error says which and what to do.
pub fn analyze(options: &AnalyzeOptions) -> Result<()> {
    match &options.outcome {
        Outcome::Report(wanted) => {
            let outputs = open_outputs(&wanted.outputs)?;
            let policy = policy(&wanted.policy)?;
            let observation = observe(options, Shard::WHOLE)?;
            conclude(observation, policy, outputs, wanted)
        }
        Outcome::Partial { shard, path, summary } => {
            let mut output = Output::open(path)?;
            let observation = observe(options, *shard)?;
            output.write(&partial::render(*shard, &observation)?)?;
            output.commit()?;
            if *summary {
                print(&summary::of_shard(*shard, &observation))?;
            }
            Ok(())
        }
    }
}

/// Adds up the partials of all shards and writes what one run over everything would have written.
///
/// # Errors
///
/// If a partial cannot be used, they are not all of one whole, or an output cannot be written.
pub fn merge(options: &MergeOptions) -> Result<()> {
    let outputs = open_outputs(&options.report.outputs)?;
    let policy = policy(&options.report.policy)?;
    let mut observation = merge::all(&options.parts)?;
    observation.run = observation.run.filter(|_| options.run_info);
    conclude(observation, policy, outputs, &options.report)
}

/// The default policy or that of a preset, with what the policy file and the command line set.
pub(crate) fn policy(wanted: &PolicyOptions) -> Result<Policy> {
    let policy = if wanted.voita2019 { Policy::voita2019() } else { Policy::default() };
    let policy = match &wanted.file {
        Some(file) => policy.with_file(file)?,
        None => policy,
    };
    Ok(Policy { syntactic_min_count: wanted.min_count.unwrap_or(policy.syntactic_min_count), ..policy })
}

/// Measures, labels and reports what was observed.
fn conclude(
    observation: Observation,
    policy: Policy,
    outputs: Vec<(Option<Output>, Writer)>,
    wanted: &ReportOptions,
) -> Result<()> {
    let started = Instant::now();
    observation.ensure_not_empty()?;
    let Observation { identity: Identity { tool, model, corpus, protocol }, tally, sums, controls, clark2019, run } =
        observation;
    let (measured, verdicts) = label(&sums, &policy, wanted.threads);
    let control = |(control, sums): (&Control, &Sums)| {
        let (_, verdicts) = label(sums, &policy, wanted.threads);
        ControlReport { control: *control, label_counts: labels::count(&verdicts) }
    };
    let controls = protocol.controls.iter().zip(&controls).map(control).collect();
    let clark2019 = clark2019.map(|sums| Clark2019::new(model.grid(), &sums));
    let run = run.map(|run| run.and(started.elapsed()));
    let settings = Settings { protocol, bootstrap: BOOTSTRAP, policy };
    let findings = Findings { measured, verdicts, controls, clark2019 };
    let report = Report::new(tool, model, CorpusInfo::new(corpus, &tally), settings, findings, run);
    write(&report, outputs)?;
    if wanted.summary { print(&summary::render(&report, wanted.policy.voita2019)) } else { Ok(()) }
}

/// The ratios of the sums, and the labels that they give each head.
fn label(sums: &Sums, policy: &Policy, threads: NonZeroUsize) -> (Measurements, Vec<Verdict>) {
    let mut measured = Measurements::new(sums, threads);
    measured.correct(policy.syntactic_min_count);
    let verdicts = labels::label(&measured, policy);
    (measured, verdicts)
}

/// Files are opened before any work is done, so that a path that cannot be written fails at once.
pub(crate) fn open_outputs(targets: &[Target]) -> Result<Vec<(Option<Output>, Writer)>> {
    let open = |target: &Target| match target {
        Target::Stdout => Ok((None, Writer::Json)),
        Target::File(path, writer) => Ok((Some(Output::open(path)?), *writer)),
    };
    targets.iter().map(open).collect()
}

/// Writes a report to its outputs.
pub(crate) fn write(report: &Report, outputs: Vec<(Option<Output>, Writer)>) -> Result<()> {
    for (output, writer) in outputs {
        let bytes = writer.render(report)?;
        match output {
            Some(mut output) => {
                output.write(&bytes)?;
                output.commit()?;
            }
            None => to_stdout(&bytes)?,
        }
    }
    Ok(())
}
