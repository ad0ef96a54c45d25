//! How far the attention of later heads shifts when an earlier head is removed: sums by block, and estimates for every edge.

use std::ops::Range;

use multiversion::multiversion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::PassConditions;
use crate::passes::observer::requests::single_head_sets;
use crate::passes::observer::{Demands, Event, FurtherRuns, HeadInput, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::stats::interval::Interval;
use crate::stats::significance::q_values_above_margin;
use crate::study::EstimationContext;
use crate::study::instruments::roots::AttentionSquareRoots;
use crate::system::parallel::parallel_map;

/// Shifts of the attention of later heads in one block, for the removal of each earlier head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shifts {
    /// Number of attention rows that are compared.
    pub rows: u64,
    /// Number of sentences with a text token; each group of dependent sentences counts once.
    pub sentences: u64,
    /// Squared Hellinger distance of each edge (pair of an earlier and a later head), summed over attention rows.
    /// Empty without rows, to keep the block small.
    pub edges: Vec<ExactSum>,
    /// Direct shifts: as `edges`, but all blocks between the two heads write their baseline outputs. Empty if not
    /// measured.
    pub direct: Vec<ExactSum>,
}

impl Shifts {
    /// Mean shift of the edge with this index, over attention rows.
    pub fn mean_shift(&self, edge: usize) -> f64 {
        self.shift_sum(edge) / self.rows as f64
    }

    /// Shift of the edge with this index, summed over attention rows.
    pub fn shift_sum(&self, edge: usize) -> f64 {
        self.edges.get(edge).map_or(0.0, |sum| sum.value())
    }

    /// Shift of the edge with this index while all blocks between its heads write their baseline outputs, summed over
    /// attention rows; 0 if not measured.
    pub fn direct_shift_sum(&self, edge: usize) -> f64 {
        self.direct.get(edge).map_or(0.0, |sum| sum.value())
    }
}

merge_fields!(Shifts { rows, sentences, edges, direct });

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeSums {
    pub grid: HeadGrid,
    pub is_direct: bool,
    pub conditions: PassConditions,
    pub blocks: Blocks<Shifts>,
}

impl EdgeSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, is_direct: false, conditions: PassConditions::default(), blocks: Blocks::new(Shifts::default()) }
    }

    fn observe_head(&mut self, state: &mut EdgeState, input: &mut HeadInput<'_>) {
        let attention = input.attention();
        let target = HeadPlace { layer: attention.layer, head: attention.head };
        if target.layer == 0 {
            return;
        }
        let (EdgeRun::Without(source) | EdgeRun::DirectlyWithout(source)) = state.current_run else {
            return state.roots.push(attention, (self.grid.layers - 1) * self.grid.heads);
        };
        let source = self.grid.head_place(source);
        // Heads of a layer read one input, so removing a head leaves the other heads of its layer unchanged.
        if source.layer >= target.layer {
            return;
        }
        let place = self.grid.index(target.layer - 1, target.head);
        let roots = state.roots.head_square_roots(place, attention.tokens()).chunks_exact(attention.tokens());
        let rows = state.roots.rows.iter().zip(roots);
        let shift: f64 = rows.map(|(&row, roots)| squared_hellinger(roots, attention.row(row))).sum();
        let Shifts { edges, direct, .. } = &mut self.blocks[state.block];
        let sums = if matches!(state.current_run, EdgeRun::DirectlyWithout(_)) { direct } else { edges };
        sums[EdgeIndex(self.grid).index(source, target)] += shift;
    }
}

#[derive(Debug)]
pub struct EdgeState {
    block: usize,
    current_run: EdgeRun,
    /// Square roots of the baseline attention of the heads after the first layer.
    roots: AttentionSquareRoots,
}

/// A run over a sequence, with the index of the head that it removes.
#[derive(Clone, Copy, Debug)]
enum EdgeRun {
    Baseline,
    Without(usize),
    /// A run in which only the residual stream lacks the head. Other heads and feed-forward blocks write their
    /// baseline outputs.
    DirectlyWithout(usize),
}

