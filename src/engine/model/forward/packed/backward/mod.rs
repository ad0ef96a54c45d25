//! Backpropagation through the encoder over the batch, from the matrix products that the forward pass kept.
//!
//! Only values that depend on gates are differentiated. Everything between two products is recomputed, so that memory grows
//! with the number of tokens, not of token pairs. One backward pass gives the gradients of all sequences of a batch.

mod heads;

use std::num::NonZeroU16;

use anyhow::{Result, ensure};

use super::{PackedEncoder, add_to, copy_into, copy_predicted_rows, project_backward, resize_buffer};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::config::BlockPlan;
use crate::model::config::cost::Cost;
use crate::model::forward::batch::{Batch, group_by_tokens};
use crate::model::forward::gates::Gates;
use crate::model::forward::gradient::{
    Differentiable, GateGradient, GradientScratch, PathGradient, ScoreFunction, Tape,
};
use crate::model::forward::held::LayerOutputs;
use crate::model::forward::kernels::backward;
use crate::model::forward::visitor::{Needs, Visitor};
use crate::model::forward::{Encoder, NO_PREDICTION_HEAD_ERROR, PassStart};
use crate::model::parameters::Norm;

/// Maximum number of bytes that a forward pass keeps for derivatives. Larger batches are split, but single sequences are not.
const MAX_KEPT_BYTES: u64 = 1 << 28;

impl Differentiable for PackedEncoder {
    fn gradients(
        &self,
        batch: &Batch<'_>,
        gates: &Gates,
        score: &mut ScoreFunction<'_>,
        scratch: &mut GradientScratch,
    ) -> Result<Vec<GateGradient>> {
        ensure!(self.parameters.prediction.is_some(), NO_PREDICTION_HEAD_ERROR);
        let mut gradients = Vec::with_capacity(batch.inputs.len());
        let most_tokens = scratch.max_kept_bytes.unwrap_or(MAX_KEPT_BYTES) / self.parameters.config.derivative_bytes(1);
        let parts = group_by_tokens(usize::try_from(most_tokens).unwrap_or(usize::MAX), batch.lengths());
        // Patched rows and exchanges refer to sequences by their index in the whole batch.
        let can_split =
            parts.len() < 2 || !gates.has_patched_rows() && batch.inputs.iter().all(|input| input.exchange.is_none());
        ensure!(can_split, "a batch with patched rows or exchanges is too large for derivatives: take fewer sequences");
        for part in parts {
            let first = part.start;
            let part = Batch { inputs: batch.inputs[part].to_vec() };
            let mut score =
                |sequence: usize, position: usize, logits: &mut [f32]| score(first + sequence, position, logits);
            gradients.extend(self.gradients_of_part(&part, gates, &mut score, scratch)?);
        }
        let is_finite = gradients.iter().flat_map(|GateGradient { gates, .. }| gates).all(|value| value.is_finite());
        ensure!(is_finite, "a derivative of the loss is not finite");
        Ok(gradients)
    }

    fn path_gradients(
        &self,
        batch: &Batch<'_>,
        open_gates: &Gates,
        steps: NonZeroU16,
        score: &mut ScoreFunction<'_>,
        scratch: &mut GradientScratch,
    ) -> Result<Vec<PathGradient>> {
        let mut closed = ScoreSums { scores: vec![0.0; batch.inputs.len()], score, logits: Vec::new() };
        self.forward_from(
            PassStart::Embeddings,
            batch,
            &open_gates.with_open_gates_set_to(0.0),
            &mut scratch.forward,
            &mut closed,
        )?;
        let start = |closed_loss| PathGradient { steps, closed_loss, gates: Vec::new() };
        let mut paths: Vec<PathGradient> = closed.scores.into_iter().map(start).collect();
        for step in 0..steps.get() {
            let keep = (f32::from(step) + 0.5) / f32::from(steps.get());
            let points = self.gradients(batch, &open_gates.with_open_gates_set_to(keep), score, scratch)?;
            for (PathGradient { gates, .. }, point) in paths.iter_mut().zip(points) {
                gates.resize(point.gates.len(), 0.0);
                gates.iter_mut().zip(point.gates).for_each(|(sum, found)| *sum += found / f64::from(steps.get()));
            }
        }
        Ok(paths)
    }

