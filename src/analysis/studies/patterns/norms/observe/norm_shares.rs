//! Attention weighted by value norms: `A[i,j] |f_j|`, with the projected value `f_j = v_j W_O` of key `j`. A key's
//! norm-weighted share is its part of the row's sum.

use super::head::{HeadActivations, NormSums, query_count, sees_sink, sink_positions};
use super::vectors::{products_by_lane, resize_to};
use crate::linalg::lanes::{LANES, reduce_lanes, sum_any_length};
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::roles::{MAX_NEIGHBOUR_DISTANCE, MAX_OFFSET_TOKENS, OFFSET_COUNT, TokenRoles, offset_slot};

/// Number of queries processed together. All their attention rows are written to a buffer before any is read back.
const ROWS_AT_ONCE: usize = 8;

/// Number of offsets ([`OFFSET_COUNT`]), rounded up to whole SIMD vectors of f64.
const PADDED_OFFSET_COUNT: usize = OFFSET_COUNT.next_multiple_of(LANES / 2);

/// Buffers for value norms and attention rows, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct NormBuffers {
    /// Attention rows, padded before and after, `[ROWS_AT_ONCE, MAX_OFFSET_TOKENS + width + PADDED_OFFSET_COUNT]`.
    rows: Vec<f32>,
    /// Norm `|f_j|` of each key's projected value, padded with zeros to whole SIMD vectors, `[width]`.
    norms: Vec<f32>,
    /// Norm `|f_j|` of each text key's projected value. 0 for other keys; padded before and after as `rows`.
    text_norms: Vec<f32>,
    /// Prefix sums of `text_norms`, `[n + 1]`.
    norms_before: Vec<f64>,
}

/// Adds the norm-weighted shares under the head's actual attention. Leaves the norms in the buffers, for
/// [`add_uniform_shares`].
#[inline(always)]
pub fn add_norm_shares(
    sums: &mut NormSums<f64>,
    (roles, visibility): (&TokenRoles, Visibility),
    head: &HeadActivations<'_>,
    buffers: &mut NormBuffers,
) {
    let (n, width) = (roles.tokens, roles.is_text.len());
    let stride = MAX_OFFSET_TOKENS + width + PADDED_OFFSET_COUNT;
    let rows = resize_to(&mut buffers.rows, ROWS_AT_ONCE * stride);
    for buffer in [&mut buffers.norms, &mut buffers.text_norms] {
        buffer.clear();
    }
    let norms = resize_to(&mut buffers.norms, width);
    norms[..n].copy_from_slice(head.norms.norms);
    let text_norms = resize_to(&mut buffers.text_norms, stride);
    for ((text, norm), kept) in text_norms[MAX_OFFSET_TOKENS..][..width].iter_mut().zip(&*norms).zip(&roles.is_text) {
        *text = norm * kept;
    }
    let mut by_offset = [0.0; PADDED_OFFSET_COUNT];
    for run in &roles.text_runs {
        for first in run.clone().step_by(ROWS_AT_ONCE) {
            let block = first..run.end.min(first + ROWS_AT_ONCE);
            let (mut by_lane, mut shares) = ([[0.0; LANES]; ROWS_AT_ONCE], [0.0; ROWS_AT_ONCE]);
            for ((query, row), by_lane) in block.clone().zip(rows.chunks_exact_mut(stride)).zip(&mut by_lane) {
                // Elements beyond n, left from longer rows, have a norm of 0.
                let row = &mut row[MAX_OFFSET_TOKENS..][..width];
                row[..n].copy_from_slice(head.attention.row(query));
                *by_lane = products_by_lane(row, norms);
            }
            for ((query, lanes), share) in block.clone().zip(by_lane).zip(&mut shares) {
                let spent = reduce_lanes(lanes, |a, b| a + b);
                sums.spent += spent;
                if spent > 0.0 {
                    *share = spent.recip();
                    let row = head.attention.row(query);
                    for (sum, places) in sums.sink_mass.iter_mut().zip(sink_positions(roles)) {
                        *sum += *share * norm_weighted_sum(row, norms, places);
                    }
                } else {
                    sums.without_norm += 1.0;
                    count_query_without_shares(sums, (roles, visibility), query);
                }
            }
            for ((query, row), share) in block.zip(rows.chunks_exact(stride)).zip(shares) {
                // Rows start at index MAX_OFFSET_TOKENS, so index `query` is the key MAX_OFFSET_TOKENS before the query.
                let (row, norms) = (&row[query..][..PADDED_OFFSET_COUNT], &text_norms[query..][..PADDED_OFFSET_COUNT]);
                for slot in 0..PADDED_OFFSET_COUNT {
                    by_offset[slot] = f64::from(row[slot] * norms[slot]).mul_add(share, by_offset[slot]);
                }
            }
        }
    }
    sums.offset_mass.copy_from_slice(&by_offset[..OFFSET_COUNT]);
    sums.window_mass = window_sum(&sums.offset_mass);
}

