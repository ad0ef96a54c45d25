//! Sums by block for the study `similarity`: differences between heads in attention and outputs, and disagreement of the heads
//! of a layer (Li et al. 2018, arXiv:1810.10183, section 3.2).

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use super::batches::{Batches, PackOutputs};
use super::compare::HeadPairs;
use super::weights::Weighed;
use crate::linalg::lanes::shifted_dot;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadValues, Needs};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, block_of, merge_fields};
use crate::stats::exact::{ComponentSum, ExactSum, add_elementwise};
use crate::study::instruments::roots::{AttentionSquareRoots, distance_from_uniform};

/// Sums over one block of sentences for the similarity of heads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimilarityTotals {
    /// Number of attention rows.
    pub rows: u64,
    /// Number of sentences with a text token, counting one per sentence family (equal or grouped sentences).
    pub sentences: u64,
    /// Squared Hellinger distance of each pair of heads, summed over attention rows. Empty until a row is observed,
    /// which saves memory.
    pub distances: Vec<ComponentSum>,
    /// Squared Hellinger distance of each head from uniform attention, summed over attention rows, `[layers *
    /// heads]`.
    pub from_even: Vec<ComponentSum>,
    /// Agreement (minus disagreement) of the heads of each layer, summed over attention rows, `[layers]`; empty without
    /// rows.
    pub disagreement: Vec<LayerAgreement>,
    /// Number of batches of tokens whose outputs are compared.
    pub batches: u64,
    /// Number of tokens in the batches.
    pub batched: u64,
    /// `(n - 3) HSIC1` of each pair of heads and of each head with itself, summed over batches of `n` tokens; empty
    /// without a batch.
    pub covariances: Vec<ExactSum>,
}

merge_fields!(SimilarityTotals { rows, sentences, distances, from_even, disagreement, batches, batched, covariances });

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimilaritySums {
    pub grid: HeadGrid,
    classes: LayerClasses,
    pub blocks: Blocks<SimilarityTotals>,
    /// Similarity of the heads by their weights; `None` without access to the weights.
    pub weighed: Option<Weighed>,
    /// Outputs of the heads in the current pack.
    #[serde(skip)]
    outputs: PackOutputs,
}

impl SimilaritySums {
    pub fn new(grid: HeadGrid, classes: &LayerClasses) -> Self {
        let blocks = Blocks::new(SimilarityTotals::default());
        Self { grid, classes: classes.clone(), blocks, weighed: None, outputs: PackOutputs::default() }
    }

    /// Counts `rows` attention rows, and adds squared distances between heads (`squares`) and from uniform attention
    /// (`from_even`).
    pub(super) fn add_distances(&mut self, block: usize, rows: usize, [squares, from_even]: [&[f64]; 2]) {
        let sums = &mut self.blocks[block];
        sums.rows += rows as u64;
        sums.distances.resize(HeadPairs(self.grid.head_count()).pair_count(), ComponentSum::default());
        sums.from_even.resize(self.grid.head_count(), ComponentSum::default());
        sums.disagreement.resize(self.grid.layers, LayerAgreement::default());
        add_elementwise(&mut sums.distances, squares);
        add_elementwise(&mut sums.from_even, from_even);
    }

    pub(super) fn add_batches(&mut self, batches: &Batches) {
        let sums = &mut self.blocks[batches.block];
        sums.batches += batches.count;
        sums.batched += batches.tokens;
        sums.covariances.resize(batches.covariances.len(), ExactSum::default());
        add_elementwise(&mut sums.covariances, &batches.covariances);
    }

    /// Adds the distances between all heads in a sequence, from its `roots`. Once per pack, also adds the sums over the
    /// pack's batches.
    fn end_pack(&mut self, block: usize, roots: &AttentionSquareRoots) {
        if !roots.values().is_empty() {
            let heads = self.grid.head_count();
            let tokens = roots.values().len() / heads / roots.rows.len();
            let from_even: Vec<f64> = (0..heads)
                .map(|place| {
                    let visibility = self.classes.layer_visibility(self.grid.layer_and_head(place).0);
                    distance_from_uniform(roots.head_square_roots(place, tokens), &roots.rows, (visibility, tokens))
                })
                .collect();
            self.add_distances(block, 0, [&squared_distances(roots.values(), heads), &from_even]);
        }
        if let Some(batches) = self.outputs.end_pack(self.grid.head_count()) {
            self.add_batches(&batches);
        }
    }
}

