//! Second derivatives of the losses of fits, which need not be exact.

use std::iter::zip;

use crate::linalg::matmul::{Matrix, MatrixMut, multiply};

pub const ROWS: usize = 4096;

/// A sum of products `x xᵀ` of rows `x`, `[size, size]`: of some rows at a time in single precision, their sums in double.
pub struct Curvature {
    pub whole: Vec<f64>,
    part: Vec<f32>,
    size: usize,
}

impl Curvature {
    /// A diagonal matrix, to which products are added.
    pub fn new(size: usize, diagonal: f64) -> Self {
        let cell = |place: usize| if place.is_multiple_of(size + 1) { diagonal } else { 0.0 };
        Self { whole: (0..size * size).map(cell).collect(), part: vec![0.0; size * size], size }
    }

    /// Adds the products of rows, divided by a count.
    pub fn add(&mut self, rows: &[f32], count: f64) {
        let own = Matrix::new(rows, rows.len() / self.size.max(1), self.size);
        multiply(MatrixMut::new(&mut self.part, self.size, self.size), own.transposed(), own);
        zip(&mut self.whole, &self.part).for_each(|(sum, more)| *sum += f64::from(*more) / count);
    }
}

/// Makes of rows `x` with probabilities `p` the rows `sqrt p (x - m)`, `m = sum p x`; `mean` is room for a row.
#[expect(clippy::cast_possible_truncation, reason = "second derivatives need not be exact")]
pub fn centre(rows: &mut [f32], shares: &[f64], mean: &mut [f32]) {
    mean.fill(0.0);
    for (row, &share) in zip(rows.chunks_exact(mean.len()), shares) {
        zip(&mut *mean, row).for_each(|(mean, x)| *mean += share as f32 * x);
    }
    for (row, &share) in zip(rows.chunks_exact_mut(mean.len()), shares) {
        let root = share.sqrt() as f32;
        zip(row, &*mean).for_each(|(x, mean)| *x = root * (*x - mean));
    }
}
