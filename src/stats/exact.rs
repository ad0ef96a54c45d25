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
        // Many sums are of what a sentence has nothing of.
        if value != 0.0 {
            self.0 += (value * ONE).round() as i128;
        }
    }
}

impl AddAssign for ExactSum {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// The place in a sum of vectors: fixed-point like [`ExactSum`], in half of the room, for there are many.
///
/// 32 of the 64 bits are the fraction: a resolution of 2.3e-10 for what one sentence adds, and a range of 2.1e9, which
/// vectors with components of 50 fill after 4 · 10^7 tokens of one block, 2.7 · 10^9 of a corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component(i64);

/// 2^32, the fixed-point unit of [`Component`].
const COMPONENT_ONE: f64 = 4_294_967_296.0;

impl Component {
    /// The sum as the nearest f64.
    #[must_use]
    pub fn value(self) -> f64 {
        self.0 as f64 / COMPONENT_ONE
    }
}

/// Added to a number below 2^51 in magnitude it leaves the nearest whole number in the lowest bits.
const WHOLE: f64 = 6_755_399_441_055_744.0;

/// The nearest whole number (ties to even) of one below 2^51 in magnitude: no processor needs a function call for it.
#[must_use]
#[inline]
pub fn nearest(value: f64) -> i64 {
    debug_assert!(value.abs() < 2_251_799_813_685_248.0, "{value} is too large");
    (value + WHOLE).to_bits().cast_signed().wrapping_sub(WHOLE.to_bits().cast_signed())
}

impl Component {
    /// Adds values below 2^19 in magnitude, such as what a sentence adds up of attention, each rounded to the resolution.
    pub fn add_all(sums: &mut [Self], values: &[f64]) {
        for (sum, value) in sums.iter_mut().zip(values) {
            sum.0 = sum.0.wrapping_add(nearest(value * COMPONENT_ONE));
        }
    }
}

impl AddAssign<f64> for Component {
    /// Rounds `value` to the resolution, then adds exactly.
    #[expect(clippy::cast_possible_truncation, reason = "the range is argued at the type")]
    fn add_assign(&mut self, value: f64) {
        debug_assert!(value.is_finite(), "a sum of contexts is finite");
        self.0 = self.0.wrapping_add((value * COMPONENT_ONE).round() as i64);
    }
}

impl AddAssign for Component {
    /// Without a check: sums of a damaged file may be anything.
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// Declares the sums of one head once: the fields, and the list of all their cells that adding goes by.
///
/// `N` is f64 within a sentence and [`ExactSum`] across sentences.
macro_rules! sums_of_a_head {
    (
        $(#[$outer:meta])*
        pub struct $name:ident;
        several { $($(#[$doc:meta])* $several:ident: $count:expr,)* }
        single { $($(#[$single_doc:meta])* $single:ident,)* }
    ) => {
        $(#[$outer])*
        ///
        /// `N` is f64 within a sentence and `ExactSum` across sentences.
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $name<N> {
            $($(#[$doc])* pub $several: [N; $count],)*
            $($(#[$single_doc])* pub $single: N,)*
        }

        impl<N> $name<N> {
            fn cells(&self) -> impl Iterator<Item = &N> {
                std::iter::empty()$(.chain(&self.$several))*.chain([$(&self.$single,)*])
            }

            fn cells_mut(&mut self) -> impl Iterator<Item = &mut N> {
                std::iter::empty()$(.chain(&mut self.$several))*.chain([$(&mut self.$single,)*])
            }
        }

        impl $name<$crate::stats::exact::ExactSum> {
            /// Adds one sentence's sums.
            pub fn add(&mut self, sentence: &$name<f64>) {
                self.cells_mut().zip(sentence.cells()).for_each(|(sum, &value)| *sum += value);
            }

            /// Adds another block's or worker's sums.
            pub fn merge(&mut self, other: &Self) {
                self.cells_mut().zip(other.cells()).for_each(|(sum, &value)| *sum += value);
            }
        }
    };
}
pub(crate) use sums_of_a_head;

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

    #[test]
    fn components_are_exact_within_their_resolution() {
        let mut sum = Component::default();
        [0.25, -1e6, 1e-9, 1e6].into_iter().for_each(|value| sum += value);
        let mut other = Component::default();
        other += -0.25;
        other += sum;
        assert!((sum.value() - 0.25 - 1e-9).abs() < 2.4e-10, "{}", sum.value());
        assert!((other.value() - 1e-9).abs() < 2.4e-10, "{}", other.value());
    }

    proptest! {
        #[test]
        fn the_nearest_whole_number_is_found(value in -2e15..2e15_f64, small in -9.0..9.0_f64) {
            for value in [value, small, value.trunc() + 0.5, small.trunc() - 0.5, 0.0] {
                prop_assert_eq!(nearest(value) as f64, value.round_ties_even());
            }
            let (mut sums, mut one) = ([Component::default()], Component::default());
            Component::add_all(&mut sums, &[small]);
            one += small;
            prop_assert!((sums[0].value() - one.value()).abs() < 2.4e-10);
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