    fn gradient_cost(&self, lengths: &[usize]) -> Cost {
        self.parameters.config.gradient_cost(lengths, MAX_KEPT_BYTES)
    }
}

/// The score of each sequence of a batch, summed over its predicted positions.
struct ScoreSums<'a, 'b> {
    scores: Vec<f64>,
    /// Function that returns a position's contribution to the score of its sequence.
    score: &'a mut ScoreFunction<'b>,
    /// A copy of the logits of one position, which `score` overwrites.
    logits: Vec<f32>,
}

impl Visitor for ScoreSums<'_, '_> {
    fn needs(&self) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]) {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.scores[sequence] += (self.score)(sequence, position, &mut self.logits);
    }
}

impl PackedEncoder {
    /// Computes the gradients of one part of a batch: sequences whose kept outputs fit into memory together.
    fn gradients_of_part(
        &self,
        batch: &Batch<'_>,
        gates: &Gates,
        score: &mut ScoreFunction<'_>,
        scratch: &mut GradientScratch,
    ) -> Result<Vec<GateGradient>> {
        let (layers, heads) = (self.parameters.layer_indices.len(), self.parameters.config.num_attention_heads);
        let Tape { states, predicted, .. } = &mut scratch.tape;
        states.iter_mut().chain([predicted]).for_each(Vec::clear);
        self.forward_from(PassStart::Embeddings, batch, gates, &mut scratch.forward, &mut scratch.tape)?;
        let mut gradients = vec![GateGradient { loss: 0.0, gates: vec![0.0; layers * heads] }; batch.inputs.len()];
        let mut add = |sequence: usize, position: usize, logits: &mut [f32]| {
            let loss = score(sequence, position, logits);
            gradients[sequence].loss += loss;
            loss
        };
        if scratch.tape.predicted.is_empty() {
            return Ok(gradients);
        }
        self.prediction_head_backward((batch, &scratch.tape.predicted), &mut add, &mut scratch.forward)?;
        for number in (0..layers).rev() {
            self.layer_backward(number, (batch, gates), scratch, &mut gradients);
        }
        Ok(gradients)
    }

