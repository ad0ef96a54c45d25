//! Token counts of a whole corpus, made before any pass over it, because some studies need them.

use anyhow::Result;

use super::workers::TokenizedSentences;
use crate::corpus::{Corpus, CorpusIdentity, Input};
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::counts::Counting;
use crate::sequences::sample::Sample;
use crate::sequences::shard::Shard;
use crate::sequences::tokenize::SentenceTokenizer;

/// Counts the text tokens of the sentences of a corpus that can be analysed, over all shards; also gives the identity of
/// the corpus.
/// Fails if the corpus cannot be read, or a sentence cannot be tokenised.
pub fn count(
    corpus: &[Input],
    tokenizer: &ModelTokenizer,
    max_tokens: usize,
    truncate: bool,
    limit: Option<u64>,
) -> Result<(Counting, CorpusIdentity)> {
    let encoder = SentenceTokenizer::new(tokenizer, max_tokens, truncate);
    let (corpus, left) = (Corpus::open(corpus)?.within(limit), limit.unwrap_or(u64::MAX));
    let mut sentences =
        TokenizedSentences { corpus, encoder, shard: Shard::WHOLE, sample: Sample::ALL, parity: None, left };
    let mut counting = Counting::default();
    for sequence in sentences.by_ref() {
        counting.add(&sequence?);
    }
    Ok((counting, sentences.corpus.into_identity()?))
}
