//! How far the heads of a model differ in where they look and in what they write, summed by block.

use serde::{Deserialize, Serialize};

use super::batches::{Batches, Outputs};
use super::compare::HeadPairs;
use super::disagreement::{Disagreement, LayerSums};
use super::weights::Weighed;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, block_of, merge_fields};
use crate::stats::exact::{Component, ExactSum, add_each};
use crate::study::instruments::roots::{Roots, from_even};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimilarityTotals {
    pub rows: u64,
    pub sentences: u64,
    /// The squared Hellinger distance of each pair of heads, summed over the rows; empty without rows, so that a block is small.
    pub distances: Vec<Component>,
    /// As `distances`, of each head from even attention, `[layers * heads]`.
    pub from_even: Vec<Component>,
    /// The disagreement of the heads of each layer, summed over the rows, `[layers]`; empty without rows.
    pub disagreement: Vec<Disagreement>,
    pub batches: u64,
    pub batched: u64,
    /// The sum over batches of `(n - 3) HSIC1` for each pair of heads, and for each with itself; empty without a batch.
    pub covariances: Vec<ExactSum>,
}

merge_fields!(SimilarityTotals { rows, sentences, distances, from_even, disagreement, batches, batched, covariances });

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimilaritySums {
    pub grid: HeadGrid,
    classes: LayerClasses,
    pub blocks: Blocks<SimilarityTotals>,
    /// The similarity by the weights; `None` if the encoder gives no access to them.
    pub weighed: Option<Weighed>,
    #[serde(skip)]
    outputs: Outputs,
}

impl SimilaritySums {
    pub fn new(grid: HeadGrid, classes: &LayerClasses) -> Self {
        let blocks = Blocks::new(SimilarityTotals::default());
        Self { grid, classes: classes.clone(), blocks, weighed: None, outputs: Outputs::default() }
    }

    /// Adds rows, and the squared distances summed over rows: of all pairs, and of each head from even attention.
    pub(super) fn add_distances(&mut self, block: usize, rows: usize, [squares, from_even]: [&[f64]; 2]) {
        let sums = &mut self.blocks[block];
        sums.rows += rows as u64;
        sums.distances.resize(HeadPairs(self.grid.count()).count(), Component::default());
        sums.from_even.resize(self.grid.count(), Component::default());
        sums.disagreement.resize(self.grid.layers, Disagreement::default());
        add_each(&mut sums.distances, squares);
        add_each(&mut sums.from_even, from_even);
    }

    /// Adds what the batches of a pack come to, to the block of its first sentence.
    pub(super) fn add_batches(&mut self, batches: &Batches) {
        let sums = &mut self.blocks[batches.block];
        sums.batches += batches.count;
        sums.batched += batches.tokens;
        sums.covariances.resize(batches.covariances.len(), ExactSum::default());
        add_each(&mut sums.covariances, &batches.covariances);
    }

    /// Adds the distances of a sequence whose pack is over, and with the first sequence the batches of the pack.
    fn end_pack(&mut self, block: usize, roots: &Roots) {
        if !roots.values().is_empty() {
            let heads = self.grid.count();
            let tokens = roots.values().len() / heads / roots.rows.len();
            let from_even: Vec<f64> = (0..heads)
                .map(|place| {
                    let visibility = self.classes.of_layer(self.grid.at(place).0);
                    from_even(roots.of_head(place, tokens), &roots.rows, (visibility, tokens))
                })
                .collect();
            self.add_distances(block, 0, [&distances(roots.values(), heads), &from_even]);
        }
        if let Some(batches) = self.outputs.end(self.grid.count()) {
            self.add_batches(&batches);
        }
    }
}

#[derive(Debug)]
pub struct SimilarityState {
    block: usize,
    roots: Roots,
    /// The numbers of its sentences whose outputs are compared, each with its tokens; none unless it is the first of its family.
    compared: Vec<(usize, Vec<usize>)>,
    layer: LayerSums,
}

