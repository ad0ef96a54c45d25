//! The heads of a layer of the packed encoder at work on rows in place of the layer's own input.

use std::ops::Range;

use super::heads::{Projected, stride_of};
use super::{PackedEncoder, project};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::layer_attention::{LayerAttention, Positions, QueriesKeys};
use crate::model::forward::scratch::AttentionScratch;
use crate::model::parameters::Layer;

/// A layer of the packed encoder.
pub struct PackedLayer<'a> {
    encoder: &'a PackedEncoder,
    number: usize,
    positions: Positions,
}

impl LayerAttention for PackedLayer<'_> {
    fn products(&self, inputs: &[f32], into: &mut Vec<f32>) {
        let config = &self.encoder.parameters.config;
        assert!(inputs.len().is_multiple_of(config.hidden_size), "inputs are [rows, hidden]");
        let outputs = 2 * config.heads_width();
        project(inputs, &self.layer().query_key_value, outputs, into, inputs.len() / config.hidden_size);
    }

    fn prepare(&self, lengths: &[usize], QueriesKeys { rows, angles }: &mut QueriesKeys) {
        let (layer, outputs) = (self.layer(), 2 * self.encoder.parameters.config.heads_width());
        assert_eq!(rows.len(), lengths.iter().sum::<usize>() * outputs, "products are [tokens, 2 * heads * head_dim]");
        if layer.prepares_keys() {
            self.encoder.prepare_keys(layer, (rows, outputs), lengths.iter().copied(), self.positions, angles);
        }
    }

    fn between<'b>(
        &self,
        head: usize,
        span: &Range<usize>,
        queries_keys: [&QueriesKeys; 2],
        scratch: &'b mut AttentionScratch,
    ) -> AttentionView<'b> {
        let own = queries_keys.map(|of| self.projected(of, span));
        self.encoder.attend_between((self.number, head), own.each_ref(), self.positions, scratch);
        AttentionView::strided(self.number, head, stride_of(span.len()), &scratch.attention, &scratch.entropies)
    }
}

impl<'a> PackedLayer<'a> {
    /// The layer of this number.
    pub fn new(encoder: &'a PackedEncoder, number: usize, positions: Positions) -> Self {
        Self { encoder, number, positions }
    }

    fn layer(&self) -> &'a Layer {
        &self.encoder.parameters.layers[self.encoder.parameters.order[self.number]]
    }

    fn projected<'b>(&self, QueriesKeys { rows, .. }: &'b QueriesKeys, span: &Range<usize>) -> Projected<'b>
    where
        'a: 'b,
    {
        let config = &self.encoder.parameters.config;
        let width = 2 * config.heads_width();
        Projected {
            rows: &rows[span.start * width..span.end * width],
            n: span.len(),
            width,
            bias: &self.layer().query_key_value.bias,
            head_dim: config.head_dim(),
        }
    }
}