/// Sum of attention times norm over the keys `places`.
#[inline(always)]
fn norm_weighted_sum(row: &[f32], norms: &[f32], places: &[usize]) -> f64 {
    let mut mass = 0.0;
    for &place in places {
        mass += f64::from(row[place] * norms[place]);
    }
    mass
}

/// Counts a query whose attended values are all 0, for each offset and each kind of sink that it sees.
fn count_query_without_shares(sums: &mut NormSums<f64>, (roles, visibility): (&TokenRoles, Visibility), query: usize) {
    let seen = roles.neighbours(query, MAX_OFFSET_TOKENS).flatten().filter(|&key| visibility.sees(query, key));
    seen.for_each(|key| sums.offset_silent[offset_slot(query, key)] += 1.0);
    for (kind, sum) in sums.sink_silent.iter_mut().enumerate() {
        *sum += if sees_sink(roles, visibility, query, kind) { 1.0 } else { 0.0 };
    }
}

/// Sums `by_offset` over the two tokens before the query and the two tokens after it.
#[inline(always)]
pub fn window_sum(by_offset: &[f64; OFFSET_COUNT]) -> f64 {
    by_offset[offset_slot(MAX_NEIGHBOUR_DISTANCE, 0)..=offset_slot(0, MAX_NEIGHBOUR_DISTANCE)].iter().sum::<f64>()
        - by_offset[offset_slot(0, 0)]
}

/// Adds the norm-weighted shares under uniform attention: each key's share is proportional to its norm. For masks under
/// which each query sees all keys.
#[inline(always)]
pub fn add_uniform_shares(
    sums: &mut NormSums<f64>,
    roles: &TokenRoles,
    head: &HeadActivations<'_>,
    buffers: &mut NormBuffers,
) {
    let NormBuffers { norms, norms_before: before, .. } = buffers;
    let (all, queries) = (sum_any_length(norms), query_count(roles));
    if all <= 0.0 {
        return;
    }
    let share = all.recip();
    sums.uniform_spent = queries * all / head.norms.norms.len() as f64;
    before.clear();
    before.push(0.0);
    let mut sum = 0.0;
    for (norm, is_text) in head.norms.norms.iter().zip(&roles.is_text) {
        sum += f64::from(norm * is_text);
        before.push(sum);
    }
    // Queries of one run of text and the keys of another at a given offset: these keys are a range.
    for from in &roles.text_runs {
        for to in &roles.text_runs {
            for (slot, sum) in sums.uniform_offset_mass.iter_mut().enumerate() {
                let start = to.start.max((from.start + slot).saturating_sub(MAX_OFFSET_TOKENS));
                let end = to.end.min((from.end + slot).saturating_sub(MAX_OFFSET_TOKENS));
                if start < end {
                    *sum += (before[end] - before[start]) * share;
                }
            }
        }
    }
    sums.uniform_window_mass = window_sum(&sums.uniform_offset_mass);
    for (sum, places) in sums.uniform_sink_mass.iter_mut().zip(sink_positions(roles)) {
        let mut mass = 0.0;
        for &place in places {
            mass += f64::from(norms[place]);
        }
        *sum = queries * mass * share;
    }
}
