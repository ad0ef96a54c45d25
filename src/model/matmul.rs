//! Matrix products on slices: the `gemm` crate behind a safe interface for the linear layers, over the tokens of a
//! whole pack, and plain loops for the attention of one head over one sentence, which is too small for it.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use gemm::{Parallelism, gemm};
use multiversion::multiversion;

use super::kernels::LANES;

/// A row-major matrix to read, with room between its rows.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows follow each other.
    ///
    /// # Panics
    ///
    /// If `values` is shorter than `rows * columns`.
    #[must_use]
    pub fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// A matrix whose rows begin `row_stride` values apart.
    ///
    /// # Panics
    ///
    /// If `values` does not reach to the end of the last row.
    #[must_use]
    pub fn strided(values: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        let fits = reach(rows, columns, row_stride).is_some_and(|reach| values.len() >= reach);
        assert!(fits, "a matrix of {rows} x {columns}, stride {row_stride}");
        Self { values, rows, columns, row_stride }
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
        let fits = row_stride >= columns && reach(rows, columns, row_stride).is_some_and(|reach| values.len() >= reach);
        assert!(fits, "a matrix of {rows} x {columns}, stride {row_stride}");
        Self { values, rows, columns, row_stride }
    }
}

/// How many values it takes to the end of the last row; `None` if that overflows.
fn reach(rows: usize, columns: usize, row_stride: usize) -> Option<usize> {
    rows.checked_sub(1).map_or(Some(0), |last| last.checked_mul(row_stride)?.checked_add(columns))
}

/// The columns of `b` that one call of gemm gets: with them its packed part of `b` stays in the second-level cache.
/// Of 128 to 768 the best for the shapes of small and base models (docs/PERFORMANCE.md).
const COLUMNS: usize = 256;

/// The rows of `b` that one call of gemm gets, measured likewise.
const INNER: usize = 512;

/// `into = a b`, on this thread, for large matrices.
///
/// # Panics
///
/// If the shapes do not fit.
#[expect(clippy::needless_pass_by_value, reason = "what is written is borrowed for the one call")]
pub fn multiply(into: MatrixMut<'_>, a: Matrix<'_>, b: Matrix<'_>) {
    assert_eq!((into.rows, a.columns, b.columns), (a.rows, b.rows, into.columns), "shapes fit");
    let stride = |stride: usize| isize::try_from(stride).expect("a slice is shorter than isize::MAX");
    for column in (0..b.columns).step_by(COLUMNS) {
        let columns = COLUMNS.min(b.columns - column);
        for inner in (0..b.rows).step_by(INNER) {
            let add = inner > 0;
            // SAFETY: the constructors checked that every index (row * row_stride + column) of each matrix is inside
            // its slice, the shapes fit, the block lies within them, and `into` is borrowed mutably, so it overlaps
            // neither `a` nor `b`. gemm itself has no safe interface.
            unsafe {
                gemm(
                    into.rows,
                    columns,
                    INNER.min(b.rows - inner),
                    into.values[column..].as_mut_ptr(),
                    1,
                    stride(into.row_stride),
                    add,
                    a.values[inner..].as_ptr(),
                    1,
                    stride(a.row_stride),
                    b.values[inner * b.row_stride + column..].as_ptr(),
                    1,
                    stride(b.row_stride),
                    if add { 1.0 } else { 0.0 },
                    1.0,
                    false,
                    false,
                    false,
                    Parallelism::None,
                );
            }
        }
    }
}

/// `into = start + a b`, on this thread, for matrices as small as one head's attention over one sentence:
/// `start` is added to every row.
///
/// A tile of the result is kept in registers while the whole inner dimension passes: nothing is packed beforehand,
/// which is what costs more than the product itself at 20 tokens (docs/PERFORMANCE.md).
///
/// # Panics
///
/// If the shapes do not fit.
#[expect(clippy::needless_pass_by_value, reason = "what is written is borrowed for the one call")]
pub fn multiply_small(into: MatrixMut<'_>, a: Matrix<'_>, b: Matrix<'_>, start: &[f32]) {
    assert_eq!((into.rows, a.columns, b.columns), (a.rows, b.rows, into.columns), "shapes fit");
    assert_eq!(start.len(), into.columns, "one start for each column");
    tiles(into.values, into.row_stride, start, a.values, a.row_stride, a.rows, b.values, b.row_stride, b.rows);
}

