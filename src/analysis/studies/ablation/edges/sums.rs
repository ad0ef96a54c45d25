//! How far the attention of later heads shifts when an earlier head is removed, summed by block.

use std::ops::Range;

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use crate::linalg::lanes::{LANES, across};
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::Conditions;
use crate::passes::observer::requests::each_head;
use crate::passes::observer::{Demands, Event, FurtherRuns, HeadInput, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::study::instruments::roots::Roots;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shifts {
    pub rows: u64,
    pub sentences: u64,
    /// The shift of each edge, summed over the rows; nothing where there is no row: an empty block is small.
    pub edges: Vec<ExactSum>,
    /// The direct shift of each edge, likewise; nothing where that is not measured.
    pub direct: Vec<ExactSum>,
}

impl Shifts {
    pub fn mean(&self, edge: usize) -> f64 {
        self.sum(edge) / self.rows as f64
    }

    pub fn sum(&self, edge: usize) -> f64 {
        self.edges.get(edge).map_or(0.0, |sum| sum.value())
    }

    pub fn direct(&self, edge: usize) -> f64 {
        self.direct.get(edge).map_or(0.0, |sum| sum.value())
    }
}

merge_fields!(Shifts { rows, sentences, edges, direct });

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeSums {
    pub grid: HeadGrid,
    pub is_direct: bool,
    pub conditions: Conditions,
    pub blocks: Blocks<Shifts>,
}

impl EdgeSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, is_direct: false, conditions: Conditions::default(), blocks: Blocks::new(Shifts::default()) }
    }

    fn head(&mut self, state: &mut EdgeState, input: &mut HeadInput<'_>) {
        let attention = input.attention();
        let target = HeadPlace { layer: attention.layer, head: attention.head };
        if target.layer == 0 {
            return;
        }
        let (Run::Without(source) | Run::Directly(source)) = state.run else {
            return state.roots.push(attention, (self.grid.layers - 1) * self.grid.heads);
        };
        let source = self.grid.place(source);
        // The input of its layer is the same for every head of the layer.
        if source.layer >= target.layer {
            return;
        }
        let place = self.grid.index(target.layer - 1, target.head);
        let roots = state.roots.of_head(place, attention.tokens()).chunks_exact(attention.tokens());
        let rows = state.roots.rows.iter().zip(roots);
        let shift: f64 = rows.map(|(&row, roots)| squared_hellinger(roots, attention.row(row))).sum();
        let Shifts { edges, direct, .. } = &mut self.blocks[state.block];
        let sums = if matches!(state.run, Run::Directly(_)) { direct } else { edges };
        sums[Edges(self.grid).index(source, target)] += shift;
    }
}

#[derive(Debug)]
pub struct EdgeState {
    block: usize,
    run: Run,
    /// The roots of each head after the first layer, in the baseline.
    roots: Roots,
}

/// A run over a sequence; heads by their places.
#[derive(Clone, Copy, Debug)]
enum Run {
    Baseline,
    Without(usize),
    /// With everything held but the residual stream.
    Directly(usize),
}

/// The squared Hellinger distance of a row to what it was, from 0 to 1; `roots` are the square roots of the row as it was.
///
/// `1 - sum_j sqrt(a_j b_j)` of rows that sum to 1 is half of `sum_j (sqrt(a_j) - sqrt(b_j))²`, which is exactly 0 of equal
/// rows, and of nearly equal ones is not lost in the rounding of a sum near 1.
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
    (across(squares.map(f64::from), |a, b| a + b) / 2.0).min(1.0)
}

merge_fields!(EdgeSums[grid, is_direct] { conditions, blocks });

impl Sums for EdgeSums {
    type SequenceState = EdgeState;

