//! The encoder on plain slices: one worker per core, no allocation once its buffers have grown. Matrix products (crate `gemm`)
//! run over all tokens of a batch. Attention runs over one sequence at a time, and is shown to the visitor while it is still in
//! the CPU cache.

mod backward;
mod direct;
mod heads;
mod mixing;
mod prediction;

use std::sync::{Arc, OnceLock};

use anyhow::{Result, ensure};

use super::batch::Batch;
use super::gates::Gates;
use super::gradient::Differentiable;
use super::held::{HeldOutputs, LayerOutputs};
use super::kernels::{self, add_to};
use super::relative::DistanceTerm;
use super::rows::Rows;
use super::visitor::{BlockOutput, Needs, Visitor};
use super::{Encoder, ForwardPass, HeadWeights, LayerAttention, PassStart, Positions, Scratch, WordEmbeddings};
use super::{HELD_PASS_NEEDS_ERROR, NO_PREDICTION_HEAD_ERROR, check_finite, check_input};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::config::cost::Cost;
use crate::model::config::{BlockPlan, Config, NormKind};
use crate::model::parameters::{Layer, Linear, Norm, Parameters};
use crate::system::parallel::{core_count, parallel_map};

/// The encoder that runs models: on plain slices, over sequences side by side.
pub struct PackedEncoder {
    /// Parameters of the model; weights of linear layers are transposed, `[inputs, outputs]`, so that products read them in
    /// order.
    parameters: Parameters,
    /// Score term for the distance between tokens, `[stored layers]`; layers that share weights are stored once. `None`
    /// for a layer without such a term.
    distance_terms: Vec<Option<DistanceTerm>>,
    /// `[head_dim]`: zeros, for queries and keys whose bias has already been added.
    zero_bias: Vec<f32>,
    /// For each stored layer, computed on first use: (`W_O W_Oᵀ` of each head, `[heads, head_dim, head_dim]`; its
    /// products with the value biases, `[heads * head_dim]`).
    output_grams: Vec<OnceLock<(Vec<f32>, Vec<f32>)>>,
}

impl PackedEncoder {
    pub fn new(mut parameters: Parameters) -> Self {
        parallel_map(core_count(), parameters.linear_layers(), |linear| {
            linear.weight = transpose(&linear.weight, linear.bias.len());
        });
        let relative = DistanceTerm::take_from_layers(&mut parameters);
        let output_grams = parameters.layers.iter().map(|_| OnceLock::new()).collect();
        let no_bias = vec![0.0; parameters.config.head_dim()];
        Self { parameters, distance_terms: relative, zero_bias: no_bias, output_grams }
    }

    pub fn config(&self) -> &Config {
        &self.parameters.config
    }

    /// Puts the sum of word, position and segment embeddings into `states`. The sum is normalised and projected in models that
    /// do so.
    fn embed(&self, batch: &Batch<'_>, Scratch { states, block_output: update, .. }: &mut Scratch) {
        let Parameters { config, embeddings, .. } = &self.parameters;
        let (tokens, width) = (batch.tokens(), config.embedding_width());
        let sum =
            resize_buffer(if embeddings.projection.is_some() { &mut *update } else { &mut *states }, tokens * width);
        let mut rows = sum.chunks_exact_mut(width);
        for input in &batch.inputs {
            let scale = config.embedding_scale.token_factor(input.ids);
            let tokens = input.ids.iter().zip(config.position_rows(input.ids)).zip(input.segments).zip(&mut rows);
            for (((&id, position), &segment), out) in tokens {
                let (factor, word) = (scale(id), row(&embeddings.words, id as usize, width));
                out.iter_mut().zip(word).for_each(|(out, value)| *out = factor * value);
                for (table, index) in [(&embeddings.positions, position), (&embeddings.segments, segment as usize)] {
                    table.iter().for_each(|table| add_to(out, row(table, index, width)));
                }
            }
        }
        if let Some(norm) = &embeddings.norm {
            self.normalise(sum, norm);
        }
        if let Some(projection) = &embeddings.projection {
            project(update, projection, config.hidden_size, states, tokens);
            add_bias(states, &projection.bias);
        }
    }

