//! Norm-weighted shares and outputs under uniform attention, for masks that hide some keys.

use std::ops::Range;

use super::head::{HeadActivations, NormSums, sink_positions};
use super::norm_shares::window_sum;
use super::vectors::{add_bias, dot_f64};
use crate::model::forward::rows::Rows;
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::roles::{MAX_OFFSET_TOKENS, TokenRoles, offset_slot};

/// Prefix sums over keys, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct PrefixSumBuffers {
    /// Prefix sums of the norms of projected values, `[n + 1]`.
    norms: Vec<f64>,
    /// Prefix sums of the keys' values, `[n + 1, head_dim]`.
    values: Vec<f64>,
    /// Prefix sums of the values' products with `W_O W_Oᵀ`, `[n + 1, head_dim]`.
    products: Vec<f64>,
    /// Mean value over the keys that a query sees, `[head_dim]`.
    mean: Vec<f64>,
    /// Product of `mean` with `W_O W_Oᵀ`, `[head_dim]`.
    product: Vec<f64>,
}

/// Adds the norm-weighted shares under uniform attention: the share of each visible key is proportional to its norm.
pub fn add_visible_shares(
    sums: &mut NormSums<f64>,
    (roles, visibility): (&TokenRoles, Visibility),
    head: &HeadActivations<'_>,
    PrefixSumBuffers { norms: before, .. }: &mut PrefixSumBuffers,
) {
    let (n, norms) = (roles.tokens, head.norms.norms);
    before.clear();
    before.push(0.0);
    let mut sum = 0.0;
    before.extend(norms.iter().map(|&norm| {
        sum += f64::from(norm);
        sum
    }));
    for query in roles.queries() {
        let keys = visibility.visible_keys(query, n);
        let all = before[keys.end] - before[keys.start];
        if all <= 0.0 {
            continue;
        }
        sums.uniform_spent += all / keys.len() as f64;
        for key in roles.neighbours(query, MAX_OFFSET_TOKENS).flatten().filter(|key| keys.contains(key)) {
            sums.uniform_offset_mass[offset_slot(query, key)] += f64::from(norms[key]) / all;
        }
        for (sum, places) in sums.uniform_sink_mass.iter_mut().zip(sink_positions(roles)) {
            *sum += places.iter().filter(|key| keys.contains(key)).map(|&key| f64::from(norms[key]) / all).sum::<f64>();
        }
    }
    sums.uniform_window_mass = window_sum(&sums.uniform_offset_mass);
}

/// Adds the norms of the head's output under uniform attention, and the output's inner product with its part from each
/// kind of sink.
#[inline(always)]
pub fn add_visible_outputs(
    sums: &mut NormSums<f64>,
    (roles, visibility): (&TokenRoles, Visibility),
    head: &HeadActivations<'_>,
    buffers: &mut PrefixSumBuffers,
) {
    let (HeadActivations { values, norms, .. }, width) = (head, head.head_dim());
    let PrefixSumBuffers { values: of_values, products: of_products, mean, product, .. } = buffers;
    prefix_sums(values.rows, of_values);
    prefix_sums(norms.products, of_products);
    for query in roles.queries() {
        let keys = visibility.visible_keys(query, roles.tokens);
        let share = 1.0 / keys.len() as f64;
        write_range_sum(of_values, width, &keys, share, mean);
        write_range_sum(of_products, width, &keys, share, product);
        sums.uniform_square += dot_f64(mean, product).max(0.0);
        for (sum, places) in sums.uniform_sink_product.iter_mut().zip(sink_positions(roles)) {
            for &key in places {
                if keys.contains(&key) {
                    *sum += share * dot_f64(values.rows.row(key), product);
                }
            }
        }
        add_bias(mean, values.bias);
        add_bias(product, norms.bias_product);
        sums.uniform_output += dot_f64(mean, product).max(0.0).sqrt();
    }
}

/// Writes `share` times the sum of the rows in `keys` to `into`. `before` has prefix sums of rows.
#[inline(always)]
fn write_range_sum(before: &[f64], width: usize, keys: &Range<usize>, share: f64, into: &mut Vec<f64>) {
    let (start, end) = (&before[keys.start * width..][..width], &before[keys.end * width..][..width]);
    into.clear();
    into.resize(width, 0.0);
    for column in 0..width {
        into[column] = (end[column] - start[column]) * share;
    }
}

/// Writes the prefix sums of rows to `before`, `[rows + 1, width]`.
fn prefix_sums(rows: Rows<'_>, before: &mut Vec<f64>) {
    let width = rows.width();
    before.clear();
    before.resize(width, 0.0);
    for row in rows.iter() {
        let last = before.len() - width;
        for (column, value) in row.iter().enumerate() {
            before.push(before[last + column] + f64::from(*value));
        }
    }
}
