//! The shift and the excess of every edge, with intervals and tests over blocks of sentences.

use super::edges::Edges;
use super::excess::excesses;
use super::sums::{DependenceSums, Shifts};
use crate::stats::block_test::{Jackknife, p_above};
use crate::stats::blocks::BLOCKS;
use crate::stats::bootstrap::{Interval, PerBlock, Resamples};
use crate::stats::significance::benjamini_hochberg;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::metrics::metric::Fraction;
use crate::study::metrics::pseudo_values::{Replicate, fractions};
use crate::system::parallel::in_parallel;

/// One edge.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeEstimate {
    /// The mean squared Hellinger distance of the target's rows with the source and without.
    pub shift: f64,
    /// Its 95 % interval.
    pub shift_ci95: Option<Interval>,
    /// The excess beyond source and target; `None` if nothing shifts.
    pub excess: Option<f64>,
    /// Its 95 % interval.
    pub excess_ci95: Option<Interval>,
    /// The one-sided p-value of the excess being above 0.
    pub p: Option<f64>,
    /// The same corrected for all edges.
    pub q: Option<f64>,
}

/// All edges, in their order; none where no sentence was seen.
pub fn measured(sums: &DependenceSums, context: &EstimationContext) -> Vec<EdgeEstimate> {
    let total = sums.blocks.total();
    if total.rows == 0 {
        return Vec::new();
    }
    let edges = Edges(sums.grid);
    let between = |layers| between(sums, &total, edges.between(layers).start, &context.resamples);
    let mut found = in_parallel(context.threads, edges.layers(), between).concat();
    let (tested, p): (Vec<usize>, Vec<f64>) =
        found.iter().enumerate().filter_map(|(edge, measured)| Some((edge, measured.p?))).unzip();
    tested.into_iter().zip(benjamini_hochberg(&p)).for_each(|(edge, q)| found[edge].q = Some(q));
    found
}

/// The edges between two layers; the first edge is at this index.
fn between(sums: &DependenceSums, total: &Shifts, first: usize, resamples: &Resamples) -> Vec<EdgeEstimate> {
    let heads = sums.grid.heads;
    let edges = || first..first + heads * heads;
    let shifts: Vec<f64> = edges().map(|edge| total.mean(edge)).collect();
    // The estimates without each block that has something.
    let without = |block: &Shifts| {
        let rest = (total.rows - block.rows) as f64;
        let shift = |edge: usize| (total.sum(edge) - block.sum(edge)) / rest;
        let shifts: Vec<f64> = edges().map(shift).collect();
        (block.rows > 0 && rest > 0.0).then(|| (excesses(&shifts, heads), rest / total.rows as f64))
    };
    let without: Vec<_> = sums.blocks.iter().map(without).collect();
    let rows: PerBlock = std::array::from_fn(|block| sums.blocks[block].rows as f64);
    let rows = resamples.sums(&rows);
    let measure = |(place, excess): (usize, Option<f64>)| {
        let shifted: PerBlock = std::array::from_fn(|block| sums.blocks[block].sum(first + place));
        let left_out = without.iter().map(|without| {
            let (excesses, rest) = without.as_ref()?;
            Some(Replicate { value: excesses[place]?, rest: *rest })
        });
        let (excess_ci95, p) =
            excess.map_or((None, None), |excess| tested(excess, &left_out.collect::<Vec<_>>(), resamples));
        let shift_ci95 = resamples.sums(&shifted).over(&rows);
        EdgeEstimate { shift: shifts[place], shift_ci95, excess, excess_ci95, p, q: None }
    };
    excesses(&shifts, heads).into_iter().enumerate().map(measure).collect()
}

/// The 95 % interval of an excess, and the one-sided p-value of its being above 0.
fn tested(excess: f64, without: &[Option<Replicate>], resamples: &Resamples) -> (Option<Interval>, Option<f64>) {
    let fractions = fractions(Some(excess), without);
    let blocks = |part: fn(&Fraction) -> f64| -> PerBlock { std::array::from_fn(|block| part(&fractions[block])) };
    let (above, below) = (blocks(Fraction::numerator), blocks(Fraction::denominator));
    let left_out = Jackknife::new(&above, &below);
    let p = left_out.standard_error().and_then(|error| p_above(excess, error, left_out.blocks()));
    let ci95 = resamples.sums(&above).over(&resamples.sums(&below));
    debug_assert_eq!(fractions.len(), BLOCKS + 1, "one for each block and one for all");
    (ci95, p)
}
