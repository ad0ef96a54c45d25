//! Sums that do not depend on the order of addition.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// A sum kept as a fixed-point integer: adding is exact, so blocks, threads, packs and shards merge to the same value.
///
/// 64 of the 128 bits are the fraction: a resolution of 5.4e-20, and a range of 9.2e18.
/// The largest addend is a sentence's summed entropy, `n ln n` (about 3200 nats at 512 tokens),
/// so a block overflows after more than 10^15 sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactSum(i128);

/// 2^64, the fixed-point unit.
const ONE: f64 = 18_446_744_073_709_551_616.0;

impl ExactSum {
    /// The sum as the nearest f64.
    #[must_use]
    pub fn value(self) -> f64 {
        self.0 as f64 / ONE
    }
}

impl AddAssign<f64> for ExactSum {
    /// Rounds `value` to the resolution, then adds exactly.
    ///
    /// The caller checks its values for being finite: NaN counts as 0 here and infinity saturates.
    #[expect(clippy::cast_possible_truncation, reason = "the range is argued at the type")]
    fn add_assign(&mut self, value: f64) {
        debug_assert!(value.is_finite(), "a sum of attention weights is finite");
        self.0 += (value * ONE).round() as i128;
    }
}

impl AddAssign for ExactSum {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        values.iter().for_each(|&value| sum += value);
        sum
    }

    #[test]
    fn small_numbers_beside_large_ones_are_not_lost() {
        assert_eq!(sum(&[1e15, 1e-15, -1e15]).value(), 1e-15_f64.mul_add(ONE, 0.0).round() / ONE);
    }

    proptest! {
        #[test]
        fn the_order_of_addition_does_not_matter(mut values in prop::collection::vec(-1e6..1e6_f64, 0..50)) {
            let forward = sum(&values);
            values.reverse();
            prop_assert_eq!(forward, sum(&values));
        }

        #[test]
        fn merged_halves_equal_the_whole(values in prop::collection::vec(-1e6..1e6_f64, 0..50), cut in 0..50_usize) {
            let (left, right) = values.split_at(cut.min(values.len()));
            let mut merged = sum(left);
            merged += sum(right);
            prop_assert_eq!(merged, sum(&values));
            prop_assert!((merged.value() - values.iter().sum::<f64>()).abs() < 1e-6);
        }
    }
}
