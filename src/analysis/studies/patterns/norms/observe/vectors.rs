//! Sums and products of vectors by SIMD lane, in plain loops. A closure passed to another function may not be compiled for
//! the caller's instruction set. Then each fused multiply-add becomes a function call.

use std::ops::Range;

use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::model::forward::rows::Rows;

/// Adds the rows in `ranges` to `sums_of_columns`, `[width]`.
#[inline(always)]
pub fn add_rows(rows: Rows<'_>, ranges: &[Range<usize>], sums_of_columns: &mut [f64]) {
    let (blocks, rest) = sums_of_columns.as_chunks_mut::<LANES>();
    let whole = blocks.len() * LANES;
    for (number, block) in blocks.iter_mut().enumerate() {
        let mut sums = *block;
        for run in ranges {
            for place in run.clone() {
                let row = &rows.row(place)[number * LANES..][..LANES];
                for lane in 0..LANES {
                    sums[lane] += f64::from(row[lane]);
                }
            }
        }
        *block = sums;
    }
    for (column, sum) in rest.iter_mut().enumerate() {
        for run in ranges {
            for place in run.clone() {
                *sum += f64::from(rows.row(place)[whole + column]);
            }
        }
    }
}

/// Dot product of two vectors in f64, with one partial sum per SIMD lane.
#[inline(always)]
pub fn dot_f64<T: Copy + Into<f64>>(vector: &[T], sums: &[f64]) -> f64 {
    let mut partial = [0.0; LANES];
    let (blocks, rest) = vector.as_chunks::<LANES>();
    let (sum_blocks, sum_rest) = sums.as_chunks::<LANES>();
    for (vector, sums) in blocks.iter().zip(sum_blocks) {
        for lane in 0..LANES {
            partial[lane] = vector[lane].into().mul_add(sums[lane], partial[lane]);
        }
    }
    for (lane, (&value, sum)) in rest.iter().zip(sum_rest).enumerate() {
        partial[lane] = value.into().mul_add(*sum, partial[lane]);
    }
    reduce_lanes(partial, |a, b| a + b)
}

/// Adds a bias vector to a row.
#[inline(always)]
pub fn add_bias(row: &mut [f64], bias: &[f32]) {
    for (value, bias) in row.iter_mut().zip(bias) {
        *value += f64::from(*bias);
    }
}

/// Multiplies two lists elementwise in f32, and sums the products by SIMD lane. Both lists have a multiple of [`LANES`]
/// elements.
#[inline(always)]
pub fn products_by_lane(a: &[f32], b: &[f32]) -> [f64; LANES] {
    let mut partial = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            partial[lane] += f64::from(a[lane] * b[lane]);
        }
    }
    partial
}

/// Returns the first `length` elements of a buffer, with arbitrary values. Extends the buffer if it is shorter.
#[inline(always)]
pub fn resize_to(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}