    /// Variants without each head, except the heads of the last layer, which no head follows.
    fn demands(&self) -> Demands {
        let HeadGrid { layers, heads } = self.grid;
        let removed = each_head(self.grid).take(layers.saturating_sub(1) * heads).collect();
        let without = if self.is_direct { FurtherRuns::WithoutAndDirectly } else { FurtherRuns::Without };
        Demands { further_runs: without(removed), keeps_attention: true, ..Demands::ATTENTION }
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.conditions = known.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<EdgeState> {
        let block = block_of(sequence.family.number);
        // A model of one layer has no later head.
        let edges = Edges(self.grid).count();
        let rows: Vec<usize> = sequence.text_places().collect();
        if edges == 0 || rows.is_empty() {
            return None;
        }
        let sums = &mut self.blocks[block];
        sums.rows += rows.len() as u64;
        sums.sentences += u64::from(sequence.family.is_first);
        sums.edges.resize(edges, ExactSum::default());
        sums.direct.resize(if self.is_direct { edges } else { 0 }, ExactSum::default());
        Some(EdgeState { block, run: Run::Baseline, roots: Roots::of(rows) })
    }

    fn observe(&mut self, state: &mut EdgeState, event: &mut Event<'_>) {
        match event {
            Event::Variant(variant) => state.run = Run::Without(*variant),
            Event::Direct(variant) => state.run = Run::Directly(*variant),
            Event::Head(input) => self.head(state, input),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let count = Edges(grid).count();
        let fits = |Shifts { rows, edges, direct, .. }: &Shifts| {
            let present = if *rows == 0 { 0 } else { count };
            edges.len() == present && direct.len() == if self.is_direct { present } else { 0 }
        };
        self.grid == grid && self.blocks.fit(fits)
    }
}

/// The edges of a model, in the order of all lists: by layer of the source, layer of the target, source, target.
#[derive(Clone, Copy, Debug)]
pub struct Edges(pub HeadGrid);

impl Edges {
    pub fn count(self) -> usize {
        self.before(self.0.layers, self.0.layers)
    }

    pub fn layers(self) -> impl Iterator<Item = (usize, usize)> + Send {
        let layers = self.0.layers;
        (0..layers).flat_map(move |source| (source + 1..layers).map(move |target| (source, target)))
    }

    /// The places of the edges between two layers, `[heads of the source's, heads of the target's]`.
    pub fn between(self, (source, target): (usize, usize)) -> Range<usize> {
        let first = self.before(source, target);
        first..first + self.0.heads * self.0.heads
    }

    pub fn index(self, source: HeadPlace, target: HeadPlace) -> usize {
        self.before(source.layer, target.layer) + source.head * self.0.heads + target.head
    }

    pub fn ends(self, (source, target): (usize, usize), place: usize) -> [HeadPlace; 2] {
        let (from, to) = self.0.at(place);
        [HeadPlace { layer: source, head: from }, HeadPlace { layer: target, head: to }]
    }

    /// The edges in the list before those between two layers.
    fn before(self, source: usize, target: usize) -> usize {
        let HeadGrid { layers, heads } = self.0;
        // Earlier sources have layers - 1, layers - 2, ... targets.
        let pairs = source * (2 * layers).saturating_sub(source + 1) / 2 + target.saturating_sub(source + 1);
        pairs * heads * heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_has_a_place() {
        let edges = Edges(HeadGrid { layers: 4, heads: 3 });
        let mut next = 0;
        for layers in edges.layers() {
            assert_eq!(edges.between(layers), next..next + 9);
            for place in 0..9 {
                let [source, target] = edges.ends(layers, place);
                assert_eq!(edges.index(source, target), next + place);
                assert!(source.layer < target.layer && (source.layer, target.layer) == layers);
            }
            next += 9;
        }
        assert_eq!((edges.count(), next), (54, 54));
        assert_eq!(Edges(HeadGrid { layers: 1, heads: 3 }).count(), 0);
        assert_eq!(Edges(HeadGrid { layers: 2, heads: 1 }).count(), 1);
    }
}
