//! Heads that write a constant, found by their weights.
//!
//! The rows of attention sum to one, so a head whose value weights are all 0 gives its value bias at every position, and a head whose
//! inputs of the output projection are all 0 gives nothing. Queries and keys may be whole: such a head attends like any other.
//! [`PrunedWeights`](crate::model::weights::pruned::PrunedWeights) leaves heads like this.

use super::{Layer, Parameters};
use crate::model::grid::HeadPlace;

impl Parameters {
    /// The heads that write a constant whatever they attend to, layer by layer, without those that the checkpoint lacks.
    pub fn constant_heads(&self) -> Vec<HeadPlace> {
        let size = self.config.head_dim();
        let of_layer = |(number, layer): (usize, &Layer)| {
            let present = self.config.present_heads(number).into_iter();
            let constant = present.filter(|&head| layer.is_constant(head, size)).collect::<Vec<_>>();
            constant.into_iter().map(move |head| HeadPlace { layer: number, head })
        };
        self.layers().enumerate().flat_map(of_layer).collect()
    }
}

impl Layer {
    /// Whether a head with `size` values writes a constant.
    fn is_constant(&self, head: usize, size: usize) -> bool {
        let are_zero = |weights: &[f32]| weights.iter().all(|weight| *weight == 0.0);
        // Queries, keys and values are stacked, each with a copy for every head.
        let width = self.query_key_value.bias.len() / 3;
        let inputs = self.query_key_value.weight.len() / (3 * width);
        let values = &self.query_key_value.weight[(2 * width + head * size) * inputs..][..size * inputs];
        let mut outputs = self.attention_output.weight.chunks_exact(width);
        are_zero(values) || outputs.all(|row| are_zero(&row[head * size..][..size]))
    }
}