    /// Projects the hidden states to queries and keys of all heads; if `projections` is 3, also to values. Biases are added
    /// only to queries and keys that are normalised or rotated.
    fn project_heads(&self, number: usize, projections: usize, pass: &mut ForwardPass<'_>, scratch: &mut Scratch) {
        let Scratch { states, block_output: update, projected, angles, .. } = scratch;
        let (config, layer) = (&self.parameters.config, self.layer(number));
        let norm = layer.attention_norm.as_ref().filter(|_| config.blocks.is_pre_norm());
        let input = norm.map_or(&states[..], |norm| self.normalised(states, norm, update));
        pass.emit_attention_inputs(number, input, config.hidden_size);
        let outputs = projections * config.heads_width();
        project(input, &layer.query_key_value, outputs, projected, pass.batch.tokens());
        pass.emit_block_output(number, BlockOutput::Projected, projected);
        if layer.transforms_keys() {
            self.prepare_queries_keys(layer, (projected, outputs), pass.batch.lengths(), Positions::Used, angles);
        }
    }

    /// Adds biases to queries and keys, in rows of `width` values. Then normalises them, and rotates them by position.
    fn prepare_queries_keys(
        &self,
        layer: &Layer,
        (rows, width): (&mut [f32], usize),
        lengths: impl Iterator<Item = usize> + Clone,
        positions: Positions,
        angles: &mut Vec<f32>,
    ) {
        let config = &self.parameters.config;
        let (heads, head_dim) = (config.heads_width(), config.head_dim());
        let longest = lengths.clone().max().unwrap_or(0);
        let token_positions = lengths.flat_map(|length| 0..length);
        let rotary = layer.rotary.as_ref().filter(|_| positions == Positions::Used);
        let pairs = rotary.map_or(0, |rotary| rotary.frequencies.len());
        // [longest, 2, pairs]
        let angles = resize_buffer(angles, longest * 2 * pairs);
        if let Some(rotary) = rotary {
            for (position, angles) in angles.chunks_exact_mut(2 * pairs).enumerate() {
                let (cosines, sines) = angles.split_at_mut(pairs);
                for ((cosine, sine), angle) in cosines.iter_mut().zip(sines).zip(rotary.cosines_and_sines(position)) {
                    (*cosine, *sine) = angle;
                }
            }
        }
        for (row, position) in rows.chunks_exact_mut(width).zip(token_positions) {
            let row = &mut row[..2 * heads];
            add_to(row, &layer.query_key_value.bias);
            if let Some(norms) = &layer.query_key_norms {
                row.chunks_exact_mut(heads).zip(norms).for_each(|(part, norm)| self.normalise(part, norm));
            }
            if pairs > 0 {
                kernels::rotate(row, head_dim, &angles[position * 2 * pairs..][..2 * pairs]);
            }
        }
    }

    /// Passes the attention of all layers after `first` to the visitor, from the hidden states that entered `first`.
    /// Takes block outputs from an earlier pass, `writes`, except for the gated heads of `first`. Fails if the visitor
    /// needs more than attention.
    fn emit_held_attention(
        &self,
        first: usize,
        writes: &HeldOutputs,
        pass: &mut ForwardPass,
        scratch: &mut Scratch,
    ) -> Result<()> {
        ensure!(pass.needs == Needs::ATTENTION, HELD_PASS_NEEDS_ERROR);
        let (config, layers) = (&self.parameters.config, self.parameters.layer_indices.len());
        let (hidden, sizes) = (config.hidden_size, [config.head_dim(), config.heads_width()]);
        for (number, layer) in self.parameters.layers().enumerate().skip(first) {
            if number > first {
                self.project_heads(number, 2, pass, scratch);
                self.run_heads(number, pass, scratch)?;
            }
            if number + 1 == layers {
                break;
            }
            let LayerOutputs { contexts, attention, feed_forward, .. } = writes.get(number);
            let Scratch { states, context, block_output: update, .. } = &mut *scratch;
            if number == first {
                pass.gates.apply(number, pass.batch, copy_into(contexts, context), sizes);
                project(context, &layer.attention_output, hidden, update, pass.batch.tokens());
            } else {
                copy_into(attention, update);
            }
            self.add_attention(layer, update, states);
            self.add_feed_forward(layer, copy_into(feed_forward, update), states);
        }
        pass.end_sequences();
        Ok(())
    }

