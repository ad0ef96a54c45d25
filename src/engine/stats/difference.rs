//! Tests whether two analyses differ in a number by more than chance; docs/methodology/comparing.md has the argument.

use statrs::function::factorial::ln_binomial;

use super::block_test::{Jackknife, ROUNDING_TOLERANCE, is_testable, standard_error_from_half_width, student_p};
use super::interval::Interval;

/// Result of a test whether two numbers differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DifferenceTest {
    /// The second number minus the first.
    pub difference: f64,
    pub standard_error: f64,
    /// Two-sided p-value under the hypothesis that the true difference is within the tolerance.
    pub p: f64,
}

/// A number in a report, with its interval and its blocks, for [`welch_test`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportedNumber {
    pub value: f64,
    pub ci95: Interval,
    /// Number of blocks with a nonzero denominator.
    pub blocks: usize,
    /// Effective number of blocks: the number of equal-sized blocks with the same statistical weight
    /// ([`super::block_test::Estimate::effective_blocks`]).
    pub effective_blocks: f64,
    /// Number of trials, if the number is the share of successes in trials; `None` for other numbers.
    pub trials: Option<u64>,
}

/// Tests the difference of two numbers over the same sentences in the same blocks; `None` if the difference has no
/// estimate.
///
/// If the difference is equal in all `m` blocks, the p-value is `2^(1 - m)`, the probability that all have one sign (Fisher
/// 1935, section 21).
pub fn paired_test(a: &Jackknife, b: &Jackknife, tolerance: f64) -> Option<DifferenceTest> {
    let estimate = b.minus(a).estimate()?;
    let constant = || (1.0 - estimate.blocks as f64).exp2();
    Some(student_test([estimate.value, estimate.standard_error], estimate.degrees_of_freedom(), tolerance, constant))
}

/// Welch's test of two numbers over different sentences, from their intervals; `None` if either has too few blocks.
///
/// The standard error of the difference combines the halves of both intervals that face each other (Zou & Donner 2008). If
/// both numbers are constant over their `m_a` and `m_b` blocks, but differ, the p-value is that of a permutation test. Of
/// `C(m_a + m_b, m_a)` assignments of blocks to the numbers, 2 separate the values.
pub fn welch_test(a: &ReportedNumber, b: &ReportedNumber, tolerance: f64) -> Option<DifferenceTest> {
    if ![a, b].iter().all(|side| is_testable(side.blocks, side.effective_blocks)) {
        return None;
    }
    let (low, high) = if a.value <= b.value { (a, b) } else { (b, a) };
    let errors = [low.standard_error(low.ci95.high() - low.value), high.standard_error(high.value - high.ci95.low())];
    let [low_variance, high_variance] = errors.map(|arm| arm * arm);
    let variance = low_variance + high_variance;
    // Welch 1938; Satterthwaite 1946.
    let squares = low_variance.powi(2) / low.degrees_of_freedom() + high_variance.powi(2) / high.degrees_of_freedom();
    let p_if_constant = || 2.0 * (-ln_binomial((a.blocks + b.blocks) as u64, a.blocks as u64)).exp();
    Some(student_test([b.value - a.value, variance.sqrt()], variance * variance / squares, tolerance, p_if_constant))
}

/// Student's test of a difference against the tolerance. `p_if_constant` gives the p-value if the standard error is 0.
fn student_test(
    [difference, standard_error]: [f64; 2],
    freedom: f64,
    tolerance: f64,
    p_if_constant: impl FnOnce() -> f64,
) -> DifferenceTest {
    let p = match difference.abs() - tolerance {
        excess if excess <= ROUNDING_TOLERANCE => 1.0,
        _ if standard_error <= ROUNDING_TOLERANCE => p_if_constant(),
        excess => student_p(excess / standard_error, freedom),
    };
    DifferenceTest { difference, standard_error, p }
}

impl ReportedNumber {
    /// Standard error of the number, from the width `half` of one side of its interval. For a share of trials, it is at
    /// least the standard error of independent trials. Words of a sentence depend on each other, which only adds
    /// variance, so a lower value is due to chance.
    fn standard_error(&self, half: f64) -> f64 {
        let trial_variance = |trials: u64| self.value * (1.0 - self.value) / trials as f64;
        let min_error = self.trials.map_or(0.0, trial_variance).max(0.0).sqrt();
        standard_error_from_half_width(half, self.degrees_of_freedom()).max(min_error)
    }

