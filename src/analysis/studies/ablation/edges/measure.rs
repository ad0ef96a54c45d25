//! The shift and the excess of every edge, with intervals and tests over blocks of sentences.

use super::excess::excesses;
use super::pairs::Edges;
use super::sums::{EdgeSums, Shifts};
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::stats::significance::q_of_those_above;
use crate::study::metrics::estimates::EstimationContext;
use crate::system::parallel::in_parallel;

/// The least shift of an edge that is tested: that of a row of attention whose square roots move by 0.014 in all. Smaller
/// ones are multiples of next to nothing.
pub const LEAST_SHIFT: f64 = 1e-4;

#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeEstimate {
    /// The mean squared Hellinger distance of the target's rows with the source and without.
    pub shift: f64,
    pub shift_ci95: Option<Interval>,
    /// The mean shift with everything between held; `None` where that was not measured.
    pub direct: Option<f64>,
    /// The direct shift over the shift; `None` where the shift is below [`LEAST_SHIFT`] as well.
    pub ratio: Option<f64>,
    pub ratio_ci95: Option<Interval>,
    /// The excess beyond source and target; `None` if nothing shifts.
    pub excess: Option<f64>,
    pub excess_ci95: Option<Interval>,
    /// The one-sided p-value of the excess being above the margin; `None` where the shift is below [`LEAST_SHIFT`].
    pub p: Option<f64>,
    /// Twice that, corrected for all edges whose excess is above the margin.
    pub q: Option<f64>,
}

/// The excess of every edge, in their order; none where no sentence was seen.
pub fn all_excesses(sums: &EdgeSums) -> Vec<Option<f64>> {
    let (edges, total) = (Edges(sums.grid), sums.blocks.total());
    let between = |layers| {
        let shifts: Vec<f64> = edges.between(layers).map(|edge| total.mean(edge)).collect();
        excesses(&shifts, sums.grid.heads)
    };
    if total.rows == 0 { Vec::new() } else { edges.layers().flat_map(between).collect() }
}

/// All edges, in their order, their excesses tested against a margin, if there is one; none where no sentence was seen.
pub fn measured(sums: &EdgeSums, margin: Option<f64>, context: &EstimationContext) -> Vec<EdgeEstimate> {
    let total = sums.blocks.total();
    if total.rows == 0 {
        return Vec::new();
    }
    let edges = Edges(sums.grid);
    let between = |layers| between(sums, &total, edges.between(layers).start, margin);
    let mut found = in_parallel(context.threads, edges.layers(), between).concat();
    let p_above = |edge: &EdgeEstimate| edge.p.filter(|_| edge.excess > margin);
    let p: Vec<Option<f64>> = found.iter().map(p_above).collect();
    found.iter_mut().zip(q_of_those_above(&p)).for_each(|(edge, q)| edge.q = q);
    found
}

/// The edges between two layers; the first edge is at this index.
fn between(sums: &EdgeSums, total: &Shifts, first: usize, margin: Option<f64>) -> Vec<EdgeEstimate> {
    let heads = sums.grid.heads;
    let edges = || first..first + heads * heads;
    let shifts: Vec<f64> = edges().map(|edge| total.mean(edge)).collect();
    // The estimates without each block that has something.
    let without = |block: &Shifts| {
        let rest = (total.rows - block.rows) as f64;
        let shift = |edge: usize| (total.sum(edge) - block.sum(edge)) / rest;
        let shifts: Vec<f64> = edges().map(shift).collect();
        (block.rows > 0 && rest > 0.0).then(|| excesses(&shifts, heads))
    };
    let without: Vec<_> = sums.blocks.iter().map(without).collect();
    let rows: PerBlock = std::array::from_fn(|block| sums.blocks[block].rows as f64);
    let measure = |(place, excess): (usize, Option<f64>)| {
        let shifted: PerBlock = std::array::from_fn(|block| sums.blocks[block].sum(first + place));
        let left_out = without.iter().map(|without| without.as_ref()?[place]).collect();
        let tested = excess.map(|excess| Jackknife::of(excess, left_out, &rows));
        let excess_ci95 = tested.as_ref().and_then(Jackknife::interval);
        let p = tested.filter(|_| shifts[place] >= LEAST_SHIFT).and_then(|tested| tested.p_above(margin?));
        let shift_ci95 = Jackknife::new(&shifted, &rows).interval();
        let edge = EdgeEstimate { shift: shifts[place], shift_ci95, excess, excess_ci95, p, ..EdgeEstimate::default() };
        if !sums.is_direct {
            return edge;
        }
        let direct = Some(total.direct(first + place) / total.rows as f64);
        let ratio = direct.filter(|_| edge.shift >= LEAST_SHIFT).map(|direct| direct / edge.shift);
        let directly: PerBlock = std::array::from_fn(|block| sums.blocks[block].direct(first + place));
        let ratio_ci95 = ratio.and_then(|_| Jackknife::new(&directly, &shifted).interval());
        EdgeEstimate { direct, ratio, ratio_ci95, ..edge }
    };
    excesses(&shifts, heads).into_iter().enumerate().map(measure).collect()
}
