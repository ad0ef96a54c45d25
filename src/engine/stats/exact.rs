//! Exact sums, which do not depend on the order of addition.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// A sum stored as a fixed-point integer. Addition is exact, so that blocks, threads, packs and shards give equal sums in
/// any order.
///
/// The fraction has 64 of the 128 bits: a resolution of 5.4e-20, and a range of 9.2e18. The largest addend is the summed
/// entropy of a sentence, at most `n ln n` (3200 nats for 512 tokens). So a block overflows only after 10^15 sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactSum(i128);

/// 2^64, the number of fixed-point units in 1.
const FIXED_POINT_UNIT: f64 = 18_446_744_073_709_551_616.0;

impl ExactSum {
    /// The sum, rounded to f64.
    pub fn value(self) -> f64 {
        self.0 as f64 / FIXED_POINT_UNIT
    }
}

impl AddAssign<f64> for ExactSum {
    /// Rounds `value` to the resolution, and adds it exactly. Callers pass finite values; otherwise NaN counts as 0, and
    /// infinity saturates.
    fn add_assign(&mut self, value: f64) {
        debug_assert!(value.is_finite(), "a sum of attention weights is finite");
        // Many addends are 0, since a sentence often has nothing to add.
        if value != 0.0 {
            self.0 += to_fixed_point(value);
        }
    }
}

/// Converts `value` to units of 2^-64, rounding halves away from 0. Shifting the bits of the number is several times faster
/// than the conversion from f64 to i128.
fn to_fixed_point(value: f64) -> i128 {
    const MANTISSA: u64 = 1 << (f64::MANTISSA_DIGITS - 1);
    /// Stored exponent of a number whose last mantissa digit is worth 2^-64.
    const UNIT_EXPONENT: i64 = 1023 + 52 - 64;
    let bits = value.to_bits();
    // A subnormal number without its first digit would be smaller still: it is 0 either way.
    let digits = i128::from((bits & (MANTISSA - 1)) | MANTISSA);
    let shift = ((bits >> 52) & 0x7ff).cast_signed() - UNIT_EXPONENT;
    let magnitude = match shift {
        // 53 digits and a sign.
        0..=74 => digits << shift,
        -53..0 => ((digits >> (-1 - shift)) + 1) >> 1,
        ..-53 => 0,
        _ => return saturated(value),
    };
    if value < 0.0 { -magnitude } else { magnitude }
}

/// Converts a value beyond the range: to the nearest bound, or NaN to 0.
#[cold]
fn saturated(value: f64) -> i128 {
    if value.is_nan() {
        return 0;
    }
    if value < 0.0 { i128::MIN } else { i128::MAX }
}

