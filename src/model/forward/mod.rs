//! The forward pass: packs in, each head's attention over each sentence out.
//!
//! One definition of the parameters ([`parameters`](crate::model::parameters)), two encoders that run it:
//! [`packed`] is the fast one, [`tensor`] the readable one and the other's oracle.

pub mod attention;
pub mod kernels;
pub mod matmul;
pub mod packed;
mod relative;
pub mod tensor;

use anyhow::{Result, ensure};

use crate::model::config::Config;
use crate::model::forward::attention::AttentionView;
use crate::sequences::pack::Pack;
use crate::sequences::sequence::Sequence;

/// What looks at a forward pass, layer by layer.
pub trait Visitor {
    /// One head's attention over the `sentence`-th of the pack; the view ends with the call.
    fn attention(&mut self, sentence: usize, view: AttentionView<'_>);

    /// Whether [`Visitor::hidden_states`] is to be called.
    fn wants_hidden_states(&self) -> bool {
        false
    }

    /// The hidden states of the pack's tokens, `[tokens, hidden]` flat: of the embeddings as layer 0,
    /// then after each layer from 1, numbered as in transformers' `hidden_states`.
    fn hidden_states(&mut self, _layer: usize, _states: &[f32]) {}
}

/// An encoder that lends out its attention.
pub trait Encoder: Send + Sync {
    /// Runs a pack through all layers. `scratch` keeps buffers from one pack of a worker to its next.
    ///
    /// # Errors
    ///
    /// If a token id, a segment or a position has no embedding, or the numbers stop being finite.
    fn forward(&self, pack: &Pack, scratch: &mut Scratch, visitor: &mut dyn Visitor) -> Result<()>;
}

/// A worker's buffers: they grow to the largest pack and are then reused.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// `[tokens, hidden]`: the residual stream.
    pub(super) states: Vec<f32>,
    /// `[tokens, 3 * hidden]`: queries, keys and values; without the values, two thirds of it.
    pub(super) projected: Vec<f32>,
    /// `[tokens, hidden]`: what the heads wrote, before the output projection.
    pub(super) context: Vec<f32>,
    /// `[tokens, hidden]`: what a linear layer gives back to the residual stream.
    pub(super) update: Vec<f32>,
    /// `[tokens, intermediate]`
    pub(super) wide: Vec<f32>,
    /// `[n, head_dim]`: one head's queries over one sentence, scaled.
    pub(super) query: Vec<f32>,
    /// `[n, head_dim]`: its keys, in models whose keys meet distances.
    pub(super) key: Vec<f32>,
    /// `[n, 2n - 1]`: products with the embeddings of distances, in models that have them.
    pub(super) distances: Vec<f32>,
    /// `[n, stride]`: one head's attention over one sentence; `stride` is `n` rounded up to whole vectors.
    pub(super) attention: Vec<f32>,
    /// `[n]`: the entropy of each row of it.
    pub(super) entropies: Vec<f32>,
}

/// Checks that all tokens of a pack have embeddings.
pub(super) fn check_indices(pack: &Pack, config: &Config) -> Result<()> {
    let (words, positions, segments) = (config.vocab_size, config.positions(), config.type_vocab_size);
    for Sequence { index, ids, segments: segment_ids, .. } in &pack.sentences {
        ensure!(ids.len() <= positions, "sentence {index} has {} tokens, the model {positions} positions", ids.len());
        let largest = |ids: &[u32]| ids.iter().max().map_or(0, |&id| id as usize);
        let (id, segment) = (largest(ids), largest(segment_ids));
        ensure!(id < words, "sentence {index} has token id {id}, the model {words} token embeddings");
        ensure!(
            segments == 0 || segment < segments,
            "sentence {index} has segment {segment}, the model {segments} segment embeddings"
        );
    }
    Ok(())
}

/// Fails if a value is NaN or infinite.
pub(super) fn check_finite(values: &[f32], layer: usize) -> Result<()> {
    ensure!(
        values.iter().all(|value| value.is_finite()),
        "layer {layer} computes values that are not finite: the weights are damaged or overflow in float32"
    );
    Ok(())
}
