//! Direct effects on logits: products of parts of the residual stream with token vectors, not yet divided by the scale of the
//! final norm.

use anyhow::{Context, Result};

use super::{PackedEncoder, resize_buffer, row};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::config::NormKind;
use crate::model::forward::rows::Rows;
use crate::model::forward::scratch::DirectScratch;
use crate::model::forward::visitor::{FinalNorm, ResidualPart};
use crate::model::forward::{ForwardPass, NO_DIRECT_EFFECTS_ERROR};
use crate::model::parameters::Norm;

impl PackedEncoder {
    /// Computes the vector `g ⊙ u` of each compared token. `g` are the weights of the final norm, `u` is the token's
    /// vector in the prediction head. Then passes the direct effects of the embeddings to the visitor. Fails if logits
    /// are not linear in the residual stream.
    pub(super) fn begin_direct_effects(
        &self,
        pass: &mut ForwardPass<'_>,
        states: &[f32],
        direct: &mut DirectScratch,
    ) -> Result<()> {
        let (norm, head) = self.parameters.direct_prediction_head().context(NO_DIRECT_EFFECTS_ERROR)?;
        let hidden = self.parameters.config.hidden_size;
        let tokens = head.decoder.as_ref().unwrap_or(&self.parameters.embeddings.words);
        direct.token_vectors.clear();
        direct.bias_logits.clear();
        for &token in pass.batch.inputs.iter().flat_map(|input| input.compared_tokens) {
            let vector = row(tokens, token as usize, hidden);
            direct.token_vectors.extend(self.pull_back_through_norm(vector, norm));
            direct.bias_logits.push(head.bias[token as usize] + dot(vector, &norm.bias));
        }
        let DirectScratch { token_vectors: vectors, effects, .. } = direct;
        let [vectors, states] = [&vectors[..], states].map(|rows| Matrix::new(rows, rows.len() / hidden, hidden));
        emit_part(pass, ResidualPart::Embeddings, (states, vectors.transposed()), &[], effects);
        Ok(())
    }

    /// Pulls `vector` back through a norm. The product of a row with the result equals the product of the normalised row with
    /// `vector`, except for the row's scale and the norm's bias. For layer norm the result is centred:
    /// `<x - mean x, v> = <x, v - mean v>`.
    fn pull_back_through_norm(&self, vector: &[f32], norm: &Norm) -> impl Iterator<Item = f32> {
        let scaled: Vec<f32> = vector.iter().zip(&norm.weight).map(|(u, g)| u * g).collect();
        let mean = self.subtracted_mean(&scaled);
        scaled.into_iter().map(move |value| value - mean)
    }

    /// Passes the direct effects of a block and of its biases to the visitor. `update` is the block's output without
    /// its bias. `contexts`, `[tokens, heads * head_dim]`, has the contexts of all heads if it is an attention block.
    pub(super) fn emit_direct_effects(
        &self,
        number: usize,
        pass: &mut ForwardPass<'_>,
        (contexts, update): (Option<&[f32]>, &[f32]),
        direct: &mut DirectScratch,
    ) {
        let (config, layer) = (&self.parameters.config, self.layer(number));
        let (hidden, head_dim, width) = (config.hidden_size, config.head_dim(), config.heads_width());
        let (block, output) = if contexts.is_some() { (0, &layer.attention_output) } else { (1, &layer.output) };
        let norm = layer.block_output_norms.as_ref().map(|norms| &norms[block]);
        self.pull_back_token_vectors(norm, update, &output.bias, direct);
        let DirectScratch { block_vectors, head_vectors, effects, scales, .. } = direct;
        let [vectors, update] = [&block_vectors[..], update].map(|rows| Matrix::new(rows, rows.len() / hidden, hidden));
        let (vectors, count) = (vectors.transposed(), vectors.rows());
        if let Some(contexts) = contexts {
            let head_vectors = resize_buffer(head_vectors, width * count);
            multiply(MatrixMut::new(head_vectors, width, count), Matrix::new(&output.weight, width, hidden), vectors);
            let head_vectors = Matrix::new(head_vectors, width, count);
            let contexts = Matrix::new(contexts, contexts.len() / width, width);
            for head in 0..config.num_attention_heads {
                let columns = head * head_dim..(head + 1) * head_dim;
                let factors = (contexts.columns_from(columns.start, head_dim), head_vectors.rows_in(&columns));
                emit_part(pass, ResidualPart::Head { layer: number, head }, factors, scales, effects);
            }
        } else {
            emit_part(pass, ResidualPart::FeedForward { layer: number }, (update, vectors), scales, effects);
        }
        Self::emit_biases(number, norm, pass, &output.bias, direct);
    }

