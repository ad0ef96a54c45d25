//! The worker threads: sentences through the tokenizer and the encoder into sums.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::observer::Panel;
use crate::corpus::Corpus;
use crate::model::forward::gates::Gates;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadView, Needs, Visitor};
use crate::model::forward::{Encoder, Scratch, Start};
use crate::sequences::pack::{Pack, Packs};
use crate::sequences::sequence::Sequence;
use crate::sequences::shard::Shard;
use crate::sequences::tokenize::{SentenceTokenizer, Tokenized};
use crate::system::parallel::on_threads;
use crate::system::progress::Analysis;

/// A corpus on its way through the tokenizer: what of a shard can be encoded, in order.
pub struct TokenizedSentences<'a> {
    /// Where the sentences come from.
    pub corpus: Corpus,
    /// Encodes them and keeps the tally.
    pub encoder: SentenceTokenizer<'a>,
    /// Sentences of other shards are passed over.
    pub shard: Shard,
    /// How many more sentences are read, those of other shards included.
    pub left: u64,
}

impl Iterator for TokenizedSentences<'_> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let tokenized = match self.corpus.next()? {
                Ok(sentence) if !self.shard.takes(sentence.index) => continue,
                Ok(sentence) => self.encoder.encode(sentence),
                Err(error) => Err(error),
            };
            match tokenized {
                Ok(Tokenized::Sequence(sequence)) => return Some(Ok(*sequence)),
                // Counted in the encoder's tally.
                Ok(Tokenized::Skipped(_)) => {}
                Err(error) => {
                    // What follows may be the middle of a broken sentence: nobody is to read on.
                    self.left = 0;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Shows all heads over all sequences to a panel that has seen nothing yet.
///
/// Each worker takes the next pack when it is done with one, and whoever takes a pack reads and tokenises it:
/// no queue, and reading overlaps with the other workers' forward passes.
/// The sums are exact, so it does not matter who took which pack.
/// Where no observer looks there is no forward pass: the sequences are read and counted only.
///
/// # Errors
///
/// If the corpus cannot be read on, or a forward pass fails.
pub fn sum_up(
    panel: Panel,
    (model, encoder): (&str, &dyn Encoder),
    gates: &Gates,
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    threads: NonZeroUsize,
    progress: &Analysis,
) -> Result<Panel> {
    let packs = Mutex::new(Packs::new(sequences));
    let failed = AtomicBool::new(false);
    let take = || packs.lock().unwrap_or_else(PoisonError::into_inner).next().transpose();
    let work = || -> Result<Panel> {
        let stop_others = StopOnDrop(&failed);
        let mut panel = panel.duplicate();
        let mut scratch = Scratch::default();
        while !failed.load(Ordering::Relaxed) {
            let Some(pack) = take()? else { break };
            panel.begin(pack.sentences.iter());
            if panel.looks() {
                let mut watcher = Watcher { panel: &mut panel, pack: &pack };
                let start = Start::Embeddings;
                encoder
                    .forward_from(start, &pack.batch(), gates, &mut scratch, &mut watcher)
                    .with_context(|| format!("cannot run `{model}` over the corpus, sentences counted from 0"))?;
            }
            panel.end();
            progress.advance(pack.sentences.len(), pack.tokens());
        }
        std::mem::forget(stop_others);
        Ok(panel)
    };
    let parts: Vec<Result<Panel>> = on_threads(threads, work);
    progress.finish();
    let mut whole = panel;
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

/// Hands what the encoder lends to the panel.
struct Watcher<'a> {
    panel: &'a mut Panel,
    pack: &'a Pack,
}

impl Visitor for Watcher<'_> {
    fn needs(&self) -> Needs {
        self.panel.needs()
    }

    fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        self.panel.head(sequence, &self.pack.sentences[sequence], *view);
    }

    fn hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>) {
        self.panel.hidden_states(sequence, layer, states);
    }

    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]) {
        self.panel.logits(sequence, position, logits);
    }
}
