//! Analysis of variance of a head's attention over a pair of sentences. The variance is decomposed into columns (keys),
//! then offsets, then whether query and key are in one sentence (docs/methodology/segments.md).
//!
//! Least squares over all `n * n` cells, for `n` tokens. Rows of attention sum to 1, so each row has the mean `1/n`.
//! Centring removes rows and columns (Frisch & Waugh 1933), which leaves 20 regressors: 19 offset bins and the contrast of
//! the sentences. The products of regressors depend on the pair alone, so they are factored once for all heads.

use std::ops::Range;

use crate::model::forward::attention::AttentionView;
use crate::sequences::fold::roles::{MAX_OFFSET_TOKENS, OFFSET_COUNT};
use crate::study::instruments::head_sums::sums_of_a_head;

/// Number of bins of the offset from query to key. Bin 0 has all offsets below -8, the next 17 bins have one offset each,
/// and the last has all offsets above 8.
const OFFSET_BIN_COUNT: usize = OFFSET_COUNT + 2;

/// Number of regressors: one for each offset bin, then the contrast (whether query and key are in one sentence).
const REGRESSOR_COUNT: usize = OFFSET_BIN_COUNT + 1;

/// Residual share of a regressor's variation below which it counts as collinear with earlier regressors. Rounding leaves
/// about 1e-15; independent regressors leave more than 1e-5 at any length up to 512.
const COLLINEAR_RESIDUAL_SHARE: f64 = 1e-9;

sums_of_a_head! {
    /// Sums of one attention head over pairs of sentences.
    pub struct SegmentHeadSums;
    several {}
    single {
        /// Attention to other text tokens of the query's sentence, summed over text queries.
        same,
        /// Attention to other text tokens of both sentences, summed over text queries.
        any,
        /// Total sum of squares: squared deviations of all cells from `1/n`, where `n` is the number of tokens.
        total,
        /// Sum of squares explained by the columns (keys), minus the expectation from noise.
        column,
        /// Sum of squares that offset bins explain in addition to columns, minus the expectation from noise.
        offset,
        /// Sum of squares that the contrast of the sentences explains in addition to columns and offset bins, minus the
        /// expectation from noise. Negative if the attention head attends more to the other sentence.
        segment,
    }
}

/// Regressors over the attention cells of one pair of sentences, shared by all attention heads.
#[derive(Debug)]
pub struct RegressionDesign {
    /// Contrast of the sentences, `[tokens]`: 1 in the first sentence, -1 in the second, 0 for special tokens, minus the
    /// mean.
    contrast: Vec<f64>,
    /// Token ranges of both sentences.
    texts: [Range<usize>; 2],
    /// Number of queries that have each key in each offset bin, `[OFFSET_BIN_COUNT][tokens]`.
    queries_by_bin: Vec<Vec<f64>>,
    /// Cholesky factor (lower triangle) of the regressors' products. The column of a collinear regressor is 0.
    factor: [[f64; REGRESSOR_COUNT]; REGRESSOR_COUNT],
    /// Degrees of freedom of the analysis of variance: `[columns, offset bins, contrast, residual]`.
    degrees_of_freedom: [f64; 4],
    /// Buffer for one row of attention, `[tokens]`.
    row: Vec<f64>,
    /// Buffer for column sums, `[tokens]`.
    columns: Vec<f64>,
}

/// Returns the offset bin of a query and a key. Bin 0 has the keys farthest left.
fn offset_bin(query: usize, key: usize) -> usize {
    (key + MAX_OFFSET_TOKENS + 1).saturating_sub(query).min(OFFSET_BIN_COUNT - 1)
}

