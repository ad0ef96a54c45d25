//! Derivatives of a loss with respect to all attention heads' gates, at given gates, or averaged along the path on which
//! all gates open together.

use std::num::NonZeroU16;

use anyhow::Result;

use super::batch::Batch;
use super::gates::Gates;
use super::held::HeldOutputs;
use super::kernels::backward::softmax_with_log_sum;
use super::rows::Rows;
use super::scratch::{AttentionScratch, Scratch};
use super::visitor::{BlockOutput, Needs, Visitor};
use crate::model::config::cost::Cost;

/// The loss of one sequence, and its derivatives with respect to the gates of all attention heads.
#[derive(Clone, Debug, PartialEq)]
pub struct GateGradient {
    /// Loss of the sequence.
    pub loss: f64,
    /// `[layers * heads]`: the derivative of the loss with respect to each head's [`keep`](super::gates::Gate::keep),
    /// layer by layer.
    pub gates: Vec<f64>,
}

/// Integrated gradients of the loss of one sequence over gates (Sundararajan et al. 2017, arXiv:1703.01365, section 3). They
/// follow the straight path on which all gates open together.
#[derive(Clone, Debug, PartialEq)]
pub struct PathGradient {
    /// Number of equal steps of `keep` from 0 (closed gates) to 1 (open gates).
    pub steps: NonZeroU16,
    /// The loss with every gate closed.
    pub closed_loss: f64,
    /// `[layers * heads]`: the derivative of the loss with respect to each head's `keep`, averaged over the midpoints
    /// of the steps, layer by layer.
    pub gates: Vec<f64>,
}

/// A function of (sequence, position, logits) that returns the contribution of one predicted position to the sequence's
/// score. It overwrites the logits with the derivatives of that contribution with respect to the logits.
pub type ScoreFunction<'a> = dyn FnMut(usize, usize, &mut [f32]) -> f64 + 'a;

/// Returns the surprisal `-ln p` of a class in nats. Overwrites the logits with its derivatives: the probabilities, minus 1 at
/// the class.
pub fn surprisal(logits: &mut [f32], class: u32) -> f64 {
    let logit = f64::from(logits[class as usize]);
    let log_sum = softmax_with_log_sum(logits);
    logits[class as usize] -= 1.0;
    log_sum - logit
}

/// An encoder that computes derivatives of a loss with respect to the gates of its attention heads.
pub trait Differentiable: Sync {
    /// Computes the score of each sequence of a batch, and its derivative with respect to the `keep` of every attention
    /// head, at the gates in `gates`. A head without a gate has `keep` 1 and replacement zero. Fails if the forward
    /// pass fails, the encoder has no prediction head, or a derivative is not finite. Also fails if a batch with
    /// patched rows or exchanges is too large to run at once.
    fn gradients(
        &self,
        batch: &Batch<'_>,
        gates: &Gates,
        score: &mut ScoreFunction<'_>,
        scratch: &mut GradientScratch,
    ) -> Result<Vec<GateGradient>>;

    /// The cost of derivatives over sequences of these lengths, in tokens.
    fn gradient_cost(&self, lengths: &[usize]) -> Cost;

    /// Averages the [gradients](Differentiable::gradients) of a batch over the midpoints of `steps` equal steps of
    /// `keep` from 0 to 1. Only gates that are fully open in `open_gates` (`keep` 1) take these values. Fails as
    /// [`Differentiable::gradients`].
    fn path_gradients(
        &self,
        batch: &Batch<'_>,
        open_gates: &Gates,
        steps: NonZeroU16,
        score: &mut ScoreFunction<'_>,
        scratch: &mut GradientScratch,
    ) -> Result<Vec<PathGradient>>;
}

/// Buffers for the derivatives of a batch.
#[derive(Clone, Debug, Default)]
pub struct GradientScratch {
    /// Maximum number of bytes that a forward pass keeps for derivatives at a time; `None` for the default.
    pub max_kept_bytes: Option<u64>,
    /// Buffers of the forward pass.
    pub(super) forward: Scratch,
    pub(super) tape: Tape,
    /// `[tokens, hidden]`: the hidden states between the attention and feed-forward blocks of a layer.
    pub(super) mid_layer_states: Vec<f32>,
    /// `[tokens, hidden]`: derivatives of the score with respect to the inputs of a block.
    pub(super) input_derivatives: Vec<f32>,
    /// `[positions, hidden]`: the hidden states that enter the last layer, at the predicted positions.
    pub(super) entering_states: Vec<f32>,
    /// `[tokens, 3 * heads * head_dim]`: queries, keys and values after norms and rotation.
    pub(super) queries_keys_values: Vec<f32>,
    /// Buffers for one attention head over one sequence.
    pub(super) head: HeadScratch,
}

/// Buffers for the derivatives of one head over one sequence.
#[derive(Clone, Debug, Default)]
pub struct HeadScratch {
    /// Buffers for the attention of the head, which is recomputed.
    pub(super) weights: AttentionScratch,
    /// `[n, stride]`: the capped scores before the softmax, in models with a score cap.
    pub(super) capped_scores: Vec<f32>,
    /// `[n, stride]`: derivatives of the sequence's score with respect to attention weights, then to attention scores.
    pub(super) derivatives: Vec<f32>,
    /// `[n]`: for each query, the inner product of its attention weights and their derivatives.
    pub(super) products: Vec<f32>,
    /// `[n, head_dim]`: derivatives of the sequence's score with respect to scaled queries.
    pub(super) query_derivatives: Vec<f32>,
    /// `[n, head_dim]`: derivatives of the sequence's score with respect to keys.
    pub(super) key_derivatives: Vec<f32>,
}

/// The hidden states and matrix products that a forward pass keeps for its backward pass.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// `[layers][tokens, hidden]`: the hidden states that enter each layer.
    pub(super) states: Vec<Vec<f32>>,
    /// `[positions, hidden]`: the last hidden states at the predicted positions.
    pub(super) predicted: Vec<f32>,
    /// Matrix products of each layer. Contexts are left out: their derivatives need the attention weights, which are recomputed.
    pub(super) layers: HeldOutputs,
}

impl Visitor for Tape {
    fn needs(&self) -> Needs {
        Needs { layer_inputs: true, predicted_states: true, writes: true, ..Needs::default() }
    }

    fn predicted_states(&mut self, states: Rows<'_>) {
        states.iter().for_each(|row| self.predicted.extend_from_slice(row));
    }

    fn hidden_states(&mut self, _: usize, layer: usize, states: Rows<'_>) {
        if self.states.len() <= layer {
            self.states.resize_with(layer + 1, Vec::new);
        }
        states.iter().for_each(|row| self.states[layer].extend_from_slice(row));
    }

    fn block_output(&mut self, layer: usize, part: BlockOutput, values: &[f32]) {
        if part != BlockOutput::Contexts {
            self.layers.keep(layer, part, values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surprise_and_its_derivatives_by_hand() {
        // Odds of 1 to 3: a quarter and three quarters.
        let mut logits = [2.0, 2.0 + 3.0_f32.ln()];
        assert!((surprisal(&mut logits, 0) - 4.0_f64.ln()).abs() < 1e-6);
        assert!((logits[0] + 0.75).abs() < 1e-6 && (logits[1] - 0.75).abs() < 1e-6, "{logits:?}");
    }
}