/// Squared Hellinger distance, from 0 to 1, between an attention row and its baseline, whose square roots are
/// `roots`.
///
/// For rows that sum to 1, `1 - sum_j sqrt(a_j b_j)` equals half of `sum_j (sqrt(a_j) - sqrt(b_j))²`. The second
/// form is exactly 0 for equal rows and precise for nearly equal rows.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn squared_hellinger(roots: &[f32], row: &[f32]) -> f64 {
    let mut squares = [0.0_f32; LANES];
    let (row, row_left) = row.as_chunks::<LANES>();
    let (roots, roots_left) = roots.as_chunks::<LANES>();
    for (roots, weights) in roots.iter().zip(row) {
        for lane in 0..LANES {
            let difference = roots[lane] - weights[lane].sqrt();
            squares[lane] += difference * difference;
        }
    }
    for ((square, root), weight) in squares.iter_mut().zip(roots_left).zip(row_left) {
        let difference = root - weight.sqrt();
        *square += difference * difference;
    }
    (reduce_lanes(squares.map(f64::from), |a, b| a + b) / 2.0).min(1.0)
}

merge_fields!(EdgeSums[grid, is_direct] { conditions, blocks });

impl Sums for EdgeSums {
    type SequenceState = EdgeState;

    /// Requests one ablation variant for each head. Heads of the last layer have none, since no later head reads
    /// them.
    fn demands(&self) -> Demands {
        let HeadGrid { layers, heads } = self.grid;
        let removed = single_head_sets(self.grid).take(layers.saturating_sub(1) * heads).collect();
        let without = if self.is_direct { FurtherRuns::AblationsWithDirectRuns } else { FurtherRuns::Ablations };
        Demands { further_runs: without(removed), keeps_attention: true, ..Demands::ATTENTION }
    }

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.conditions = setup.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<EdgeState> {
        let block = block_of(sequence.family.number);
        // A model of one layer has no later head.
        let edges = EdgeIndex(self.grid).count();
        let rows: Vec<usize> = sequence.text_positions().collect();
        if edges == 0 || rows.is_empty() {
            return None;
        }
        let sums = &mut self.blocks[block];
        sums.rows += rows.len() as u64;
        sums.sentences += u64::from(sequence.family.is_first);
        sums.edges.resize(edges, ExactSum::default());
        sums.direct.resize(if self.is_direct { edges } else { 0 }, ExactSum::default());
        Some(EdgeState { block, current_run: EdgeRun::Baseline, roots: AttentionSquareRoots::new(rows) })
    }

    fn observe(&mut self, state: &mut EdgeState, event: &mut Event<'_>) {
        match event {
            Event::AblationVariant(variant) => state.current_run = EdgeRun::Without(*variant),
            Event::DirectRun(variant) => state.current_run = EdgeRun::DirectlyWithout(*variant),
            Event::Head(input) => self.observe_head(state, input),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let count = EdgeIndex(grid).count();
        let fits = |Shifts { rows, edges, direct, .. }: &Shifts| {
            let present = if *rows == 0 { 0 } else { count };
            edges.len() == present && direct.len() == if self.is_direct { present } else { 0 }
        };
        self.grid == grid && self.blocks.is_valid(fits)
    }
}

/// Numbering of a model's edges, each from a head to a head of a later layer. The order is by source layer, target layer,
/// source head and target head.
#[derive(Clone, Copy, Debug)]
pub struct EdgeIndex(pub HeadGrid);

impl EdgeIndex {
    pub fn count(self) -> usize {
        self.first_index(self.0.layers, self.0.layers)
    }

    pub fn layer_pairs(self) -> impl Iterator<Item = (usize, usize)> + Send {
        let layers = self.0.layers;
        (0..layers).flat_map(move |source| (source + 1..layers).map(move |target| (source, target)))
    }

    /// Indices of the edges between two layers, in the order `[source heads, target heads]`.
    pub fn range_between(self, (source, target): (usize, usize)) -> Range<usize> {
        let first = self.first_index(source, target);
        first..first + self.0.heads * self.0.heads
    }

    /// Index of the edge from `source` to `target` in the list of edges.
    pub fn index(self, source: HeadPlace, target: HeadPlace) -> usize {
        self.first_index(source.layer, target.layer) + source.head * self.0.heads + target.head
    }

    /// `[source, target]` of the edge at index `place` among the edges between two layers.
    pub fn endpoints(self, (source, target): (usize, usize), place: usize) -> [HeadPlace; 2] {
        let (from, to) = self.0.layer_and_head(place);
        [HeadPlace { layer: source, head: from }, HeadPlace { layer: target, head: to }]
    }

