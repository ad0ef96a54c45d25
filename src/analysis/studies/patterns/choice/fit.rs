//! Regression of a layer's input on a token's position and embedding, fitted on each fold of the text.

use std::collections::BTreeMap;
use std::iter::zip;
use std::num::NonZeroUsize;

use super::moments::{InputMoments, LayerMoments, QuarterMoments, SpecialSums, VectorWidths};
use crate::linalg::cholesky::Cholesky;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply, multiply_add};
use crate::system::parallel::parallel_map;

/// Minimum number of text tokens per embedding dimension in a fold. With fewer, the regression overfits.
pub const MIN_TOKENS_PER_DIMENSION: u64 = 10;

/// Candidate ridge penalties, as shares of the mean square of an embedding dimension.
pub const RIDGES: [f64; 4] = [0.001, 0.01, 0.1, 1.0];

/// Regression of a layer's input on position and embedding: `x ≈ mean + positions[p] + (E - mean_embedding) weights`. Here
/// `x` is the input of a text token, `p` its position and `E` its embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerFit {
    /// Mean input over text tokens, `[hidden]`.
    pub mean: Vec<f32>,
    /// Part of the input that each position adds to the mean, `[positions, hidden]`. Later positions use the last row.
    pub positions: Vec<f32>,
    /// Regression weights of the embedding, `[embedding, hidden]`.
    pub weights: Vec<f32>,
    /// Mean input over special tokens at the start of a sequence, `[hidden]`. Without such tokens, it equals `mean`.
    pub first_token: Vec<f32>,
    /// Mean input of each special token, by token id, `[hidden]`. Tokens at the start of a sequence are left out.
    pub specials: BTreeMap<u32, Vec<f32>>,
    /// Index in [`RIDGES`] of the selected penalty.
    pub ridge: u8,
}

/// Regressions of all layers, fitted on one fold.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldFit {
    /// Mean embedding over text tokens, `[embedding]`.
    pub mean_embedding: Vec<f32>,
    /// Regression of each layer's input, `[layers]`.
    pub layers: Vec<LayerFit>,
}

impl FoldFit {
    /// Fits the regressions on each of the two folds. `None` if a fold has fewer text tokens than [`min_text_tokens`].
    pub fn fit_folds(moments: &InputMoments, threads: NonZeroUsize) -> Option<[Self; 2]> {
        let widths = moments.widths?;
        if text_tokens_per_fold(moments).into_iter().any(|tokens| tokens < min_text_tokens(widths)) {
            return None;
        }
        let quarters = moments.quarters.each_ref().map(|quarter| EmbeddingSums::new(&[quarter], widths.embedding));
        let quarter_inverses = parallel_map(threads, &quarters, |quarter| quarter.scatter_inverses(&RIDGES));
        let layers = moments.quarters[0].layers.len();
        Some([0, 1].map(|fold| {
            let pair = [fold, fold + 2];
            let fold_moments = pair.map(|quarter| &moments.quarters[quarter]);
            let halves = pair.map(|quarter| (&quarters[quarter], &quarter_inverses[quarter][..]));
            let select = |layer: usize| {
                let rows = fold_moments.map(|quarter| RowSums::new(&[&quarter.layers[layer]], widths));
                select_ridge(halves, &rows)
            };
            let fold_sums = EmbeddingSums::new(&fold_moments, widths.embedding);
            let ridges = parallel_map(threads, 0..layers, select);
            let inverses = parallel_map(threads, RIDGES, |ridge| fold_sums.scatter_inverses(&[ridge]).pop().flatten());
            let fit = |layer: usize| {
                let place = ridges[layer];
                let rows = RowSums::new(&fold_moments.map(|quarter| &quarter.layers[layer]), widths);
                fit_layer(&fold_sums, &rows, inverses[place].as_deref(), place)
            };
            let layers = parallel_map(threads, 0..layers, fit);
            Self { mean_embedding: to_f32(&fold_sums.mean_embedding()), layers }
        }))
    }
}

/// Number of text tokens in each fold.
pub fn text_tokens_per_fold(moments: &InputMoments) -> [u64; 2] {
    [0, 1].map(|fold| moments.quarters[fold].text_token_count() + moments.quarters[fold + 2].text_token_count())
}

/// Minimum number of text tokens in a fold for a fit.
pub fn min_text_tokens(widths: VectorWidths) -> u64 {
    MIN_TOKENS_PER_DIMENSION * widths.embedding as u64
}

/// Sums over the embeddings of text tokens.
struct EmbeddingSums {
    /// Number of values per embedding.
    width: usize,
    /// Number of text tokens at each position.
    tokens_by_position: Vec<f64>,
    /// Sum of embeddings at each position, `[positions, embedding]`.
    sums_by_position: Vec<f64>,
    /// Sum of the outer products `E Eᵀ` of embeddings `E`, `[embedding, embedding]`.
    outer_products: Vec<f64>,
}

