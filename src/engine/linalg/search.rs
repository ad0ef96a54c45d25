//! Searches in rows of attention weights, written so that the compiler vectorises them in a caller compiled for wide vectors.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use super::lanes::{LANES, reduce_lanes};

/// The largest of `values`, whose number is a multiple of [`LANES`].
#[inline(always)]
pub fn largest<T: Copy + PartialOrd + From<f32>>(values: &[T]) -> T {
    let mut most = [T::from(f32::NEG_INFINITY); LANES];
    for chunk in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            most[lane] = if chunk[lane] > most[lane] { chunk[lane] } else { most[lane] };
        }
    }
    reduce_lanes(most, |a, b| if b > a { b } else { a })
}

/// The largest of `values` at which the mask `kept` is 1; at least 0. A mask has the values 0 and 1. Both lengths are a
/// multiple of [`LANES`].
#[inline(always)]
pub fn largest_in_mask(values: &[f32], kept: &[f32]) -> f32 {
    let mut most = [0.0; LANES];
    for (values, kept) in values.as_chunks::<LANES>().0.iter().zip(kept.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            let value = values[lane] * kept[lane];
            most[lane] = if value > most[lane] { value } else { most[lane] };
        }
    }
    largest(&most)
}

/// The index of the first of `values` that is at least `least`; 0 if none is. The number of values is a multiple of
/// [`LANES`].
#[inline(always)]
pub fn first_at_least<T: Copy + PartialOrd>(values: &[T], least: T) -> usize {
    for (number, chunk) in values.as_chunks::<LANES>().0.iter().enumerate() {
        let mut found = false;
        for &value in chunk {
            found |= value >= least;
        }
        if found {
            return number * LANES + chunk.iter().position(|&value| value >= least).unwrap_or(0);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_of_the_largest(values in prop::collection::vec(0..20_u8, 1..80)) {
            let mut padded: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
            padded.resize(values.len().next_multiple_of(LANES), -1.0);
            let most = values.iter().copied().max().unwrap();
            prop_assert_eq!(largest(&padded), f64::from(most));
            let first = values.iter().position(|&value| value == most).unwrap();
            prop_assert_eq!(first_at_least(&padded, largest(&padded)), first);
        }
    }
}
