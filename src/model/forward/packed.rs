//! The encoder over slices: whole sentences side by side, one worker per core, nothing allocated once warm.
//!
//! The matrix products are the `gemm` crate's, over all tokens of a pack; attention is computed for one sentence
//! and head at a time, and looked at while it is in cache.

use anyhow::{Context, Result};

use super::kernels;
use super::matmul::{Matrix, MatrixMut, multiply, multiply_add};
use super::relative::{Relative, Scores};
use super::{Encoder, Scratch, Visitor, check_finite, check_indices};
use crate::model::config::Activation;
use crate::model::forward::attention::AttentionView;
use crate::model::parameters::{Linear, Parameters};
use crate::sequences::pack::Pack;
use crate::system::lanes::LANES;
use crate::system::parallel::{all_cores, in_parallel};

/// The fast encoder.
pub struct PackedEncoder {
    /// The weights of linear layers are transposed, `[inputs, outputs]`: then the product reads them in order.
    parameters: Parameters,
    /// What scores depend on beside queries and keys.
    relative: Option<Relative>,
}

impl PackedEncoder {
    /// An encoder over `parameters`.
    #[must_use]
    pub fn new(mut parameters: Parameters) -> Self {
        in_parallel(all_cores(), parameters.linear_layers(), |linear| {
            linear.weight = transposed(&linear.weight, linear.bias.len());
        });
        let relative = Relative::take(&mut parameters);
        Self { parameters, relative }
    }

    /// Word, position and segment embeddings, summed, normalised and as wide as the hidden states, into
    /// `scratch.states`.
    #[expect(clippy::cast_possible_truncation, reason = "the smallest epsilon in use, 1e-12, is an f32")]
    fn embed(&self, pack: &Pack, scratch: &mut Scratch) -> Result<()> {
        let Parameters { config, embeddings, .. } = &self.parameters;
        check_indices(pack, config)?;
        let (tokens, width) = (pack.tokens(), config.embedding_width());
        let Scratch { states, update, .. } = scratch;
        let sum = sized(if embeddings.projection.is_some() { &mut *update } else { &mut *states }, tokens * width);
        let mut rows = sum.chunks_exact_mut(width);
        for sentence in &pack.sentences {
            let segments = &sentence.segments;
            for ((&id, position), &segment) in
                sentence.ids.iter().zip(config.position_rows(&sentence.ids)).zip(segments)
            {
                let out = rows.next().expect("a row for each token");
                out.copy_from_slice(row(&embeddings.words, id as usize, width));
                let others = [(&embeddings.positions, position), (&embeddings.segments, segment as usize)];
                for (table, index) in others {
                    let Some(table) = table else { continue };
                    out.iter_mut().zip(row(table, index, width)).for_each(|(out, value)| *out += value);
                }
            }
        }
        let norm = &embeddings.norm;
        kernels::norm(sum, &norm.weight, &norm.bias, config.layer_norm_eps as f32);
        if let Some(projection) = &embeddings.projection {
            let hidden = config.hidden_size;
            project(update, projection, hidden, states, tokens);
            for row in states.chunks_exact_mut(hidden) {
                row.iter_mut().zip(&projection.bias).for_each(|(state, bias)| *state += bias);
            }
        }
        Ok(())
    }

    /// Self-attention of all sentences of the pack: queries, keys and values from `scratch.projected`, without their
    /// biases yet; what the heads write into `scratch.context`, if there are values.
    fn attend(&self, number: usize, pack: &Pack, scratch: &mut Scratch, visitor: &mut dyn Visitor) -> Result<()> {
        let config = &self.parameters.config;
        let (hidden, head_dim) = (config.hidden_size, config.head_dim());
        let place = self.parameters.order[number];
        let bias = &self.parameters.layers[place].query_key_value.bias;
        let Scratch { projected, context, query, key, distances, attention, entropies, .. } = scratch;
        let width = projected.len() / pack.tokens();
        let has_values = width == 3 * hidden;
        if has_values {
            // A row's weights sum to 1, so the values' bias comes out of the product unchanged.
            let context = sized(context, pack.tokens() * hidden);
            context.chunks_exact_mut(hidden).for_each(|row| row.copy_from_slice(&bias[2 * hidden..]));
        }
        #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
        let scale = (1.0 / (head_dim as f64).sqrt()) as f32;
        for (sentence, span) in pack.spans().enumerate() {
            let n = span.len();
            // Whole vectors: the softmax has no remainder to see to.
            let stride = n.next_multiple_of(LANES);
            let rows = &projected[span.start * width..span.end * width];
            let query = sized(query, n * head_dim);
            let attention = sized(attention, n * stride);
            let entropies = sized(entropies, n);
            for head in 0..config.num_attention_heads {
                let [q, k, v] = [0, 1, 2].map(|which| which * hidden + head * head_dim);
                // Queries scaled beforehand. The keys' bias would add the same to all scores of a query, which the
                // softmax takes away again.
                kernels::bias_scale(&rows[q..], width, &bias[q..][..head_dim], scale, query);
                let query = Matrix::new(query, n, head_dim);
                let keys = Matrix::strided(&rows[k..], n, head_dim, width);
                multiply(MatrixMut::strided(attention, n, n, stride), query, keys.transposed());
                if let Some(relative) = &self.relative {
                    let scores = Scores { values: attention, n, stride, scale };
                    let key = sized(key, n * head_dim);
                    kernels::bias_scale(&rows[k..], width, &bias[k..][..head_dim], 1.0, key);
                    relative.add(place, head, scores, query, Matrix::new(key, n, head_dim), distances);
                }
                kernels::softmax(attention, n, stride, entropies);
                check_finite(entropies, number)
                    .with_context(|| format!("sentence {}", pack.sentences[sentence].index))?;
                visitor.attention(sentence, AttentionView::strided(number, head, stride, attention, entropies));
                if has_values {
                    multiply_add(
                        MatrixMut::strided(&mut context[span.start * hidden + head * head_dim..], n, head_dim, hidden),
                        Matrix::strided(attention, n, n, stride),
                        Matrix::strided(&rows[v..], n, head_dim, width),
                    );
                }
            }
        }
        Ok(())
    }

