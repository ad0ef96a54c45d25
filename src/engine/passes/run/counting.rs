//! Token counts of a whole corpus, made before any pass over it, because some studies need them.

use anyhow::Result;

use super::part::CorpusPart;
use super::workers::TokenizedSentences;
use crate::corpus::{Corpus, CorpusIdentity, Input};
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::counts::Counting;
use crate::sequences::reading::Context;
use crate::sequences::shard::Shard;
use crate::sequences::tokenize::SentenceTokenizer;

/// Counts the text tokens of the sentences of a corpus that can be analysed, over all shards, as they are in their context; also
/// gives the identity of the corpus.
/// Fails if the corpus cannot be read, or a sentence cannot be tokenised.
pub fn count(
    corpus: &[Input],
    (tokenizer, context): (&ModelTokenizer, Context),
    max_tokens: usize,
    truncate: bool,
    limit: Option<u64>,
) -> Result<(Counting, CorpusIdentity)> {
    let encoder = SentenceTokenizer::new(tokenizer, max_tokens, truncate).within(context);
    let (corpus, left) = (Corpus::open(corpus)?.within(limit).evenly(), limit.unwrap_or(u64::MAX));
    let part = CorpusPart::of(Shard::WHOLE);
    let mut sentences = TokenizedSentences { corpus, encoder, part, left };
    let mut counting = Counting::default();
    for sequence in sentences.by_ref() {
        counting.add(&sequence?);
    }
    Ok((counting, sentences.corpus.into_identity()?))
}
