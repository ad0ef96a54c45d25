//! Direct effects: what heads write, along the vectors of tokens, before the final norm divides it.

use std::ops::Range;

use anyhow::{Context, Result};

use super::{PackedEncoder, row, sized};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::config::NormKind;
use crate::model::forward::batch::Batch;
use crate::model::forward::rows::Rows;
use crate::model::forward::scratch::DirectScratch;
use crate::model::forward::{NO_DIRECT, Pass};

impl DirectScratch {
    /// The direct effects of a head on some of the compared tokens, `[n, compared]`, from its contexts, `[n, head_dim]`; `None` if
    /// none are compared.
    pub(super) fn of_head(&mut self, head: usize, contexts: Matrix<'_>, compared: &Range<usize>) -> Option<Rows<'_>> {
        let (n, head_dim, width) = (contexts.rows(), contexts.columns(), compared.len());
        if compared.is_empty() {
            return None;
        }
        let through = &self.through[head * head_dim * self.count + compared.start..];
        let effects = sized(&mut self.effects, n * width);
        let through = Matrix::strided(through, head_dim, width, self.count);
        multiply(MatrixMut::new(effects, n, width), contexts, through);
        Some(Rows::new(effects, width))
    }
}

impl PackedEncoder {
    /// The vectors of all compared tokens: `v = g ⊙ u`, `g` the weights of the final norm and `u` the vector of the token in the
    /// head that predicts; without its mean where the norm subtracts that of its input, since `<x - mean x, v> = <x, v - mean v>`.
    /// Fails if logits are not linear in what is written.
    pub(super) fn vectors(
        &self,
        batch: &Batch<'_>,
        DirectScratch { vectors, count, .. }: &mut DirectScratch,
    ) -> Result<()> {
        let (norm, head) = self.parameters.direct_head().context(NO_DIRECT)?;
        let hidden = self.parameters.config.hidden_size;
        let tokens = head.decoder.as_ref().unwrap_or(&self.parameters.embeddings.words);
        vectors.clear();
        *count = batch.inputs.iter().map(|input| input.compared.len()).sum();
        for &token in batch.inputs.iter().flat_map(|input| input.compared) {
            let start = vectors.len();
            vectors.extend(row(tokens, token as usize, hidden).iter().zip(&norm.weight).map(|(u, g)| u * g));
            if self.parameters.config.norm == NormKind::Layer {
                let vector = &mut vectors[start..];
                let mean = vector.iter().sum::<f32>() / hidden as f32;
                vector.iter_mut().for_each(|value| *value -= mean);
            }
        }
        Ok(())
    }

    /// The vectors through the output projection of a stored layer, `scratch.vectors` to `scratch.through`.
    pub(super) fn through_output(
        &self,
        place: usize,
        DirectScratch { vectors, count, through, .. }: &mut DirectScratch,
    ) {
        let (hidden, width) = (self.parameters.config.hidden_size, self.parameters.config.heads_width());
        let count = *count;
        let output = Matrix::new(&self.parameters.layers[place].attention_output.weight, width, hidden);
        let through = MatrixMut::new(sized(through, width * count), width, count);
        multiply(through, output, Matrix::new(vectors, count, hidden).transposed());
    }

    /// Lends the scales by which the final norm divides the rows of `states`, `[tokens, hidden]`.
    pub(super) fn show_final_scales(&self, pass: &mut Pass<'_>, states: &[f32]) {
        let config = &self.parameters.config;
        let scale = |row: &[f32]| -> f32 {
            let centre = if config.norm == NormKind::Layer { row.iter().sum::<f32>() / row.len() as f32 } else { 0.0 };
            let squares: f32 = row.iter().map(|value| (value - centre).powi(2)).sum();
            (squares / row.len() as f32 + self.epsilon()).sqrt()
        };
        let scales: Vec<f32> = states.chunks_exact(config.hidden_size).map(scale).collect();
        for (sequence, span) in pass.batch.spans().enumerate() {
            pass.visitor.final_scales(sequence, &scales[span]);
        }
    }
}
