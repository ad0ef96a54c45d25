//! The worker threads: sentences through the tokenizer and the encoder into sums.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use crate::corpus::Corpus;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::{Encoder, Scratch, Visitor};
use crate::sequences::encode::{SentenceTokenizer, Sequence};
use crate::sequences::pack::Packs;
use crate::sequences::shard::Shard;
use crate::studies::observe::Accumulator;
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
            let encoded = match self.corpus.next()? {
                Ok(sentence) if !self.shard.takes(sentence.index) => continue,
                Ok(sentence) => self.encoder.encode(sentence),
                Err(error) => Err(error),
            };
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

/// Sums up what all heads do over all sentences, from `empty` sums on.
///
/// Each worker takes the next pack when it is done with one, and whoever takes a pack reads and tokenises it:
/// no queue, and reading overlaps with the other workers' forward passes.
/// The sums are exact, so it does not matter who took which pack.
///
/// # Errors
///
/// If the corpus cannot be read on, or a forward pass fails.
pub fn sum_up<A: Accumulator>(
    empty: &A,
    encoder: &dyn Encoder,
    sentences: impl Iterator<Item = Result<Sequence>> + Send,
    threads: NonZeroUsize,
    progress: &Analysis,
) -> Result<A> {
    let packs = Mutex::new(Packs::new(sentences));
    let failed = AtomicBool::new(false);
    let take = || packs.lock().unwrap_or_else(PoisonError::into_inner).next().transpose();
    let work = || -> Result<A> {
        let stop_others = StopOnDrop(&failed);
        let mut sums = empty.clone();
        let mut scratch = Scratch::default();
        while !failed.load(Ordering::Relaxed) {
            let Some(pack) = take()? else { break };
            let observed = pack.sentences.iter().map(|sentence| sums.begin(sentence)).collect();
            encoder.forward(&pack, &mut scratch, &mut Observer { sums: &mut sums, observed })?;
            progress.advance(pack.sentences.len(), pack.tokens());
        }
        std::mem::forget(stop_others);
        Ok(sums)
    };
    let parts: Vec<Result<A>> = on_threads(threads, work);
    progress.finish();
    let mut whole = empty.clone();
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
struct Observer<'a, A: Accumulator> {
    sums: &'a mut A,
    observed: Vec<A::Begun>,
}

impl<A: Accumulator> Visitor for Observer<'_, A> {
    fn attention(&mut self, sentence: usize, view: AttentionView<'_>) {
        self.sums.observe(&self.observed[sentence], view);
    }
}
