//! Mixing ratios: how much of each token's vector the heads of a layer mix in from other tokens (Kobayashi et al. 2021).

use std::ops::Range;

use super::{ForwardPass, PackedEncoder, Scratch, project, resize_buffer, row};
use crate::model::config::NormKind;
use crate::model::forward::rows::Rows;
use crate::model::forward::scratch::MixingScratch;
use crate::model::forward::visitor::{HeadValues, MixingRatios};
use crate::model::parameters::Norm;

impl MixingScratch {
    /// Resizes the buffers for a layer whose heads have `width` values per token in total.
    pub fn resize(&mut self, tokens: usize, width: usize) {
        self.width = width;
        self.contexts.iter_mut().for_each(|contexts| contexts.resize(tokens * width, 0.0));
    }

    /// Stores three parts of a head's output over the tokens `span` of a sequence: contexts from the token itself,
    /// contexts from other tokens, and values. The tuple has the attention, `[n, n]`, the values, and the contexts
    /// without value bias, `[n, head_dim]`. The stored parts are multiplied by `keep`, the
    /// [`keep`](super::super::gates::Gate::keep) of the head's gate.
    pub fn store_head(
        &mut self,
        head: usize,
        span: &Range<usize>,
        (attention, HeadValues { rows: values, bias }, contexts): (Rows<'_>, HeadValues<'_>, &[f32]),
        keep: f32,
    ) {
        let head_dim = bias.len();
        let [own, others, all] = &mut self.contexts;
        for (query, context) in contexts.chunks_exact(head_dim).enumerate() {
            let (weight, value) = (attention.row(query)[query], values.row(query));
            let start = (span.start + query) * self.width + head * head_dim;
            for d in 0..head_dim {
                own[start + d] = keep * weight * (value[d] + bias[d]);
                // The weights of the other tokens sum to 1 - weight, which is their share of the bias.
                others[start + d] = keep * (context[d] - weight * value[d] + (1.0 - weight) * bias[d]);
                all[start + d] = keep * (value[d] + bias[d]);
            }
        }
    }
}

/// Norms between the output of a layer's heads and the residual stream: the norm of the output, and the norm of its sum with
/// the residual stream.
struct OutputNorms<'a> {
    kind: NormKind,
    epsilon: f64,
    /// Norm of the output; `None` in layers without one.
    output_norm: Option<&'a Norm>,
    /// Norm of the sum with the residual stream; `None` in pre-norm layers.
    sum_norm: Option<&'a Norm>,
}

impl OutputNorms<'_> {
    /// Computes the mixing ratio of a token from its row of the residual stream and the heads' output. The output has three
    /// parts: from the token itself, from other tokens, and constant.
    ///
    /// A norm divides all summands by one standard deviation. For a norm of the sum the deviation cancels in the ratio. For a
    /// norm of the output it does not, because the residual stream is added afterwards.
    fn ratio(&self, residual: &[f32], [own, others, constant]: [&[f32]; 3]) -> f32 {
        let width = residual.len();
        let value = |row: &'_ [f32], d: usize| f64::from(row[d]);
        let sum = |d| value(own, d) + value(others, d) + value(constant, d);
        let scale = self.output_norm.map_or(1.0, |_| 1.0 / self.deviation(width, sum));
        let written = |row| self.apply_linear_part(self.output_norm, width, move |d| scale * value(row, d));
        let (own, mixed) = (written(own), written(others));
        let length = |part: &dyn Fn(usize) -> f64| (0..width).map(|d| part(d) * part(d)).sum::<f64>().sqrt();
        let preserved = length(&self.apply_linear_part(self.sum_norm, width, |d| value(residual, d) + own(d)));
        let mixed = length(&self.apply_linear_part(self.sum_norm, width, mixed));
        #[expect(clippy::cast_possible_truncation, reason = "a share of f32 vectors")]
        if mixed > 0.0 { (mixed / (mixed + preserved)) as f32 } else { 0.0 }
    }

    /// Applies a norm to one summand, without the division by the standard deviation: centres the summand (layer norm only),
    /// and multiplies it by the norm's weights.
    fn apply_linear_part<'b>(
        &self,
        norm: Option<&'b Norm>,
        width: usize,
        part: impl Fn(usize) -> f64 + 'b,
    ) -> impl Fn(usize) -> f64 + 'b {
        let mean = norm.map_or(0.0, |_| self.mean(width, &part));
        move |d| norm.map_or_else(|| part(d), |norm| (part(d) - mean) * f64::from(norm.weight[d]))
    }

    /// Returns the mean that the norm subtracts: 0 for RMS norm.
    fn mean(&self, width: usize, part: impl Fn(usize) -> f64) -> f64 {
        if self.kind == NormKind::Layer { (0..width).map(part).sum::<f64>() / width as f64 } else { 0.0 }
    }

    /// Returns the standard deviation (RMS norm: root of the mean square) by which the norm divides.
    fn deviation(&self, width: usize, row: impl Fn(usize) -> f64) -> f64 {
        let mean = self.mean(width, &row);
        let square: f64 = (0..width).map(|d| (row(d) - mean).powi(2)).sum();
        (square / width as f64 + self.epsilon).sqrt()
    }
}

