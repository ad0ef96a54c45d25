//! Similarity by the weights of heads: spectra of `W_Q W_Kᵀ`, and composition scores (how much a head reads what another writes).

use itertools::Itertools;
use nalgebra::DMatrix;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::linalg::spectra::{count_for_share, to_dmatrix};
use crate::model::forward::{Encoder, HeadWeights};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::system::parallel::{core_count, parallel_map};

/// Share of the summed squared singular values that the counted dimensions must reach (Cordonnier et al. 2020,
/// figure 1).
const COVERED_SPECTRUM_SHARE: f64 = 0.9;

/// Maximum number of listed pairs of heads for each of queries, keys and values.
const MAX_LISTED_PAIRS: usize = 5;

/// Similarity of attention heads by their weights alone: spectra and composition scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weighed {
    /// Spectrum of `W_Q W_Kᵀ` (queries and keys) for each layer.
    pub spectra: Vec<Spectrum>,
    /// Composition scores: how much heads read what heads of earlier layers write. They are hints, from weights alone.
    pub composition: Composition,
}

/// Spectrum of `W_Q W_Kᵀ` in a layer: number of largest singular values that reach 90 % of the summed squares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spectrum {
    /// Number of the layer, counted from 0.
    pub layer: usize,
    /// Number of singular values with 90 % of the summed squares, for `W_Q W_Kᵀ` of each head; at most `head_dim`.
    pub heads: Vec<usize>,
    /// Number of singular values with 90 % of the summed squares, for `W_Q W_Kᵀ` of all heads together; at most `hidden_size`.
    pub concatenated: usize,
}

/// Composition scores of all pairs of a head and a head of a later layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Composition {
    /// Score of two matrices rotated against each other at random: `1 / sqrt(hidden_size)`.
    pub random: f64,
    /// Q-composition: how strongly the later head's queries read the earlier head's output.
    pub queries: Scores,
    /// K-composition: how strongly the later head's keys read the earlier head's output.
    pub keys: Scores,
    /// V-composition: how strongly the later head's values read the earlier head's output.
    pub values: Scores,
}

/// Composition scores through one input of the later head: queries, keys or values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scores {
    /// Mean score of all pairs of heads, less the random level; null for a model of one layer.
    pub mean_above_random: Option<f64>,
    /// Pairs of heads with the largest scores, the largest first; at most five.
    pub strongest: Vec<Composed>,
}

/// Pair of attention heads with its composition score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Composed {
    /// The earlier attention head, which writes.
    pub source: HeadPlace,
    /// The attention head of a later layer, which reads.
    pub target: HeadPlace,
    /// Composition score of the pair, less the random level.
    pub above_random: f64,
}

/// Weight matrices of a layer whose attention scores are bilinear in the vectors `x` and `y` of two tokens: `x W_Q
/// W_Kᵀ yᵀ`.
type BilinearWeights<'a> = WeightParts<Matrix<'a>>;

/// A value for each of the four weight matrices of a layer.
#[derive(Clone, Copy)]
struct WeightParts<T> {
    query: T,
    key: T,
    value: T,
    output: T,
}

impl<'a> BilinearWeights<'a> {
    /// The four weight matrices of a layer; `None` if its attention scores are not bilinear.
    fn from_head_weights(HeadWeights { query_key, value, output }: HeadWeights<'a>) -> Option<Self> {
        let [query, key] = query_key?;
        Some(Self { query, key, value, output })
    }
}

impl Weighed {
    /// Computes spectra and composition scores from an encoder's weights. `None` without access to the weights, or if attention
    /// scores are not bilinear.
    pub fn new(encoder: &dyn Encoder, grid: HeadGrid) -> Option<Self> {
        let layers: Vec<BilinearWeights<'_>> = (0..grid.layers)
            .map(|layer| BilinearWeights::from_head_weights(encoder.head_weights(layer)?))
            .collect::<Option<_>>()?;
        let spectra = parallel_map(core_count(), layers.iter().enumerate(), |(layer, weights)| {
            Spectrum::new(layer, weights, grid.heads)
        });
        Some(Self { spectra, composition: Composition::new(&layers, grid) })
    }

    /// Whether there are as many layers and heads as in the model.
    pub fn fits(&self, grid: HeadGrid) -> bool {
        let Composition { queries, keys, values, .. } = &self.composition;
        let named = [queries, keys, values].into_iter().flat_map(|scores| &scores.strongest);
        self.spectra.len() == grid.layers
            && self.spectra.iter().enumerate().all(|(layer, own)| own.layer == layer && own.heads.len() == grid.heads)
            && grid.first_outside(named.flat_map(|edge| [edge.source, edge.target])).is_none()
    }
}

