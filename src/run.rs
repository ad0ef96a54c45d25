//! `headscope analyze` and `headscope merge`: the pipeline, top to bottom.
//!
//! A corpus is observed, here or in shards elsewhere; what was observed is measured, labelled and reported.

use std::time::{Instant, SystemTime};

use anyhow::{Result, ensure};

use crate::corpus::Corpus;
use crate::detectors::{self, Policy};
use crate::export::output::{Output, print, to_stdout};
use crate::export::{Target, Writer, summary};
use crate::merge;
use crate::metrics::Measurements;
use crate::model::{Fingerprint, Model};
use crate::observation::{Identity, Observation, Protocol};
use crate::observe::BLOCKS;
use crate::options::{AnalyzeOptions, MergeOptions, Outcome, ReportOptions};
use crate::partial;
use crate::progress::{self, Analysis, Downloads};
use crate::report::{CorpusInfo, ModelInfo, Report, RunInfo, Settings, Tool};
use crate::shard::Shard;
use crate::stats::bootstrap::BOOTSTRAP;
use crate::workers::{EncodedSentences, sum_up};

/// Runs a model over a corpus and writes what each head does, or what one shard adds to that.
///
/// # Errors
///
/// If the model, the corpus or an output cannot be used; each error says which and what to do.
pub fn analyze(options: &AnalyzeOptions) -> Result<()> {
    match &options.outcome {
        Outcome::Report(wanted) => {
            let outputs = open_outputs(&wanted.outputs)?;
            let policy = policy(wanted)?;
            let observation = observe(options, Shard::WHOLE)?;
            conclude(observation, policy, outputs, wanted.summary)
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
    let policy = policy(&options.report)?;
    let mut observation = merge::all(&options.parts)?;
    observation.run = observation.run.filter(|_| options.run_info);
    conclude(observation, policy, outputs, options.report.summary)
}

/// Observes the sentences of a shard.
fn observe(options: &AnalyzeOptions, shard: Shard) -> Result<Observation> {
    let (started_at, started) = (SystemTime::now(), Instant::now());
    let corpus = Corpus::open(&options.corpus)?;

    let files = options.model.resolve(&Downloads::default())?;
    let fingerprint = Fingerprint::start(&files);
    let loading = progress::step("loading the model");
    let model = Model::load(files)?;
    loading.finish_and_clear();

    let protocol = Protocol {
        max_tokens: token_limit(&model, options.max_tokens)?,
        truncate: options.truncate,
        limit: options.limit,
        from_token: options.from_token,
        blocks: BLOCKS,
    };
    let progress = Analysis::new(options.limit, corpus.bytes(), corpus.bytes_read());
    let encoder = model.sentence_encoder(protocol.max_tokens, protocol.truncate).strict(options.strict);
    let mut sentences = EncodedSentences { corpus, encoder, shard, left: options.limit.unwrap_or(u64::MAX) };
    let loaded = Instant::now();
    let sums = sum_up(&model, &mut sentences, protocol.from_token, options.threads, &progress)?;
    let analysis = loaded.elapsed();

    let EncodedSentences { encoder, corpus, .. } = sentences;
    let identity = Identity {
        tool: Tool::default(),
        corpus: corpus.into_identity()?,
        model: ModelInfo::new(&model, fingerprint.finish()?),
        protocol,
    };
    let run = options.run_info.then(|| RunInfo::new(started_at, started.elapsed(), analysis, options.threads));
    Ok(Observation { identity, tally: encoder.into_tally(), sums, run })
}

/// The default policy, with what the policy file and the command line set.
fn policy(wanted: &ReportOptions) -> Result<Policy> {
    let policy = Policy::default();
    let policy = wanted.policy.as_deref().map_or(Ok(policy.clone()), |file| policy.with_file(file))?;
    Ok(Policy { syntactic_min_count: wanted.min_count.unwrap_or(policy.syntactic_min_count), ..policy })
}

/// The longest sequence that is run: what was asked for, or as many tokens as the model has positions.
///
/// # Errors
///
/// If more was asked for than the model has.
pub fn token_limit(model: &Model, asked: Option<usize>) -> Result<usize> {
    let positions = model.config.positions();
    let limit = asked.unwrap_or(positions);
    ensure!(limit <= positions, "--max-tokens {limit} is more than the {positions} positions of the model");
    Ok(limit)
}

/// Measures, labels and reports what was observed.
fn conclude(
    observation: Observation,
    policy: Policy,
    outputs: Vec<(Option<Output>, Writer)>,
    summary: bool,
) -> Result<()> {
    let started = Instant::now();
    observation.ensure_not_empty()?;
    let Observation { identity: Identity { tool, model, corpus, protocol }, tally, sums, run } = observation;
    let mut measured = Measurements::new(&sums);
    measured.correct(policy.syntactic_min_count);
    let verdicts = detectors::label(&measured, &policy);
    let corpus = CorpusInfo::new(corpus, &tally);
    let run = run.map(|run| run.and(started.elapsed()));
    let settings = Settings { protocol, bootstrap: BOOTSTRAP, policy };
    let report = Report::new(tool, model, corpus, settings, measured, verdicts, run);
    write(&report, outputs, summary)
}

/// Files are opened before any work is done, so that a path that cannot be written fails at once.
pub(crate) fn open_outputs(targets: &[Target]) -> Result<Vec<(Option<Output>, Writer)>> {
    let open = |target: &Target| match target {
        Target::Stdout => Ok((None, Writer::Json)),
        Target::File(path, writer) => Ok((Some(Output::open(path)?), *writer)),
    };
    targets.iter().map(open).collect()
}

/// Writes a report to its outputs, and prints its summary.
pub(crate) fn write(report: &Report, outputs: Vec<(Option<Output>, Writer)>, show_summary: bool) -> Result<()> {
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
    if show_summary {
        print(&summary::render(report))?;
    }
    Ok(())
}
