//! The encoder in candle tensors, the oracle for the packed encoder. It is short enough to check by eye, and candle
//! differentiates it.
//!
//! Softmax and layer normalisation consist of plain tensor operations. candle's fused operations have no derivative and
//! lose the gradient without an error.

mod gradient;
mod heads;
mod linear;
mod mixing;
mod parts;

use anyhow::{Context, Result, ensure};
use candle_core::{D, DType, Device, Module, Tensor};

use headscope::model::config::{Activation, BlockPlan, Config};
use headscope::model::forward::batch::{Batch, BatchInput};
use headscope::model::forward::gates::Gates;
use headscope::model::forward::visitor::{BlockOutput, Needs, Visitor};
use headscope::model::forward::{
    Encoder, ForwardPass, HELD_PASS_NEEDS_ERROR, NO_DIRECT_EFFECTS_ERROR, NO_PREDICTION_HEAD_ERROR, PassStart, Scratch,
    check_finite, check_input, kernels,
};
use headscope::model::parameters::{self, Parameters};
use linear::LinearLayer;
use parts::{Layer, Loader, Norm, PredictionHead, Transform};

/// The tensor encoder.
pub struct TensorEncoder {
    pub(super) device: Device,
    pub(super) precision: DType,
    pub(super) config: Config,
    words: Tensor,
    positions: Option<Tensor>,
    segments: Option<Tensor>,
    norm: Option<Norm>,
    projection: Option<LinearLayer>,
    layers: Vec<Layer>,
    /// For each layer of the model, its index in `layers`.
    pub(super) order: Vec<usize>,
    final_norm: Option<Norm>,
    prediction: Option<PredictionHead>,
}

impl TensorEncoder {
    /// A float32 encoder with a copy of the parameters on `device`.
    /// Fails if the device has no room for the copy.
    pub fn new(parameters: &Parameters, device: &Device) -> Result<Self> {
        Self::with_precision(parameters, device, DType::F32)
    }

    /// As [`TensorEncoder::new`], in another floating-point type. float64 keeps rounding out of comparisons.
    /// Fails if the device has no room for the parameters or cannot compute in this type.
    pub fn with_precision(parameters: &Parameters, device: &Device, precision: DType) -> Result<Self> {
        let Parameters { config, embeddings, layers, layer_indices: order, final_norm, prediction } = parameters;
        let loader = Loader { device, precision, norms: (config.norm, config.layer_norm_eps) };
        let width = config.embedding_width();
        let words = loader.table(&embeddings.words, width)?;
        let table = |values: &Option<Vec<f32>>| values.as_ref().map(|values| loader.table(values, width)).transpose();
        let norm = |part: &Option<parameters::Norm>| part.as_ref().map(|part| loader.norm(part)).transpose();
        Ok(Self {
            device: device.clone(),
            precision,
            config: config.clone(),
            positions: table(&embeddings.positions)?,
            segments: table(&embeddings.segments)?,
            norm: norm(&embeddings.norm)?,
            projection: embeddings.projection.as_ref().map(|part| loader.linear(part)).transpose()?,
            layers: layers.iter().map(|part| loader.layer(part, config.head_dim())).collect::<Result<_>>()?,
            order: order.clone(),
            final_norm: norm(final_norm)?,
            prediction: prediction.as_ref().map(|head| loader.prediction(head, &words)).transpose()?,
            words,
        })
    }

    /// The rows of a table at these indices.
    fn rows(&self, table: &Tensor, indices: Vec<u32>) -> candle_core::Result<Tensor> {
        let count = indices.len();
        table.index_select(&Tensor::from_vec(indices, count, &self.device)?, 0)
    }

    /// The sum of word, position and segment embeddings, `[tokens, hidden]`. The sum is normalised and projected if the
    /// model does so.
    fn embed(&self, batch: &Batch<'_>) -> Result<Tensor> {
        let (mut ids, mut positions, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        for input in &batch.inputs {
            ids.extend_from_slice(input.ids);
            for row in self.config.position_rows(input.ids) {
                positions.push(u32::try_from(row)?);
            }
            segments.extend_from_slice(input.segments);
        }
        let scale = |input: &BatchInput<'_>| -> Vec<f32> {
            let factor = self.config.embedding_scale.token_factor(input.ids);
            input.ids.iter().map(|&id| factor(id)).collect()
        };
        let factors: Vec<f32> = batch.inputs.iter().flat_map(scale).collect();
        let factors = Tensor::from_slice(&factors, (factors.len(), 1), &self.device)?.to_dtype(self.precision)?;
        let mut sum = self.rows(&self.words, ids)?.broadcast_mul(&factors)?;
        for (table, indices) in [(&self.positions, positions), (&self.segments, segments)] {
            if let Some(table) = table {
                sum = (sum + self.rows(table, indices)?)?;
            }
        }
        if let Some(norm) = &self.norm {
            sum = norm.forward(&sum)?;
        }
        Ok(match &self.projection {
            Some(projection) => projection.forward(&sum)?,
            None => sum,
        })
    }

