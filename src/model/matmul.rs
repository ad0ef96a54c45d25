//! Matrix products on slices: the `gemm` crate behind a safe interface.

use gemm::{Parallelism, gemm};

/// A matrix to read, with strides in values.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix.
    ///
    /// # Panics
    ///
    /// If `values` is shorter than `rows * columns`.
    #[must_use]
    pub fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        let size = rows.checked_mul(columns);
        assert!(size.is_some_and(|size| values.len() >= size), "a matrix of {rows} x {columns}");
        Self { values, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// The same values, read by columns.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// A row-major matrix to write, with room between its rows.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    values: &'a mut [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
}

impl<'a> MatrixMut<'a> {
    /// A matrix whose rows follow each other.
    ///
    /// # Panics
    ///
    /// If `values` is shorter than `rows * columns`.
    #[must_use]
    pub fn new(values: &'a mut [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// A matrix whose rows begin `row_stride` values apart.
    ///
    /// # Panics
    ///
    /// If `values` does not reach to the end of the last row, or rows overlap.
    #[must_use]
    pub fn strided(values: &'a mut [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        let reach = rows.checked_sub(1).map_or(Some(0), |last| last.checked_mul(row_stride)?.checked_add(columns));
        let fits = row_stride >= columns && reach.is_some_and(|reach| values.len() >= reach);
        assert!(fits, "a matrix of {rows} x {columns}, stride {row_stride}");
        Self { values, rows, columns, row_stride }
    }
}

/// `into = a b`, on this thread.
///
/// # Panics
///
/// If the shapes do not fit.
#[expect(clippy::needless_pass_by_value, reason = "what is written is borrowed for the one call")]
pub fn multiply(into: MatrixMut<'_>, a: Matrix<'_>, b: Matrix<'_>) {
    assert_eq!((into.rows, a.columns, b.columns), (a.rows, b.rows, into.columns), "shapes fit");
    let stride = |stride: usize| isize::try_from(stride).expect("a slice is shorter than isize::MAX");
    // SAFETY: the constructors checked that every index (row * row_stride + column * column_stride) of each matrix is
    // inside its slice, the shapes fit, and `into` is borrowed mutably, so it overlaps neither `a` nor `b`.
    // gemm itself has no safe interface.
    unsafe {
        gemm(
            into.rows,
            into.columns,
            a.columns,
            into.values.as_mut_ptr(),
            1,
            stride(into.row_stride),
            false,
            a.values.as_ptr(),
            stride(a.column_stride),
            stride(a.row_stride),
            b.values.as_ptr(),
            stride(b.column_stride),
            stride(b.row_stride),
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_product() {
        // [1 2; 3 4; 5 6] times the transpose of [1 0; 0 1; 1 1], into the first three of four columns.
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let mut c = [-1.0; 12];
        multiply(MatrixMut::strided(&mut c, 3, 3, 4), Matrix::new(&a, 3, 2), Matrix::new(&b, 3, 2).transposed());
        assert_eq!(c, [1.0, 2.0, 3.0, -1.0, 3.0, 4.0, 7.0, -1.0, 5.0, 6.0, 11.0, -1.0]);
    }

    #[test]
    #[should_panic(expected = "a matrix of 4294967296 x 4294967296")]
    fn sizes_that_overflow() {
        let _ = Matrix::new(&[], 1 << 32, 1 << 32);
    }

    #[test]
    #[should_panic(expected = "shapes fit")]
    fn shapes_that_do_not_fit() {
        let mut c = [0.0; 4];
        multiply(MatrixMut::new(&mut c, 2, 2), Matrix::new(&[1.0; 6], 2, 3), Matrix::new(&[1.0; 4], 2, 2));
    }
}
