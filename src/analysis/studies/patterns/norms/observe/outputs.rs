//! Norms of a head's output at query `i`: `o_i` with value bias, and `o°_i` without.

use super::head::{HeadActivations, NormSums, query_count, sink_positions};
use super::vectors::{add_bias, add_rows, dot_f64, resize_to};
use crate::linalg::lanes::{LANES, dot, reduce_lanes, shifted_dot};
use crate::sequences::fold::roles::TokenRoles;

/// Buffers for output norms and a mean vector, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct OutputBuffers {
    /// Squared norms `|o°_i|²` and `|o_i|²` of outputs without and with value bias, then input norms `|x_i|`. `[3, queries]`,
    /// padded to whole SIMD vectors.
    squared_norms: Vec<f32>,
    /// Mean value over all keys, `[head_dim]`.
    mean: Vec<f64>,
    /// Product of `mean` with `W_O W_Oᵀ`, `[head_dim]`.
    product: Vec<f64>,
}

/// Adds the output norms under the head's actual attention.
#[inline(always)]
pub fn add_output_norms(
    sums: &mut NormSums<f64>,
    roles: &TokenRoles,
    head: &HeadActivations<'_>,
    buffers: &mut OutputBuffers,
) {
    let HeadActivations { output, values, norms, .. } = head;
    let stride = roles.tokens.next_multiple_of(LANES);
    let (bare, rest) = resize_to(&mut buffers.squared_norms, 3 * stride).split_at_mut(stride);
    let (whole, inputs) = rest.split_at_mut(stride);
    let mut count = 0;
    for run in &roles.text_runs {
        for query in run.clone() {
            let (context, product) = (output.contexts.row(query), output.products.row(query));
            bare[count] = dot(context, product);
            whole[count] = shifted_dot(context, values.bias, product, norms.bias_product);
            inputs[count] = output.input_norms[query];
            count += 1;
        }
    }
    let padded = count.next_multiple_of(LANES);
    // Padding after the last query: outputs of 0, and inputs of 1, so that none counts as an input of 0.
    for (list, padding) in [(&mut *bare, 0.0), (&mut *whole, 0.0), (&mut *inputs, 1.0)] {
        list[count..padded].fill(padding);
    }
    let mut totals = [[0.0; LANES]; 5];
    let lists = bare[..padded].as_chunks::<LANES>().0.iter().zip(whole[..padded].as_chunks::<LANES>().0);
    for ((bare, whole), inputs) in lists.zip(inputs[..padded].as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            let (square, norm) = (clip_at_0(bare[lane]), clip_at_0(whole[lane]).sqrt());
            let input = f64::from(inputs[lane]);
            totals[0][lane] += square;
            totals[1][lane] += square.sqrt();
            totals[2][lane] += norm;
            totals[3][lane] += if input > 0.0 { norm / input } else { 0.0 };
            totals[4][lane] += if input > 0.0 { 0.0 } else { 1.0 };
        }
    }
    for (lanes, sum) in totals.into_iter().zip([
        &mut sums.square,
        &mut sums.bare_output,
        &mut sums.output,
        &mut sums.output_ratio,
        &mut sums.output_ratio_silent,
    ]) {
        *sum = reduce_lanes(lanes, |a, b| a + b);
    }
}

/// Adds the output norms and sink parts under uniform attention. For masks under which each query sees all keys.
#[inline(always)]
pub fn add_uniform_outputs(
    sums: &mut NormSums<f64>,
    roles: &TokenRoles,
    head: &HeadActivations<'_>,
    buffers: &mut OutputBuffers,
) {
    let OutputBuffers { mean, product, .. } = buffers;
    let HeadActivations { values, norms, .. } = head;
    let (all, queries) = (0..roles.tokens, query_count(roles));
    let share = (roles.tokens as f64).recip();
    for (rows, into) in [(values.rows, &mut *mean), (norms.products, &mut *product)] {
        into.clear();
        into.resize(head.head_dim(), 0.0);
        add_rows(rows, std::slice::from_ref(&all), into);
        for sum in into {
            *sum *= share;
        }
    }
    sums.uniform_square = queries * dot_f64(mean, product).max(0.0);
    for (sum, places) in sums.uniform_sink_product.iter_mut().zip(sink_positions(roles)) {
        let mut products = 0.0;
        for &place in places {
            products += dot_f64(values.rows.row(place), product);
        }
        *sum = queries * share * products;
    }
    add_bias(mean, values.bias);
    add_bias(product, norms.bias_product);
    sums.uniform_output = queries * dot_f64(mean, product).max(0.0).sqrt();
}

/// Returns a squared norm, or 0 if rounding made it negative.
#[inline(always)]
fn clip_at_0(square: f32) -> f64 {
    f64::from(square.max(0.0))
}
