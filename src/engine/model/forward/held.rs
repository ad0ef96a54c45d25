//! The outputs of all blocks of a run, for later runs in which they are held as they were: the sums and their
//! normalisations are worked out anew, and everything between is what it was.

use anyhow::{Result, ensure};

use super::visitor::{Needs, Visitor, Written};
use crate::model::config::Config;

/// The outputs of one layer over a batch, as the encoder computes them before their sum with the residual stream; only the
/// encoder that showed them takes them back. The last layer has rows for the predicted positions alone, or none.
#[derive(Clone, Debug, Default)]
pub struct LayerWrites {
    /// `[tokens, 3 * heads * head_dim]`; empty unless it is kept for derivatives.
    pub projected: Vec<f32>,
    /// `[tokens, heads * head_dim]`
    pub contexts: Vec<f32>,
    /// `[tokens, hidden]`
    pub attention: Vec<f32>,
    /// `[tokens, intermediate]`, twice as wide where it is gated; empty unless it is kept for derivatives.
    pub wide: Vec<f32>,
    /// `[tokens, hidden]`; empty of the last layer if the run ended before it.
    pub feed_forward: Vec<f32>,
}

/// The outputs of all layers over a batch, `[layers]`; as a visitor they keep those that can be held.
#[derive(Clone, Debug, Default)]
pub struct Writes(Vec<LayerWrites>);

impl Writes {
    /// Keeps an output of a layer in place of what was kept of it.
    pub(super) fn keep(&mut self, layer: usize, part: Written, values: &[f32]) {
        if self.0.len() <= layer {
            self.0.resize_with(layer + 1, LayerWrites::default);
        }
        let LayerWrites { projected, contexts, attention, wide, feed_forward } = &mut self.0[layer];
        let kept = match part {
            Written::Projected => projected,
            Written::Contexts => contexts,
            Written::Attention => attention,
            Written::Wide => wide,
            Written::FeedForward => feed_forward,
        };
        kept.clear();
        kept.extend_from_slice(values);
    }

    /// Panics if nothing was kept of the layer.
    pub fn of_layer(&self, layer: usize) -> &LayerWrites {
        &self.0[layer]
    }

    /// Fails unless they hold all that the layers from `first` to the last but one wrote over `tokens` tokens.
    pub(super) fn check(&self, config: &Config, first: usize, tokens: usize) -> Result<()> {
        let (heads, hidden) = (tokens * config.heads_width(), tokens * config.hidden_size);
        for layer in first..config.num_hidden_layers.saturating_sub(1) {
            let is_whole =
                self.0.get(layer).is_some_and(|LayerWrites { contexts, attention, feed_forward, .. }| {
                    [contexts.len(), attention.len(), feed_forward.len()] == [heads, hidden, hidden]
                });
            ensure!(is_whole, "layer {layer} cannot be held: what it wrote over these {tokens} tokens was not kept");
        }
        Ok(())
    }
}

impl Visitor for Writes {
    fn needs(&self) -> Needs {
        Needs { writes: true, ..Needs::default() }
    }

    fn written(&mut self, layer: usize, part: Written, values: &[f32]) {
        if !matches!(part, Written::Projected | Written::Wide) {
            self.keep(layer, part, values);
        }
    }
}
