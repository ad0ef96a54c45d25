//! Backward pass through the attention heads of a layer.

use super::super::heads::{KEY, ProjectedSequence, QUERY, VALUE, attention_stride};
use super::super::{PackedEncoder, Positions, Scratch, add_to, copy_into, resize_buffer};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply, multiply_add};
use crate::model::forward::batch::{Batch, BatchInput};
use crate::model::forward::gates::Gates;
use crate::model::forward::gradient::{GateGradient, HeadScratch};
use crate::model::forward::kernels::{self, backward};
use crate::model::forward::relative::Scores;
use crate::model::grid::visibility::{Tile, Visibility};
use crate::model::parameters::Layer;

impl PackedEncoder {
    /// Computes the derivatives with respect to the gates of a layer. On entry, `forward.context` holds the derivatives
    /// with respect to the contexts of all heads. Above the first layer, it also puts the derivatives with respect to
    /// values, and to normalised and rotated queries and keys, into `forward.projected`.
    pub(super) fn heads_backward(
        &self,
        number: usize,
        (batch, gates): (&Batch<'_>, &Gates),
        (kept, forward): (&[f32], &mut Scratch),
        (prepared, scratch): (&mut Vec<f32>, &mut HeadScratch),
        gradients: &mut [GateGradient],
    ) {
        let config = &self.parameters.config;
        let layer = self.layer(number);
        let (heads, head_dim, heads_width) = (config.num_attention_heads, config.head_dim(), config.heads_width());
        let (width, bias) = (3 * heads_width, layer.query_key_value.bias.as_slice());
        let Scratch { context, projected, angles, .. } = forward;
        let rows = if layer.transforms_keys() {
            let rows = copy_into(kept, prepared);
            self.prepare_queries_keys(layer, (rows, width), batch.lengths(), Positions::Used, angles);
            &*rows
        } else {
            kept
        };
        let derivatives = resize_buffer(projected, kept.len());
        derivatives.fill(0.0);
        for (sequence, (span, gradients)) in batch.spans().zip(gradients).enumerate() {
            let (rows_of_sequence, n) = (span.start * width..span.end * width, span.len());
            let parts = ProjectedSequence { rows: &rows[rows_of_sequence.clone()], n, width, bias, head_dim };
            let derivatives = &mut derivatives[rows_of_sequence];
            for head in 0..heads {
                let d_context = &context[span.start * heads_width + head * head_dim..span.end * heads_width];
                let d_context = Matrix::with_row_stride(d_context, n, head_dim, heads_width);
                let (place, input) = ((number, head, sequence), batch.inputs[sequence]);
                gradients.gates[number * heads + head] =
                    self.head_backward(place, (input, gates), (&parts, d_context), derivatives, scratch);
            }
        }
    }

    /// Returns the derivative of the score with respect to the `keep` of a head's gate over one sequence. Puts the
    /// derivatives with respect to the head's queries, keys and values into `derivatives`, which must be 0 on entry.
    ///
    /// The head's context is `z = A v + b`. Its gate turns it into `r + keep (z - r)`, with `r` the replacement. `d`
    /// are the derivatives with respect to the gate's output. The derivative with respect to `keep` is then
    /// `<d, z - r> = <A, d vᵀ> + <d, b - r>`. The backward pass of the softmax computes the first term anyway.
    fn head_backward(
        &self,
        (number, head, sequence): (usize, usize, usize),
        (input, gates): (BatchInput<'_>, &Gates),
        (parts, d_context): (&ProjectedSequence<'_>, Matrix<'_>),
        derivatives: &mut [f32],
        scratch: &mut HeadScratch,
    ) -> f64 {
        let (config, stored_layer) = (&self.parameters.config, self.parameters.layer_indices[number]);
        let HeadScratch {
            weights,
            capped_scores: bounded,
            derivatives: d_scores,
            products,
            query_derivatives: query,
            key_derivatives: key,
        } = scratch;
        let (n, head_dim, stride) = (parts.n, parts.head_dim, attention_stride(parts.n));
        self.compute_scores((number, head), [parts; 2], Positions::Used, weights);
        if config.score_cap.is_some() {
            bounded.clone_from(&weights.attention);
        }
        let entropies = resize_buffer(&mut weights.entropies, n);
        kernels::softmax(&mut weights.attention, n, stride, entropies);
        let is_patched = gates.patch_weights((number, head, sequence), (&mut weights.attention, stride), entropies);
        // Patched rows may have weights on keys that the head does not see.
        let visibility = if is_patched { Visibility::ALL } else { config.visibility.layer_visibility(number) };
        let attention = weights.attention.as_slice();
        let gate = gates.get(number, head);
        let keep = gate.map_or(1.0, |gate| gate.keep);

        let (d_scores, products) = (resize_buffer(d_scores, n * stride), resize_buffer(products, n));
        d_scores.fill(0.0);
        for Tile { queries, keys } in visibility.tiles(n) {
            let first = queries.start * stride + keys.start;
            let d_weights = MatrixMut::with_row_stride(&mut d_scores[first..], queries.len(), keys.len(), stride);
            let values = parts.matrix(VALUE, head).rows_in(&keys);
            multiply(d_weights, d_context.rows_in(&queries), values.transposed());
            let (weights, d_scores, products) = (&attention[first..], &mut d_scores[first..], &mut products[queries]);
            backward::softmax(weights, keys.len(), stride, keep, d_scores, products);
        }
        let bias_term = |token: usize| -> f32 {
            let replacement = gate.and_then(|gate| gate.replacement_at(input.classes, token));
            let shift = |dimension: usize| {
                parts.bias(VALUE, head)[dimension] - replacement.map_or(0.0, |replacement| replacement[dimension])
            };
            (0..head_dim).map(|dimension| d_context.get(token, dimension) * shift(dimension)).sum()
        };
        let slope = (0..n).map(|token| f64::from(products[token]) + f64::from(bias_term(token))).sum();
        if number == 0 || keep == 0.0 {
            return slope;
        }

        for (patched, _) in gates.patched_rows((number, head, sequence)) {
            d_scores[patched * stride..][..n].fill(0.0);
        }
        if let Some(cap) = config.score_cap {
            backward::soft_cap(bounded, cap, d_scores);
        }
        let (query, key) = (resize_buffer(query, n * head_dim), resize_buffer(key, n * head_dim));
        key.fill(0.0);
        let [query_start, key_start, value_start] = [QUERY, KEY, VALUE].map(|part| parts.first_column(part, head));
        for Tile { queries, keys } in visibility.tiles(n) {
            let in_tile = |rows| {
                Matrix::with_row_stride(rows, n, n, stride).rows_in(&queries).columns_from(keys.start, keys.len())
            };
            let (d_scores, attention) = (in_tile(d_scores), in_tile(attention));
            let rows = MatrixMut::new(&mut query[queries.start * head_dim..], queries.len(), head_dim);
            multiply(rows, d_scores, parts.matrix(KEY, head).rows_in(&keys));
            let rows = MatrixMut::new(&mut key[keys.start * head_dim..], keys.len(), head_dim);
            multiply_add(rows, d_scores.transposed(), Matrix::new(&weights.query, n, head_dim).rows_in(&queries));
            let rows = &mut derivatives[keys.start * parts.width + value_start..];
            let rows = MatrixMut::with_row_stride(rows, keys.len(), head_dim, parts.width);
            multiply_add(rows, attention.transposed(), d_context.rows_in(&queries));
        }
        #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
        let scale = config.score_scale() as f32;
        if let Some(relative) = &self.distance_terms[stored_layer] {
            let scores = Scores { values: d_scores, n, stride, scale };
            relative.backward(head, &scores, [&mut *query, &mut *key], &mut weights.distances);
        }
        let tokens = query.chunks_exact(head_dim).zip(key.chunks_exact(head_dim));
        for (row, (query, key)) in derivatives.chunks_exact_mut(parts.width).zip(tokens) {
            row[query_start..][..head_dim].iter_mut().zip(query).for_each(|(into, query)| *into = scale * query);
            row[key_start..][..head_dim].copy_from_slice(key);
            if keep != 1.0 {
                row[value_start..][..head_dim].iter_mut().for_each(|value| *value *= keep);
            }
        }
        slope
    }

    /// Backward pass of the rotation and normalisation of queries and keys, in place in `forward.projected`.
    pub(super) fn queries_keys_backward(&self, layer: &Layer, batch: &Batch<'_>, kept: &[f32], forward: &mut Scratch) {
        let (config, bias) = (&self.parameters.config, &layer.query_key_value.bias);
        let (heads, width) = (config.heads_width(), bias.len());
        let Scratch { projected, angles, block_output: update, .. } = forward;
        let pairs = layer.rotary.as_ref().map_or(0, |rotary| rotary.frequencies.len());
        if pairs > 0 {
            // The transpose of a rotation is the rotation by minus the angle.
            for angles in angles.chunks_exact_mut(2 * pairs) {
                angles[pairs..].iter_mut().for_each(|sine| *sine = -*sine);
            }
            let positions = batch.lengths().flat_map(|length| 0..length);
            for (row, position) in projected.chunks_exact_mut(width).zip(positions) {
                kernels::rotate(&mut row[..2 * heads], config.head_dim(), &angles[position * 2 * pairs..][..2 * pairs]);
            }
        }
        let Some(norms) = &layer.query_key_norms else { return };
        let biased = resize_buffer(update, 2 * heads);
        for (row, kept) in projected.chunks_exact_mut(width).zip(kept.chunks_exact(width)) {
            biased.copy_from_slice(&kept[..2 * heads]);
            add_to(biased, bias);
            let parts = row.chunks_exact_mut(heads).zip(biased.chunks_exact(heads));
            parts.zip(norms).for_each(|((derivatives, rows), norm)| self.norm_backward(rows, norm, derivatives));
        }
    }
}
