//! How many digits of its numbers a report keeps.

use std::ops::RangeInclusive;

/// Significant decimal digits of the floats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits(u8);

impl Digits {
    /// Every double reads back to the same value.
    pub const ALL: Self = Self(17);
    /// Six: a share of less than 500,000 words reads back to its count of words, and rounding changes a
    /// share by 5e-7 at most: less than a fiftieth of its standard error over 10^8 words, if it is between .1 and .9.
    pub const DEFAULT: Self = Self(6);
    /// The fewest and the most.
    pub const RANGE: RangeInclusive<u64> = 3..=17;

    /// The nearest number with so many digits. Rounding twice changes nothing more.
    pub fn rounded(self, value: f64) -> f64 {
        if self == Self::ALL {
            return value;
        }
        format!("{value:.*e}", usize::from(self.0) - 1).parse().expect("a float in scientific notation")
    }
}

impl TryFrom<u64> for Digits {
    type Error = &'static str;

    fn try_from(digits: u64) -> Result<Self, Self::Error> {
        let digits = u8::try_from(digits).ok().filter(|_| Self::RANGE.contains(&digits));
        digits.map(Self).ok_or("a report has 3 to 17 digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_share_keeps_its_count() {
        let six = Digits::DEFAULT;
        assert_eq!(six.rounded(2.0 / 3.0).to_string(), "0.666667");
        assert_eq!(format!("{:e}", six.rounded(-1.234_567_8e-300)), "-1.23457e-300");
        assert_eq!(six.rounded(0.0).to_string(), "0");
        for words in [3_u32, 2015, 499_999] {
            for hits in [0, 1, words / 3, words - 1, words] {
                let share = six.rounded(f64::from(hits) / f64::from(words));
                assert_eq!((share * f64::from(words)).round(), f64::from(hits), "{hits} of {words}");
            }
        }
    }

    proptest! {
        #[test]
        fn rounding_keeps_order_and_is_done_once(a in -1e300..1e300_f64, b in -1.0..1.0_f64, digits in Digits::RANGE) {
            let digits = Digits::try_from(digits).unwrap();
            let (x, y) = (digits.rounded(a), digits.rounded(b));
            prop_assert_eq!(digits.rounded(x), x);
            prop_assert!(a > b || x <= y);
            prop_assert!((x - a).abs() <= a.abs() * 0.5 * 10_f64.powi(1 - i32::from(digits.0)) * (1.0 + 1e-9));
        }
    }
}
