//! The prediction head, at the predicted positions alone.

use anyhow::{Context, Result};

use super::{PackedEncoder, Pass, Scratch, add_bias, project, project_back, sized};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::batch::Batch;
use crate::model::forward::gradient::Score;
use crate::model::forward::kernels::{self, backward};
use crate::model::forward::{NO_PREDICTION, check_finite};
use crate::model::parameters::{PredictionHead, Transform};

/// So many logits are in memory at a time, 16 MB of them: as many positions as they do for, one at least.
const MOST_LOGITS: usize = 1 << 22;

/// Positions whose logits are in memory together.
struct Predicted<'a> {
    /// The sequence, the position in it, and the row in the batch.
    places: &'a [(usize, usize, usize)],
    /// `[positions, hidden]`: the hidden states there.
    gathered: &'a mut Vec<f32>,
    /// `[positions, width]`: these after the layer before the classes' vectors, where the head has one.
    transformed: &'a mut Vec<f32>,
    /// `[positions, classes]`
    logits: &'a mut Vec<f32>,
}

impl PackedEncoder {
    /// The head that predicts, and the vectors of its classes, `[classes, width]`.
    fn prediction_head(&self) -> Result<(&PredictionHead, Matrix<'_>)> {
        let head = self.parameters.prediction.as_ref().context(NO_PREDICTION)?;
        let width = head.transform.as_ref().map_or(self.parameters.config.hidden_size, |part| part.dense.bias.len());
        let vectors = head.decoder.as_ref().unwrap_or(&self.parameters.embeddings.words);
        Ok((head, Matrix::new(vectors, head.bias.len(), width)))
    }

    /// Computes the logits at some positions, from the hidden states of the batch.
    /// Fails if they are not finite.
    fn logits(&self, states: &[f32], predicted: &mut Predicted<'_>) -> Result<()> {
        let (head, vectors) = self.prediction_head()?;
        let Predicted { places, gathered, transformed, logits } = predicted;
        let (hidden, count) = (self.parameters.config.hidden_size, places.len());
        let gathered = sized(gathered, count * hidden);
        for (row, &(_, _, place)) in gathered.chunks_exact_mut(hidden).zip(*places) {
            row.copy_from_slice(&states[place * hidden..][..hidden]);
        }
        let rows = match &head.transform {
            None => &*gathered,
            Some(Transform { dense, activation, norm }) => {
                project(gathered, dense, dense.bias.len(), transformed, count);
                kernels::activate(*activation, transformed, &dense.bias);
                if let Some(norm) = norm {
                    self.normalise(transformed, norm);
                }
                &**transformed
            }
        };
        let (classes, width) = (vectors.rows(), vectors.columns());
        let logits = sized(logits, count * classes);
        multiply(MatrixMut::new(logits, count, classes), Matrix::new(rows, count, width), vectors.transposed());
        add_bias(logits, &head.bias);
        if let Some(cap) = head.cap {
            kernels::cap(logits, cap);
        }
        check_finite(logits, self.parameters.order.len())
    }

    /// Lends the logits at the predicted positions, from the hidden states in `scratch.states`.
    pub(super) fn predict(&self, pass: &mut Pass<'_>, scratch: &mut Scratch) -> Result<()> {
        let classes = self.prediction_head()?.1.rows();
        let Scratch { states, context, update, logits, .. } = scratch;
        let places: Vec<_> = pass.batch.predicted().collect();
        for places in places.chunks((MOST_LOGITS / classes).max(1)) {
            self.logits(states, &mut Predicted { places, gathered: context, transformed: update, logits })?;
            for (row, &(sequence, position, _)) in logits.chunks_exact(classes).zip(places) {
                pass.visitor.logits(sequence, position, row);
            }
        }
        Ok(())
    }

    /// The derivatives of a score by the hidden states of the batch, `[tokens, hidden]`, into `scratch.states`. `score` is shown the
    /// logits at each predicted position.
    pub(super) fn score_back(
        &self,
        batch: &Batch<'_>,
        states: &[f32],
        score: &mut Score<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (head, vectors) = self.prediction_head()?;
        let (classes, width, hidden) = (vectors.rows(), vectors.columns(), self.parameters.config.hidden_size);
        let Scratch { states: derivatives, context, update, wide, projected, logits, .. } = scratch;
        let derivatives = sized(derivatives, states.len());
        derivatives.fill(0.0);
        let places: Vec<_> = batch.predicted().collect();
        for places in places.chunks((MOST_LOGITS / classes).max(1)) {
            let count = places.len();
            self.logits(states, &mut Predicted { places, gathered: context, transformed: update, logits })?;
            for (row, &(sequence, position, _)) in logits.chunks_exact_mut(classes).zip(places) {
                // The place of what was bounded is needed after the score has put its derivatives there.
                let bounded = head.cap.map(|cap| (cap, row.to_vec()));
                score(sequence, position, row);
                if let Some((cap, bounded)) = bounded {
                    backward::cap(&bounded, cap, row);
                }
            }
            let rows = sized(wide, count * width);
            multiply(MatrixMut::new(rows, count, width), Matrix::new(logits, count, classes), vectors);
            if let Some(Transform { dense, activation, norm }) = &head.transform {
                project(context, dense, width, update, count);
                if let Some(norm) = norm {
                    let active = sized(projected, update.len());
                    active.copy_from_slice(update);
                    kernels::activate(*activation, active, &dense.bias);
                    self.norm_back(active, norm, rows);
                }
                backward::activate(*activation, update, &dense.bias, rows);
                project_back(rows, dense, width, context, count);
            } else {
                sized(context, rows.len()).copy_from_slice(rows);
            }
            for (row, &(_, _, place)) in context.chunks_exact(hidden).zip(places) {
                derivatives[place * hidden..][..hidden].iter_mut().zip(row).for_each(|(sum, more)| *sum += more);
            }
        }
        Ok(())
    }
}
