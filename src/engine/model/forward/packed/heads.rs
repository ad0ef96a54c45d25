//! The attention heads of a layer: attention, values, contexts, and their views for the visitor.

use std::ops::Range;

use anyhow::{Context, Result};

use super::{ForwardPass, Layer, PackedEncoder, Parameters, Positions, Scratch, add_to, project, resize_buffer};
use crate::linalg::lanes::LANES;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::relative::Scores;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadOutput, HeadValues, HeadView, ValueNorms};
use crate::model::forward::{AttentionScratch, LayerAttention, QueriesAndKeys, check_finite, kernels};
use crate::model::grid::visibility::{Tile, Visibility};

/// Index of the queries among queries, keys and values, in the order of their joint projection in [`Parameters`].
pub(super) const QUERY: usize = 0;
/// Index of the keys among queries, keys and values.
pub(super) const KEY: usize = 1;
/// Index of the values among queries, keys and values.
pub(super) const VALUE: usize = 2;

/// The projected queries, keys and, if needed, values of one sequence in all heads.
#[derive(Clone, Copy)]
pub(super) struct ProjectedSequence<'a> {
    /// `[n, width]`: queries, then keys, then values; within each, one head after the other. Biases are included only if keys
    /// are normalised or rotated.
    pub rows: &'a [f32],
    /// Number of tokens.
    pub n: usize,
    /// Number of values per row.
    pub width: usize,
    /// Biases of queries, keys and values, `[3 * heads * head_dim]`.
    pub bias: &'a [f32],
    pub head_dim: usize,
}

impl<'a> ProjectedSequence<'a> {
    /// Takes the projections of the sequence whose tokens are `span` from the rows of all sequences.
    pub(super) fn from_span(
        rows: &'a [f32],
        span: &Range<usize>,
        width: usize,
        (bias, head_dim): (&'a [f32], usize),
    ) -> Self {
        Self { rows: &rows[span.start * width..span.end * width], n: span.len(), width, bias, head_dim }
    }

    /// Returns the first column of a head's queries, keys or values; `part` selects which.
    pub(super) fn first_column(&self, part: usize, head: usize) -> usize {
        part * self.bias.len() / 3 + head * self.head_dim
    }

    /// Returns the bias of a head's queries, keys or values (`part`), `[head_dim]`.
    pub(super) fn bias(&self, part: usize, head: usize) -> &'a [f32] {
        &self.bias[self.first_column(part, head)..][..self.head_dim]
    }

    /// Returns a head's queries, keys or values (`part`) as `rows` holds them, `[n, head_dim]`.
    pub(super) fn matrix(&self, part: usize, head: usize) -> Matrix<'a> {
        Matrix::with_row_stride(&self.rows[self.first_column(part, head)..], self.n, self.head_dim, self.width)
    }

    /// Returns a view of a head's queries, keys or values (`part`) in `rows` for the visitor, `[n, head_dim]`.
    fn view(&self, part: usize, head: usize) -> Rows<'a> {
        Rows::strided(&self.rows[self.first_column(part, head)..], self.n, self.head_dim, self.width)
    }

    /// Computes a head's queries, keys or values (`part`) plus `bias`, times `scale`, in the buffer `into`, `[n, head_dim]`.
    fn biased_matrix<'b>(
        &self,
        part: usize,
        head: usize,
        bias: &[f32],
        scale: f32,
        into: &'b mut Vec<f32>,
    ) -> Matrix<'b> {
        let into = resize_buffer(into, self.n * self.head_dim);
        kernels::bias_scale(&self.rows[self.first_column(part, head)..], self.width, bias, scale, into);
        Matrix::new(into, self.n, self.head_dim)
    }
}

impl PackedEncoder {
    /// Prepares the buffers for the heads of the stored layer with index `stored_layer`. If `computes_contexts`, fills
    /// `scratch.context` with the value biases.
    fn prepare_buffers(
        &self,
        stored_layer: usize,
        computes_contexts: bool,
        pass: &ForwardPass<'_>,
        scratch: &mut Scratch,
    ) {
        let Parameters { config, layers, .. } = &self.parameters;
        let (tokens, hidden, heads_width) = (pass.batch.tokens(), config.hidden_size, config.heads_width());
        if pass.needs.outputs {
            kernels::row_norms(&scratch.states, hidden, resize_buffer(&mut scratch.input_norms, tokens));
        }
        if computes_contexts {
            // A row's weights sum to 1, so the value bias passes through attention unchanged.
            let bias = &layers[stored_layer].query_key_value.bias[2 * heads_width..];
            let context = resize_buffer(&mut scratch.context, tokens * heads_width);
            context.chunks_exact_mut(heads_width).for_each(|row| row.copy_from_slice(bias));
        }
        if pass.needs.mixing {
            scratch.mixing.resize(tokens, heads_width);
        }
    }