    /// Computes the derivatives with respect to the gates of a layer. On entry, `scratch.forward.states` holds
    /// derivatives with respect to the hidden states after the layer; in the last layer, only at the predicted
    /// positions. On return, it holds derivatives with respect to the hidden states before the layer, except in the
    /// first layer.
    fn layer_backward(
        &self,
        number: usize,
        (batch, gates): (&Batch<'_>, &Gates),
        scratch: &mut GradientScratch,
        gradients: &mut [GateGradient],
    ) {
        let config = &self.parameters.config;
        let (hidden, plan) = (config.hidden_size, config.blocks);
        let layer = self.layer(number);
        let GradientScratch {
            forward,
            tape,
            mid_layer_states: attended,
            input_derivatives: inputs,
            entering_states: entering,
            queries_keys_values: prepared,
            head,
            ..
        } = scratch;
        let LayerOutputs { projected, attention, activation_input: kept_wide, feed_forward, .. } =
            tape.layers.get(number);
        let is_last = number + 1 == self.parameters.layer_indices.len();
        let below = &tape.states[number];
        let states = if is_last { copy_predicted_rows(batch, hidden, below, entering) } else { below };
        let derivatives = &mut forward.states;
        let tokens = states.len() / hidden;

        let (attended, update) = (copy_into(states, attended), copy_into(attention, &mut forward.block_output));
        self.add_attention(layer, update, attended);
        if let Some(norm) = self.parameters.final_norm.as_ref().filter(|_| is_last) {
            let last = copy_into(attended, inputs);
            update.copy_from_slice(feed_forward);
            self.add_feed_forward(layer, update, last);
            self.norm_backward(last, norm, derivatives);
        }

        update.copy_from_slice(feed_forward);
        let [attention_norm, feed_forward_norm] =
            layer.block_output_norms.as_ref().map_or([None; 2], |norms| norms.each_ref().map(Some));
        let norms = [feed_forward_norm, Some(&layer.output_norm)];
        self.block_output_backward(&layer.output.bias, norms, attended, [&mut *update, &mut *derivatives]);
        let (inner, width) = (config.intermediate_size, layer.intermediate.bias.len());
        let wide = resize_buffer(&mut forward.feed_forward_states, tokens * width);
        multiply(
            MatrixMut::with_row_stride(wide, tokens, inner, width),
            Matrix::new(update, tokens, hidden),
            Matrix::new(&layer.output.weight, inner, hidden).transposed(),
        );
        backward::activate(config.hidden_act, config.gated, kept_wide, &layer.intermediate.bias, wide);
        project_backward(wide, &layer.intermediate, width, inputs, tokens);
        match plan {
            BlockPlan::Post => {}
            BlockPlan::Pre => self.norm_backward(attended, &layer.output_norm, inputs),
            BlockPlan::Parallel => self.norm_backward(states, &layer.output_norm, inputs),
        }
        // A parallel feed-forward block reads the states below the layer.
        if plan != BlockPlan::Parallel {
            add_to(derivatives, inputs);
        }
        update.copy_from_slice(attention);
        let norms = [attention_norm, layer.attention_norm.as_ref()];
        self.block_output_backward(&layer.attention_output.bias, norms, states, [&mut *update, &mut *derivatives]);
        if plan == BlockPlan::Parallel {
            add_to(derivatives, inputs);
        }

        let heads_width = config.heads_width();
        project_backward(update, &layer.attention_output, hidden, &mut forward.context, tokens);
        if is_last {
            scatter_predicted_rows(batch, hidden, &mut forward.states, &mut forward.block_output);
            scatter_predicted_rows(batch, heads_width, &mut forward.context, &mut forward.block_output);
        }
        gates.exchange_contexts(number, batch, &mut forward.context, [config.head_dim(), heads_width]);
        self.heads_backward(number, (batch, gates), (projected, &mut *forward), (prepared, head), gradients);
        if number == 0 {
            return;
        }
        self.queries_keys_backward(layer, batch, projected, forward);
        project_backward(&forward.projected, &layer.query_key_value, 3 * heads_width, inputs, batch.tokens());
        if let Some(norm) = layer.attention_norm.as_ref().filter(|_| plan.is_pre_norm()) {
            self.norm_backward(below, norm, inputs);
        }
        add_to(&mut forward.states, inputs);
    }

    /// Backward pass of [`PackedEncoder::add_block_output`]. Turns `derivatives` into derivatives with respect to the
    /// residual stream, and writes those with respect to the added block output into `update`.
    fn block_output_backward(
        &self,
        bias: &[f32],
        norms: [Option<&Norm>; 2],
        below: &[f32],
        [update, derivatives]: [&mut [f32]; 2],
    ) {
        let [update_norm, sum_norm] = norms;
        let sum_norm = sum_norm.filter(|_| update_norm.is_none() && !self.parameters.config.blocks.is_pre_norm());
        for (row, below) in update.chunks_exact_mut(bias.len()).zip(below.chunks_exact(bias.len())) {
            add_to(row, bias);
            if sum_norm.is_some() {
                add_to(row, below);
            }
        }
        if let Some(norm) = sum_norm {
            self.norm_backward(update, norm, derivatives);
        }
        let rows = update_norm.map(|norm| (norm, update.to_vec()));
        update.copy_from_slice(derivatives);
        if let Some((norm, rows)) = rows {
            self.norm_backward(&rows, norm, update);
        }
    }

    /// Backward pass of a norm over `rows`, in place in `derivatives`.
    pub(super) fn norm_backward(&self, rows: &[f32], norm: &Norm, derivatives: &mut [f32]) {
        backward::norm(self.parameters.config.norm, rows, &norm.weight, self.epsilon(), derivatives);
    }
}

/// Backward pass of [`copy_predicted_rows`]: spreads rows of the predicted positions over the rows of all tokens, with 0
/// elsewhere.
fn scatter_predicted_rows(batch: &Batch<'_>, width: usize, rows: &mut Vec<f32>, buffer: &mut Vec<f32>) {
    buffer.clear();
    buffer.resize(batch.tokens() * width, 0.0);
    for (row, (_, _, place)) in rows.chunks_exact(width).zip(batch.predicted_places()) {
        add_to(&mut buffer[place * width..][..width], row);
    }
    std::mem::swap(rows, buffer);
}