    /// Degrees of freedom: one less than the effective number of blocks.
    fn degrees_of_freedom(&self) -> f64 {
        self.effective_blocks - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> ReportedNumber {
        ReportedNumber { value, ci95: Interval(low, high), blocks: 64, effective_blocks: 64.0, trials: None }
    }

    fn close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-9 * expected.abs().max(1e-3), "{actual:e}, not {expected:e}");
    }

    #[test]
    fn pairs_cancel_what_both_have() {
        // Blocks of one item; b is a and 0.1 or 0.3 more, alternating: the mean is 0.2, its variance 0.01 * 20/19 / 20.
        let a: Vec<f64> = (0..20).map(f64::from).collect();
        let b: Vec<f64> = (0..20).map(|block| f64::from(block) + if block % 2 == 0 { 0.1 } else { 0.3 }).collect();
        let [a, b] = [a, b].map(|blocks| Jackknife::new(&blocks, &[1.0; 20]));
        let found = paired_test(&a, &b, 0.0).unwrap();
        close(found.difference, 0.2);
        close(found.standard_error, (0.01_f64 / 19.0).sqrt());
        // t = 0.2 / 0.0229416 = 8.717798 with 19 degrees of freedom, by scipy 1.17: 2 * t.sf(t, 19).
        close(found.p, 4.571_438_029e-8);
        assert_eq!(paired_test(&b, &a, 0.0).unwrap().difference, -found.difference);
        // A difference of 0.2 is none beyond 0.2.
        assert_eq!(paired_test(&a, &b, 0.2).unwrap().p, 1.0);
        assert!(paired_test(&a, &b, 0.1).unwrap().p > found.p);
    }

    #[test]
    fn what_is_the_same_in_every_block_is_a_matter_of_signs() {
        let of = |value: f64, blocks: usize| Jackknife::new(&vec![value; blocks], &vec![1.0; blocks]);
        assert_eq!(paired_test(&of(0.25, 20), &of(0.5, 20), 0.0).unwrap().p, f64::exp2(-19.0));
        assert_eq!(paired_test(&of(0.25, 20), &of(0.25, 20), 0.0).unwrap().p, 1.0);
        assert_eq!(paired_test(&of(0.25, 9), &of(0.5, 9), 0.0), None);
    }

    #[test]
    fn a_block_that_only_one_side_has_is_left_out_of_that_side() {
        let mut some = [1.0; 21];
        some[20] = 0.0;
        let (a, b) = (Jackknife::new(&[0.5; 21], &[1.0; 21]), Jackknife::new(&some, &some));
        let difference = b.minus(&a);
        assert_eq!((difference.value(), difference.blocks()), (0.5, 21));
        assert_eq!(difference.standard_error(), Some(0.0));
    }

    #[test]
    fn intervals_are_added_as_squares() {
        // Halves of 0.03 and 0.04 that face each other make 0.05; the other halves do not matter.
        let (a, b) = (estimate(0.4, 0.1, 0.43), estimate(0.5, 0.46, 0.9));
        let found = welch_test(&a, &b, 0.0).unwrap();
        close(found.difference, 0.1);
        // The 97.5th percentile of Student's distribution with 63 degrees of freedom is 1.998341.
        close(found.standard_error, 0.05 / 1.998_340_542_520_741_7);
        // Each side has 63 degrees of freedom; both together, with 9 and 16 parts of the variance, have
        // 625 / (81 + 256) times as many: 116.8; t = 3.996681: by scipy 1.17 2 * t.sf(t, 116.8).
        let back = welch_test(&b, &a, 0.0).unwrap();
        assert_eq!((back.difference, back.p), (-found.difference, found.p));
        assert!((1e-4..1.2e-4).contains(&found.p), "{}", found.p);
    }

    #[test]
    fn a_share_varies_as_its_trials_at_least() {
        // 0.5 of 100 has a standard error of 0.05, and no half of 0.03 makes it less; one of 0.2 makes it more.
        let of = |half: f64| ReportedNumber { trials: Some(100), ..estimate(0.5, 0.5 - half, 0.5 + half) };
        assert_eq!(of(0.03).standard_error(0.03), 0.05);
        assert!(of(0.2).standard_error(0.2) > 0.1);
        assert_eq!(ReportedNumber { value: 1.0, ..of(0.0) }.standard_error(0.0), 0.0);
    }

    #[test]
    fn what_does_not_vary_is_a_matter_of_sides() {
        let of = |value: f64, blocks: usize| ReportedNumber { blocks, ..estimate(value, value, value) };
        // 2 / C(40, 20).
        close(welch_test(&of(0.0, 20), &of(1.0, 20), 0.0).unwrap().p, 2.0 / 137_846_528_820.0);
        assert_eq!(welch_test(&of(0.5, 64), &of(0.5, 64), 0.0).unwrap().p, 1.0);
        assert_eq!(welch_test(&of(0.0, 9), &of(1.0, 64), 0.0), None);
        let unequal = ReportedNumber { effective_blocks: 4.9, ..of(0.0, 64) };
        assert_eq!(welch_test(&unequal, &of(1.0, 64), 0.0), None);
        // An interval that does not hold its number has no half of less than nothing.
        let outside = estimate(0.5, 0.6, 0.7);
        assert!(welch_test(&outside, &estimate(0.4, 0.3, 0.45), 0.0).unwrap().standard_error > 0.0);
    }
}
