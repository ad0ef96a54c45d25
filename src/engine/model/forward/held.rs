//! The outputs of all blocks of a run, for later runs in which they are held as they were.
//!
//! A head that is removed then reaches later layers by the residual stream alone: the sums and their
//! normalisations are worked out anew, and everything between is what it was.

use anyhow::{Result, ensure};

use super::visitor::{Needs, Visitor, Written};
use crate::model::config::Config;

/// The outputs of one layer over a batch.
///
/// An output is as the encoder computes it before its sum with the residual stream; only the encoder that showed it
/// takes it back.
///
/// The last layer has rows for the predicted positions alone, or none, where only its logits are asked for.
#[derive(Clone, Debug, Default)]
pub struct LayerWrites {
    /// `[tokens, heads * head_dim]`
    pub contexts: Vec<f32>,
    /// `[tokens, hidden]`
    pub attention: Vec<f32>,
    /// `[tokens, hidden]`; empty of the last layer if the run ended before it.
    pub feed_forward: Vec<f32>,
}

/// The outputs of all layers over a batch, `[layers]`.
#[derive(Clone, Debug, Default)]
pub struct Writes(Vec<LayerWrites>);

impl Writes {
    /// Keeps an output of a layer in place of what was kept of it, as [`Visitor::written`] shows it.
    pub fn keep(&mut self, layer: usize, part: Written, values: &[f32]) {
        if self.0.len() <= layer {
            self.0.resize_with(layer + 1, LayerWrites::default);
        }
        let LayerWrites { contexts, attention, feed_forward } = &mut self.0[layer];
        let kept = match part {
            Written::Contexts => contexts,
            Written::Attention => attention,
            Written::FeedForward => feed_forward,
            Written::Projected | Written::Wide => return,
        };
        kept.clear();
        kept.extend_from_slice(values);
    }

    /// The outputs of a layer.
    /// Panics if nothing was kept of it.
    pub fn of_layer(&self, layer: usize) -> &LayerWrites {
        &self.0[layer]
    }

    /// Fails unless they hold all that the layers from `first` to the last but one wrote over `tokens` tokens.
    pub(super) fn check(&self, config: &Config, first: usize, tokens: usize) -> Result<()> {
        let (heads, hidden) = (tokens * config.heads_width(), tokens * config.hidden_size);
        for layer in first..config.num_hidden_layers.saturating_sub(1) {
            let is_whole = self.0.get(layer).is_some_and(|LayerWrites { contexts, attention, feed_forward }| {
                [contexts.len(), attention.len(), feed_forward.len()] == [heads, hidden, hidden]
            });
            ensure!(is_whole, "layer {layer} cannot be held: what it wrote over these {tokens} tokens was not kept");
        }
        Ok(())
    }
}

/// A visitor that keeps everything that is written.
impl Visitor for Writes {
    fn needs(&self) -> Needs {
        Needs { writes: true, ..Needs::default() }
    }

    fn written(&mut self, layer: usize, part: Written, values: &[f32]) {
        self.keep(layer, part, values);
    }
}