    /// Runs the attention heads of layer `number` over all sequences, from the queries, keys and values in `scratch.projected`.
    /// Shows each head to the visitor, and puts the contexts into `scratch.context`. Fails if an entropy is not finite.
    pub(super) fn run_heads(&self, number: usize, pass: &mut ForwardPass<'_>, scratch: &mut Scratch) -> Result<()> {
        let config = &self.parameters.config;
        let (heads_width, head_dim) = (config.heads_width(), config.head_dim());
        let (stored_layer, needs) = (self.parameters.layer_indices[number], pass.needs);
        let layer = &self.parameters.layers[stored_layer];
        let visibility = config.visibility.layer_visibility(number);
        let bias = layer.query_key_value.bias.as_slice();
        let tokens = pass.batch.tokens();
        let width = scratch.projected.len() / tokens;
        let has_values = width == 3 * heads_width;
        let is_read = needs.contexts
            || needs.mixing
            || needs.includes_last_states()
            || number + 1 < self.parameters.layer_indices.len();
        let computes_contexts = has_values && is_read;
        self.prepare_buffers(stored_layer, computes_contexts, pass, scratch);
        let Scratch { projected, context, weights, values, unbiased_context, products, input_norms, mixing, .. } =
            scratch;
        for (sequence, span) in pass.batch.spans().enumerate() {
            let input = pass.batch.inputs[sequence];
            let in_sentence = || format!("sentence {}", input.sentence_number);
            let n = span.len();
            let parts = ProjectedSequence::from_span(projected, &span, width, (bias, head_dim));
            let stride = attention_stride(n);
            for head in 0..config.num_attention_heads {
                self.compute_attention((number, head), [&parts; 2], Positions::Used, weights);
                let (attention, entropies) = (&mut weights.attention[..], &mut weights.entropies[..]);
                let is_patched = pass.gates.patch_weights((number, head, sequence), (attention, stride), entropies);
                check_finite(entropies, number).with_context(in_sentence)?;

                let own_values = || HeadValues { rows: parts.view(VALUE, head), bias: parts.bias(VALUE, head) };
                let gate = pass.gates.get(number, head);
                let is_open = gate.is_none_or(|gate| !gate.is_closed());
                let unbiased_context = resize_buffer(unbiased_context, n * head_dim);
                if needs.outputs || needs.mixing || (computes_contexts && is_open) {
                    // Patched rows may have weights on keys that the head does not see.
                    let seen_keys = if is_patched { Visibility::ALL } else { visibility };
                    let weights = Matrix::with_row_stride(attention, n, n, stride);
                    weighted_sums(unbiased_context, weights, parts.matrix(VALUE, head), seen_keys);
                }
                let unbiased_context = &*unbiased_context;
                if needs.mixing {
                    let weights = Rows::strided(attention, n, n, stride);
                    let keep = gate.map_or(1.0, |gate| gate.keep);
                    mixing.store_head(head, &span, (weights, own_values(), unbiased_context), keep);
                }
                let output = needs.outputs.then(|| {
                    let (products, gram) =
                        (resize_buffer(products, n * head_dim), self.output_gram(stored_layer, head).0);
                    kernels::multiply_square(unbiased_context, head_dim, gram, head_dim, products);
                    let [contexts, products] = [unbiased_context, products].map(|rows| Rows::new(rows, head_dim));
                    HeadOutput { contexts, products, gram, input_norms: &input_norms[span.clone()] }
                });
                let view = HeadView {
                    values: needs.values.then(own_values),
                    value_norms: needs.value_norms.then(|| self.value_norms(stored_layer, head, &parts, values)),
                    output,
                    ..AttentionView::from_strided(number, head, stride, attention, entropies).into()
                };
                if needs.includes_heads() && !needs.contexts {
                    // Shown at once, while the attention is in cache.
                    pass.visitor.head(sequence, &view);
                }
                if !computes_contexts {
                    continue;
                }
                let context = &mut context[span.start * heads_width + head * head_dim..span.end * heads_width];
                if is_open {
                    let rows = context.chunks_mut(heads_width).zip(unbiased_context.chunks_exact(head_dim));
                    rows.for_each(|(row, unbiased)| add_to(row, unbiased));
                }
                if let Some(gate) = gate {
                    gate.apply(context, head_dim, heads_width, input.classes);
                }
                if needs.contexts {
                    let context = Some(Rows::strided(context, n, head_dim, heads_width));
                    pass.visitor.head(sequence, &HeadView { context, ..view });
                }
            }
        }
        if computes_contexts {
            pass.gates.exchange_contexts(number, pass.batch, context, [head_dim, heads_width]);
        }
        Ok(())
    }

