//! The encoders of controls, in place of the model's own.

use anyhow::Result;

use crate::model::Model;
use crate::model::controls::sharp::SharpnessSample;
use crate::model::forward::Encoder;
use crate::model::forward::batch::TokenClass;
use crate::passes::pass::Weights;
use crate::sequences::pack::Pack;
use crate::sequences::sequence::Sequence;

/// So many sentences, the first of the corpus, decide how sharply each layer attends: whatever the shard.
pub const SHARPNESS_SENTENCES: usize = 50;

/// The encoder with other weights than the model's, `None` with its own; `first_sentences` reads those that decide how sharply each
/// layer attends.
/// Fails if it cannot be made.
pub fn other_encoder(
    model: &Model,
    weights: Weights,
    first_sentences: impl FnOnce() -> Result<Vec<Sequence>>,
) -> Result<Option<Box<dyn Encoder>>> {
    Ok(match weights {
        Weights::Trained => None,
        Weights::Fresh { seed } => Some(model.untrained(seed)?),
        Weights::Rotated { seed } => Some(model.rotated(seed)?),
        Weights::Sharp { seed } => {
            let pack = Pack { sentences: first_sentences()? };
            let rows: Vec<Vec<usize>> = pack.sentences.iter().map(rows_of_text).collect();
            Some(model.untrained_and_sharp(seed, &SharpnessSample { batch: pack.batch(), rows: &rows })?)
        }
    })
}

/// The rows of text tokens of a sequence, less the first one of a decoder.
fn rows_of_text(sequence: &Sequence) -> Vec<usize> {
    (0..sequence.kinds.len()).filter(|&at| TokenClass::from(sequence.kinds[at]) == TokenClass::Text).collect()
}
