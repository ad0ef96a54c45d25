//! Student's test of a ratio against a margin, by leaving out one block of sentences at a time (the jackknife: Efron &
//! Tibshirani 1993, chapter 11).

use statrs::function::beta::beta_reg;

/// The fewest blocks with a denominator for a test: with fewer, Student's distribution says more of its assumptions
/// than of the data.
pub const FEWEST_BLOCKS: usize = 20;

/// The largest difference that is one of rounding: ratios of counts below 10^9 that differ at all differ by more.
pub(super) const ROUNDING: f64 = 1e-12;

/// A ratio over all blocks of sentences, or a difference of two, and the same without each block.
#[derive(Clone, Debug, PartialEq)]
pub struct Jackknife {
    all: f64,
    /// `[blocks]`: without the block; `None` of a block that has no denominator, and so nothing to leave out.
    without: Vec<Option<f64>>,
}

impl Jackknife {
    /// The ratio `sum(numerators) / sum(denominators)`, both `[blocks]`.
    pub fn new(numerators: &[f64], denominators: &[f64]) -> Self {
        let (above, below): (f64, f64) = (numerators.iter().sum(), denominators.iter().sum());
        let without = |(numerator, denominator): (&f64, &f64)| {
            (*denominator != 0.0).then(|| (above - numerator) / (below - denominator))
        };
        Self { all: above / below, without: numerators.iter().zip(denominators).map(without).collect() }
    }

    /// This ratio less another over the same sentences in the same blocks.
    pub fn minus(&self, other: &Self) -> Self {
        let difference = |(here, there): (&Option<f64>, &Option<f64>)| {
            // If only one of the two has something to leave out, the other stays as it is.
            (here.is_some() || there.is_some()).then(|| here.unwrap_or(self.all) - there.unwrap_or(other.all))
        };
        let without = self.without.iter().zip(&other.without).map(difference).collect();
        Self { all: self.all - other.all, without }
    }

    /// The ratio or difference over all blocks.
    pub fn all(&self) -> f64 {
        self.all
    }

    /// The blocks with a denominator.
    pub fn blocks(&self) -> usize {
        self.without.iter().flatten().count()
    }

    /// The standard error, by the jackknife; `None` where fewer than [`FEWEST_BLOCKS`] have a denominator.
    pub fn standard_error(&self) -> Option<f64> {
        (self.blocks() >= FEWEST_BLOCKS).then(|| self.jackknife())
    }

    /// `SE² = (m - 1)/m · sum (θ_(b) - mean)²`, `θ_(b)` the ratio without block `b`, over the `m` blocks with a
    /// denominator.
    fn jackknife(&self) -> f64 {
        let blocks = self.blocks() as f64;
        let mean = self.without.iter().flatten().sum::<f64>() / blocks;
        let squares: f64 = self.without.iter().flatten().map(|ratio| (ratio - mean).powi(2)).sum();
        ((blocks - 1.0) / blocks * squares).sqrt()
    }
}

/// The standard error of the ratio `sum(numerators) / sum(denominators)`, both `[blocks]`, by leaving out one block at a
/// time; `None` where fewer than [`FEWEST_BLOCKS`] have a denominator.
pub fn standard_error(numerators: &[f64], denominators: &[f64]) -> Option<f64> {
    Jackknife::new(numerators, denominators).standard_error()
}

/// The two-sided p-value of an `excess` over a margin with this standard error, by Student's distribution with
/// `blocks - 1` degrees of freedom.
///
/// If the standard error is 0, the p-value is 1 without an excess, and else `None`: a constant does not show how it
/// would vary.
pub fn p_value(excess: f64, standard_error: f64, blocks: usize) -> Option<f64> {
    if standard_error <= ROUNDING {
        return (excess.abs() <= ROUNDING).then_some(1.0);
    }
    let freedom = blocks.checked_sub(1).filter(|&freedom| freedom > 0)? as f64;
    Some(student(excess / standard_error, freedom))
}