    /// Computes the attention of one head over one sequence, `[n, stride]`, in `into.attention`, and the entropy of each row.
    /// `queries` and `keys` may come from different inputs.
    pub(super) fn compute_attention(
        &self,
        (number, head): (usize, usize),
        [queries, keys]: [&ProjectedSequence<'_>; 2],
        positions: Positions,
        into: &mut AttentionScratch,
    ) {
        let n = queries.n;
        self.compute_scores((number, head), [queries, keys], positions, into);
        kernels::softmax(&mut into.attention, n, attention_stride(n), resize_buffer(&mut into.entropies, n));
    }

    /// Computes the scores of one head before the softmax in `into.attention`, `[n, stride]`, with minus infinity for hidden
    /// keys. Leaves the scaled queries in `into.query`. `queries` and `keys` may come from different inputs.
    pub(super) fn compute_scores(
        &self,
        (number, head): (usize, usize),
        [queries, keys]: [&ProjectedSequence<'_>; 2],
        positions: Positions,
        into: &mut AttentionScratch,
    ) {
        let (config, stored_layer, n) = (&self.parameters.config, self.parameters.layer_indices[number], queries.n);
        let (layer, visibility) = (&self.parameters.layers[stored_layer], config.visibility.layer_visibility(number));
        let AttentionScratch { query, key, distances, attention, .. } = into;
        let stride = attention_stride(n);
        let attention = resize_buffer(attention, n * stride);
        #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
        let scale = config.score_scale() as f32;
        // Normalised or rotated keys have their bias already. Otherwise it adds a constant to all scores of a query, which
        // cancels in the softmax.
        let bias_of = |part| if layer.transforms_keys() { &self.zero_bias[..] } else { keys.bias(part, head) };
        let query = queries.biased_matrix(QUERY, head, bias_of(QUERY), scale, query);
        multiply_visible(attention, stride, query, keys.matrix(KEY, head), visibility);
        if let Some(relative) = self.distance_terms[stored_layer].as_ref().filter(|_| positions == Positions::Used) {
            let scores = Scores { values: attention, n, stride, scale };
            relative.add_to_scores(
                head,
                scores,
                query,
                keys.biased_matrix(KEY, head, bias_of(KEY), 1.0, key),
                distances,
            );
        }
        if let Some(cap) = config.score_cap {
            kernels::soft_cap(attention, cap);
        }
        if !visibility.is_full(n) {
            kernels::mask_hidden_keys(attention, n, stride, |query| visibility.visible_keys(query, n));
        }
    }

    /// Computes the norms `sqrt(v G vᵀ)` of one head's values `v`, with `G` the Gram matrix of the head's part of the output
    /// projection.
    fn value_norms<'a>(
        &'a self,
        stored_layer: usize,
        head: usize,
        parts: &ProjectedSequence<'a>,
        [products, norms]: &'a mut [Vec<f32>; 2],
    ) -> ValueNorms<'a> {
        let ProjectedSequence { n, head_dim, width, .. } = *parts;
        let (gram, bias_product) = self.output_gram(stored_layer, head);
        let (products, norms) = (resize_buffer(products, n * head_dim), resize_buffer(norms, n));
        let rows = &parts.rows[parts.first_column(VALUE, head)..];
        kernels::multiply_square(rows, width, gram, head_dim, products);
        kernels::biased_norms(rows, width, parts.bias(VALUE, head), products, bias_product, norms);
        ValueNorms { norms, products: Rows::new(products, head_dim), bias_product, gram }
    }

    /// Returns (Gram matrix `W_O W_Oᵀ`, `[head_dim, head_dim]`; its product with the value bias) of a head of the
    /// stored layer with index `stored_layer`.
    fn output_gram(&self, stored_layer: usize, head: usize) -> (&[f32], &[f32]) {
        let config = &self.parameters.config;
        let (heads, head_dim, hidden) = (config.num_attention_heads, config.head_dim(), config.hidden_size);
        let (heads_width, gram_size) = (heads * head_dim, head_dim * head_dim);
        let (grams, bias_products) = self.output_grams[stored_layer].get_or_init(|| {
            let (mut grams, mut bias_products) = (vec![0.0; heads * gram_size], vec![0.0; heads_width]);
            let layer = &self.parameters.layers[stored_layer];
            // The weight is transposed, so a head's part is a block of rows.
            let parts = layer.attention_output.weight.chunks_exact(head_dim * hidden);
            let biases = layer.query_key_value.bias[2 * heads_width..].chunks_exact(head_dim);
            let into = grams.chunks_exact_mut(gram_size).zip(bias_products.chunks_exact_mut(head_dim));
            for ((gram, bias_product), (part, bias)) in into.zip(parts.zip(biases)) {
                let part = Matrix::new(part, head_dim, hidden);
                multiply(MatrixMut::new(gram, head_dim, head_dim), part, part.transposed());
                kernels::multiply_square(bias, head_dim, gram, head_dim, bias_product);
            }
            (grams, bias_products)
        });
        (&grams[head * gram_size..][..gram_size], &bias_products[head * head_dim..][..head_dim])
    }
}

