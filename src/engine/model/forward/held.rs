//! The outputs of all attention and feed-forward blocks of a forward pass, kept for later passes that hold them fixed. A pass
//! with held outputs recomputes only the residual stream with its norms, and the attention that it shows.

use anyhow::{Result, ensure};

use super::visitor::{BlockOutput, Needs, Visitor};
use crate::model::config::Config;

/// Outputs of the blocks of one layer over a batch, before they are added to the residual stream. Only the encoder that
/// computed them can hold them fixed later. After the attention heads of the last layer, there are rows only for the predicted
/// positions, or no rows.
#[derive(Clone, Debug, Default)]
pub struct LayerOutputs {
    /// `[tokens, 3 * heads * head_dim]`: queries, keys and values; empty unless they are kept for derivatives.
    pub projected: Vec<f32>,
    /// `[tokens, heads * head_dim]`: the contexts of all heads.
    pub contexts: Vec<f32>,
    /// `[tokens, hidden]`: the output of the attention block.
    pub attention: Vec<f32>,
    /// `[tokens, intermediate]`: the input of the activation, twice as wide in gated blocks; empty unless it is kept for
    /// derivatives.
    pub activation_input: Vec<f32>,
    /// `[tokens, hidden]`: the output of the feed-forward block; empty in the last layer if the pass ended before that block.
    pub feed_forward: Vec<f32>,
}

/// The block outputs of all layers over a batch, `[layers]`. As a visitor, it keeps the outputs that a later pass can hold
/// fixed.
#[derive(Clone, Debug, Default)]
pub struct HeldOutputs(Vec<LayerOutputs>);

impl HeldOutputs {
    /// Keeps the output `part` of a layer; overwrites an earlier output of the same part.
    pub(super) fn keep(&mut self, layer: usize, part: BlockOutput, values: &[f32]) {
        if self.0.len() <= layer {
            self.0.resize_with(layer + 1, LayerOutputs::default);
        }
        let LayerOutputs { projected, contexts, attention, activation_input: wide, feed_forward } = &mut self.0[layer];
        let output = match part {
            BlockOutput::Projected => projected,
            BlockOutput::Contexts => contexts,
            BlockOutput::Attention => attention,
            BlockOutput::ActivationInput => wide,
            BlockOutput::FeedForward => feed_forward,
        };
        output.clear();
        output.extend_from_slice(values);
    }

    /// Returns the kept outputs of a layer. Panics if the layer has none.
    pub fn get(&self, layer: usize) -> &LayerOutputs {
        &self.0[layer]
    }

    /// Fails if a layer from `first` on, except the last, lacks a block output over `tokens` tokens.
    pub(super) fn check(&self, config: &Config, first: usize, tokens: usize) -> Result<()> {
        let (heads, hidden) = (tokens * config.heads_width(), tokens * config.hidden_size);
        for layer in first..config.num_hidden_layers.saturating_sub(1) {
            let is_whole =
                self.0.get(layer).is_some_and(|LayerOutputs { contexts, attention, feed_forward, .. }| {
                    [contexts.len(), attention.len(), feed_forward.len()] == [heads, hidden, hidden]
                });
            ensure!(is_whole, "layer {layer} cannot be held: what it wrote over these {tokens} tokens was not kept");
        }
        Ok(())
    }
}

impl Visitor for HeldOutputs {
    fn needs(&self) -> Needs {
        Needs { writes: true, ..Needs::default() }
    }

    fn block_output(&mut self, layer: usize, part: BlockOutput, values: &[f32]) {
        if !matches!(part, BlockOutput::Projected | BlockOutput::ActivationInput) {
            self.keep(layer, part, values);
        }
    }
}