    /// Runs the layers and returns the last hidden states, `[tokens, hidden]`.
    ///
    /// `keeps`, `[layers, heads]`, are the kept shares of the heads. Without `keeps`, the gates give the shares.
    pub(super) fn run(
        &self,
        start: PassStart<'_>,
        pass: &mut ForwardPass<'_>,
        keeps: Option<&Tensor>,
    ) -> Result<Tensor> {
        let hidden = self.config.hidden_size;
        let mut states = match start {
            PassStart::Embeddings => self.embed(pass.batch)?,
            PassStart::Layer { states, .. } | PassStart::Held { states, .. } => {
                Tensor::from_slice(states, (pass.batch.tokens(), hidden), &self.device)?.to_dtype(self.precision)?
            }
        };
        self.show_states(pass, start.layer(), &states)?;
        let tokens = pass.batch.tokens();
        let kept = |values: &[f32]| -> Result<Tensor> {
            Ok(Tensor::from_slice(values, (tokens, hidden), &self.device)?.to_dtype(self.precision)?)
        };
        let held = match start {
            PassStart::Held { writes, .. } => Some(writes),
            PassStart::Embeddings | PassStart::Layer { .. } => None,
        };
        for number in start.layer()..self.order.len() {
            let layer = &self.layers[self.order[number]];
            // The layer normalisation of a block comes before the block, or after its sum with the residual stream.
            let pre_norm = self.config.blocks.is_pre_norm();
            let apply = |norm: Option<&Norm>, states: &Tensor, now: bool| match norm.filter(|_| now) {
                Some(norm) => norm.forward(states),
                None => Ok(states.clone()),
            };
            let before = |norm, states: &Tensor| apply(norm, states, pre_norm);
            let after = |norm, states: &Tensor| apply(norm, states, !pre_norm);
            let norms = [layer.attention_norm.as_ref(), Some(&layer.output_norm)];
            let needs = pass.needs;
            // The layer of the removed heads runs once more, unseen, for its output without these heads.
            let is_source = held.is_some() && number == start.layer();
            if is_source {
                pass.needs = Needs::default();
            }
            let input = before(norms[0], &states)?;
            if pass.needs.attention_inputs {
                pass.emit_attention_inputs(number, &flat(&input)?, hidden);
            }
            let context = self.attend(number, (&states, &input), pass, keeps)?;
            pass.needs = needs;
            if held.is_some() && number + 1 == self.order.len() {
                break;
            }
            let held = held.map(|writes| writes.get(number));
            let writes = layer.write_norms.as_ref().map_or([None; 2], |[first, second]| [Some(first), Some(second)]);
            let written = match held.filter(|_| !is_source) {
                Some(held) => kept(&held.attention)?,
                None => apply(writes[0], &layer.attention_output.forward(&context)?, true)?,
            };
            show_block_output(pass, number, BlockOutput::Contexts, &context)?;
            show_block_output(pass, number, BlockOutput::Attention, &written)?;
            let attended = after(norms[0], &(written + &states)?)?;
            let input = if self.config.blocks == BlockPlan::Parallel { &states } else { &attended };
            let written = match held {
                Some(held) => kept(&held.feed_forward)?,
                None => apply(writes[1], &self.feed_forward(layer, &before(norms[1], input)?)?, true)?,
            };
            show_block_output(pass, number, BlockOutput::FeedForward, &written)?;
            states = after(norms[1], &(written + &attended)?)?;
            if let Some(norm) = self.final_norm.as_ref().filter(|_| number + 1 == self.order.len()) {
                states = norm.forward(&states)?;
            }
            self.show_states(pass, number + 1, &states)?;
        }
        check_finite(&flat(&states)?, self.order.len())?;
        Ok(states)
    }

    /// The feed-forward block of a layer. Input and output are `[tokens, hidden]`.
    fn feed_forward(&self, layer: &Layer, input: &Tensor) -> Result<Tensor> {
        let wide = layer.intermediate.forward(input)?;
        let active = if self.config.gated {
            let half = self.config.intermediate_size;
            (activate(self.config.hidden_act, &wide.narrow(1, 0, half)?)? * wide.narrow(1, half, half)?)?
        } else {
            activate(self.config.hidden_act, &wide)?
        };
        Ok(layer.output.forward(&active)?)
    }