impl EmbeddingSums {
    fn new(quarters: &[&QuarterMoments], width: usize) -> Self {
        let positions = quarters.iter().map(|quarter| quarter.tokens.len()).max().unwrap_or(0);
        let (mut tokens, mut at) = (vec![0.0; positions], vec![0.0; positions * width]);
        let mut squares = vec![0.0; width * width];
        for quarter in quarters {
            tokens.iter_mut().zip(&quarter.tokens).for_each(|(sum, &more)| *sum += more as f64);
            at.chunks_exact_mut(width).zip(&quarter.embeddings).for_each(|(sum, more)| more.add_to(sum));
            quarter.squares.add_squares_to(&mut squares, width);
        }
        Self { width, tokens_by_position: tokens, sums_by_position: at, outer_products: squares }
    }

    /// Number of text tokens.
    fn token_count(&self) -> f64 {
        self.tokens_by_position.iter().sum()
    }

    /// Mean embedding over text tokens, `[embedding]`.
    fn mean_embedding(&self) -> Vec<f64> {
        mean_row(&self.sums_by_position, self.width, self.token_count())
    }

    /// Inverts the scatter matrix of the embeddings, centred within positions, with each ridge penalty added to its
    /// diagonal. An inverse is `None` if the sum is not positive definite, as when the embeddings do not vary.
    fn scatter_inverses(&self, ridges: &[f64]) -> Vec<Option<Vec<f64>>> {
        let width = self.width;
        let centred = centre_products(
            self.outer_products.clone(),
            [(&self.sums_by_position, width); 2],
            &self.tokens_by_position,
        );
        let trace = centred.iter().step_by(width + 1).sum::<f64>();
        let inverse = |ridge: &f64| {
            let mut matrix = centred.clone();
            matrix.iter_mut().step_by(width + 1).for_each(|value| *value += ridge * trace / width as f64);
            let factor = Cholesky::new(matrix, width)?;
            let mut inverse = vec![0.0; width * width];
            inverse.iter_mut().step_by(width + 1).for_each(|value| *value = 1.0);
            factor.solve_lower(&mut inverse, width);
            factor.solve_upper(&mut inverse, width);
            Some(inverse)
        };
        ridges.iter().map(inverse).collect()
    }
}

/// Sums over the rows of a layer's input, one row per token.
struct RowSums {
    /// Number of values per input row.
    width: usize,
    /// Sum of text tokens' input rows at each position, `[positions, hidden]`.
    sums_by_position: Vec<f64>,
    /// Sum of the outer products `E xᵀ` of embeddings `E` and input rows `x`, `[embedding, hidden]`.
    cross_products: Vec<f64>,
    /// Sum of the squared norms of text tokens' input rows.
    squared_norms: f64,
    /// Number and summed input rows of special tokens at the start of a sequence.
    first_tokens: (f64, Vec<f64>),
    /// Number and summed input rows of the special tokens that are not at the start of a sequence, by token id.
    specials: BTreeMap<u32, (f64, Vec<f64>)>,
}

impl RowSums {
    fn new(layers: &[&LayerMoments], VectorWidths { embedding, hidden }: VectorWidths) -> Self {
        let positions = layers.iter().map(|layer| layer.rows.len()).max().unwrap_or(0);
        let none = || (0.0, vec![0.0; hidden]);
        let mut sums = Self {
            width: hidden,
            sums_by_position: vec![0.0; positions * hidden],
            cross_products: vec![0.0; embedding * hidden],
            squared_norms: 0.0,
            first_tokens: none(),
            specials: BTreeMap::new(),
        };
        let add = |(tokens, rows): &mut (f64, Vec<f64>), more: &SpecialSums| {
            *tokens += more.tokens as f64;
            more.rows.add_to(rows);
        };
        for layer in layers {
            sums.sums_by_position.chunks_exact_mut(hidden).zip(&layer.rows).for_each(|(sum, more)| more.add_to(sum));
            layer.crosses.add_products_to(&mut sums.cross_products);
            sums.squared_norms += layer.squares.value();
            add(&mut sums.first_tokens, &layer.first);
            layer.specials.iter().for_each(|(id, more)| add(sums.specials.entry(*id).or_insert_with(none), more));
        }
        sums
    }
}

/// Embedding sums of one half of a fold, and the inverted scatter matrix for each ridge penalty
/// ([`EmbeddingSums::scatter_inverses`]).
type SumsAndInverses<'a> = (&'a EmbeddingSums, &'a [Option<Vec<f64>>]);