impl AddAssign for ExactSum {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// One component of a sum of vectors. As [`ExactSum`], it is a fixed-point integer, but of 64 bits: a resolution of
/// 2.3e-10, and a range of 2.1e9. If every addend were 50, it would overflow after 4 · 10^7 tokens in one block, or 2.7 ·
/// 10^9 in a corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentSum(i64);

/// 2^32, the number of fixed-point units of [`ComponentSum`] in 1.
const COMPONENT_UNIT: f64 = 4_294_967_296.0;

impl ComponentSum {
    /// The sum, rounded to f64.
    pub fn value(self) -> f64 {
        self.0 as f64 / COMPONENT_UNIT
    }
}

/// 1.5 * 2^52. Adding it to a number below [`MAX_SHIFTED`] rounds the number to an integer, which then stands in the lowest
/// bits.
const ROUNDING_SHIFT: f64 = 6_755_399_441_055_744.0;

/// 2^51, the magnitude up to which adding [`ROUNDING_SHIFT`] rounds to an integer.
const MAX_SHIFTED: f64 = 2_251_799_813_685_248.0;

/// Rounds to the nearest integer, ties to even, without a function call on any processor. The magnitude of `value` must be
/// below 2^51.
#[inline]
pub fn round_to_i64(value: f64) -> i64 {
    debug_assert!(value.abs() < MAX_SHIFTED, "{value} is too large");
    (value + ROUNDING_SHIFT).to_bits().wrapping_sub(ROUNDING_SHIFT.to_bits()).cast_signed()
}

impl AddAssign<f64> for ComponentSum {
    fn add_assign(&mut self, value: f64) {
        debug_assert!(value.is_finite(), "a sum of contexts is finite");
        let scaled = value * COMPONENT_UNIT;
        let whole = if scaled.abs() < MAX_SHIFTED { round_to_i64(scaled) } else { round_to_even(scaled) };
        self.0 = self.0.wrapping_add(whole);
    }
}

/// Rounds a value that is too large for [`round_to_i64`].
#[cold]
#[expect(clippy::cast_possible_truncation, reason = "the range is argued at the type")]
fn round_to_even(scaled: f64) -> i64 {
    scaled.round_ties_even() as i64
}

impl AddAssign for ComponentSum {
    /// Adds with wrap-around, since the sums of a damaged file may overflow.
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// Adds each value to the sum with its index.
pub fn add_elementwise<S: AddAssign<V>, V: Copy>(sums: &mut [S], values: &[V]) {
    sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += value);
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
        assert_eq!(
            sum(&[1e15, 1e-15, -1e15]).value(),
            1e-15_f64.mul_add(FIXED_POINT_UNIT, 0.0).round() / FIXED_POINT_UNIT
        );
    }

    #[test]
    fn components_are_exact_within_their_resolution() {
        let mut sum = ComponentSum::default();
        [0.25, -1e6, 1e-9, 1e6].into_iter().for_each(|value| sum += value);
        let mut other = ComponentSum::default();
        other += -0.25;
        other += sum;
        assert!((sum.value() - 0.25 - 1e-9).abs() < 2.4e-10, "{}", sum.value());
        assert!((other.value() - 1e-9).abs() < 2.4e-10, "{}", other.value());
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "that is how it is converted")]
    fn sums_round_as_products_do() {
        let rounds =
            |value: f64| assert_eq!(to_fixed_point(value), (value * FIXED_POINT_UNIT).round() as i128, "{value:e}");
        let resolution = FIXED_POINT_UNIT.recip();
        for halves in [0.4, 0.5, 0.6, 1.0, 1.4, 1.5, 2.5, 3.75, 1e15 + 0.5] {
            [-1.0, 1.0].into_iter().for_each(|sign| rounds(sign * halves * resolution));
        }
        [0.1, -1e9, 9e18, -f64::MIN_POSITIVE / 2.0, 1e-300, 1e300, -1e300].into_iter().for_each(rounds);
        [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].into_iter().for_each(rounds);
    }

    #[test]
    fn components_of_any_size_are_rounded_alike() {
        // On either side of where the short way ends.
        for value in [524_287.75, -524_287.75, 524_288.75, 1e9, -1e9] {
            let mut sum = ComponentSum::default();
            sum += value;
            assert_eq!(sum.value(), value);
        }
    }

    proptest! {
        #[test]
        fn the_nearest_whole_number_is_found(value in -2e15..2e15_f64, small in -9.0..9.0_f64) {
            for value in [value, small, value.trunc() + 0.5, small.trunc() - 0.5, 0.0] {
                prop_assert_eq!(round_to_i64(value) as f64, value.round_ties_even());
            }
        }

        #[test]
        fn any_sum_rounds_as_a_product_does(value in -1e6..1e6_f64, power in -80..4_i32) {
            let value = value * 2.0_f64.powi(power);
            #[expect(clippy::cast_possible_truncation, reason = "that is how it is converted")]
            let expected = (value * FIXED_POINT_UNIT).round() as i128;
            prop_assert_eq!(to_fixed_point(value), expected);
        }

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
