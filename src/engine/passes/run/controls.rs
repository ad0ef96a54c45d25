//! The encoders of controls, in place of the model's own.

use anyhow::Result;

use super::Runner;
use super::part::CorpusPart;
use super::workers::TokenizedSentences;
use crate::corpus::Corpus;
use crate::model::forward::Encoder;
use crate::model::forward::batch::TokenClass;
use crate::model::sharp::SharpnessSample;
use crate::passes::pass::Weights;
use crate::sequences::pack::Pack;
use crate::sequences::sequence::Sequence;
use crate::sequences::shard::Shard;
use crate::sequences::tokenize::SentenceTokenizer;

/// So many sentences, the first of the corpus, decide how sharply each layer attends: whatever the shard.
const SHARPNESS_SENTENCES: u64 = 50;

/// The encoder with other weights than the model's; `None` with its own.
/// Fails if it cannot be made.
pub(super) fn other_encoder(runner: &Runner<'_>, weights: Weights) -> Result<Option<Box<dyn Encoder>>> {
    let model = runner.model;
    Ok(match weights {
        Weights::Trained => None,
        Weights::Fresh { seed } => Some(model.untrained(seed)?),
        Weights::Rotated { seed } => Some(model.rotated(seed)?),
        Weights::Sharp { seed } => {
            let pack = Pack { sentences: first_sentences(runner)? };
            let rows: Vec<Vec<usize>> = pack.sentences.iter().map(rows_of_text).collect();
            Some(model.untrained_and_sharp(seed, &SharpnessSample { batch: pack.batch(), rows: &rows })?)
        }
    })
}

/// The rows of text tokens of a sequence, less the first one of a decoder.
fn rows_of_text(sequence: &Sequence) -> Vec<usize> {
    (0..sequence.kinds.len()).filter(|&at| TokenClass::from(sequence.kinds[at]) == TokenClass::Text).collect()
}

/// The first sentences of the corpus, by themselves.
fn first_sentences(runner: &Runner<'_>) -> Result<Vec<Sequence>> {
    let protocol = runner.protocol;
    let limit = protocol.limit.map_or(SHARPNESS_SENTENCES, |limit| limit.min(SHARPNESS_SENTENCES));
    let corpus = Corpus::open_with(runner.corpus, Some(limit), &[], None)?;
    let encoder = SentenceTokenizer::new(runner.tokenizer, protocol.max_tokens, protocol.truncate);
    let sentences = TokenizedSentences { corpus, encoder, part: CorpusPart::of(Shard::WHOLE), left: limit };
    let is_decoder = runner.model.is_decoder();
    sentences.map(|found| found.map(|found| if is_decoder { found.begun() } else { found })).collect()
}