    fn activate(&self, wide: &mut [f32], bias: &[f32]) {
        match self.parameters.config.hidden_act {
            Activation::Gelu => kernels::bias_gelu(wide, bias),
            Activation::GeluTanh => kernels::bias_gelu_tanh(wide, bias),
            Activation::Relu => kernels::bias_relu(wide, bias),
            Activation::Silu => kernels::bias_silu(wide, bias),
        }
    }
}

impl Encoder for PackedEncoder {
    #[expect(clippy::cast_possible_truncation, reason = "the smallest epsilon in use, 1e-12, is an f32")]
    fn forward(&self, pack: &Pack, scratch: &mut Scratch, visitor: &mut dyn Visitor) -> Result<()> {
        let config = &self.parameters.config;
        let (tokens, hidden) = (pack.tokens(), config.hidden_size);
        let epsilon = config.layer_norm_eps as f32;
        self.embed(pack, scratch)?;
        show(&scratch.states, 0, visitor);
        for (number, layer) in self.parameters.layers().enumerate() {
            // No attention depends on what the last layer writes.
            let writes = number + 1 < self.parameters.order.len() || visitor.wants_hidden_states();
            let projections = if writes { 3 } else { 2 };
            project(&scratch.states, &layer.query_key_value, projections * hidden, &mut scratch.projected, tokens);
            self.attend(number, pack, scratch, visitor)?;
            if !writes {
                return Ok(());
            }

            let (part, norm) = (&layer.attention_output, &layer.attention_norm);
            project(&scratch.context, part, hidden, &mut scratch.update, tokens);
            kernels::add_norm(&scratch.update, &part.bias, &mut scratch.states, &norm.weight, &norm.bias, epsilon);

            let part = &layer.intermediate;
            project(&scratch.states, part, part.bias.len(), &mut scratch.wide, tokens);
            self.activate(&mut scratch.wide, &part.bias);
            let (part, norm) = (&layer.output, &layer.output_norm);
            project(&scratch.wide, part, hidden, &mut scratch.update, tokens);
            kernels::add_norm(&scratch.update, &part.bias, &mut scratch.states, &norm.weight, &norm.bias, epsilon);
            show(&scratch.states, number + 1, visitor);
        }
        check_finite(&scratch.states, self.parameters.order.len())
    }
}

/// A row of an embedding.
fn row(table: &[f32], index: usize, hidden: usize) -> &[f32] {
    &table[index * hidden..][..hidden]
}

/// The first `length` values of a buffer, which grows if it must.
fn sized(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    buffer.resize(length, 0.0);
    buffer
}

/// `[rows, columns]` as `[columns, rows]`.
fn transposed(values: &[f32], rows: usize) -> Vec<f32> {
    /// The rows of a block and its columns fit into the first-level cache together.
    const BLOCK: usize = 32;
    let columns = values.len() / rows;
    let mut out = vec![0.0; values.len()];
    for row_block in (0..rows).step_by(BLOCK) {
        for column_block in (0..columns).step_by(BLOCK) {
            for column in column_block..columns.min(column_block + BLOCK) {
                for row in row_block..rows.min(row_block + BLOCK) {
                    out[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    out
}

/// `states` times the first `outputs` columns of the weight; the bias is left to the step that comes next, which reads
/// the result anyway.
fn project(states: &[f32], linear: &Linear, outputs: usize, into: &mut Vec<f32>, tokens: usize) {
    let inputs = states.len() / tokens;
    multiply(
        MatrixMut::new(sized(into, tokens * outputs), tokens, outputs),
        Matrix::new(states, tokens, inputs),
        Matrix::strided(&linear.weight, inputs, outputs, linear.bias.len()),
    );
}

fn show(states: &[f32], layer: usize, visitor: &mut dyn Visitor) {
    if visitor.wants_hidden_states() {
        visitor.hidden_states(layer, states);
    }
}
