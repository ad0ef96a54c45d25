//! The prediction head, applied at the predicted positions alone.

use anyhow::{Context, Result};

use super::{ForwardPass, PackedEncoder, Scratch, add_bias, copy_into, project, project_backward, resize_buffer};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::batch::Batch;
use crate::model::forward::gradient::ScoreFunction;
use crate::model::forward::kernels::{self, backward};
use crate::model::forward::{NO_PREDICTION_HEAD_ERROR, check_finite};
use crate::model::parameters::{PredictionHead, Transform};

/// Maximum number of logits in memory at a time: 16 MB, unless one position has more.
const MAX_LOGITS: usize = 1 << 22;

impl PackedEncoder {
    /// Returns (the prediction head, the vectors of its classes, `[classes, width]`). Fails if no prediction head was loaded.
    fn prediction_head(&self) -> Result<(&PredictionHead, Matrix<'_>)> {
        let head = self.parameters.prediction.as_ref().context(NO_PREDICTION_HEAD_ERROR)?;
        let width = head.transform.as_ref().map_or(self.parameters.config.hidden_size, |part| part.dense.bias.len());
        let vectors = head.decoder.as_ref().unwrap_or(&self.parameters.embeddings.words);
        Ok((head, Matrix::new(vectors, head.bias.len(), width)))
    }

    /// Computes the logits, `[rows, classes]`, of some rows of hidden states, with `transformed` as a buffer. Fails if a logit
    /// is not finite.
    fn compute_logits(&self, states: &[f32], transformed: &mut Vec<f32>, logits: &mut Vec<f32>) -> Result<()> {
        let (head, vectors) = self.prediction_head()?;
        let count = states.len() / self.parameters.config.hidden_size;
        let rows = match &head.transform {
            None => states,
            Some(Transform { dense, activation, norm }) => {
                project(states, dense, dense.bias.len(), transformed, count);
                kernels::activate(*activation, false, transformed, &dense.bias);
                if let Some(norm) = norm {
                    self.normalise(transformed, norm);
                }
                &**transformed
            }
        };
        let (classes, rows) = (vectors.rows(), Matrix::new(rows, count, vectors.columns()));
        let logits = resize_buffer(logits, count * classes);
        multiply(MatrixMut::new(logits, count, classes), rows, vectors.transposed());
        add_bias(logits, &head.bias);
        if let Some(cap) = head.cap {
            kernels::soft_cap(logits, cap);
        }
        check_finite(logits, self.parameters.layer_indices.len())
    }

    /// Passes the logits at the predicted positions to the visitor, from the hidden states in `scratch.states`.
    pub(super) fn emit_logits(&self, pass: &mut ForwardPass<'_>, scratch: &mut Scratch) -> Result<()> {
        let (classes, hidden) = (self.prediction_head()?.1.rows(), self.parameters.config.hidden_size);
        let Scratch { states, block_output: update, logits, .. } = scratch;
        let mut places = pass.batch.predicted_places();
        for states in states.chunks(hidden * (MAX_LOGITS / classes).max(1)) {
            self.compute_logits(states, update, logits)?;
            for (row, (sequence, position, _)) in logits.chunks_exact(classes).zip(&mut places) {
                pass.visitor.logits(sequence, position, row);
            }
        }
        Ok(())
    }

    /// Puts the derivatives of the score with respect to the hidden states at the predicted positions,
    /// `[positions, hidden]`, into `scratch.states`.
    pub(super) fn prediction_head_backward(
        &self,
        (batch, states): (&Batch<'_>, &[f32]),
        score: &mut ScoreFunction<'_>,
        Scratch {
            states: derivatives,
            context,
            block_output: update,
            feed_forward_states: wide,
            projected,
            logits,
            ..
        }: &mut Scratch,
    ) -> Result<()> {
        let (head, vectors) = self.prediction_head()?;
        let (classes, width, hidden) = (vectors.rows(), vectors.columns(), self.parameters.config.hidden_size);
        derivatives.clear();
        let mut places = batch.predicted_places();
        for states in states.chunks(hidden * (MAX_LOGITS / classes).max(1)) {
            let count = states.len() / hidden;
            self.compute_logits(states, update, logits)?;
            for (row, (sequence, position, _)) in logits.chunks_exact_mut(classes).zip(&mut places) {
                // The score overwrites the capped logits, which the cap's backward pass needs.
                let bounded = head.cap.map(|cap| (cap, row.to_vec()));
                score(sequence, position, row);
                if let Some((cap, bounded)) = bounded {
                    backward::soft_cap(&bounded, cap, row);
                }
            }
            let rows = resize_buffer(wide, count * width);
            multiply(MatrixMut::new(rows, count, width), Matrix::new(logits, count, classes), vectors);
            let Some(Transform { dense, activation, norm }) = &head.transform else {
                derivatives.extend_from_slice(rows);
                continue;
            };
            project(states, dense, width, update, count);
            if let Some(norm) = norm {
                let active = copy_into(update, projected);
                kernels::activate(*activation, false, active, &dense.bias);
                self.norm_backward(active, norm, rows);
            }
            backward::activate(*activation, false, update, &dense.bias, rows);
            project_backward(rows, dense, width, context, count);
            derivatives.extend_from_slice(context);
        }
        Ok(())
    }
}
