//! Sums of vectors and of products of vectors, exact and mergeable.

use serde::{Deserialize, Serialize};

use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ComponentSum;

/// Unit in which products are summed as fixed-point numbers: with 256, sums reach 5.5e11 in steps of 6e-8.
///
/// If a component were 50 in every word, its squares of 2500 would overflow a sum after 2 · 10^8 words.
const PRODUCT_UNIT: f64 = 256.0;

/// Sums of vectors, or of matrices of products of vectors. Empty until something is added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorSums(Vec<ComponentSum>);

merge_fields!(VectorSums { 0 });

impl VectorSums {
    /// Adds the vector `values` to the sums that begin at index `at`; `len` is the number of all sums.
    pub fn add(&mut self, len: usize, at: usize, values: &[f64]) {
        self.0.resize(len, ComponentSum::default());
        self.0[at..].iter_mut().zip(values).for_each(|(sum, &value)| *sum += value);
    }

    /// Adds a matrix of products of two kinds of vectors, such as `a^T b`, `[rows, columns]`.
    pub fn add_products(&mut self, products: &[f64]) {
        self.0.resize(products.len(), ComponentSum::default());
        self.0.iter_mut().zip(products).for_each(|(sum, &value)| *sum += value / PRODUCT_UNIT);
    }

    /// Adds a matrix of products of vectors with themselves, `a^T a`, `[size, size]`. Only the upper half of the
    /// symmetric matrix is kept.
    pub fn add_squares(&mut self, products: &[f64], size: usize) {
        self.0.resize(upper_half_len(size), ComponentSum::default());
        let rows = products.chunks_exact(size).enumerate();
        let upper = rows.flat_map(|(row, values)| &values[row..]);
        self.0.iter_mut().zip(upper).for_each(|(sum, &value)| *sum += value / PRODUCT_UNIT);
    }

    /// The values of `len` sums of vectors, beginning at index `at`.
    pub fn values(&self, at: usize, len: usize) -> impl Iterator<Item = f64> {
        self.0[at..at + len].iter().map(|sum| sum.value())
    }

    /// Adds these sums of vectors to the numbers in `into`.
    pub fn add_to(&self, into: &mut [f64]) {
        into.iter_mut().zip(&self.0).for_each(|(sum, more)| *sum += more.value());
    }

    /// Adds these sums of products to the numbers in `into`, `[rows, columns]`.
    pub fn add_products_to(&self, into: &mut [f64]) {
        into.iter_mut().zip(&self.0).for_each(|(sum, more)| *sum += more.value() * PRODUCT_UNIT);
    }

    /// Adds these sums, the upper half of `a^T a`, to both halves of the symmetric matrix `into`, `[size, size]`.
    pub fn add_squares_to(&self, into: &mut [f64], size: usize) {
        let mut values = self.0.iter();
        for row in 0..size {
            for column in row..size {
                let Some(value) = values.next() else { return };
                into[row * size + column] += value.value() * PRODUCT_UNIT;
                if row != column {
                    into[column * size + row] += value.value() * PRODUCT_UNIT;
                }
            }
        }
    }

    pub fn has_len(&self, len: usize) -> bool {
        self.0.len() == len
    }
}

/// Number of cells in the upper half of a square matrix, the diagonal included.
pub fn upper_half_len(size: usize) -> usize {
    size * (size + 1) / 2
}

/// Number of matrix rows that are multiplied at a time: a third of the 384 dimensions of a small encoder.
const BAND_ROWS: usize = 128;

/// Computes the upper half of the symmetric matrix `a^T b`, `[size, size]`, from `a` and `b`, `[rows, size]`. The
/// lower half of `products` is unspecified.
pub fn upper_products(a: Matrix<'_, f64>, b: Matrix<'_, f64>, products: &mut Vec<f64>) {
    let size = a.columns();
    products.resize(size * size, 0.0);
    for first in (0..size).step_by(BAND_ROWS) {
        let (rows, columns) = (BAND_ROWS.min(size - first), size - first);
        let band = MatrixMut::with_row_stride(&mut products[first * size + first..], rows, columns, size);
        multiply(band, a.columns_from(first, rows).transposed(), b.columns_from(first, columns));
    }
}