impl PackedEncoder {
    /// The attention heads of the layer with index `number`, to be applied to other inputs than the layer's own.
    pub(super) fn attention_on_other_inputs(
        &self,
        number: usize,
        positions: Positions,
    ) -> Box<dyn LayerAttention + '_> {
        Box::new(PackedLayerAttention { encoder: self, number, positions })
    }
}

/// The attention heads of the layer with index `number`, applied to other inputs than the layer's own.
struct PackedLayerAttention<'a> {
    encoder: &'a PackedEncoder,
    /// Index of the layer in the model, from 0.
    number: usize,
    /// Whether scores depend on positions.
    positions: Positions,
}

impl LayerAttention for PackedLayerAttention<'_> {
    fn project_unbiased(&self, inputs: &[f32], into: &mut Vec<f32>) {
        let hidden = self.encoder.parameters.config.hidden_size;
        assert!(inputs.len().is_multiple_of(hidden), "inputs are [rows, hidden]");
        project(inputs, &self.layer().query_key_value, self.width(), into, inputs.len() / hidden);
    }

    fn normalise_and_rotate(&self, lengths: &[usize], QueriesAndKeys { rows, angles }: &mut QueriesAndKeys) {
        let (layer, outputs) = (self.layer(), self.width());
        assert_eq!(rows.len(), lengths.iter().sum::<usize>() * outputs, "products are [tokens, 2 * heads * head_dim]");
        if layer.transforms_keys() {
            self.encoder.prepare_queries_keys(layer, (rows, outputs), lengths.iter().copied(), self.positions, angles);
        }
    }

    fn attention<'b>(
        &self,
        head: usize,
        span: &Range<usize>,
        queries_keys: [&QueriesAndKeys; 2],
        scratch: &'b mut AttentionScratch,
    ) -> AttentionView<'b> {
        let (width, bias) = (self.width(), &self.layer().query_key_value.bias[..]);
        let head_dim = self.encoder.parameters.config.head_dim();
        let projected =
            queries_keys.map(|source| ProjectedSequence::from_span(&source.rows, span, width, (bias, head_dim)));
        self.encoder.compute_attention((self.number, head), projected.each_ref(), self.positions, scratch);
        AttentionView::from_strided(
            self.number,
            head,
            attention_stride(span.len()),
            &scratch.attention,
            &scratch.entropies,
        )
    }
}

impl<'a> PackedLayerAttention<'a> {
    fn layer(&self) -> &'a Layer {
        self.encoder.layer(self.number)
    }

    fn width(&self) -> usize {
        2 * self.encoder.parameters.config.heads_width()
    }
}

/// Returns the stride of attention rows: `n` rounded up to whole SIMD vectors, so that the softmax has no remainder.
pub(super) fn attention_stride(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// Writes the products of queries with visible keys into rows that begin `stride` values apart. Entries of hidden keys have no
/// meaning.
fn multiply_visible(into: &mut [f32], stride: usize, queries: Matrix<'_>, keys: Matrix<'_>, visibility: Visibility) {
    for Tile { queries: rows, keys: columns } in visibility.tiles(queries.rows()) {
        let scores = &mut into[rows.start * stride + columns.start..];
        let scores = MatrixMut::with_row_stride(scores, rows.len(), columns.len(), stride);
        multiply(scores, queries.rows_in(&rows), keys.rows_in(&columns).transposed());
    }
}

/// Writes into `into`, `[n, head_dim]`, the attention-weighted sum of the values that each query sees.
fn weighted_sums(into: &mut [f32], weights: Matrix<'_>, values: Matrix<'_>, visibility: Visibility) {
    let width = values.columns();
    for Tile { queries, keys } in visibility.tiles(weights.rows()) {
        let sums = MatrixMut::new(&mut into[queries.start * width..], queries.len(), width);
        multiply(sums, weights.rows_in(&queries).columns_from(keys.start, keys.len()), values.rows_in(&keys));
    }
}
