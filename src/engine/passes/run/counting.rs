//! Token counts of a whole corpus, made before any pass over it for the studies that need them.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use itertools::Itertools;

use crate::corpus::{Corpus, CorpusIdentity, CorpusScope, Input, Sentence};
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::counts::TokenCounter;
use crate::sequences::reading::{Context, Spacing};
use crate::sequences::tokenize::SentenceTokenizer;
use crate::system::parallel::on_threads;

/// Number of sentences that a thread takes at a time. Tokenising so many takes milliseconds, far longer than reading them.
const BATCH_SENTENCES: usize = 64;

/// Counts the text tokens of all sentences that can be analysed, over all shards, tokenised in their context. Also returns
/// the identity of the corpus. Fails if the corpus cannot be read, or if a sentence cannot be tokenised.
pub fn count_tokens(
    corpus: &[Input],
    (tokenizer, context, spacing): (&ModelTokenizer, Context, Spacing),
    max_tokens: usize,
    truncate: bool,
    scope: &CorpusScope,
    threads: NonZeroUsize,
) -> Result<(TokenCounter, CorpusIdentity)> {
    let mut corpus = Corpus::open(corpus)?.with_scope(scope);
    let is_ended = AtomicBool::new(false);
    let batches = std::iter::from_fn(|| {
        let mut batch = Vec::new();
        while batch.len() < BATCH_SENTENCES && !is_ended.load(Ordering::Relaxed) {
            let Some(sentence) = corpus.next() else { break };
            // The next line may be the middle of a broken sentence, so reading ends here.
            is_ended.fetch_or(sentence.is_err(), Ordering::Relaxed);
            batch.push(sentence);
        }
        (!batch.is_empty()).then_some(batch)
    });
    let batches = Mutex::new(batches.enumerate());
    let work = || {
        let next_batch = || batches.lock().unwrap_or_else(PoisonError::into_inner).next();
        let mut encoder =
            SentenceTokenizer::new(tokenizer, max_tokens, truncate).with_context(context).with_spacing(spacing);
        let mut counting = TokenCounter::default();
        while let Some((number, batch)) = next_batch() {
            let counted = batch.into_iter().try_for_each(|sentence: Result<Sentence>| {
                if let Ok(sequence) = encoder.encode(sentence?)? {
                    counting.add(&sequence);
                }
                Ok(())
            });
            if let Err(error) = counted {
                is_ended.store(true, Ordering::Relaxed);
                return Err((number, error));
            }
        }
        Ok(counting)
    };
    let (counted, failed): (Vec<_>, Vec<_>) = on_threads(threads, work).into_iter().partition_result();
    let mut total = TokenCounter::default();
    counted.iter().for_each(|counting| total.merge(counting));
    // Batches are taken in the order of the corpus, so the error of the first batch is the first of the corpus.
    match failed.into_iter().min_by_key(|(number, _)| *number) {
        Some((_, error)) => Err(error),
        None => Ok((total, corpus.into_identity()?)),
    }
}
