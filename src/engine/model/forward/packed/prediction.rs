//! The prediction head, at the predicted positions alone.

use anyhow::{Context, Result};

use super::{PackedEncoder, Pass, Scratch, activate, add_bias, project, sized};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::{NO_PREDICTION, check_finite};
use crate::model::parameters::Transform;

/// So many logits are in memory at a time, 16 MB of them: as many positions as they do for, one at least.
const MOST_LOGITS: usize = 1 << 22;

impl PackedEncoder {
    /// Lends the logits at the predicted positions, from the hidden states in `scratch.states`.
    pub(super) fn predict(&self, pass: &mut Pass<'_>, scratch: &mut Scratch) -> Result<()> {
        let head = self.parameters.prediction.as_ref().context(NO_PREDICTION)?;
        let (hidden, classes) = (self.parameters.config.hidden_size, head.bias.len());
        let width = head.transform.as_ref().map_or(hidden, |transform| transform.dense.bias.len());
        let vectors = head.decoder.as_ref().unwrap_or(&self.parameters.embeddings.words);
        let vectors = Matrix::new(vectors, classes, width).transposed();
        let Scratch { states, context, update, logits, .. } = scratch;
        let places: Vec<_> = pass.batch.predicted().collect();
        for places in places.chunks((MOST_LOGITS / classes).max(1)) {
            let count = places.len();
            let gathered = sized(context, count * hidden);
            for (row, &(_, _, place)) in gathered.chunks_exact_mut(hidden).zip(places) {
                row.copy_from_slice(&states[place * hidden..][..hidden]);
            }
            let rows = match &head.transform {
                None => &*gathered,
                Some(Transform { dense, activation, norm }) => {
                    project(gathered, dense, width, update, count);
                    activate(*activation, update, &dense.bias);
                    if let Some(norm) = norm {
                        self.normalise(update, norm);
                    }
                    &*update
                }
            };
            let logits = sized(logits, count * classes);
            multiply(MatrixMut::new(logits, count, classes), Matrix::new(rows, count, width), vectors);
            add_bias(logits, &head.bias);
            if let Some(cap) = head.cap {
                logits.iter_mut().for_each(|logit| *logit = cap * (*logit / cap).tanh());
            }
            check_finite(logits, self.parameters.order.len())?;
            for (row, &(sequence, position, _)) in logits.chunks_exact(classes).zip(places) {
                pass.visitor.logits(sequence, position, row);
            }
        }
        Ok(())
    }
}
