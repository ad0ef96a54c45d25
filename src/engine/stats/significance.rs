//! Tests of an attention head against a fixed offset, and the correction for multiple tests.

use statrs::distribution::{Binomial, Discrete};

/// Exact one-sided p-value by McNemar's test (McNemar 1947). It considers the words on which either the attention head or
/// the baseline is right, but not both. If both were equally good, the p-value is the probability that the head alone is
/// right on at least `head_only` of them. The binomial tail is summed from its largest term, which keeps small values
/// exact; statrs stops after 140 terms of its continued fraction.
pub fn mcnemar_p(head_only: u64, baseline_only: u64) -> f64 {
    if head_only > baseline_only {
        fair_coin_upper_tail(head_only, baseline_only)
    } else {
        // P(X >= h) = 1 - P(X <= h - 1), and the binomial is symmetric.
        head_only.checked_sub(1).map_or(1.0, |fewer| 1.0 - fair_coin_upper_tail(baseline_only + 1, fewer))
    }
}

/// Probability of at least `heads` heads in `heads + tails` throws of a fair coin; `heads` must exceed `tails`.
fn fair_coin_upper_tail(heads: u64, tails: u64) -> f64 {
    let binomial = Binomial::new(0.5, heads + tails).expect("one half is a chance");
    // Terms relative to the first: C(n, k + 1) / C(n, k) = (n - k) / (k + 1), which is less than 1 from here on.
    let (mut sum, mut term) = (1.0, 1.0);
    for more in 0..tails {
        term *= (tails - more) as f64 / (heads + more + 1) as f64;
        if term < sum * f64::EPSILON {
            break;
        }
        sum += term;
    }
    (binomial.ln_pmf(heads) + f64::ln(sum)).exp().min(1.0)
}

/// Q-values of the p-values `p`, `[tests]` (Benjamini & Hochberg 1995). The q-value of a test is the minimum of
/// `p * tests / rank` over all tests whose p-value is not smaller.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut q = vec![1.0; p.len()];
    let mut smallest = 1.0_f64;
    for (place, &test) in order.iter().enumerate().rev() {
        smallest = smallest.min(p[test] * p.len() as f64 / (place + 1) as f64);
        q[test] = smallest;
    }
    q
}

/// Q-values for numbers being above their margins, `[numbers]`. `p` has the one-sided p-value of each number whose estimate
/// is above its margin, and `None` for other numbers, which get no q-value.
///
/// An estimate above the margin has a p-value of at most one half. Since only such estimates are tested, twice the p-value
/// is the valid one (Zhao, Small & Su 2019, "Multiple testing when many p-values are uniformly conservative").
pub fn q_values_above_margin(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let doubled: Vec<Option<f64>> = p.iter().map(|p| p.map(|p| (2.0 * p).min(1.0))).collect();
    q_values_of_present(&doubled)
}

/// Q-values of the tests that have a p-value, `[tests]`; `None` for the others.
pub fn q_values_of_present(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let tested: Vec<f64> = p.iter().copied().flatten().collect();
    let mut q = benjamini_hochberg(&tested).into_iter();
    p.iter().map(|p| p.and_then(|_| q.next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 1e-9, "{actual:e}, not {expected:e}");
    }

    #[test]
    fn tails_that_can_be_counted() {
        assert_eq!(mcnemar_p(0, 0), 1.0);
        assert_eq!(mcnemar_p(0, 7), 1.0);
        // Three of three: 1/8. Two of three: 4/8. One of three: 7/8.
        close(mcnemar_p(3, 0), 0.125);
        close(mcnemar_p(2, 1), 0.5);
        close(mcnemar_p(1, 2), 0.875);
        // Eight of ten: (45 + 10 + 1) / 1024.
        close(mcnemar_p(8, 2), 56.0 / 1024.0);
        // Five of ten: half of 1024, and half of the 252 with as many of each: 638.
        close(mcnemar_p(5, 5), 638.0 / 1024.0);
    }

    /// Expected values by exact integers: the sum of binomial coefficients over 2^n.
    #[test]
    fn large_counts_and_small_chances() {
        close(mcnemar_p(70, 30), 3.925_069_822_796_835e-5);
        close(mcnemar_p(600, 400), 1.364_232_078_033_009_2e-10);
        close(mcnemar_p(300, 0), 4.909_093_465_297_727e-91);
        close(mcnemar_p(1000, 20), 4.598_547_051_153_892_4e-266);
        close(mcnemar_p(10_500, 9500), 8.005_546_700_793_957e-13);
        close(mcnemar_p(9000, 9500), 0.999_885_033_763_698_8);
        // The smallest number above 0, and what is below it.
        assert_eq!(mcnemar_p(1074, 0), f64::from_bits(1));
        assert_eq!(mcnemar_p(1076, 0), 0.0);
    }

    proptest! {
        /// P(X >= k) + P(X >= n - k + 1) = 1.
        #[test]
        fn both_tails_add_up(head_only in 1..3000_u64, baseline_only in 0..3000_u64) {
            let sum = mcnemar_p(head_only, baseline_only) + mcnemar_p(baseline_only + 1, head_only - 1);
            prop_assert!((sum - 1.0).abs() < 1e-9);
        }

        #[test]
        fn more_wins_are_never_less_significant(head_only in 0..3000_u64, baseline_only in 0..3000_u64) {
            prop_assert!(mcnemar_p(head_only + 1, baseline_only) <= mcnemar_p(head_only, baseline_only) + 1e-12);
        }

        /// The step-up procedure of the paper accepts the tests whose q is at most the rate.
        #[test]
        fn q_values_are_the_step_up_procedure(
            p in prop::collection::vec(0.0..1.0_f64, 1..40),
            rate in 0.01..0.9_f64,
        ) {
            let mut sorted = p.clone();
            sorted.sort_by(f64::total_cmp);
            let accepts = |(rank, p): (usize, &f64)| *p * sorted.len() as f64 <= rate * rank as f64 * (1.0 + 1e-12);
            let last = (1..).zip(&sorted).filter(|&pair| accepts(pair)).last().map(|(_, &p)| p);
            for (&p, q) in p.iter().zip(benjamini_hochberg(&p)) {
                prop_assert_eq!(q <= rate * (1.0 + 1e-12), last.is_some_and(|last| p <= last));
            }
        }
    }

    #[test]
    fn q_values_by_hand() {
        // 0.01 x 4/1, then 0.03 x 4/3 < 0.02 x 4/2: both 0.04; 0.5 x 4/4.
        let q = benjamini_hochberg(&[0.5, 0.01, 0.03, 0.02]);
        [0.5, 0.04, 0.04, 0.04].into_iter().zip(q).for_each(|(expected, q)| close(q, expected));
        assert_eq!(benjamini_hochberg(&[]), [0.0; 0]);
    }

    #[test]
    fn only_estimates_above_their_margins_are_in_the_family() {
        // Twice .01 and .03 are .02 and .06: .02 x 2/1 and .06 x 2/2. Twice .6 is no chance.
        let q = q_values_above_margin(&[None, Some(0.01), None, Some(0.03)]);
        assert_eq!((q[0], q[2]), (None, None));
        [0.04, 0.06].into_iter().zip([q[1], q[3]]).for_each(|(expected, q)| close(q.unwrap(), expected));
        assert_eq!(q_values_above_margin(&[Some(0.6)]), [Some(1.0)]);
    }
}