    /// Turns the hidden states before a layer, in `scratch.states`, into the hidden states after it. Reads the contexts of the
    /// layer's heads in `scratch.context`.
    fn feed_forward(&self, number: usize, layer: &Layer, pass: &mut ForwardPass<'_>, scratch: &mut Scratch) {
        let Scratch { states, context, block_output: update, feed_forward_states: wide, direct, .. } = scratch;
        let config = &self.parameters.config;
        let (hidden, plan, part) = (config.hidden_size, config.blocks, &layer.intermediate);
        let (tokens, width) = (states.len() / hidden, part.bias.len());
        pass.emit_block_output(number, BlockOutput::Contexts, context);
        project(context, &layer.attention_output, hidden, update, tokens);
        pass.emit_block_output(number, BlockOutput::Attention, update);
        if pass.needs.direct {
            self.emit_direct_effects(number, pass, (Some(context), update), direct);
        }
        // A parallel feed-forward block reads the states before attention is added.
        if plan == BlockPlan::Parallel {
            self.normalised(states, &layer.output_norm, context);
        }
        self.add_attention(layer, update, states);

        let input = match plan {
            BlockPlan::Post => &*states,
            BlockPlan::Pre => self.normalised(states, &layer.output_norm, context),
            BlockPlan::Parallel => &context[..states.len()],
        };
        project(input, part, width, wide, tokens);
        pass.emit_block_output(number, BlockOutput::ActivationInput, wide);
        kernels::activate(config.hidden_act, config.gated, wide, &part.bias);
        multiply(
            MatrixMut::new(resize_buffer(update, tokens * hidden), tokens, hidden),
            Matrix::with_row_stride(wide, tokens, config.intermediate_size, width),
            Matrix::new(&layer.output.weight, config.intermediate_size, hidden),
        );
        pass.emit_block_output(number, BlockOutput::FeedForward, update);
        if pass.needs.direct {
            self.emit_direct_effects(number, pass, (None, update), direct);
        }
        self.add_feed_forward(layer, update, states);
    }

    /// Adds `update`, the output of the attention block, and its bias to the hidden states.
    fn add_attention(&self, layer: &Layer, update: &mut [f32], states: &mut [f32]) {
        let update_norm = layer.block_output_norms.as_ref().map(|[attention_norm, _]| attention_norm);
        self.add_block_output(
            update,
            &layer.attention_output.bias,
            [update_norm, layer.attention_norm.as_ref()],
            states,
        );
    }

    /// Adds `update`, the output of the feed-forward block, and its bias to the hidden states.
    fn add_feed_forward(&self, layer: &Layer, update: &mut [f32], states: &mut [f32]) {
        let update_norm = layer.block_output_norms.as_ref().map(|[_, feed_forward_norm]| feed_forward_norm);
        self.add_block_output(update, &layer.output.bias, [update_norm, Some(&layer.output_norm)], states);
    }

    /// Adds `update`, the output of a block, and its bias to the hidden states. `update_norm` applies to the output
    /// with its bias; `sum_norm` applies to the sum in post-norm layers.
    fn add_block_output(
        &self,
        update: &mut [f32],
        bias: &[f32],
        [update_norm, sum_norm]: [Option<&Norm>; 2],
        states: &mut [f32],
    ) {
        if let Some(norm) = update_norm {
            add_bias(update, bias);
            self.normalise(update, norm);
            return add_to(states, update);
        }
        let sum_norm = sum_norm.filter(|_| !self.parameters.config.blocks.is_pre_norm());
        if let Some(norm) = sum_norm.filter(|_| self.parameters.config.norm == NormKind::Layer) {
            return kernels::add_norm(update, bias, states, &norm.weight, &norm.bias, self.epsilon());
        }
        kernels::add_biased(update, bias, states);
        if let Some(norm) = sum_norm {
            self.normalise(states, norm);
        }
    }

    /// Applies a norm to each row, in place.
    fn normalise(&self, rows: &mut [f32], Norm { weight, bias }: &Norm) {
        kernels::norm(self.parameters.config.norm, rows, weight, bias, self.epsilon());
    }

