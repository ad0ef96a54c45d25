//! Sums of vectors and of their products, by lanes.
//!
//! Plain loops: a closure that is handed on may not be compiled for the instruction set of its caller, and without that
//! instruction a fused multiply-add is a call.

use std::ops::Range;

use crate::linalg::lanes::{LANES, across};
use crate::model::forward::rows::Rows;

/// Adds rows to `into`, `[width]`.
#[inline(always)]
pub fn add_rows(rows: Rows<'_>, of: &[Range<usize>], into: &mut [f64]) {
    let (blocks, rest) = into.as_chunks_mut::<LANES>();
    let whole = blocks.len() * LANES;
    for (number, block) in blocks.iter_mut().enumerate() {
        let mut sums = *block;
        for run in of {
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
        for run in of {
            for place in run.clone() {
                *sum += f64::from(rows.row(place)[whole + column]);
            }
        }
    }
}

/// The dot product of two vectors of sums.
#[inline(always)]
pub fn inner(a: &[f64], b: &[f64]) -> f64 {
    let mut partial = [0.0; LANES];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            partial[lane] = a[lane].mul_add(b[lane], partial[lane]);
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        partial[lane] = a.mul_add(*b, partial[lane]);
    }
    across(partial, |a, b| a + b)
}

/// The dot product of a row with a vector of sums.
#[inline(always)]
pub fn inner_with_row(row: &[f32], sums: &[f64]) -> f64 {
    let mut partial = [0.0; LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    let (sum_blocks, sum_rest) = sums.as_chunks::<LANES>();
    for (row, sums) in blocks.iter().zip(sum_blocks) {
        for lane in 0..LANES {
            partial[lane] = f64::from(row[lane]).mul_add(sums[lane], partial[lane]);
        }
    }
    for (lane, (value, sum)) in rest.iter().zip(sum_rest).enumerate() {
        partial[lane] = f64::from(*value).mul_add(*sum, partial[lane]);
    }
    across(partial, |a, b| a + b)
}

/// The sums by lane of the products of two lists of whole vectors, each product rounded as f32.
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

/// The first `length` values of a buffer, which grows if it must; they are whatever was there.
#[inline(always)]
pub fn sized(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}
