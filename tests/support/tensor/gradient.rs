//! Derivatives of a loss with respect to every gate, computed by candle.

use anyhow::{Context, Result, ensure};
use candle_core::{DType, Tensor, Var};

use super::{TensorEncoder, log_softmax};
use headscope::model::forward::batch::Batch;
use headscope::model::forward::gates::Gates;
use headscope::model::forward::gradient::GateGradient;
use headscope::model::forward::visitor::{Needs, Visitor};
use headscope::model::forward::{ForwardPass, PassStart, check_input};

impl TensorEncoder {
    /// The prediction loss of a batch and its gradient with respect to the gates. The gradient is taken at the shares
    /// and towards the replacements of `gates`.
    ///
    /// `targets` are the true classes at the batch's predicted positions, in order. The loss is the sum of `-ln p` over
    /// these positions, in nats.
    /// Fails as [`TensorEncoder::gate_gradient`] does. Also fails without a prediction head, or if the targets do not
    /// fit the positions and classes.
    pub fn prediction_gradient(&self, batch: &Batch<'_>, gates: &Gates, targets: &[u32]) -> Result<GateGradient> {
        let (positions, classes) = (batch.predicted_places().count(), self.classes()?);
        ensure!(positions == targets.len(), "{positions} positions are predicted, and {} classes given", targets.len());
        if let Some(id) = targets.iter().find(|&&id| id as usize >= classes) {
            anyhow::bail!("class {id} cannot be predicted: the model has {classes}");
        }
        self.gate_gradient(batch, gates, |states| self.surprise(states, batch, targets))
    }

    /// The sum of `-ln p` of the targets over the batch's predicted positions.
    /// `states` are the last hidden states, `[tokens, hidden]`.
    fn surprise(&self, states: &Tensor, batch: &Batch<'_>, targets: &[u32]) -> Result<Tensor> {
        let targets = Tensor::from_slice(targets, (targets.len(), 1), &self.device)?;
        let likelihood = log_softmax(&self.logits(states, batch)?)?.gather(&targets, 1)?;
        Ok(likelihood.sum_all()?.neg()?)
    }

    /// Any loss of the last hidden states, `[tokens, hidden]`, and its gradient with respect to the gates.
    /// The gradient is taken at the shares and towards the replacements of `gates`. A head without a gate is whole and
    /// goes towards zero.
    /// Fails if the batch or the gates do not fit the model. Also fails if `loss` fails or does not depend on the
    /// heads, or if a derivative is not finite.
    pub fn gate_gradient(
        &self,
        batch: &Batch<'_>,
        gates: &Gates,
        loss: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<GateGradient> {
        check_input(&self.config, PassStart::Embeddings, batch, gates)?;
        let (layers, heads) = (self.order.len(), self.config.num_attention_heads);
        let keep = |(layer, head)| gates.get(layer, head).map_or(1.0, |gate| gate.keep);
        let grid = (0..layers).flat_map(|layer| (0..heads).map(move |head| (layer, head)));
        let keeps = Tensor::from_vec(grid.map(keep).collect::<Vec<f32>>(), (layers, heads), &self.device)?;
        let keeps = Var::from_tensor(&keeps.to_dtype(self.precision)?)?;
        let mut pass = ForwardPass { batch, gates, needs: Needs::default(), visitor: &mut NoVisitor };
        let states = self.run(PassStart::Embeddings, &mut pass, Some(keeps.as_tensor()))?;
        let loss = loss(&states)?;
        let gradients = loss.backward()?;
        let gates = gradients.get(&keeps).context("the loss does not depend on the heads")?;
        let gates = gates.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
        ensure!(gates.iter().all(|value| value.is_finite()), "a derivative of the loss is not finite");
        Ok(GateGradient { loss: loss.to_dtype(DType::F64)?.to_scalar()?, gates })
    }
}

/// A visitor that needs nothing.
struct NoVisitor;

impl Visitor for NoVisitor {
    fn needs(&self) -> Needs {
        Needs::default()
    }
}