    /// Number of edges in the list before the first edge between two layers.
    fn first_index(self, source: usize, target: usize) -> usize {
        let HeadGrid { layers, heads } = self.0;
        // Earlier sources have layers - 1, layers - 2, ... targets.
        let pairs = source * (2 * layers).saturating_sub(source + 1) / 2 + target.saturating_sub(source + 1);
        pairs * heads * heads
    }
}

/// Smallest shift that is tested. It moves the square roots of an attention row by a Euclidean distance of 0.014;
/// smaller shifts are negligible.
pub const MIN_TESTED_SHIFT: f64 = 1e-4;

/// Smallest ratio of direct shift to shift at which an edge is drawn as direct.
///
/// Shifts are squared distances. If the displacements through the residual stream and through other blocks are
/// orthogonal, the direct one is the larger from a ratio of 1/2.
pub const MIN_DIRECT_SHIFT_RATIO: f64 = 0.5;

/// Effect of removing one head on the attention of a later head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// Head that is removed.
    pub source: HeadPlace,
    /// Head of a later layer, whose attention shifts.
    pub target: HeadPlace,
    /// Squared Hellinger distance between the target's attention with and without the source, mean over text tokens.
    #[schemars(range(min = 0, max = 1))]
    pub shift: f64,
    /// 95 % interval of `shift`.
    pub shift_ci95: Option<Interval>,
    /// Shift through the residual stream alone: all other heads and feed-forward blocks keep their baseline outputs. Null if
    /// not measured.
    #[schemars(range(min = 0, max = 1))]
    #[serde(default)]
    pub direct: Option<f64>,
    /// `direct` divided by `shift`: above 1 if other paths oppose the direct one; null if `shift` is below 0.0001.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub ratio: Option<f64>,
    /// 95 % interval of `ratio`.
    #[serde(default)]
    pub ratio_ci95: Option<Interval>,
    /// `ln shift` minus the source's mean, minus the target's mean, plus the overall mean. Means are over the edges between the
    /// two layers.
    pub excess: f64,
    /// 95 % interval of `excess`.
    pub excess_ci95: Option<Interval>,
    /// One-sided p-value of the block test that `excess` is above `untrained.percentile`; null if `shift` is below 0.0001.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value: twice `p`, corrected by Benjamini & Hochberg. Only edges whose `excess` is above `untrained.percentile` are
    /// tested; null for other edges.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// Whether the edge is above chance: `q` is at most `settings.policy.label_q`, and the sample is large enough.
    pub above: bool,
}

impl Edge {
    /// Lower end of the interval of `excess`, or `excess` itself if there is no interval. Ranking by `excess` would
    /// put edges with few sentences first.
    pub fn excess_lower_bound(&self) -> f64 {
        self.excess_ci95.map_or(self.excess, Interval::low)
    }

    /// Whether the edge acts mainly through the residual stream: `direct` is at least half of `shift`. `None` if
    /// `ratio` is null.
    pub fn is_direct(&self) -> Option<bool> {
        self.ratio.map(|ratio| ratio >= MIN_DIRECT_SHIFT_RATIO)
    }
}

/// Shift of one edge, with its tests.
#[derive(Clone, Copy, Debug)]
pub struct EdgeEstimate {
    /// Squared Hellinger distance between the target's attention with and without the source, mean over rows.
    pub shift: f64,
    /// Direct shift: as `shift`, but all blocks between the two heads keep their outputs from the run with the source. `None`
    /// if not measured.
    pub direct: Option<f64>,
    /// The edge with its excess (`ln shift` beyond the averages of source and target) and tests. `None` if `shift` is 0, which
    /// has no logarithm.
    pub edge: Option<Edge>,
}

impl EdgeEstimate {
    pub fn q(&self) -> Option<f64> {
        self.edge?.q
    }
}

