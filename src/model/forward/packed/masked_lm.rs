//! The masked-LM head, at the predicted positions alone.

use anyhow::{Context, Result};

use super::{PackedEncoder, Pass, Scratch, activate, add_bias, project, sized};
use crate::model::forward::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::{NO_MASKED_LM, check_finite, kernels};

/// So many logits are in memory at a time, 16 MB of them: as many positions as they do for, one at least.
const MOST_LOGITS: usize = 1 << 22;

impl PackedEncoder {
    /// Lends the logits at the predicted positions, from the hidden states in `scratch.states`.
    pub(super) fn predict(&self, pass: &mut Pass<'_>, scratch: &mut Scratch) -> Result<()> {
        let head = self.parameters.masked_lm.as_ref().context(NO_MASKED_LM)?;
        let (hidden, vocabulary) = (self.parameters.config.hidden_size, head.bias.len());
        let width = head.dense.bias.len();
        let embeddings = head.decoder.as_ref().unwrap_or(&self.parameters.embeddings.words);
        let embeddings = Matrix::new(embeddings, vocabulary, width).transposed();
        let Scratch { states, context, update, logits, .. } = scratch;
        let places: Vec<_> = pass.batch.predicted().collect();
        for places in places.chunks((MOST_LOGITS / vocabulary).max(1)) {
            let count = places.len();
            let gathered = sized(context, count * hidden);
            for (row, &(_, _, place)) in gathered.chunks_exact_mut(hidden).zip(places) {
                row.copy_from_slice(&states[place * hidden..][..hidden]);
            }
            project(gathered, &head.dense, width, update, count);
            activate(head.activation, update, &head.dense.bias);
            kernels::norm(update, &head.norm.weight, &head.norm.bias, self.epsilon());
            let logits = sized(logits, count * vocabulary);
            multiply(MatrixMut::new(logits, count, vocabulary), Matrix::new(update, count, width), embeddings);
            add_bias(logits, &head.bias);
            check_finite(logits, self.parameters.order.len())?;
            for (row, &(sequence, position, _)) in logits.chunks_exact(vocabulary).zip(places) {
                pass.visitor.logits(sequence, position, row);
            }
        }
        Ok(())
    }
}