impl Spectrum {
    fn new(layer: usize, BilinearWeights { query, key, .. }: &BilinearWeights<'_>, heads: usize) -> Self {
        let head_dim = query.columns() / heads;
        let of_head = |head: usize| {
            let part = |weights: &Matrix<'_>| to_dmatrix(weights.columns_from(head * head_dim, head_dim));
            count_for_share(COVERED_SPECTRUM_SHARE, squared_singular_values(&part(query), &part(key)))
        };
        let (query_all, key_all) = (to_dmatrix(*query), to_dmatrix(*key));
        let concatenated = count_for_share(COVERED_SPECTRUM_SHARE, squared_singular_values(&query_all, &key_all));
        Self { layer, heads: (0..heads).map(of_head).collect(), concatenated }
    }
}

/// The squared singular values of `a bᵀ`, one for each column of `a`. They are the eigenvalues of `R aᵀa R`, where
/// `R` is the square root of `bᵀb`.
fn squared_singular_values(a: &DMatrix<f64>, b: &DMatrix<f64>) -> Vec<f64> {
    // `tr_mul` is slower: it is no blocked product.
    let (a, b) = (a.transpose() * a, b.transpose() * b);
    // The Cholesky factor serves as the root of a positive definite matrix.
    let triangle = b.clone().cholesky().map(|root| root.l());
    let root = triangle.unwrap_or_else(|| {
        let eigen = b.symmetric_eigen();
        let roots = eigen.eigenvalues.map(|value| value.max(0.0).sqrt());
        &eigen.eigenvectors * DMatrix::from_diagonal(&roots)
    });
    (root.transpose() * (a * &root)).symmetric_eigenvalues().iter().map(|value| value.max(0.0)).collect()
}

/// Gram matrix of each head's part of the four weight matrices, `[heads, head_dim, head_dim]` each.
type GramMatrices = WeightParts<Vec<f32>>;

impl GramMatrices {
    fn new(weights: &BilinearWeights<'_>, heads: usize) -> Self {
        let dim = weights.query.columns() / heads;
        let grams_of = |part: Matrix<'_>| {
            let mut grams = vec![0.0; heads * dim * dim];
            for (head, gram) in grams.chunks_exact_mut(dim * dim).enumerate() {
                let own = part.columns_from(head * dim, dim);
                multiply(MatrixMut::new(gram, dim, dim), own.transposed(), own);
            }
            grams
        };
        Self {
            query: grams_of(weights.query),
            key: grams_of(weights.key),
            value: grams_of(weights.value),
            output: grams_of(weights.output.transposed()),
        }
    }
}