/// Excess of every edge's `ln shift` over the means of its source and of its target ([`excesses`]), in the order of
/// [`EdgeIndex`]. Empty if no sentence was seen.
pub fn excess_log_shifts(sums: &EdgeSums) -> Vec<Option<f64>> {
    let (edges, total) = (EdgeIndex(sums.grid), sums.blocks.total());
    let between = |layers| {
        let shifts: Vec<f64> = edges.range_between(layers).map(|edge| total.mean_shift(edge)).collect();
        excesses(&shifts, sums.grid.heads)
    };
    if total.rows == 0 { Vec::new() } else { edges.layer_pairs().flat_map(between).collect() }
}

/// Estimates every edge, in the order of [`EdgeIndex`], and tests its excess against `margin`. Empty if no sentence
/// was seen.
pub fn estimate_edges(sums: &EdgeSums, margin: Option<f64>, context: &EstimationContext) -> Vec<EdgeEstimate> {
    let total = sums.blocks.total();
    if total.rows == 0 {
        return Vec::new();
    }
    let between = |layers| estimate_pair(sums, &total, layers, margin);
    let mut estimates = parallel_map(context.threads, EdgeIndex(sums.grid).layer_pairs(), between).concat();
    let p_above = |estimate: &EdgeEstimate| estimate.edge.filter(|edge| Some(edge.excess) > margin)?.p;
    let p: Vec<Option<f64>> = estimates.iter().map(p_above).collect();
    for (edge, q) in estimates.iter_mut().map(|estimate| &mut estimate.edge).zip(q_values_above_margin(&p)) {
        edge.iter_mut().for_each(|edge| edge.q = q);
    }
    estimates
}

/// Estimates all edges between the two `layers` (source, target) and tests their excess against `margin`.
fn estimate_pair(sums: &EdgeSums, total: &Shifts, layers: (usize, usize), margin: Option<f64>) -> Vec<EdgeEstimate> {
    let (heads, edges) = (sums.grid.heads, EdgeIndex(sums.grid).range_between(layers));
    let shifts: Vec<f64> = edges.clone().map(|edge| total.mean_shift(edge)).collect();
    // Leave-one-block-out estimates; `None` for empty blocks.
    let without = |block: &Shifts| {
        let rest = (total.rows - block.rows) as f64;
        let shift = |edge: usize| (total.shift_sum(edge) - block.shift_sum(edge)) / rest;
        let shifts: Vec<f64> = edges.clone().map(shift).collect();
        (block.rows > 0 && rest > 0.0).then(|| excesses(&shifts, heads))
    };
    let without: Vec<_> = sums.blocks.iter().map(without).collect();
    let rows = sums.blocks.map_blocks(|block| block.rows as f64);
    let estimate = |(place, excess): (usize, Option<f64>)| {
        let (index, shift) = (edges.start + place, shifts[place]);
        let direct = sums.is_direct.then(|| total.direct_shift_sum(index) / total.rows as f64);
        let edge = excess.map(|excess| {
            let [source, target] = EdgeIndex(sums.grid).endpoints(layers, place);
            let shift_sums = sums.blocks.map_blocks(|block| block.shift_sum(index));
            let direct_sums = sums.blocks.map_blocks(|block| block.direct_shift_sum(index));
            let ratio = direct.filter(|_| shift >= MIN_TESTED_SHIFT).map(|direct| direct / shift);
            let left_out = without.iter().map(|without| without.as_ref()?[place]).collect();
            let jackknife = Jackknife::from_leave_one_out(excess, left_out, &rows);
            Edge {
                source,
                target,
                shift,
                shift_ci95: Jackknife::new(&shift_sums, &rows).interval(),
                direct,
                ratio,
                ratio_ci95: ratio.and_then(|_| Jackknife::new(&direct_sums, &shift_sums).interval()),
                excess,
                excess_ci95: jackknife.interval(),
                p: margin.filter(|_| shift >= MIN_TESTED_SHIFT).and_then(|margin| jackknife.p_above(margin)),
                q: None,
                above: false,
            }
        });
        EdgeEstimate { shift, direct, edge }
    };
    excesses(&shifts, heads).into_iter().enumerate().map(estimate).collect()
}

