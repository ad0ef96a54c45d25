//! The worker threads: sentences through the tokenizer and the encoder into sums.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::show::{Buffers, show};
use super::variants::Variants;
use crate::corpus::{Corpus, Sentence};
use crate::model::forward::Encoder;
use crate::passes::observer::ObserverSet;
use crate::sequences::pack::{Pack, Packs};
use crate::sequences::sample::Sample;
use crate::sequences::sequence::Sequence;
use crate::sequences::shard::Shard;
use crate::sequences::tokenize::{SentenceTokenizer, Tokenized};
use crate::stats::blocks::block_of;
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
    /// Sentences that are not in the sample are passed over, too.
    pub sample: Sample,
    /// Whether sentences in blocks of even number are passed over as well.
    pub odd_only: bool,
    /// How many more sentences are read, those of other shards included.
    pub left: u64,
}

impl TokenizedSentences<'_> {
    fn takes(&self, sentence: &Sentence) -> bool {
        let is_odd = || block_of(sentence.family.number) % 2 == 1;
        self.shard.takes(sentence.index) && self.sample.takes(sentence.index) && (!self.odd_only || is_odd())
    }
}

impl Iterator for TokenizedSentences<'_> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let tokenized = match self.corpus.next()? {
                Ok(sentence) if !self.takes(&sentence) => continue,
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

/// Shows all sequences, in all turns, to a panel that has seen nothing yet.
/// Fails if the corpus cannot be read on, or a forward pass fails.
pub fn sum_up(
    panel: ObserverSet,
    (model, encoder): (&str, &dyn Encoder),
    turns: &Variants,
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    threads: NonZeroUsize,
    progress: &Analysis,
) -> Result<ObserverSet> {
    let show = |panel: &mut ObserverSet, pack: &Pack, buffers: &mut Buffers| show(panel, pack, turns, encoder, buffers);
    over_packs(panel, model, sequences, (threads, progress), show)
}

/// Runs `show` on every pack of the sequences, with buffers of the worker's own.
///
/// Each worker takes the next pack when it is done with one, and whoever takes a pack reads and tokenises it:
/// no queue, and reading overlaps with the other workers' forward passes.
/// The sums are exact, so it does not matter who took which pack.
/// Where no observer looks there is no forward pass: the sequences are read and counted only.
/// Fails if the corpus cannot be read on, or `show` fails.
pub(super) fn over_packs<B: Default>(
    panel: ObserverSet,
    model: &str,
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    (threads, progress): (NonZeroUsize, &Analysis),
    show: impl Fn(&mut ObserverSet, &Pack, &mut B) -> Result<()> + Sync,
) -> Result<ObserverSet> {
    let packs = Mutex::new(Packs::new(sequences));
    let failed = AtomicBool::new(false);
    let take = || packs.lock().unwrap_or_else(PoisonError::into_inner).next().transpose();
    let work = || -> Result<ObserverSet> {
        let stop_others = StopOnDrop(&failed);
        let mut panel = panel.duplicate();
        let mut buffers = B::default();
        while !failed.load(Ordering::Relaxed) {
            let Some(pack) = take()? else { break };
            panel.begin(pack.sentences.iter());
            if panel.looks() {
                show(&mut panel, &pack, &mut buffers)
                    .with_context(|| format!("cannot run `{model}` over the corpus, sentences counted from 0"))?;
            }
            panel.end();
            progress.advance(pack.sentences.len(), pack.tokens());
        }
        std::mem::forget(stop_others);
        Ok(panel)
    };
    let parts: Vec<Result<ObserverSet>> = on_threads(threads, work);
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
