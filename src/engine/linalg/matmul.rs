//! Matrix products on slices: the `gemm` crate behind a safe interface.

use std::ops::Range;

use gemm::{Parallelism, gemm};

/// An element type of matrices: `f32` or `f64`.
pub trait Number: Copy + From<f32> + 'static {}

impl Number for f32 {}

impl Number for f64 {}

/// A read-only view of a matrix, possibly with gaps between its rows.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T = f32> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    /// Distance between the beginnings of neighbouring rows, in values.
    row_stride: usize,
    /// Distance between neighbouring values of a row, in values.
    column_stride: usize,
}

impl<'a, T: Number> Matrix<'a, T> {
    /// Views `values` as a matrix whose rows follow each other without gaps. Panics if `values` is shorter than
    /// `rows * columns`.
    pub fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        Self::with_row_stride(values, rows, columns, columns)
    }

    /// Views `values` as a matrix whose rows begin `row_stride` values apart. Panics if `values` ends before the last row
    /// does.
    pub fn with_row_stride(values: &'a [T], rows: usize, columns: usize, row_stride: usize) -> Self {
        let fits =
            required_length(rows, columns, row_stride).is_some_and(|required_length| values.len() >= required_length);
        assert!(fits, "a matrix of {rows} x {columns}, stride {row_stride}");
        Self { values, rows, columns, row_stride, column_stride: 1 }
    }

    pub fn rows(self) -> usize {
        self.rows
    }

    pub fn columns(self) -> usize {
        self.columns
    }

    /// The value in a row and a column. Panics if the matrix has no such row or column.
    pub fn get(self, row: usize, column: usize) -> T {
        assert!(row < self.rows && column < self.columns, "a place in the matrix");
        self.values[row * self.row_stride + column * self.column_stride]
    }

    /// The view of `columns` columns, beginning with column `first`. Panics if the matrix has fewer.
    pub fn columns_from(self, first: usize, columns: usize) -> Self {
        assert!(first + columns <= self.columns, "columns of the matrix");
        Self { values: &self.values[first * self.column_stride..], columns, ..self }
    }

    /// The view of a range of rows. Panics if the matrix has fewer.
    pub fn rows_in(self, rows: &Range<usize>) -> Self {
        assert!(rows.end <= self.rows, "rows of the matrix");
        Self { values: &self.values[rows.start * self.row_stride..], rows: rows.len(), ..self }
    }

    pub fn transposed(self) -> Self {
        let Self { rows: columns, columns: rows, row_stride: column_stride, column_stride: row_stride, .. } = self;
        Self { rows, columns, row_stride, column_stride, ..self }
    }

    /// A pointer to the value in a row and a column.
    fn pointer_to(&self, row: usize, column: usize) -> *const T {
        self.values[row * self.row_stride + column * self.column_stride..].as_ptr()
    }
}

/// A mutable view of a row-major matrix, possibly with gaps between its rows.
#[derive(Debug)]
pub struct MatrixMut<'a, T = f32> {
    values: &'a mut [T],
    rows: usize,
    columns: usize,
    /// Distance between the beginnings of neighbouring rows, in values.
    row_stride: usize,
}

impl<'a, T: Number> MatrixMut<'a, T> {
    /// Views `values` as a mutable matrix whose rows follow each other without gaps. Panics if `values` is shorter than
    /// `rows * columns`.
    pub fn new(values: &'a mut [T], rows: usize, columns: usize) -> Self {
        Self::with_row_stride(values, rows, columns, columns)
    }

    /// Views `values` as a mutable matrix whose rows begin `row_stride` values apart. Panics if `values` ends before the
    /// last row does, or if rows overlap.
    pub fn with_row_stride(values: &'a mut [T], rows: usize, columns: usize, row_stride: usize) -> Self {
        let fits = row_stride >= columns
            && required_length(rows, columns, row_stride)
                .is_some_and(|required_length| values.len() >= required_length);
        assert!(fits, "a matrix of {rows} x {columns}, stride {row_stride}");
        Self { values, rows, columns, row_stride }
    }
}

/// Number of values from the first to the end of the last row; `None` on overflow.
fn required_length(rows: usize, columns: usize, row_stride: usize) -> Option<usize> {
    rows.checked_sub(1).map_or(Some(0), |last| last.checked_mul(row_stride)?.checked_add(columns))
}

/// Number of columns of the right factor in one call of gemm, so that its packed part fits into the second-level cache.
/// Fastest of 128 to 768 for the shapes of small and base models (docs/PERFORMANCE.md).
const GEMM_COLUMNS_PER_CALL: usize = 256;

/// Number of rows of the right factor in one call of gemm, chosen by measurements like [`GEMM_COLUMNS_PER_CALL`].
const GEMM_INNER_PER_CALL: usize = 512;

/// Multiplies two matrices, `into = a b`, on this thread. Panics if the shapes do not fit.
pub fn multiply<T: Number>(into: MatrixMut<'_, T>, a: Matrix<'_, T>, b: Matrix<'_, T>) {
    multiply_into(into, a, b, false);
}