/// Excess of each shift between the heads of two layers, `[sources, targets]`: `ln shift` minus the row mean, minus the column
/// mean, plus the overall mean. Without zeros, these are the residuals of an additive least-squares fit.
///
/// A shift of 0 has no logarithm: it is left out of the means and has no excess.
pub fn excesses(shifts: &[f64], heads: usize) -> Vec<Option<f64>> {
    let logs: Vec<Option<f64>> = shifts.iter().map(|&shift| (shift > 0.0).then(|| shift.ln())).collect();
    let row = |source: usize| mean_log(logs[source * heads..][..heads].iter());
    let column = |target: usize| mean_log(logs[target..].iter().step_by(heads));
    let (rows, columns): (Vec<f64>, Vec<f64>) = ((0..heads).map(row).collect(), (0..heads).map(column).collect());
    let all = mean_log(logs.iter());
    let excess = |(at, log): (usize, &Option<f64>)| log.map(|log| log - rows[at / heads] - columns[at % heads] + all);
    logs.iter().enumerate().map(excess).collect()
}

fn mean_log<'a>(logs: impl Iterator<Item = &'a Option<f64>>) -> f64 {
    let (sum, count) = logs.flatten().fold((0.0, 0.0), |(sum, count), log| (sum + log, count + 1.0));
    sum / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_edge_has_a_place() {
        let edges = EdgeIndex(HeadGrid { layers: 4, heads: 3 });
        let mut next = 0;
        for layers in edges.layer_pairs() {
            assert_eq!(edges.range_between(layers), next..next + 9);
            for place in 0..9 {
                let [source, target] = edges.endpoints(layers, place);
                assert_eq!(edges.index(source, target), next + place);
                assert!(source.layer < target.layer && (source.layer, target.layer) == layers);
            }
            next += 9;
        }
        assert_eq!((edges.count(), next), (54, 54));
        assert_eq!(EdgeIndex(HeadGrid { layers: 1, heads: 3 }).count(), 0);
        assert_eq!(EdgeIndex(HeadGrid { layers: 2, heads: 1 }).count(), 1);
    }

    #[test]
    fn an_example_by_hand() {
        // The logarithms are 0, -1, -2, -7: the means of rows -0.5 and -4.5, of columns -1 and -4, of all -2.5.
        let shifts = [0.0, -1.0, -2.0, -7.0].map(f64::exp);
        let found: Vec<f64> = excesses(&shifts, 2).into_iter().map(Option::unwrap).collect();
        for (found, expected) in found.into_iter().zip([-1.0, 1.0, 1.0, -1.0]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
    }

    #[test]
    fn what_is_not_shifted_is_in_no_mean() {
        // The first head writes nothing; between the others it is as if it were not there.
        let shifts = [0.0, 0.0, 0.0, 1.0, 2.0, 4.0, 1.0, 4.0, 32.0];
        let found = excesses(&shifts, 3);
        assert_eq!(found[..3], [None; 3]);
        // In units of ln 2: 0 1 2 / 0 2 5; means of rows 1 and 7/3, of columns 0, 3/2 and 7/2, of all 5/3.
        let expected = [2.0 / 3.0, 1.0 / 6.0, -5.0 / 6.0, -2.0 / 3.0, -1.0 / 6.0, 5.0 / 6.0];
        for (found, expected) in found[3..].iter().zip(expected) {
            assert!((found.unwrap() - expected * 2.0_f64.ln()).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(excesses(&[0.0; 4], 2), [None; 4]);
    }

    proptest! {
        /// Sources and targets that multiply leave nothing, and whatever is left has no mean by source or target.
        #[test]
        fn excess_is_what_does_not_multiply(
            sources in prop::collection::vec(0.01..1.0_f64, 3),
            targets in prop::collection::vec(0.01..1.0_f64, 3),
            noise in prop::collection::vec(0.1..1.0_f64, 9),
        ) {
            let product: Vec<f64> = (0..9).map(|place| sources[place / 3] * targets[place % 3]).collect();
            prop_assert!(excesses(&product, 3).into_iter().all(|excess| excess.unwrap().abs() < 1e-12));
            let shifts: Vec<f64> = product.iter().zip(&noise).map(|(shift, noise)| shift * noise).collect();
            let (found, of_noise) = (excesses(&shifts, 3), excesses(&noise, 3));
            for place in 0..9 {
                prop_assert!((found[place].unwrap() - of_noise[place].unwrap()).abs() < 1e-12);
            }
            let row: f64 = found[..3].iter().flatten().sum();
            prop_assert!(row.abs() < 1e-12);
        }
    }
}
