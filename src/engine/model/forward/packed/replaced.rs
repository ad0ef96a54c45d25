//! The attention of a layer's heads from rows in place of the layer's own input.

use std::ops::Range;

use super::heads::{Projected, stride_of};
use super::{PackedEncoder, Positions, project};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::scratch::AttentionScratch;

/// The heads of a layer, which attend from any rows with their own queries and keys, mask, scale and normalisations.
#[derive(Clone, Copy)]
pub struct LayerAttention<'a> {
    encoder: &'a PackedEncoder,
    number: usize,
    positions: Positions,
}

/// The queries and keys of tokens in all heads of a layer.
#[derive(Clone, Debug, Default)]
pub struct QueriesKeys {
    /// `[tokens, 2 * heads * head_dim]`
    rows: Vec<f32>,
    angles: Vec<f32>,
}

impl<'a> LayerAttention<'a> {
    pub(super) fn new(encoder: &'a PackedEncoder, number: usize, positions: Positions) -> Self {
        Self { encoder, number, positions }
    }

    /// Makes queries and keys of `inputs`, `[tokens, hidden]`, in place of what the layer makes them of: sequences of these
    /// lengths side by side.
    /// Panics if `inputs` has other rows.
    pub fn project(&self, inputs: &[f32], lengths: &[usize], into: &mut QueriesKeys) {
        let config = &self.encoder.parameters.config;
        let tokens = lengths.iter().sum();
        assert_eq!(inputs.len(), tokens * config.hidden_size, "inputs are [tokens, hidden]");
        let layer = self.layer();
        let outputs = 2 * config.heads_width();
        let QueriesKeys { rows, angles } = into;
        project(inputs, &layer.query_key_value, outputs, rows, tokens);
        if layer.prepares_keys() {
            self.encoder.prepare_keys(layer, (rows, outputs), lengths.iter().copied(), self.positions, angles);
        }
    }

    /// The attention of a head over one sequence, whose tokens are `span`, from queries to keys, which may be of other rows.
    pub fn between<'b>(
        &self,
        head: usize,
        span: &Range<usize>,
        [queries, keys]: [&QueriesKeys; 2],
        scratch: &'b mut AttentionScratch,
    ) -> AttentionView<'b> {
        let own = [queries, keys].map(|of| self.projected(of, span));
        self.encoder.attend_between((self.number, head), own.each_ref(), self.positions, scratch);
        AttentionView::strided(self.number, head, stride_of(span.len()), &scratch.attention, &scratch.entropies)
    }

    fn layer(&self) -> &'a crate::model::parameters::Layer {
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
