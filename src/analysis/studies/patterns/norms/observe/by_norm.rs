//! Attention weighted by norms, `A[i,j] |f_j|`, and its shares.

use super::vectors::{products_by_lane, sized};
use super::{HeadData, NormSums, places, queries, sees_sink};
use crate::linalg::lanes::{LANES, across, total};
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::roles::{OFFSETS, REACH, TokenRoles, WINDOW, slot};

/// The queries that are looked at together: what is written of one is read when those of the others are written, too.
const TOGETHER: usize = 8;

/// [`OFFSETS`], rounded up to whole vectors of f64.
const SLOTS: usize = OFFSETS.next_multiple_of(LANES / 2);

/// Room for norms and rows, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct NormBuffers {
    /// `[TOGETHER, REACH + width + SLOTS]`: rows of attention, with room before and after them.
    rows: Vec<f32>,
    /// `|f_j|`, rounded up to whole vectors by zeros, `[width]`.
    norms: Vec<f32>,
    /// The norms with zeros for all but text, and with zeros before and after it as rows have room.
    text_norms: Vec<f32>,
    /// The sums of the norms of all text tokens before each place, `[n + 1]`.
    before: Vec<f64>,
}

/// The shares of a head's own attention; leaves the norms in the buffers.
#[inline(always)]
pub fn add(
    sums: &mut NormSums<f64>,
    (roles, visibility): (&TokenRoles, Visibility),
    head: &HeadData<'_>,
    buffers: &mut NormBuffers,
) {
    let (n, width) = (roles.tokens, roles.is_text.len());
    let stride = REACH + width + SLOTS;
    let rows = sized(&mut buffers.rows, TOGETHER * stride);
    for buffer in [&mut buffers.norms, &mut buffers.text_norms] {
        buffer.clear();
    }
    let norms = sized(&mut buffers.norms, width);
    norms[..n].copy_from_slice(head.norms.norms);
    let text_norms = sized(&mut buffers.text_norms, stride);
    for ((text, norm), kept) in text_norms[REACH..][..width].iter_mut().zip(&*norms).zip(&roles.is_text) {
        *text = norm * kept;
    }
    let mut by_offset = [0.0; SLOTS];
    for run in &roles.text {
        for first in run.clone().step_by(TOGETHER) {
            let block = first..run.end.min(first + TOGETHER);
            let (mut by_lane, mut shares) = ([[0.0; LANES]; TOGETHER], [0.0; TOGETHER]);
            for ((query, row), by_lane) in block.clone().zip(rows.chunks_exact_mut(stride)).zip(&mut by_lane) {
                // The remaining elements of longer rows beyond n have a norm of 0.
                let row = &mut row[REACH..][..width];
                row[..n].copy_from_slice(head.attention.row(query));
                *by_lane = products_by_lane(row, norms);
            }
            for ((query, lanes), share) in block.clone().zip(by_lane).zip(&mut shares) {
                let spent = across(lanes, |a, b| a + b);
                sums.spent += spent;
                if spent > 0.0 {
                    *share = spent.recip();
                    let row = head.attention.row(query);
                    for (sum, places) in sums.sink_mass.iter_mut().zip(places(roles)) {
                        *sum += *share * mass(row, norms, places);
                    }
                } else {
                    sums.silent += 1.0;
                    count_silent(sums, (roles, visibility), query);
                }
            }
            for ((query, row), share) in block.zip(rows.chunks_exact(stride)).zip(shares) {
                // The row begins at REACH, so what is REACH before the query is at the query's own place.
                let (row, norms) = (&row[query..][..SLOTS], &text_norms[query..][..SLOTS]);
                for slot in 0..SLOTS {
                    by_offset[slot] = f64::from(row[slot] * norms[slot]).mul_add(share, by_offset[slot]);
                }
            }
        }
    }
    sums.offset_mass.copy_from_slice(&by_offset[..OFFSETS]);
    sums.window_mass = window(&sums.offset_mass);
}

#[inline(always)]
fn mass(row: &[f32], norms: &[f32], places: &[usize]) -> f64 {
    let mut mass = 0.0;
    for &place in places {
        mass += f64::from(row[place] * norms[place]);
    }
    mass
}

/// Counts a query without a share under what it sees.
fn count_silent(sums: &mut NormSums<f64>, (roles, visibility): (&TokenRoles, Visibility), query: usize) {
    let seen = roles.neighbours(query, REACH).flatten().filter(|&key| visibility.sees(query, key));
    seen.for_each(|key| sums.offset_silent[slot(query, key)] += 1.0);
    for (kind, sum) in sums.sink_silent.iter_mut().enumerate() {
        *sum += if sees_sink(roles, visibility, query, kind) { 1.0 } else { 0.0 };
    }
}

/// The sum over the window of what is summed by offset.
#[inline(always)]
pub fn window(by_offset: &[f64; OFFSETS]) -> f64 {
    by_offset[slot(WINDOW, 0)..=slot(0, WINDOW)].iter().sum::<f64>() - by_offset[slot(0, 0)]
}

/// The sums of a head that attends uniformly and has the same values: each key has the share of its norm.
#[inline(always)]
pub fn add_uniform(sums: &mut NormSums<f64>, roles: &TokenRoles, head: &HeadData<'_>, buffers: &mut NormBuffers) {
    let NormBuffers { norms, before, .. } = buffers;
    let (all, queries) = (total(norms), queries(roles));
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
    // Queries of one run of text, at one offset from keys of another: the keys are a range.
    for from in &roles.text {
        for to in &roles.text {
            for (slot, sum) in sums.uniform_offset_mass.iter_mut().enumerate() {
                let start = to.start.max((from.start + slot).saturating_sub(REACH));
                let end = to.end.min((from.end + slot).saturating_sub(REACH));
                if start < end {
                    *sum += (before[end] - before[start]) * share;
                }
            }
        }
    }
    sums.uniform_window_mass = window(&sums.uniform_offset_mass);
    for (sum, places) in sums.uniform_sink_mass.iter_mut().zip(places(roles)) {
        let mut mass = 0.0;
        for &place in places {
            mass += f64::from(norms[place]);
        }
        *sum = queries * mass * share;
    }
}
