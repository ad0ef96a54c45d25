//! `headscope analyze`: the pipeline, top to bottom.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow, bail, ensure};

use crate::attention::{AttentionView, FromToken};
use crate::corpus::Corpus;
use crate::detectors::{self, Policy};
use crate::encode::{Encoded, SentenceEncoder, Tally};
use crate::export::output::{Output, print, to_stdout};
use crate::export::{Target, Writer, summary};
use crate::metrics::Measurements;
use crate::model::encoder::{Scratch, Visitor};
use crate::model::{Fingerprint, Model};
use crate::observe::{BLOCKS, Observed, Sums};
use crate::options::AnalyzeOptions;
use crate::pack::Packs;
use crate::progress::{self, Analysis, Downloads};
use crate::report::{CorpusInfo, ModelInfo, Report, RunInfo, Settings};

/// Runs a model over a corpus and writes what each head does.
///
/// # Errors
///
/// If the model, the corpus or an output cannot be used; each error says which and what to do.
pub fn analyze(options: &AnalyzeOptions) -> Result<()> {
    let (started_at, started) = (SystemTime::now(), Instant::now());
    let outputs = open_outputs(&options.outputs)?;
    let corpus = Corpus::open(&options.corpus, options.format)?;

    let files = options.model.resolve(&Downloads::default())?;
    let fingerprint = Fingerprint::start(&files);
    let loading = progress::step("loading the model");
    let model = Model::load(files)?;
    loading.finish_and_clear();

    let max_tokens = token_limit(&model, options.max_tokens)?;
    let limit = options.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut sentences =
        EncodedSentences { encoder: model.sentence_encoder(max_tokens, options.truncate), corpus, left: limit };
    let loaded = Instant::now();
    let sums = observe(&model, &mut sentences, options.from_token, options.threads, options.limit)?;
    let analysis = loaded.elapsed();
    let EncodedSentences { encoder, corpus, .. } = sentences;
    let identity = corpus.into_identity()?;
    ensure_not_empty(encoder.tally(), &identity.name)?;

    let measured = Measurements::new(&sums);
    let policy = Policy { syntactic_min_count: options.min_count, ..Policy::default() };
    let verdicts = detectors::label(&measured, &policy);

    let run = options.run_info.then(|| RunInfo {
        started_at: humantime::format_rfc3339_seconds(started_at).to_string(),
        duration_seconds: started.elapsed().as_secs_f64(),
        analysis_seconds: analysis.as_secs_f64(),
        threads: options.threads.get(),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
    });
    let settings = Settings {
        max_tokens,
        truncate: options.truncate,
        limit: options.limit,
        from_token: options.from_token,
        blocks: BLOCKS,
        policy,
    };
    let model = ModelInfo::new(&model, fingerprint.finish()?);
    let corpus = CorpusInfo::new(identity, encoder.tally());
    let report = Report::new(model, corpus, settings, measured, verdicts, run);
    write(&report, outputs, options.summary)
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

/// A corpus on its way through the tokenizer: what can be encoded, in order.
struct EncodedSentences<'a> {
    corpus: Corpus,
    encoder: SentenceEncoder<'a>,
    left: usize,
}

impl Iterator for EncodedSentences<'_> {
    type Item = Result<Encoded>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let encoded = self.corpus.next()?.and_then(|sentence| self.encoder.encode(sentence));
            match encoded {
                Ok(Ok(encoded)) => return Some(Ok(encoded)),
                // Counted in the encoder's tally.
                Ok(Err(_)) => {}
                Err(error) => {
                    // What follows may be the middle of a broken sentence: nobody is to read on.
                    self.left = 0;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Sums what all heads do over all sentences.
///
/// Each worker takes the next pack when it is done with one, and whoever takes a pack reads and tokenises it:
/// no queue, and reading overlaps with the other workers' forward passes.
/// The sums are exact, so it does not matter who took which pack.
fn observe(
    model: &Model,
    sentences: &mut EncodedSentences<'_>,
    from: FromToken,
    threads: NonZeroUsize,
    limit: Option<u64>,
) -> Result<Sums> {
    let progress = Analysis::new(limit, sentences.corpus.bytes(), sentences.corpus.bytes_read());
    let packs = Mutex::new(Packs::new(sentences));
    let failed = AtomicBool::new(false);
    let take = || packs.lock().unwrap_or_else(PoisonError::into_inner).next().transpose();
    let work = || -> Result<Sums> {
        let stop_others = StopOnDrop(&failed);
        let mut sums = Sums::new(model.grid(), from);
        let mut scratch = Scratch::default();
        while !failed.load(Ordering::Relaxed) {
            let Some(pack) = take()? else { break };
            let observed = pack.sentences.iter().map(|sentence| sums.begin(sentence)).collect();
            model.encoder.forward(&pack, &mut scratch, &mut Observer { sums: &mut sums, observed })?;
            progress.advance(pack.sentences.len(), pack.tokens());
        }
        std::mem::forget(stop_others);
        Ok(sums)
    };
    let parts: Vec<Result<Sums>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.get()).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(anyhow!("a worker thread panicked"))))
            .collect()
    });
    progress.finish();
    let mut whole = Sums::new(model.grid(), from);
    for part in parts {
        whole.merge(&part?);
    }
    Ok(whole)
}

/// Tells the other workers to stop when this one ends early, by an error or a panic.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Hands what the encoder lends to the sums.
struct Observer<'a> {
    sums: &'a mut Sums,
    observed: Vec<Observed>,
}

impl Visitor for Observer<'_> {
    fn attention(&mut self, sentence: usize, view: AttentionView<'_>) {
        self.sums.observe(&self.observed[sentence], view);
    }
}

fn ensure_not_empty(tally: &Tally, corpus: &str) -> Result<()> {
    if tally.sentences > 0 {
        return Ok(());
    }
    if tally.skipped.is_empty() {
        bail!("corpus `{corpus}` has no sentences");
    }
    let reasons: Vec<String> =
        tally.skipped.iter().map(|(reason, count)| format!("{count} {}", reason.describe())).collect();
    bail!("corpus `{corpus}` leaves nothing to analyse: every sentence was skipped ({})", reasons.join(", "));
}

/// Files are opened before any work is done, so that a path that cannot be written fails at once.
fn open_outputs(targets: &[Target]) -> Result<Vec<(Option<Output>, Writer)>> {
    let open = |target: &Target| match target {
        Target::Stdout => Ok((None, Writer::Json)),
        Target::File(path, writer) => Ok((Some(Output::open(path)?), *writer)),
    };
    targets.iter().map(open).collect()
}

fn write(report: &Report, outputs: Vec<(Option<Output>, Writer)>, show_summary: bool) -> Result<()> {
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