    fn show_states(&self, pass: &mut ForwardPass<'_>, layer: usize, states: &Tensor) -> Result<()> {
        if pass.needs.includes_states_at(layer, self.order.len()) {
            pass.emit_states(layer, &flat(states)?, self.config.hidden_size);
        }
        Ok(())
    }

    /// The number of classes that the prediction head distinguishes.
    pub(super) fn classes(&self) -> Result<usize> {
        Ok(self.prediction.as_ref().context(NO_PREDICTION_HEAD_ERROR)?.classes)
    }

    /// The logits at the predicted positions, `[positions, classes]`, from hidden states `[tokens, hidden]`.
    pub(super) fn logits(&self, states: &Tensor, batch: &Batch<'_>) -> Result<Tensor> {
        let head = self.prediction.as_ref().context(NO_PREDICTION_HEAD_ERROR)?;
        let rows = batch.predicted_places().map(|(_, _, row)| Ok(u32::try_from(row)?)).collect::<Result<Vec<_>>>()?;
        ensure!(!rows.is_empty(), "logits are needed, but the batch names no position");
        let mut rows = self.rows(states, rows)?;
        if let Some(Transform { dense, activation, norm }) = &head.transform {
            rows = activate(*activation, &dense.forward(&rows)?)?;
            if let Some(norm) = norm {
                rows = norm.forward(&rows)?;
            }
        }
        let logits = head.decoder.forward(&rows)?;
        Ok(match head.cap {
            None => logits,
            Some(cap) => ((logits / cap)?.tanh()? * cap)?,
        })
    }
}

impl Encoder for TensorEncoder {
    fn forward_from(
        &self,
        start: PassStart<'_>,
        batch: &Batch<'_>,
        gates: &Gates,
        _: &mut Scratch,
        visitor: &mut dyn Visitor,
    ) -> Result<()> {
        let needs = visitor.needs();
        check_input(&self.config, start, batch, gates)?;
        ensure!(!needs.logits || self.prediction.is_some(), NO_PREDICTION_HEAD_ERROR);
        ensure!(!needs.direct, NO_DIRECT_EFFECTS_ERROR);
        if batch.inputs.is_empty() {
            return Ok(());
        }
        if matches!(start, PassStart::Held { .. }) {
            ensure!(needs == Needs::ATTENTION, HELD_PASS_NEEDS_ERROR);
        }
        let mut pass = ForwardPass { batch, gates, needs, visitor };
        let states = self.run(start, &mut pass, None)?;
        if needs.logits && batch.predicted_places().next().is_some() {
            let logits = self.logits(&states, batch)?;
            let classes = logits.dim(1)?;
            for (row, (sequence, position, _)) in flat(&logits)?.chunks_exact(classes).zip(batch.predicted_places()) {
                pass.visitor.logits(sequence, position, row);
            }
        }
        pass.end_sequences();
        Ok(())
    }
}

fn show_block_output(pass: &mut ForwardPass<'_>, layer: usize, part: BlockOutput, values: &Tensor) -> Result<()> {
    if pass.needs.writes {
        pass.emit_block_output(layer, part, &flat(values)?);
    }
    Ok(())
}

fn activate(activation: Activation, states: &Tensor) -> candle_core::Result<Tensor> {
    match activation {
        Activation::Gelu => states.gelu_erf(),
        Activation::GeluTanh => states.gelu(),
        Activation::Relu => states.relu(),
        Activation::Silu => states.silu(),
        Activation::Tanh => states.tanh(),
        Activation::QuickGelu => {
            let factor = f64::from(kernels::QUICK_GELU_FACTOR);
            (states * factor)?.silu()? / factor
        }
    }
}

/// Softmax over the last dimension.
fn softmax(scores: &Tensor) -> candle_core::Result<Tensor> {
    let powers = below_largest(scores)?.exp()?;
    powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)
}

/// Logarithm of the softmax over the last dimension.
pub(super) fn log_softmax(scores: &Tensor) -> candle_core::Result<Tensor> {
    let scores = below_largest(scores)?;
    scores.broadcast_sub(&scores.exp()?.sum_keepdim(D::Minus1)?.log()?)
}

/// The scores minus the largest score of each row, so that no exponential overflows.
fn below_largest(scores: &Tensor) -> candle_core::Result<Tensor> {
    scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)
}

/// All values in float32, as the visitor sees them.
fn flat(tensor: &Tensor) -> candle_core::Result<Vec<f32>> {
    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}