/// Returns the index in [`RIDGES`] of the penalty with the smallest residual in cross-validation; the smaller penalty
/// among equals. Each penalty is fitted on one half of the fold and tested on the other, both ways.
fn select_ridge(halves: [SumsAndInverses<'_>; 2], rows: &[RowSums; 2]) -> usize {
    let [first, second] = [[0, 1], [1, 0]]
        .map(|[fitted, tested]| residual_squares(halves[fitted], halves[tested].0, [&rows[fitted], &rows[tested]]));
    let residuals: [f64; RIDGES.len()] = std::array::from_fn(|place| first[place] + second[place]);
    (1..RIDGES.len()).fold(0, |best, place| if residuals[place] < residuals[best] { place } else { best })
}

/// Residual sum of squares on the tested half, with the fit of the other half, for each ridge penalty.
///
/// Let `x` and `E` be a token's input and embedding. Let `c` and `d` be the fitted half's mean input and embedding at the
/// token's position, and `B` the fitted weights. The residual is the sum of `|(x - c) - (E - d) B|²`, computed from the
/// sums of the tested half.
fn residual_squares(
    (fit_sums, inverses): SumsAndInverses<'_>,
    test_sums: &EmbeddingSums,
    [fit_rows, test_rows]: [&RowSums; 2],
) -> [f64; RIDGES.len()] {
    let (embedding, hidden) = (fit_sums.width, fit_rows.width);
    let positions = test_sums.tokens_by_position.len();
    let Some(nearest) = nearest_filled_positions(&fit_sums.tokens_by_position, positions) else {
        return [0.0; RIDGES.len()];
    };
    let x_centres = position_means(&fit_rows.sums_by_position, hidden, &fit_sums.tokens_by_position, &nearest);
    let e_centres = position_means(&fit_sums.sums_by_position, embedding, &fit_sums.tokens_by_position, &nearest);
    // The sums at each position, less the centre times the number of tokens.
    let less_centres = |sums: &[f64], centres: &[f64], width: usize| -> Vec<f64> {
        let pairs = sums.chunks_exact(width).zip(centres.chunks_exact(width)).zip(&test_sums.tokens_by_position);
        pairs.flat_map(|((sums, centres), n)| zip(sums, centres).map(move |(sum, centre)| sum - n * centre)).collect()
    };
    let x = less_centres(&test_rows.sums_by_position, &x_centres, hidden);
    let e = less_centres(&test_sums.sums_by_position, &e_centres, embedding);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let total = test_rows.squared_norms - dot(&x_centres, &x) - dot(&x_centres, &test_rows.sums_by_position);
    let crosses = subtract_products(
        test_rows.cross_products.clone(),
        [embedding, hidden],
        [(&e_centres, &x), (&test_sums.sums_by_position, &x_centres)],
    );
    let squares = subtract_products(
        test_sums.outer_products.clone(),
        [embedding; 2],
        [(&e_centres, &e), (&test_sums.sums_by_position, &e_centres)],
    );
    std::array::from_fn(|place| {
        let Some(inverse) = &inverses[place] else { return total };
        let weights = regression_weights(fit_sums, fit_rows, inverse);
        let squares = Matrix::new(&squares, embedding, embedding);
        let product = matrix_product(squares, Matrix::new(&weights, embedding, hidden));
        total - 2.0 * dot(&weights, &crosses) + dot(&weights, &product)
    })
}

/// Subtracts `aᵀ b` from `products` for each pair of matrices `a`, `[positions, rows]`, and `b`, `[positions, columns]`.
fn subtract_products(mut products: Vec<f64>, [rows, columns]: [usize; 2], pairs: [(&[f64], &[f64]); 2]) -> Vec<f64> {
    let mut sum = vec![0.0; products.len()];
    // A half without tokens has no positions.
    for (a, b) in pairs.into_iter().filter(|(a, _)| !a.is_empty()) {
        let positions = a.len() / rows;
        let (a, b) = (Matrix::new(a, positions, rows), Matrix::new(b, positions, columns));
        multiply_add(MatrixMut::new(&mut sum, rows, columns), a.transposed(), b);
    }
    products.iter_mut().zip(&sum).for_each(|(product, sum)| *product -= sum);
    products
}

/// Regression weights of embeddings, `[embedding, hidden]`, from inputs and embeddings centred within positions.
fn regression_weights(sums: &EmbeddingSums, rows: &RowSums, inverse: &[f64]) -> Vec<f64> {
    let (embedding, hidden) = (sums.width, rows.width);
    let crosses = centre_products(
        rows.cross_products.clone(),
        [(&sums.sums_by_position, embedding), (&rows.sums_by_position, hidden)],
        &sums.tokens_by_position,
    );
    matrix_product(Matrix::new(inverse, embedding, embedding), Matrix::new(&crosses, embedding, hidden))
}

/// Fits one layer. Without an inverted scatter matrix, all weights are 0.
fn fit_layer(sums: &EmbeddingSums, rows: &RowSums, inverse: Option<&[f64]>, ridge: usize) -> LayerFit {
    let (embedding, hidden) = (sums.width, rows.width);
    let weights =
        inverse.map_or_else(|| vec![0.0; embedding * hidden], |inverse| regression_weights(sums, rows, inverse));
    let (mean, centre) = (mean_row(&rows.sums_by_position, hidden, sums.token_count()), sums.mean_embedding());
    let nearest = nearest_filled_positions(&sums.tokens_by_position, sums.tokens_by_position.len()).unwrap_or_default();
    let centred = |at: &[f64], width: usize, centre: &[f64]| -> Vec<f64> {
        let means = position_means(at, width, &sums.tokens_by_position, &nearest);
        means.iter().zip(centre.iter().cycle()).map(|(mean, centre)| mean - centre).collect()
    };
    let positions = centred(&rows.sums_by_position, hidden, &mean);
    let embeddings = centred(&sums.sums_by_position, embedding, &centre);
    let linear =
        matrix_product(Matrix::new(&embeddings, nearest.len(), embedding), Matrix::new(&weights, embedding, hidden));
    let positions: Vec<f64> = positions.iter().zip(&linear).map(|(row, linear)| row - linear).collect();
    let special_mean = |(tokens, sums): &(f64, Vec<f64>)| {
        to_f32(&if *tokens > 0.0 { mean_row(sums, hidden, *tokens) } else { mean.clone() })
    };
    LayerFit {
        positions: to_f32(&positions),
        weights: to_f32(&weights),
        first_token: special_mean(&rows.first_tokens),
        specials: rows.specials.iter().map(|(id, sums)| (*id, special_mean(sums))).collect(),
        mean: to_f32(&mean),
        ridge: u8::try_from(ridge).expect("a place in RIDGES"),
    }
}

/// Mean row at each position, `[positions, width]`, given the sum of rows at each position in `at`. A position without
/// tokens gets the mean of the position in `nearest`.
fn position_means(at: &[f64], width: usize, tokens: &[f64], nearest: &[usize]) -> Vec<f64> {
    let row = |&place: &usize| at[place * width..][..width].iter().map(move |sum| sum / tokens[place]);
    nearest.iter().flat_map(row).collect()
}

/// Maps each position to the position whose mean stands for it: itself, else the nearest lower one with a token, else the
/// nearest higher one. `None` if there are no tokens.
fn nearest_filled_positions(tokens: &[f64], positions: usize) -> Option<Vec<usize>> {
    let mut place = tokens.iter().position(|&tokens| tokens > 0.0)?;
    let nearest_to = |position: usize| {
        if tokens.get(position).is_some_and(|&tokens| tokens > 0.0) {
            place = position;
        }
        place
    };
    Some((0..positions).map(nearest_to).collect())
}

/// Centres a sum of outer products within positions. Subtracts `a bᵀ / n` at each position, where `a` and `b` are sums over
/// its `n` tokens.
fn centre_products(
    mut products: Vec<f64>,
    [(a, rows), (b, columns)]: [(&Vec<f64>, usize); 2],
    tokens: &[f64],
) -> Vec<f64> {
    if tokens.is_empty() {
        return products;
    }
    let divided_by_root = |sums: &[f64], width: usize| -> Vec<f64> {
        let row = |(sums, &tokens): (&[f64], &f64)| {
            let root = if tokens > 0.0 { tokens.sqrt() } else { 1.0 };
            sums.iter().map(|sum| sum / root).collect::<Vec<_>>()
        };
        sums.chunks_exact(width).zip(tokens).flat_map(row).collect()
    };
    let (a, b) = (divided_by_root(a, rows), divided_by_root(b, columns));
    let (a, b) = (Matrix::new(&a, tokens.len(), rows), Matrix::new(&b, tokens.len(), columns));
    let between = matrix_product(a.transposed(), b);
    products.iter_mut().zip(&between).for_each(|(product, between)| *product -= between);
    products
}

/// Product of two matrices, `[rows of a, columns of b]`.
fn matrix_product(a: Matrix<'_, f64>, b: Matrix<'_, f64>) -> Vec<f64> {
    let (rows, columns) = (a.rows(), b.columns());
    let mut product = vec![0.0; rows * columns];
    multiply(MatrixMut::new(&mut product, rows, columns), a, b);
    product
}

/// Sums the rows, and divides the sum by the number `tokens`.
fn mean_row(rows: &[f64], width: usize, tokens: f64) -> Vec<f64> {
    let mut sum = vec![0.0; width];
    for row in rows.chunks_exact(width) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    sum.iter_mut().for_each(|sum| *sum /= tokens);
    sum
}

#[expect(clippy::cast_possible_truncation, reason = "inputs of layers are float32")]
fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}