#[derive(Debug)]
pub struct SimilarityState {
    block: usize,
    /// Square roots of the attention rows of all heads.
    roots: AttentionSquareRoots,
    /// Sentences whose outputs are compared, as `(number in the pack, positions of text tokens)`. Empty if the sequence
    /// is not the first of its sentence family.
    compared: Vec<(usize, Vec<usize>)>,
    /// Sums over the heads of the current layer.
    layer: LayerSums,
}

/// Number of columns of square roots that are summed in f32 before the sum is added to an f64.
const F32_SUM_COLUMNS: usize = 2048;

/// Squared Hellinger distances of all pairs of heads, summed over rows. `roots` has the square roots of the
/// attention, `[heads, rows * tokens]`.
///
/// The distance of heads with roots `a` and `b` is half of `|a|² + |b|² - 2 a · b`: exactly 0 for equal rows.
fn squared_distances(roots: &[f32], heads: usize) -> Vec<f64> {
    let size = roots.len() / heads;
    let (mut sums, mut part) = (vec![0.0; heads * heads], vec![0.0_f32; heads * heads]);
    for first in (0..size).step_by(F32_SUM_COLUMNS) {
        let columns = F32_SUM_COLUMNS.min(size - first);
        let roots = Matrix::with_row_stride(&roots[first..], heads, columns, size);
        multiply(MatrixMut::new(&mut part, heads, heads), roots, roots.transposed());
        sums.iter_mut().zip(&part).for_each(|(sum, &part)| *sum += f64::from(part));
    }
    let own = |head: usize| sums[head * heads + head];
    HeadPairs(heads).pairs().map(|[a, b]| f64::midpoint(own(a), own(b)) - sums[b * heads + a]).collect()
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

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.weighed = setup.encoder.and_then(|encoder| Weighed::new(encoder, self.grid));
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<SimilarityState> {
        let block = block_of(sequence.family.number);
        let rows: Vec<usize> = sequence.text_positions().collect();
        if rows.is_empty() {
            return None;
        }
        self.blocks[block].sentences += u64::from(sequence.family.is_first);
        self.add_distances(block, rows.len(), [&[]; 2]);
        let sentences = sequence.text_positions_by_sentence().into_iter().filter(|places| !places.is_empty());
        let sentences = sentences.filter(|_| sequence.family.is_first);
        // Batches span documents, so a batch belongs to the block of its first sentence.
        let sentence = sequence.document_number.map_or(block, |_| block_of(sequence.index));
        let compared = sentences.map(|places| (self.outputs.begin_sentence(sentence, places.len()), places)).collect();
        Some(SimilarityState { block, roots: AttentionSquareRoots::new(rows), compared, layer: LayerSums::default() })
    }

    fn observe(&mut self, state: &mut SimilarityState, event: &mut Event<'_>) {
        let SimilarityState { block, roots, compared, layer } = state;
        let input = match event {
            Event::Head(input) => input,
            Event::PackEnd => return self.end_pack(*block, roots),
            _ => return,
        };
        let (view, HeadGrid { heads, .. }) = (input.view, self.grid);
        roots.push(view.attention, self.grid.head_count());
        let (Some(output), Some(values)) = (view.output, view.values) else { return };
        for (number, places) in compared {
            let written = places.iter().map(|&row| [output.contexts.row(row), output.products.row(row)]);
            self.outputs.add_head(*number, (view.head, heads), written);
        }
        layer.add_head(&roots.rows, view.attention, values, output.contexts);
        if view.head + 1 == heads {
            self.blocks[*block].disagreement[view.layer].merge(&layer.agreement(heads));
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        let pairs = HeadPairs(grid.head_count());
        let has = |there: bool, length: usize, expected: usize| length == if there { expected } else { 0 };
        let fits = |block: &SimilarityTotals| {
            has(block.rows > 0, block.distances.len(), pairs.pair_count())
                && has(block.rows > 0, block.from_even.len(), grid.head_count())
                && has(block.rows > 0, block.disagreement.len(), grid.layers)
                && has(block.batches > 0, block.covariances.len(), pairs.pair_count_with_self())
        };
        (self.grid, &self.classes) == (grid, classes)
            && self.blocks.is_valid(fits)
            && self.weighed.as_ref().is_none_or(|weighed| weighed.fits(grid))
    }
}

/// Agreement of a layer's heads, summed over rows: the mean similarity of all pairs of heads, pairs of a head with
/// itself included. The disagreement of Li et al. 2018 is its negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerAgreement {
    /// Cosine of two heads' value vectors, averaged over pairs of heads and summed over rows.
    pub subspace: ExactSum,
    /// Inner product of two heads' attention rows (attended positions), averaged over pairs of heads, summed over rows.
    pub position: ExactSum,
    /// Cosine of two heads' context vectors, averaged over pairs of heads and summed over rows.
    pub output: ExactSum,
}