impl RegressionDesign {
    /// Creates the regressors of a pair of sentences with `tokens` tokens in all; `texts` has the token range of each
    /// sentence. `None` if no residual degrees of freedom are left to estimate the noise.
    pub fn new(tokens: usize, texts: [Range<usize>; 2]) -> Option<Self> {
        let n = tokens as f64;
        let mean = (texts[0].len() as f64 - texts[1].len() as f64) / n;
        let side = |token: usize| f64::from(texts[0].contains(&token)) - f64::from(texts[1].contains(&token));
        let contrast: Vec<f64> = (0..tokens).map(|token| side(token) - mean).collect();
        let (mut seen, mut row_counts) =
            (vec![vec![0.0; tokens]; OFFSET_BIN_COUNT], vec![vec![0.0; tokens]; OFFSET_BIN_COUNT]);
        let mut products = [[0.0; REGRESSOR_COUNT]; REGRESSOR_COUNT];
        for (query, from) in contrast.iter().enumerate() {
            for (key, to) in contrast.iter().enumerate() {
                let bin = offset_bin(query, key);
                seen[bin][key] += 1.0;
                row_counts[bin][query] += 1.0;
                products[OFFSET_BIN_COUNT][bin] += from * to;
            }
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let cells: Vec<f64> = seen.iter().map(|keys| keys.iter().sum()).collect();
        let product = |a: usize, b: usize| {
            let shared = if a == b { cells[a] } else { 0.0 };
            shared + (cells[a] * cells[b] / n - dot(&seen[a], &seen[b]) - dot(&row_counts[a], &row_counts[b])) / n
        };
        for (a, row) in products[..OFFSET_BIN_COUNT].iter_mut().enumerate() {
            row[..=a].iter_mut().enumerate().for_each(|(b, cell)| *cell = product(a, b));
        }
        // The regressor of sentences is the outer product of the contrast with itself, whose rows and columns sum to 0.
        products[OFFSET_BIN_COUNT][OFFSET_BIN_COUNT] = dot(&contrast, &contrast).powi(2);
        let factor = cholesky(&products);
        let rank = |terms: Range<usize>| terms.filter(|&term| factor[term][term] > 0.0).count() as f64;
        let (column, offset, segment) = (n - 1.0, rank(0..OFFSET_BIN_COUNT), rank(OFFSET_BIN_COUNT..REGRESSOR_COUNT));
        let residual = (n - 1.0) * (n - 1.0) - offset - segment;
        (residual > 0.0).then(|| Self {
            contrast,
            texts,
            queries_by_bin: seen,
            factor,
            degrees_of_freedom: [column, offset, segment, residual],
            row: vec![0.0; tokens],
            columns: vec![0.0; tokens],
        })
    }

    /// Decomposes the variance of one head's attention weights over the pair of sentences.
    pub fn decompose_variance(&mut self, view: AttentionView<'_>) -> SegmentHeadSums<f64> {
        let Self { contrast, texts, queries_by_bin: seen, factor, degrees_of_freedom: freedom, row, columns } = self;
        let tokens = contrast.len();
        let (mut total, mut products) = (0.0, [0.0; REGRESSOR_COUNT]);
        columns.fill(0.0);
        for (query, side) in contrast.iter().enumerate() {
            let weights = view.row(query);
            let mean = weights.iter().map(|&weight| f64::from(weight)).sum::<f64>() / tokens as f64;
            for ((cell, column), &weight) in row.iter_mut().zip(&mut *columns).zip(weights) {
                *cell = f64::from(weight) - mean;
                *column += *cell;
                total += *cell * *cell;
            }
            let sum_of = |cells: &Range<usize>| row[cells.clone()].iter().sum::<f64>();
            let near_keys = query.saturating_sub(MAX_OFFSET_TOKENS)..(query + MAX_OFFSET_TOKENS + 1).min(tokens);
            products[0] += sum_of(&(0..near_keys.start));
            near_keys.clone().for_each(|key| products[offset_bin(query, key)] += row[key]);
            products[OFFSET_BIN_COUNT - 1] += sum_of(&(near_keys.end..tokens));
            products[OFFSET_BIN_COUNT] += side * (sum_of(&texts[0]) - sum_of(&texts[1]));
        }
        let n = tokens as f64;
        for (product, seen) in products.iter_mut().zip(seen) {
            *product -= seen.iter().zip(&*columns).map(|(seen, column)| seen * column).sum::<f64>() / n;
        }
        let parts = forward_substitute(factor, products);
        let squares = |parts: &[f64]| parts.iter().map(|part| part * part).sum::<f64>();
        let (column, offset, segment) =
            (squares(columns) / n, squares(&parts[..OFFSET_BIN_COUNT]), squares(&parts[OFFSET_BIN_COUNT..]));
        // The residual mean square estimates the noise, and each degree of freedom explains as much by chance.
        let [column_freedom, offset_freedom, segment_freedom, residual] = *freedom;
        let noise = (total - column - offset - segment).max(0.0) / residual;
        SegmentHeadSums {
            total,
            column: column - column_freedom * noise,
            offset: offset - offset_freedom * noise,
            segment: (segment - segment_freedom * noise) * parts[OFFSET_BIN_COUNT].signum(),
            ..SegmentHeadSums::default()
        }
    }
}

/// Returns the Cholesky factor of a positive semidefinite matrix, from its lower half. The column of a collinear
/// regressor stays 0.
fn cholesky(products: &[[f64; REGRESSOR_COUNT]; REGRESSOR_COUNT]) -> [[f64; REGRESSOR_COUNT]; REGRESSOR_COUNT] {
    let mut factor = [[0.0; REGRESSOR_COUNT]; REGRESSOR_COUNT];
    for column in 0..REGRESSOR_COUNT {
        let unexplained = |row: usize, factor: &[[f64; REGRESSOR_COUNT]; REGRESSOR_COUNT]| {
            let explained = factor[row][..column].iter().zip(&factor[column]).map(|(a, b)| a * b).sum::<f64>();
            products[row][column] - explained
        };
        let diagonal = unexplained(column, &factor);
        if diagonal <= COLLINEAR_RESIDUAL_SHARE * products[column][column] {
            continue;
        }
        let root = diagonal.sqrt();
        factor[column][column] = root;
        for row in column + 1..REGRESSOR_COUNT {
            factor[row][column] = unexplained(row, &factor) / root;
        }
    }
    factor
}

/// Returns the response's coordinates along the orthogonalised regressors. Each squared coordinate is the sum of squares
/// that its regressor explains after earlier regressors.
fn forward_substitute(
    factor: &[[f64; REGRESSOR_COUNT]; REGRESSOR_COUNT],
    products: [f64; REGRESSOR_COUNT],
) -> [f64; REGRESSOR_COUNT] {
    let mut parts = [0.0; REGRESSOR_COUNT];
    for (term, product) in products.into_iter().enumerate() {
        let diagonal = factor[term][term];
        if diagonal > 0.0 {
            let explained = factor[term][..term].iter().zip(&parts).map(|(a, b)| a * b).sum::<f64>();
            parts[term] = (product - explained) / diagonal;
        }
    }
    parts
}

#[cfg(test)]
mod tests;