/// Plain numbers and slices: from structures the compiler does not see that lengths agree, and keeps no tile in
/// registers.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
#[expect(clippy::too_many_arguments, reason = "for the reason above")]
fn tiles(
    into: &mut [f32],
    into_stride: usize,
    start: &[f32],
    a: &[f32],
    a_stride: usize,
    rows: usize,
    b: &[f32],
    b_stride: usize,
    inner: usize,
) {
    let columns = start.len();
    let mut column = 0;
    // Sixteen accumulators of the 32 registers, whatever the width.
    while columns - column >= 4 * LANES {
        tile_rows::<4, 4>(
            &mut into[column..],
            into_stride,
            &start[column..],
            a,
            a_stride,
            rows,
            &b[column..],
            b_stride,
            inner,
        );
        column += 4 * LANES;
    }
    while columns - column >= 2 * LANES {
        tile_rows::<8, 2>(
            &mut into[column..],
            into_stride,
            &start[column..],
            a,
            a_stride,
            rows,
            &b[column..],
            b_stride,
            inner,
        );
        column += 2 * LANES;
    }
    while columns - column >= LANES {
        tile_rows::<8, 1>(
            &mut into[column..],
            into_stride,
            &start[column..],
            a,
            a_stride,
            rows,
            &b[column..],
            b_stride,
            inner,
        );
        column += LANES;
    }
    for column in column..columns {
        for row in 0..rows {
            let products = a[row * a_stride..][..inner].iter().zip(b[column..].iter().step_by(b_stride));
            into[row * into_stride + column] = products.fold(start[column], |sum, (a, b)| a.mul_add(*b, sum));
        }
    }
}

/// All rows of as many columns as `VECTORS` vectors hold, `ROWS` rows at a time.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "as above")]
fn tile_rows<const ROWS: usize, const VECTORS: usize>(
    into: &mut [f32],
    into_stride: usize,
    start: &[f32],
    a: &[f32],
    a_stride: usize,
    rows: usize,
    b: &[f32],
    b_stride: usize,
    inner: usize,
) {
    let mut row = 0;
    while row + ROWS <= rows {
        let (into, a) = (&mut into[row * into_stride..], &a[row * a_stride..]);
        tile::<ROWS, VECTORS>(into, into_stride, start, a, a_stride, b, b_stride, inner);
        row += ROWS;
    }
    while row < rows {
        let (into, a) = (&mut into[row * into_stride..], &a[row * a_stride..]);
        tile::<1, VECTORS>(into, into_stride, start, a, a_stride, b, b_stride, inner);
        row += 1;
    }
}

#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "as above")]
fn tile<const ROWS: usize, const VECTORS: usize>(
    into: &mut [f32],
    into_stride: usize,
    start: &[f32],
    a: &[f32],
    a_stride: usize,
    b: &[f32],
    b_stride: usize,
    inner: usize,
) {
    // Loops over constant ranges, which the compiler unrolls and keeps in registers.
    let mut sums = [[[0.0_f32; LANES]; VECTORS]; ROWS];
    let a_rows: [&[f32]; ROWS] = std::array::from_fn(|r| &a[r * a_stride..][..inner]);
    for step in 0..inner {
        let b_row = &b[step * b_stride..][..VECTORS * LANES];
        for r in 0..ROWS {
            let x = a_rows[r][step];
            for v in 0..VECTORS {
                let b = &b_row[v * LANES..][..LANES];
                for lane in 0..LANES {
                    sums[r][v][lane] = x.mul_add(b[lane], sums[r][v][lane]);
                }
            }
        }
    }
    let start = &start[..VECTORS * LANES];
    for r in 0..ROWS {
        for v in 0..VECTORS {
            for lane in 0..LANES {
                sums[r][v][lane] += start[v * LANES + lane];
            }
            into[r * into_stride + v * LANES..][..LANES].copy_from_slice(&sums[r][v]);
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
        multiply(MatrixMut::strided(&mut c, 3, 3, 4), Matrix::new(&a, 3, 2), Matrix::new(&b, 2, 3));
        assert_eq!(c, [1.0, 2.0, 3.0, -1.0, 3.0, 4.0, 7.0, -1.0, 5.0, 6.0, 11.0, -1.0]);
        let start = [10.0, 20.0, 30.0];
        multiply_small(MatrixMut::strided(&mut c, 3, 3, 4), Matrix::new(&a, 3, 2), Matrix::new(&b, 2, 3), &start);
        assert_eq!(c, [11.0, 22.0, 33.0, -1.0, 13.0, 24.0, 37.0, -1.0, 15.0, 26.0, 41.0, -1.0]);
    }

    proptest! {
        /// Whole numbers, so that both are exact whatever the order of addition.
        #[test]
        fn both_products_are_the_same(
            (rows, inner, columns) in (1..40_usize, (0..2_usize, 1..40_usize), (0..3_usize, 1..150_usize)),
            room in 0..3_usize,
            seed in 0..1000_usize,
        ) {
            let (inner, columns) = (inner.0 * INNER + inner.1, columns.0 * COLUMNS + columns.1);
            let value = |place: usize| ((place * 31 + seed) % 17) as f32 - 8.0;
            let a: Vec<f32> = (0..rows * (inner + room)).map(value).collect();
            let b: Vec<f32> = (0..inner * (columns + room)).map(|place| value(place + 5)).collect();
            let a = Matrix::strided(&a, rows, inner, inner + room);
            let b = Matrix::strided(&b, inner, columns, columns + room);
            let mut large = vec![0.5; rows * (columns + room)];
            let mut small = large.clone();
            multiply(MatrixMut::strided(&mut large, rows, columns, columns + room), a, b);
            multiply_small(MatrixMut::strided(&mut small, rows, columns, columns + room), a, b, &vec![0.0; columns]);
            prop_assert_eq!(large, small);
        }
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