/// Inner product in f64.
fn inner_product(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

impl Composition {
    /// Computes the composition scores `|A B| / (|A| |B|)` of all pairs of a head and a head of a later layer, for
    /// row vectors. Elhage et al. 2021 define them under "Composition scores".
    ///
    /// The earlier head writes by `A = W_V W_O`. The later head reads by `B = W_Q W_Kᵀ`, `W_K W_Qᵀ` or `W_V W_O`.
    fn new(layers: &[BilinearWeights<'_>], grid: HeadGrid) -> Self {
        let Some(first) = layers.first() else { return Self::default() };
        let random = 1.0 / (first.query.rows() as f64).sqrt();
        let grams = parallel_map(core_count(), layers, |weights| GramMatrices::new(weights, grid.heads));
        let pairs = (0..grid.layers).flat_map(|source| (source + 1..grid.layers).map(move |target| (source, target)));
        let found = parallel_map(core_count(), pairs.collect::<Vec<_>>(), |(source, target)| {
            let (own, other, weights) = (&grams[source], &grams[target], &layers[target]);
            let output = layers[source].output;
            let size = |a: &[f32], b: &[f32]| squared_norms(a, b, grid.heads);
            let written = size(&own.value, &own.output);
            let score = |reads: Matrix<'_>, outer: &[f32], read: &[f64]| {
                composition_scores(output, reads, (&own.value, outer), (&written, read), grid.heads)
            };
            let looks = size(&other.query, &other.key);
            let through = [
                score(weights.query, &other.key, &looks),
                score(weights.key, &other.query, &looks),
                score(weights.value, &other.output, &size(&other.value, &other.output)),
            ];
            through.map(|scores| composed_pairs(&scores, (source, target), grid.heads))
        });
        let beyond = |edge: &Composed| Composed { above_random: edge.above_random - random, ..*edge };
        let of_kind = |kind: usize| found.iter().flat_map(move |through| &through[kind]).map(beyond);
        let [queries, keys, values] = [0, 1, 2].map(|kind| Scores::new(of_kind(kind)));
        Self { random, queries, keys, values }
    }
}

/// Squared norm `|a bᵀ|²` of each head, `[heads]`, from the Gram matrices `aᵀa` and `bᵀb`.
fn squared_norms(a: &[f32], b: &[f32], heads: usize) -> Vec<f64> {
    let square = a.len() / heads;
    a.chunks_exact(square).zip(b.chunks_exact(square)).map(|(a, b)| inner_product(a, b)).collect()
}

/// Composition scores `|A B| / (|A| |B|)` of the heads of a layer (`A = W_V W_O`) with the heads of a later layer
/// (`B`), `[sources, targets]`.
///
/// `output` is `W_O` of the earlier layer, and `reads` the first factor of `B` in the later layer. `before` and
/// `after` are the Gram matrices of `W_V` and of the second factor of `B`. `written` and `read` are `|A|²` and `|B|²`
/// of each head.
fn composition_scores(
    output: Matrix<'_>,
    reads: Matrix<'_>,
    (before, after): (&[f32], &[f32]),
    (written, read): (&[f64], &[f64]),
    heads: usize,
) -> Vec<f64> {
    let (width, dim) = (output.rows(), output.rows() / heads);
    let mut middle = vec![0.0; width * width];
    multiply(MatrixMut::new(&mut middle, width, width), output, reads);
    // |W_V M W_Kᵀ|² is the inner product of (W_VᵀW_V) M and M (W_KᵀW_K).
    let (mut left, mut right) = (vec![0.0; width * width], vec![0.0; width * width]);
    let matrix = Matrix::new(&middle, width, width);
    for head in 0..heads {
        let own = head * dim * dim..(head + 1) * dim * dim;
        let (before, after) = (Matrix::new(&before[own.clone()], dim, dim), Matrix::new(&after[own], dim, dim));
        let rows = &mut left[head * dim * width..][..dim * width];
        multiply(MatrixMut::new(rows, dim, width), before, matrix.rows_in(&(head * dim..(head + 1) * dim)));
        let columns = MatrixMut::with_row_stride(&mut right[head * dim..], width, dim, width);
        multiply(columns, matrix.columns_from(head * dim, dim), after);
    }
    let score = |place: usize| {
        let (source, target) = (place / heads, place % heads);
        let rows = (0..dim).map(|row| (source * dim + row) * width + target * dim);
        let square: f64 = rows.map(|at| inner_product(&left[at..][..dim], &right[at..][..dim])).sum();
        let norms = (written[source] * read[target]).sqrt();
        if norms > 0.0 { square.max(0.0).sqrt() / norms } else { 0.0 }
    };
    (0..heads * heads).map(score).collect()
}

/// The pairs of a head and a head of a later layer, each with its composition score.
fn composed_pairs(scores: &[f64], (source, target): (usize, usize), heads: usize) -> Vec<Composed> {
    let edge = |(place, &score): (usize, &f64)| Composed {
        source: HeadPlace { layer: source, head: place / heads },
        target: HeadPlace { layer: target, head: place % heads },
        above_random: score,
    };
    scores.iter().enumerate().map(edge).collect()
}

impl Scores {
    fn new(edges: impl Iterator<Item = Composed>) -> Self {
        let edges = edges.collect_vec();
        let sum: f64 = edges.iter().map(|edge| edge.above_random).sum();
        let mean_above_random = (!edges.is_empty()).then(|| sum / edges.len() as f64);
        let ranked = edges.into_iter().sorted_by(|a, b| b.above_random.total_cmp(&a.above_random));
        Self { mean_above_random, strongest: ranked.take(MAX_LISTED_PAIRS).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squared_singular_values_by_hand() {
        let a = DMatrix::from_row_slice(3, 2, &[1.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
        let b = DMatrix::from_row_slice(3, 2, &[3.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        let sorted = |b: &DMatrix<f64>| squared_singular_values(&a, b).into_iter().sorted_by(f64::total_cmp);
        assert!(sorted(&b).zip([4.0, 9.0]).all(|(found, expected)| (found - expected).abs() < 1e-12));
        // A matrix of rank one has no triangle.
        let flat = DMatrix::from_row_slice(3, 2, &[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(sorted(&flat).zip([0.0, 5.0]).all(|(found, expected)| (found - expected).abs() < 1e-12));
    }

    #[test]
    fn composition_by_hand() {
        // Two heads of one dimension, two hidden dimensions. The first head reads and writes dimension 0, the second reads
        // dimension 1 and writes both.
        let [read, write] = [[1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 3.0, 4.0]];
        let matrix = |values| Matrix::new(values, 2, 2);
        let weights =
            BilinearWeights { query: matrix(&read), key: matrix(&read), value: matrix(&read), output: matrix(&write) };
        let found = Composition::new(&[weights, weights], HeadGrid { layers: 2, heads: 2 });
        assert!((found.random - 0.5_f64.sqrt()).abs() < 1e-12);
        let score = |source: usize, target: usize| {
            let edge = |edge: &&Composed| (edge.source.head, edge.target.head) == (source, target);
            found.queries.strongest.iter().find(edge).unwrap().above_random + found.random
        };
        for (source, target, expected) in [(0, 0, 1.0), (0, 1, 0.0), (1, 0, 0.6), (1, 1, 0.8)] {
            assert!((score(source, target) - expected).abs() < 1e-6, "{source} {target}");
        }
        assert!((found.keys.mean_above_random.unwrap() - (0.6 - found.random)).abs() < 1e-6);
    }
}