    /// Returns the normalised `states`, written into the buffer `into`.
    fn normalised<'a>(&self, states: &[f32], norm: &Norm, into: &'a mut Vec<f32>) -> &'a [f32] {
        let into = copy_into(states, into);
        self.normalise(into, norm);
        into
    }

    fn layer(&self, number: usize) -> &Layer {
        &self.parameters.layers[self.parameters.layer_indices[number]]
    }

    /// Returns the epsilon that norms add to the variance.
    #[expect(clippy::cast_possible_truncation, reason = "the smallest epsilon in use, 1e-12, is an f32")]
    fn epsilon(&self) -> f32 {
        self.parameters.config.layer_norm_eps as f32
    }
}

impl Encoder for PackedEncoder {
    fn cost(&self, lengths: &[usize]) -> Cost {
        self.parameters.config.pass_cost(lengths)
    }

    fn word_embeddings(&self) -> Option<WordEmbeddings> {
        let Parameters { embeddings, config, .. } = &self.parameters;
        Some(WordEmbeddings::new(Arc::clone(&embeddings.words), config.embedding_width()))
    }

    fn embedding_projection(&self) -> Option<Matrix<'_>> {
        let Parameters { embeddings, config, .. } = &self.parameters;
        let projection = embeddings.projection.as_ref()?;
        Some(Matrix::new(&projection.weight, config.embedding_width(), config.hidden_size))
    }

    fn has_direct_effects(&self) -> bool {
        self.parameters.direct_prediction_head().is_some()
    }

    fn differentiable(&self) -> Option<&dyn Differentiable> {
        Some(self)
    }

    fn head_weights(&self, layer: usize) -> Option<HeadWeights<'_>> {
        let (hidden, width) = (self.parameters.config.hidden_size, self.parameters.config.heads_width());
        let layer = self.parameters.layers().nth(layer)?;
        let weights = Matrix::new(&layer.query_key_value.weight, hidden, 3 * width);
        let [query, key, value] = [0, 1, 2].map(|part| weights.columns_from(part * width, width));
        let query_key = (!layer.transforms_keys()).then_some([query, key]);
        Some(HeadWeights { query_key, value, output: Matrix::new(&layer.attention_output.weight, width, hidden) })
    }

    fn layer_attention(&self, layer: usize, positions: Positions) -> Option<Box<dyn LayerAttention + '_>> {
        (layer < self.parameters.layer_indices.len()).then(|| self.attention_on_other_inputs(layer, positions))
    }

    fn forward_from(
        &self,
        start: PassStart<'_>,
        batch: &Batch<'_>,
        gates: &Gates,
        scratch: &mut Scratch,
        visitor: &mut dyn Visitor,
    ) -> Result<()> {
        let config = &self.parameters.config;
        let needs = visitor.needs();
        check_input(config, start, batch, gates)?;
        ensure!(!needs.logits || self.parameters.prediction.is_some(), NO_PREDICTION_HEAD_ERROR);
        if batch.inputs.is_empty() {
            return Ok(());
        }
        let mut pass = ForwardPass { batch, gates, needs, visitor };
        match start {
            PassStart::Embeddings => self.embed(batch, scratch),
            PassStart::Layer { states, .. } | PassStart::Held { states, .. } => {
                copy_into(states, &mut scratch.states);
            }
        }
        if let PassStart::Held { layer, writes, .. } = start {
            return self.emit_held_attention(layer, writes, &mut pass, scratch);
        }
        let (hidden, layers) = (config.hidden_size, self.parameters.layer_indices.len());
        if needs.includes_states_at(start.layer(), layers) {
            pass.emit_states(start.layer(), &scratch.states, hidden);
        }
        if needs.direct {
            self.begin_direct_effects(&mut pass, &scratch.states, &mut scratch.direct)?;
        }
        // Whether the residual stream keeps the predicted positions alone after the last layer's heads.
        let keeps_predicted_only =
            needs.includes_last_states() && !needs.includes_last_states_everywhere() && start.layer() < layers;
        for (number, layer) in self.parameters.layers().enumerate().skip(start.layer()) {
            // No attention reads the output of the last layer.
            let last = number + 1 == layers;
            let projections = if last && !needs.includes_more_than_attention() { 2 } else { 3 };
            self.project_heads(number, projections, &mut pass, scratch);
            self.run_heads(number, &mut pass, scratch)?;
            if needs.mixing {
                self.emit_mixing(number, &mut pass, scratch);
            }
            if last && keeps_predicted_only {
                let Scratch { states, context, block_output: update, .. } = &mut *scratch;
                for (rows, width) in [(states, hidden), (context, config.heads_width())] {
                    copy_predicted_rows(batch, width, rows, update);
                    std::mem::swap(rows, update);
                }
            }
            if !last || (needs.includes_last_states() && !scratch.states.is_empty()) {
                self.feed_forward(number, layer, &mut pass, scratch);
                if last && needs.direct {
                    self.emit_final_norm(&mut pass, &scratch.states, &scratch.direct);
                }
                if let Some(norm) = self.parameters.final_norm.as_ref().filter(|_| last) {
                    self.normalise(&mut scratch.states, norm);
                }
                if needs.includes_states_at(number + 1, layers) {
                    pass.emit_states(number + 1, &scratch.states, hidden);
                }
            }
        }
        if needs.includes_last_states() {
            check_finite(&scratch.states, layers)?;
        }
        if !keeps_predicted_only && (needs.logits || needs.predicted_states) {
            copy_predicted_rows(batch, hidden, &scratch.states, &mut scratch.block_output);
            std::mem::swap(&mut scratch.states, &mut scratch.block_output);
        }
        if needs.predicted_states && !scratch.states.is_empty() {
            pass.visitor.predicted_states(Rows::new(&scratch.states, hidden));
        }
        if needs.logits {
            self.emit_logits(&mut pass, scratch)?;
        }
        pass.end_sequences();
        Ok(())
    }
}