/// Adds a matrix product, `into += a b`, on this thread. Panics if the shapes do not fit.
pub fn multiply_add<T: Number>(into: MatrixMut<'_, T>, a: Matrix<'_, T>, b: Matrix<'_, T>) {
    multiply_into(into, a, b, true);
}

/// Computes `into = a b`, or with `add` `into += a b`, in calls of gemm on blocks of `b`.
#[expect(clippy::needless_pass_by_value, reason = "what is written is borrowed for the one call")]
fn multiply_into<T: Number>(into: MatrixMut<'_, T>, a: Matrix<'_, T>, b: Matrix<'_, T>, add: bool) {
    assert_eq!((into.rows, a.columns, b.columns), (a.rows, b.rows, into.columns), "shapes fit");
    let stride = |stride: usize| isize::try_from(stride).expect("a slice is shorter than isize::MAX");
    for column in (0..b.columns).step_by(GEMM_COLUMNS_PER_CALL) {
        let columns = GEMM_COLUMNS_PER_CALL.min(b.columns - column);
        for inner in (0..b.rows).step_by(GEMM_INNER_PER_CALL) {
            let add = add || inner > 0;
            // SAFETY: the constructors checked that every index of each matrix is inside its slice, the shapes fit, the
            // block lies within them, and `into` is borrowed mutably, so it overlaps neither `a` nor `b`.
            // gemm itself has no safe interface.
            unsafe {
                gemm(
                    into.rows,
                    columns,
                    GEMM_INNER_PER_CALL.min(b.rows - inner),
                    into.values[column..].as_mut_ptr(),
                    1,
                    stride(into.row_stride),
                    add,
                    a.pointer_to(0, inner),
                    stride(a.column_stride),
                    stride(a.row_stride),
                    b.pointer_to(inner, column),
                    stride(b.column_stride),
                    stride(b.row_stride),
                    T::from(if add { 1.0_f32 } else { 0.0 }),
                    T::from(1.0_f32),
                    false,
                    false,
                    false,
                    Parallelism::None,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_small_product() {
        // [1 2; 3 4; 5 6] times [1 0 1; 0 1 1], into the first three of four columns.
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
        let mut c = [-1.0; 12];
        multiply(MatrixMut::with_row_stride(&mut c, 3, 3, 4), Matrix::new(&a, 3, 2), Matrix::new(&b, 2, 3));
        assert_eq!(c, [1.0, 2.0, 3.0, -1.0, 3.0, 4.0, 7.0, -1.0, 5.0, 6.0, 11.0, -1.0]);
        multiply_add(MatrixMut::with_row_stride(&mut c, 3, 3, 4), Matrix::new(&a, 3, 2), Matrix::new(&b, 2, 3));
        assert_eq!(c, [2.0, 4.0, 6.0, -1.0, 6.0, 8.0, 14.0, -1.0, 10.0, 12.0, 22.0, -1.0]);
    }

    proptest! {
        /// Whole numbers, so that sums are exact whatever the order of addition.
        #[test]
        fn products_are_what_the_definition_says(
            (rows, inner, columns) in (1..40_usize, (0..2_usize, 1..40_usize), (0..3_usize, 1..40_usize)),
            room in 0..3_usize,
            turned: bool,
            seed in 0..1000_usize,
        ) {
            let (inner, columns) = (inner.0 * GEMM_INNER_PER_CALL + inner.1, columns.0 * GEMM_COLUMNS_PER_CALL + columns.1);
            let value = |place: usize| ((place * 31 + seed) % 17) as f32 - 8.0;
            let a: Vec<f32> = (0..rows * (inner + room)).map(value).collect();
            let b: Vec<f32> = (0..(inner + room) * (columns + room)).map(|place| value(place + 5)).collect();
            let (down, across) = if turned { (1, inner + room) } else { (columns + room, 1) };
            let matrix = if turned {
                Matrix::with_row_stride(&b, columns, inner, inner + room).transposed()
            } else {
                Matrix::with_row_stride(&b, inner, columns, columns + room)
            };
            let mut product = vec![0.5; rows * (columns + room)];
            let a_matrix = Matrix::with_row_stride(&a, rows, inner, inner + room);
            multiply(MatrixMut::with_row_stride(&mut product, rows, columns, columns + room), a_matrix, matrix);
            for row in 0..rows {
                for column in 0..columns {
                    let terms = (0..inner).map(|k| a[row * (inner + room) + k] * b[k * down + column * across]);
                    prop_assert_eq!(product[row * (columns + room) + column], terms.sum::<f32>());
                }
                if row + 1 < rows {
                    prop_assert!(product[row * (columns + room) + columns..][..room].iter().all(|&value| value == 0.5));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a matrix of 4294967296 x 4294967296")]
    fn sizes_that_overflow() {
        let _ = Matrix::<f32>::new(&[], 1 << 32, 1 << 32);
    }

    #[test]
    #[should_panic(expected = "shapes fit")]
    fn shapes_that_do_not_fit() {
        let mut c = [0.0; 4];
        multiply(MatrixMut::new(&mut c, 2, 2), Matrix::new(&[1.0; 6], 2, 3), Matrix::new(&[1.0; 4], 2, 2));
    }
}
