//! The heads of a layer of the packed encoder at work on rows in place of the layer's own input.

use std::ops::Range;

use super::heads::{Projected, stride_of};
use super::{PackedEncoder, project};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::layer_attention::{LayerAttention, Positions, QueriesKeys};
use crate::model::forward::scratch::AttentionScratch;
use crate::model::parameters::Layer;

/// The layer of this number.
pub(super) struct PackedLayer<'a> {
    pub encoder: &'a PackedEncoder,
    pub number: usize,
    pub positions: Positions,
}

impl LayerAttention for PackedLayer<'_> {
    fn products(&self, inputs: &[f32], into: &mut Vec<f32>) {
        let hidden = self.encoder.parameters.config.hidden_size;
        assert!(inputs.len().is_multiple_of(hidden), "inputs are [rows, hidden]");
        project(inputs, &self.layer().query_key_value, self.width(), into, inputs.len() / hidden);
    }

    fn prepare(&self, lengths: &[usize], QueriesKeys { rows, angles }: &mut QueriesKeys) {
        let (layer, outputs) = (self.layer(), self.width());
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
        let (width, bias) = (self.width(), &self.layer().query_key_value.bias[..]);
        let head_dim = self.encoder.parameters.config.head_dim();
        let own = queries_keys.map(|of| Projected::of(&of.rows, span, width, (bias, head_dim)));
        self.encoder.attend_between((self.number, head), own.each_ref(), self.positions, scratch);
        AttentionView::strided(self.number, head, stride_of(span.len()), &scratch.attention, &scratch.entropies)
    }
}

impl<'a> PackedLayer<'a> {
    fn layer(&self) -> &'a Layer {
        self.encoder.layer(self.number)
    }

    fn width(&self) -> usize {
        2 * self.encoder.parameters.config.heads_width()
    }
}