    /// Pulls the vectors of the compared tokens back through the norm of a block's output, into `direct.block_vectors`. Puts
    /// the norm's scale for each token into `direct.scales`. Without such a norm, it only copies the vectors.
    fn pull_back_token_vectors(&self, norm: Option<&Norm>, update: &[f32], bias: &[f32], direct: &mut DirectScratch) {
        let DirectScratch { token_vectors: vectors, block_vectors, scales, .. } = direct;
        block_vectors.clear();
        scales.clear();
        let Some(norm) = norm else { return block_vectors.extend_from_slice(vectors) };
        for vector in vectors.chunks_exact(self.parameters.config.hidden_size) {
            block_vectors.extend(self.pull_back_through_norm(vector, norm));
        }
        let biased = |row: &[f32]| row.iter().zip(bias).map(|(value, bias)| value + bias).collect::<Vec<f32>>();
        scales.extend(update.chunks_exact(bias.len()).map(|row| self.norm_scale(&biased(row))));
    }

    /// Passes the direct effects of a block's biases to the visitor. Requires an earlier call of
    /// [`Self::pull_back_token_vectors`].
    fn emit_biases(
        number: usize,
        norm: Option<&Norm>,
        pass: &mut ForwardPass,
        bias: &[f32],
        direct: &mut DirectScratch,
    ) {
        let DirectScratch { token_vectors: vectors, block_vectors, scales, effects, .. } = direct;
        let bias_effects: Vec<f32> = block_vectors.chunks_exact(bias.len()).map(|vector| dot(vector, bias)).collect();
        let of_norm = |vector: &[f32]| norm.map_or(0.0, |norm| dot(vector, &norm.bias));
        let of_norm: Vec<f32> = vectors.chunks_exact(bias.len()).map(of_norm).collect();
        for (sequence, span, compared) in pass.batch.compared_spans() {
            effects.clear();
            for token in span {
                let scale = scales.get(token).unwrap_or(&1.0);
                effects.extend(compared.clone().map(|at| bias_effects[at] / scale + of_norm[at]));
            }
            if !compared.is_empty() {
                let effects = Rows::new(effects, compared.len());
                pass.visitor.direct_effects(sequence, ResidualPart::Biases { layer: number }, effects);
            }
        }
    }

    /// Passes the scales by which the final norm divides the rows of `states`, `[tokens, hidden]`, to the visitor.
    pub(super) fn emit_final_norm(&self, pass: &mut ForwardPass<'_>, states: &[f32], direct: &DirectScratch) {
        let rows = states.chunks_exact(self.parameters.config.hidden_size);
        let scales: Vec<f32> = rows.map(|row| self.norm_scale(row)).collect();
        for (sequence, span, compared) in pass.batch.compared_spans() {
            let (scales, constants) = (&scales[span], &direct.bias_logits[compared]);
            pass.visitor.final_norm(sequence, FinalNorm { scales, constants });
        }
    }

    /// Returns the scale by which a norm divides a row. Layer norm: the root of the variance plus epsilon. RMS norm: the root
    /// of the mean square plus epsilon.
    fn norm_scale(&self, row: &[f32]) -> f32 {
        let centre = self.subtracted_mean(row);
        let squares: f32 = row.iter().map(|value| (value - centre).powi(2)).sum();
        (squares / row.len() as f32 + self.epsilon()).sqrt()
    }

    /// Returns the mean that a norm subtracts from a row: 0 for RMS norm.
    fn subtracted_mean(&self, row: &[f32]) -> f32 {
        let is_centred = self.parameters.config.norm == NormKind::Layer;
        if is_centred { row.iter().sum::<f32>() / row.len() as f32 } else { 0.0 }
    }
}

/// Passes the direct effects of `part` to the visitor: products of rows, `[tokens, width]`, with vectors,
/// `[width, compared]`. `factors` is (rows, vectors). Each product is divided by its token's entry of `scales`, unless
/// `scales` is empty.
fn emit_part(
    pass: &mut ForwardPass,
    part: ResidualPart,
    factors: (Matrix, Matrix),
    scales: &[f32],
    effects: &mut Vec<f32>,
) {
    let (rows, vectors) = factors;
    for (sequence, span, compared) in pass.batch.compared_spans() {
        if compared.is_empty() {
            continue;
        }
        let (n, width) = (span.len(), compared.len());
        let effects = resize_buffer(effects, n * width);
        let vectors = vectors.columns_from(compared.start, width);
        multiply(MatrixMut::new(effects, n, width), rows.rows_in(&span), vectors);
        for (row, scale) in effects.chunks_exact_mut(width).zip(scales.get(span).unwrap_or_default()) {
            row.iter_mut().for_each(|effect| *effect /= scale);
        }
        pass.visitor.direct_effects(sequence, part, Rows::new(effects, width));
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