impl PackedEncoder {
    /// Passes the mixing ratios of a layer to the visitor, computed from the stored contexts of its heads and the
    /// hidden states before the layer.
    pub(super) fn emit_mixing(&self, number: usize, pass: &mut ForwardPass<'_>, scratch: &mut Scratch) {
        let config = &self.parameters.config;
        let (hidden, visibility) = (config.hidden_size, config.visibility.layer_visibility(number));
        let layer = self.layer(number);
        let output_norm = layer.block_output_norms.as_ref().map(|[attention_norm, _]| attention_norm);
        let is_of_sum = output_norm.is_none() && !config.blocks.is_pre_norm();
        let sum_norm = layer.attention_norm.as_ref().filter(|_| is_of_sum);
        let norms = OutputNorms { kind: config.norm, epsilon: config.layer_norm_eps, output_norm, sum_norm };
        let Scratch { states, context, mixing, .. } = scratch;
        let MixingScratch {
            contexts,
            written_states: written,
            head_output,
            token_outputs: rows,
            visible_sum,
            ratios,
            uniform_ratios,
            ..
        } = mixing;
        let tokens = pass.batch.tokens();
        for (contexts, written) in contexts.iter().zip(&mut *written) {
            project(contexts, &layer.attention_output, hidden, written, tokens);
        }
        if norms.output_norm.is_some() {
            project(context, &layer.attention_output, hidden, head_output, tokens);
        }
        let (ratios, uniform_ratios) = (resize_buffer(ratios, tokens), resize_buffer(uniform_ratios, tokens));
        let [uniform_own, uniform_others, constant] = rows.each_mut().map(|row| resize_buffer(row, hidden));
        visible_sum.resize(hidden, 0.0);
        for (sequence, span) in pass.batch.spans().enumerate() {
            visible_sum.fill(0.0);
            let mut summed = 0..0;
            for (query, token) in span.clone().enumerate() {
                let [own, others, value] = written.each_ref().map(|rows| row(rows, token, hidden));
                let residual = row(states, token, hidden);
                if norms.output_norm.is_some() {
                    let (head_output, bias) = (row(head_output, token, hidden), &layer.attention_output.bias);
                    for d in 0..hidden {
                        constant[d] = head_output[d] + bias[d] - own[d] - others[d];
                    }
                }
                ratios[token] = norms.ratio(residual, [own, others, constant]);

                // Both ends of the visible range only move forward, so `visible_sum` is a running sum.
                let keys = visibility.visible_keys(query, span.len());
                let mut add = |keys: Range<usize>, sign: f64| {
                    for key in keys {
                        let row = row(&written[2], span.start + key, hidden);
                        visible_sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += sign * f64::from(value));
                    }
                };
                add(summed.end..keys.end, 1.0);
                add(summed.start..keys.start, -1.0);
                let count = keys.len() as f64;
                summed = keys;
                #[expect(clippy::cast_possible_truncation, reason = "a mean of f32 values")]
                for (d, sum) in visible_sum.iter().enumerate() {
                    let value = f64::from(value[d]);
                    (uniform_own[d], uniform_others[d]) = ((value / count) as f32, ((sum - value) / count) as f32);
                }
                uniform_ratios[token] = norms.ratio(residual, [uniform_own, uniform_others, constant]);
            }
            let ratios = MixingRatios { ratios: &ratios[span.clone()], uniform_ratios: &uniform_ratios[span] };
            pass.visitor.mixing(sequence, number, ratios);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_takes_its_own_value_and_those_of_others() {
        // Two tokens and one head of one number: values 4 and 8, and 1 more by their bias.
        let (attention, values) = ([0.75, 0.25, 0.5, 0.5], [4.0, 8.0]);
        let head =
            (Rows::new(&attention, 2), HeadValues { rows: Rows::new(&values, 1), bias: &[1.0] }, &[5.0, 6.0][..]);
        let mut mixing = MixingScratch::default();
        mixing.resize(2, 1);
        mixing.store_head(0, &(0..2), head, 1.0);
        assert_eq!(mixing.contexts, [[0.75 * 5.0, 0.5 * 9.0], [0.25 * 9.0, 0.5 * 5.0], [5.0, 9.0]]);
        mixing.store_head(0, &(0..2), head, 0.5);
        assert_eq!(mixing.contexts, [[0.375 * 5.0, 0.25 * 9.0], [0.125 * 9.0, 0.25 * 5.0], [2.5, 4.5]]);
    }

    #[test]
    fn ratios_by_hand() {
        let ratio =
            |kind, output_norm: Option<&Norm>, sum_norm: Option<&Norm>, residual: [f32; 2], parts: [[f32; 2]; 3]| {
                OutputNorms { kind, epsilon: 0.0, output_norm, sum_norm }
                    .ratio(&residual, parts.each_ref().map(|part| &part[..]))
            };
        let norm = |weight: [f32; 2]| Norm { weight: weight.to_vec(), bias: vec![7.0, 7.0] };
        let (layer, mean_square) = (NormKind::Layer, NormKind::RootMeanSquare);
        // (3, 0) and (0, 4) are 5 long together, and so is (0, 5), of others; the constant is neither.
        let parts = [[0.0, 4.0], [0.0, 5.0], [9.0, 9.0]];
        assert_eq!(ratio(layer, None, None, [3.0, 0.0], parts), 0.5);
        // Centred (3, 4) is (-.5, .5) and (0, 5) is (-2.5, 2.5), whatever their weights.
        let near = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a}, not {b}");
        near(ratio(layer, None, Some(&norm([1.0, 2.0])), [3.0, 0.0], parts), 2.5 / 3.0);
        // Not centred, and weighted: (3, 0) and (0, 5).
        near(ratio(mean_square, None, Some(&norm([1.0, 0.0])), [3.0, 0.0], parts), 0.0);
        near(ratio(mean_square, None, Some(&norm([0.0, 2.0])), [3.0, 0.0], parts), 5.0 / 9.0);
        // What is written is (4, 4), whose mean square is 16: (.75, 0) of others, (0, .25) + (0, .5) kept.
        let parts = [[0.0, 1.0], [3.0, 0.0], [1.0, 3.0]];
        near(ratio(mean_square, Some(&norm([1.0, 1.0])), None, [0.0, 0.5], parts), 0.5);
        // Nothing is mixed in.
        assert_eq!(ratio(layer, None, None, [0.0, 0.0], [[0.0; 2]; 3]), 0.0);
    }
}