/// `P(|T| > |t|)` of Student's distribution with this many degrees of freedom, above 0.
pub fn student(t: f64, freedom: f64) -> f64 {
    // An incomplete beta function keeps small chances exact where 1 - cdf would not.
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The one-sided p-value of [`p_value`]: the chance of at least such an excess if there is none.
///
/// Families of tests for values above a margin are corrected with these p-values. With two-sided ones, values that are
/// surely below the margin would count among the discoveries, and the correction would have no effect. If the standard
/// error is 0, the p-value is 1 without an excess, and else `None`.
pub fn p_above(excess: f64, standard_error: f64, blocks: usize) -> Option<f64> {
    if standard_error <= ROUNDING && excess <= ROUNDING {
        return Some(1.0);
    }
    let half = p_value(excess, standard_error, blocks)? / 2.0;
    Some(if excess > 0.0 { half } else { 1.0 - half })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_example_by_hand() {
        // Left out one at a time: 0.3/4, 0.5/5, 0.4/3; their mean is 0.102778.
        let (differences, items) = ([0.3, 0.1, 0.2], [2.0, 1.0, 3.0]);
        let error = Jackknife::new(&differences, &items).jackknife();
        assert!((error - 0.033_793_1).abs() < 1e-7, "{error}");
        // t = 0.1 / 0.0337931 = 2.959182; with two degrees of freedom p = 1 - t / sqrt(2 + t²).
        let p = p_value(0.1, error, 3).unwrap();
        assert!((p - 0.097_742).abs() < 1e-6, "{p}");
        assert_eq!(standard_error(&differences, &items), None);
    }

    #[test]
    fn small_chances_are_those_of_a_table() {
        // Student's distribution with 63 degrees of freedom, by scipy 1.17: 2 * t.sf(t, 63).
        let table =
            [(1.998_340_542_520_741_7, 0.05), (10.5, 1.802_908_800_225_731e-15), (40.0, 1.697_427_992_090_12e-46)];
        for (t, p) in table {
            let found = p_value(t, 1.0, 64).unwrap();
            assert!((found / p - 1.0).abs() < 1e-9, "{found:e}, not {p:e}");
        }
        assert_eq!(p_value(-3.0, 1.0, 64), p_value(3.0, 1.0, 64));
    }

    #[test]
    fn what_is_below_a_margin_is_not_above_it() {
        let above = p_above(0.1, 0.033_793_1, 3).unwrap();
        assert!((above - 0.097_742 / 2.0).abs() < 1e-6, "{above}");
        let below = p_above(-0.1, 0.033_793_1, 3).unwrap();
        assert!((above + below - 1.0).abs() < 1e-12);
        assert_eq!([p_above(-0.1, 0.0, 9), p_above(0.0, 0.0, 9), p_above(0.1, 0.0, 9)], [Some(1.0), Some(1.0), None]);
    }

    #[test]
    fn what_does_not_vary_is_not_tested() {
        let words: Vec<f64> = (0..30).map(|block| f64::from(1 + block % 3)).collect();
        let third: Vec<f64> = words.iter().map(|words| words / 3.0).collect();
        let error = standard_error(&third, &words).unwrap();
        assert_eq!(p_value(1.0 / 3.0, error, 30), None);
        assert_eq!(p_value(0.0, error, 30), Some(1.0));
        assert_eq!(p_value(0.5, 1.0, 1), None);
    }

    #[test]
    fn blocks_without_a_denominator_do_not_count() {
        let blocks =
            |present: usize| -> Vec<f64> { (0..64).map(|block| f64::from(u8::from(block < present))).collect() };
        assert_eq!(standard_error(&[0.0; 64], &blocks(FEWEST_BLOCKS - 1)), None);
        assert_eq!(standard_error(&[0.0; 64], &blocks(FEWEST_BLOCKS)), Some(0.0));
    }

    proptest! {
        /// With blocks of one size it is the standard error of their mean.
        #[test]
        fn equal_blocks_have_the_standard_error_of_a_mean(values in prop::collection::vec(-9.0..9.0_f64, 20..64)) {
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let error = standard_error(&values, &vec![1.0; values.len()]).unwrap();
            prop_assert!((error - (variance / count).sqrt()).abs() < 1e-9);
        }

        #[test]
        fn more_excess_is_never_less_significant(excess in 0.0..9.0_f64, more in 0.0..9.0_f64, blocks in 2..64_usize) {
            prop_assert!(p_value(excess + more, 1.0, blocks) <= p_value(excess, 1.0, blocks).map(|p| p + 1e-12));
        }
    }
}