/// Columns of square roots that are summed in f32 before the sum goes on in f64.
const COLUMNS: usize = 2048;

/// The squared Hellinger distances of all pairs, summed over the rows of `roots`, `[heads, rows * tokens]`: half of
/// `|a|² + |b|² - 2 a · b`, which is exactly 0 of equal rows.
fn distances(roots: &[f32], heads: usize) -> Vec<f64> {
    let size = roots.len() / heads;
    let (mut sums, mut part) = (vec![0.0; heads * heads], vec![0.0_f32; heads * heads]);
    for first in (0..size).step_by(COLUMNS) {
        let columns = COLUMNS.min(size - first);
        let roots = Matrix::strided(&roots[first..], heads, columns, size);
        multiply(MatrixMut::new(&mut part, heads, heads), roots, roots.transposed());
        sums.iter_mut().zip(&part).for_each(|(sum, &part)| *sum += f64::from(part));
    }
    let own = |head: usize| sums[head * heads + head];
    HeadPairs(heads).all().map(|[a, b]| f64::midpoint(own(a), own(b)) - sums[b * heads + a]).collect()
}

merge_fields!(SimilaritySums[grid, classes] { blocks, weighed });

impl Sums for SimilaritySums {
    type SequenceState = SimilarityState;

    fn demands(&self) -> Demands {
        Demands {
            needs: Needs { values: true, outputs: true, ..Needs::ATTENTION },
            keeps_attention: true,
            ..Demands::default()
        }
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.weighed = known.encoder.and_then(|encoder| Weighed::new(encoder, self.grid));
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<SimilarityState> {
        let block = block_of(sequence.family.number);
        let rows: Vec<usize> = sequence.text_places().collect();
        if rows.is_empty() {
            return None;
        }
        self.blocks[block].sentences += u64::from(sequence.family.is_first);
        self.add_distances(block, rows.len(), [&[]; 2]);
        let sentences = sequence.text_places_of_sentences().into_iter().filter(|places| !places.is_empty());
        let sentences = sentences.filter(|_| sequence.family.is_first);
        // Batches span documents, so their blocks are those of the sentences that they begin with.
        let sentence = sequence.document_number.map_or(block, |_| block_of(sequence.index));
        let compared = sentences.map(|places| (self.outputs.begin(sentence, places.len()), places)).collect();
        Some(SimilarityState { block, roots: Roots::of(rows), compared, layer: LayerSums::default() })
    }

    fn observe(&mut self, state: &mut SimilarityState, event: &mut Event<'_>) {
        let SimilarityState { block, roots, compared, layer } = state;
        let input = match event {
            Event::Head(input) => input,
            Event::PackOver => return self.end_pack(*block, roots),
            _ => return,
        };
        let (view, HeadGrid { heads, .. }) = (input.view, self.grid);
        roots.push(view.attention, self.grid.count());
        let (Some(output), Some(values)) = (view.output, view.values) else { return };
        for (number, places) in compared {
            let written = places.iter().map(|&row| [output.contexts.row(row), output.products.row(row)]);
            self.outputs.add(*number, (view.head, heads), written);
        }
        layer.add(&roots.rows, view.attention, values, output.contexts);
        if view.head + 1 == heads {
            self.blocks[*block].disagreement[view.layer].merge(&layer.finish(heads));
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        let pairs = HeadPairs(grid.count());
        let has = |there: bool, length: usize, expected: usize| length == if there { expected } else { 0 };
        let fits = |block: &SimilarityTotals| {
            has(block.rows > 0, block.distances.len(), pairs.count())
                && has(block.rows > 0, block.from_even.len(), grid.count())
                && has(block.rows > 0, block.disagreement.len(), grid.layers)
                && has(block.batches > 0, block.covariances.len(), pairs.count_with_self())
        };
        (self.grid, &self.classes) == (grid, classes)
            && self.blocks.fit(fits)
            && self.weighed.as_ref().is_none_or(|weighed| weighed.fits(grid))
    }
}
