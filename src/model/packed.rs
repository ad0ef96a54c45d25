//! BERT over slices: whole sentences side by side, one worker per core, nothing allocated once warm.
//!
//! The matrix products are the `gemm` crate's, over all tokens of a pack; attention is computed for one sentence
//! and head at a time, and looked at while it is in cache.

use anyhow::{Context, Result};

use super::bert::{Bert, Layer, Linear};
use super::config::Activation;
use super::encoder::{Encoder, Scratch, Visitor, check_finite, check_indices};
use super::kernels;
use super::matmul::{Matrix, MatrixMut, multiply};
use crate::attention::AttentionView;
use crate::pack::Pack;

/// The fast encoder.
pub struct PackedEncoder {
    /// The weights of linear layers are transposed, `[inputs, outputs]`: then the product reads them in order.
    parameters: Bert,
}

impl PackedEncoder {
    /// An encoder over `parameters`.
    #[must_use]
    pub fn new(mut parameters: Bert) -> Self {
        for layer in &mut parameters.layers {
            let Layer { query_key_value, attention_output, intermediate, output, .. } = layer;
            for linear in [query_key_value, attention_output, intermediate, output] {
                linear.weight = transposed(&linear.weight, linear.bias.len());
            }
        }
        Self { parameters }
    }

    /// Word, position and segment embeddings, summed and normalised, into `states`.
    #[expect(clippy::cast_possible_truncation, reason = "the smallest epsilon in use, 1e-12, is an f32")]
    fn embed(&self, pack: &Pack, states: &mut [f32]) -> Result<()> {
        let Bert { config, embeddings, .. } = &self.parameters;
        check_indices(pack, [config.vocab_size, config.max_position_embeddings, config.type_vocab_size])?;
        let hidden = config.hidden_size;
        let tokens = pack.sentences.iter().flat_map(|sentence| sentence.ids.iter().zip(&sentence.segments).enumerate());
        for ((position, (&id, &segment)), out) in tokens.zip(states.chunks_exact_mut(hidden)) {
            let word = row(&embeddings.words, id as usize, hidden);
            let position = row(&embeddings.positions, position, hidden);
            let segment = row(&embeddings.segments, segment as usize, hidden);
            for (((out, word), position), segment) in out.iter_mut().zip(word).zip(position).zip(segment) {
                *out = word + position + segment;
            }
        }
        let norm = &embeddings.norm;
        kernels::norm(states, &norm.weight, &norm.bias, config.layer_norm_eps as f32);
        Ok(())
    }

    /// Self-attention of all sentences of the pack: queries, keys and values from `scratch.projected`, without their
    /// biases yet; what the heads write into `scratch.context`.
    fn attend(
        &self,
        number: usize,
        layer: &Layer,
        pack: &Pack,
        scratch: &mut Scratch,
        visitor: &mut dyn Visitor,
    ) -> Result<()> {
        let config = &self.parameters.config;
        let (hidden, head_dim) = (config.hidden_size, config.head_dim());
        let Scratch { projected, context, head: parts, attention, entropies, .. } = scratch;
        #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
        let scale = (1.0 / (head_dim as f64).sqrt()) as f32;
        for (sentence, span) in pack.spans().enumerate() {
            let n = span.len();
            let rows = &projected[span.start * 3 * hidden..span.end * 3 * hidden];
            let parts = sized(parts, 3 * n * head_dim);
            let attention = sized(attention, n * n);
            let entropies = sized(entropies, n);
            for head in 0..config.num_attention_heads {
                // One head's columns, side by side in cache, with their biases; queries scaled beforehand.
                for (which, part) in parts.chunks_exact_mut(n * head_dim).enumerate() {
                    let column = which * hidden + head * head_dim;
                    let bias = &layer.query_key_value.bias[column..column + head_dim];
                    let scale = if which == 0 { scale } else { 1.0 };
                    kernels::bias_scale(&rows[column..], 3 * hidden, bias, scale, part);
                }
                let (query, rest) = parts.split_at(n * head_dim);
                let (key, value) = rest.split_at(n * head_dim);
                multiply(
                    MatrixMut::new(attention, n, n),
                    Matrix::new(query, n, head_dim),
                    Matrix::new(key, n, head_dim).transposed(),
                );
                kernels::softmax(attention, n, entropies);
                check_finite(entropies, number)
                    .with_context(|| format!("sentence {}", pack.sentences[sentence].index))?;
                visitor.attention(sentence, AttentionView::with_entropies(number, head, n, attention, entropies));
                let out = &mut context[span.start * hidden + head * head_dim..];
                multiply(
                    MatrixMut::strided(out, n, head_dim, hidden),
                    Matrix::new(attention, n, n),
                    Matrix::new(value, n, head_dim),
                );
            }
        }
        Ok(())
    }

    fn activate(&self, wide: &mut [f32], bias: &[f32]) {
        match self.parameters.config.hidden_act {
            Activation::Gelu => kernels::bias_gelu(wide, bias),
            Activation::GeluNew => kernels::bias_gelu_tanh(wide, bias),
            Activation::Relu => kernels::bias_relu(wide, bias),
        }
    }
}

impl Encoder for PackedEncoder {
    #[expect(clippy::cast_possible_truncation, reason = "the smallest epsilon in use, 1e-12, is an f32")]
    fn forward(&self, pack: &Pack, scratch: &mut Scratch, visitor: &mut dyn Visitor) -> Result<()> {
        let config = &self.parameters.config;
        let (tokens, hidden) = (pack.tokens(), config.hidden_size);
        let epsilon = config.layer_norm_eps as f32;
        self.embed(pack, sized(&mut scratch.states, tokens * hidden))?;
        show(&scratch.states, 0, visitor);
        for (number, layer) in self.parameters.layers.iter().enumerate() {
            project(&scratch.states, &layer.query_key_value, &mut scratch.projected, tokens);
            sized(&mut scratch.context, tokens * hidden);
            self.attend(number, layer, pack, scratch, visitor)?;

            let (part, norm) = (&layer.attention_output, &layer.attention_norm);
            project(&scratch.context, part, &mut scratch.update, tokens);
            kernels::add_norm(&scratch.update, &part.bias, &mut scratch.states, &norm.weight, &norm.bias, epsilon);

            project(&scratch.states, &layer.intermediate, &mut scratch.wide, tokens);
            self.activate(&mut scratch.wide, &layer.intermediate.bias);
            let (part, norm) = (&layer.output, &layer.output_norm);
            project(&scratch.wide, part, &mut scratch.update, tokens);
            kernels::add_norm(&scratch.update, &part.bias, &mut scratch.states, &norm.weight, &norm.bias, epsilon);
            show(&scratch.states, number + 1, visitor);
        }
        check_finite(&scratch.states, self.parameters.layers.len())
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

/// `states` times the weight; the bias is left to the step that comes next, which reads the result anyway.
fn project(states: &[f32], linear: &Linear, into: &mut Vec<f32>, tokens: usize) {
    let outputs = linear.bias.len();
    let inputs = states.len() / tokens;
    multiply(
        MatrixMut::new(sized(into, tokens * outputs), tokens, outputs),
        Matrix::new(states, tokens, inputs),
        Matrix::new(&linear.weight, inputs, outputs),
    );
}

fn show(states: &[f32], layer: usize, visitor: &mut dyn Visitor) {
    if visitor.wants_hidden_states() {
        visitor.hidden_states(layer, states);
    }
}