/// Copies the rows of the predicted positions, in order. After the heads of the last layer, no token reads another, so these
/// rows suffice.
fn copy_predicted_rows<'a>(batch: &Batch<'_>, width: usize, rows: &[f32], into: &'a mut Vec<f32>) -> &'a [f32] {
    into.clear();
    batch.predicted_places().for_each(|(_, _, row)| into.extend_from_slice(&rows[row * width..][..width]));
    into
}

fn add_bias(rows: &mut [f32], bias: &[f32]) {
    rows.chunks_exact_mut(bias.len()).for_each(|row| add_to(row, bias));
}

/// Returns row `index` of a table with rows of `width` values.
fn row(table: &[f32], index: usize, width: usize) -> &[f32] {
    &table[index * width..][..width]
}

fn resize_buffer(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    buffer.resize(length, 0.0);
    buffer
}

fn copy_into<'a>(values: &[f32], into: &'a mut Vec<f32>) -> &'a mut [f32] {
    into.clear();
    into.extend_from_slice(values);
    into
}

/// Returns the transpose, `[columns, rows]`, of `values`, `[rows, columns]`.
fn transpose(values: &[f32], rows: usize) -> Vec<f32> {
    /// Rows and columns of a block. Source and target of one block fit into the first-level cache together.
    const BLOCK_SIDE: usize = 32;
    let columns = values.len() / rows;
    let mut out = vec![0.0; values.len()];
    for row_block in (0..rows).step_by(BLOCK_SIDE) {
        for column_block in (0..columns).step_by(BLOCK_SIDE) {
            for column in column_block..columns.min(column_block + BLOCK_SIDE) {
                for row in row_block..rows.min(row_block + BLOCK_SIDE) {
                    out[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    out
}

/// Multiplies `states` by the first `outputs` columns of the weight. The bias is added later, by the step that reads the
/// result.
fn project(states: &[f32], linear: &Linear, outputs: usize, into: &mut Vec<f32>, tokens: usize) {
    let inputs = linear.weight.len() / linear.bias.len();
    multiply(
        MatrixMut::new(resize_buffer(into, tokens * outputs), tokens, outputs),
        Matrix::new(states, tokens, inputs),
        Matrix::with_row_stride(&linear.weight, inputs, outputs, linear.bias.len()),
    );
}

/// Backward pass of [`project`]: computes derivatives with respect to the inputs from derivatives with respect to the
/// first `outputs` outputs.
fn project_backward(derivatives: &[f32], linear: &Linear, outputs: usize, into: &mut Vec<f32>, tokens: usize) {
    let inputs = linear.weight.len() / linear.bias.len();
    multiply(
        MatrixMut::new(resize_buffer(into, tokens * inputs), tokens, inputs),
        Matrix::new(derivatives, tokens, outputs),
        Matrix::with_row_stride(&linear.weight, inputs, outputs, linear.bias.len()).transposed(),
    );
}