merge_fields!(LayerAgreement { subspace, position, output });

/// Vectors summed over the heads of a layer in one sequence. The mean product over all pairs of heads is the
/// squared length of the mean vector.
#[derive(Debug, Default)]
pub struct LayerSums {
    /// Attention weights summed over the heads, `[rows, tokens]`.
    weights: Vec<f32>,
    /// Sum of the heads' value vectors, each scaled to length 1 before it is added, `[rows, head_dim]`.
    values: Vec<f32>,
    /// Context vectors summed over the heads, each scaled to length 1, `[rows, head_dim]`.
    contexts: Vec<f32>,
}

impl LayerSums {
    /// Adds one head of the layer. `contexts` lack the value bias, which is added here.
    pub fn add_head(
        &mut self,
        rows: &[usize],
        attention: AttentionView<'_>,
        values: HeadValues<'_>,
        contexts: Rows<'_>,
    ) {
        let width = values.bias.len();
        self.weights.resize(rows.len() * attention.tokens(), 0.0);
        self.values.resize(rows.len() * width, 0.0);
        self.contexts.resize(rows.len() * width, 0.0);
        for (&row, sums) in rows.iter().zip(self.weights.chunks_exact_mut(attention.tokens())) {
            add_values(attention.row(row), sums);
        }
        let vectors = self.values.chunks_exact_mut(width).zip(self.contexts.chunks_exact_mut(width));
        for (&row, (of_values, of_contexts)) in rows.iter().zip(vectors) {
            add_direction(values.rows.row(row), values.bias, of_values);
            // Weights sum to 1, so a context contains the value bias once.
            add_direction(contexts.row(row), values.bias, of_contexts);
        }
    }

    /// Agreement of the layer's heads, summed over the rows of the sequence. Clears the sums for the next layer.
    pub fn agreement(&mut self, heads: usize) -> LayerAgreement {
        let mut take_mean_square = |vectors: fn(&mut Self) -> &mut Vec<f32>| {
            let sums = vectors(self);
            let squares = sums.iter().map(|&sum| f64::from(sum).powi(2)).sum::<f64>();
            sums.clear();
            let mut sum = ExactSum::default();
            sum += squares / (heads * heads) as f64;
            sum
        };
        LayerAgreement {
            subspace: take_mean_square(|sums| &mut sums.values),
            position: take_mean_square(|sums| &mut sums.weights),
            output: take_mean_square(|sums| &mut sums.contexts),
        }
    }
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn add_values(values: &[f32], sums: &mut [f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Adds `vector + bias`, scaled to length 1, to `sums`. A vector of zeros has no direction and adds nothing.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn add_direction(vector: &[f32], bias: &[f32], sums: &mut [f32]) {
    let square = shifted_dot(vector, bias, vector, bias);
    if square > 0.0 {
        let scale = square.sqrt().recip();
        for ((sum, value), bias) in sums.iter_mut().zip(vector).zip(bias) {
            *sum += (value + bias) * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disagreement_by_hand() {
        // Two heads, one row: values (3, 4) and (4, -3) with a bias of (1, 0) taken off, weights (1, 0) and (0.5, 0.5).
        let mut layer = LayerSums::default();
        for (weights, value) in [([0.0, 0.0, 1.0, 0.0], [2.0, 4.0]), ([0.0, 0.0, 0.5, 0.5], [3.0, -3.0])] {
            let rows = [[0.0; 2], value].concat();
            let rows = Rows::new(&rows, 2);
            let attention = AttentionView::new(0, 0, 2, &weights);
            layer.add_head(&[1], attention, HeadValues { rows, bias: &[1.0, 0.0] }, rows);
        }
        let found = layer.agreement(2);
        // The cosine is 0 between them and 1 with themselves; products of weights 1, 0.5, 0.5 and 0.5.
        assert!((found.subspace.value() - 0.5).abs() < 1e-6 && (found.output.value() - 0.5).abs() < 1e-6);
        assert!((found.position.value() - 2.5 / 4.0).abs() < 1e-6);
        assert!(layer.values.is_empty());
    }
}
