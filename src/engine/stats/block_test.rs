//! Student's test of a number against a margin, with a standard error and an interval by the block jackknife, which leaves
//! out one block at a time (Efron & Tibshirani 1993, chapter 11). An interval excludes a margin exactly when the test is
//! significant.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::beta::beta_reg;

use super::interval::Interval;

/// Minimum number of blocks with a nonzero denominator for a test. With fewer, Student's distribution fits poorly.
pub const MIN_BLOCKS_FOR_TEST: usize = 10;

/// Minimum number of effective blocks for a test. With fewer, one large document can decide both the number and its
/// standard error. Student's 97.5th percentile is 2.8 at four degrees of freedom, and 12.7 at one.
pub const MIN_EFFECTIVE_BLOCKS: f64 = 5.0;

/// Maximum difference between numbers that counts as rounding. Unequal ratios of counts below 10^9 differ by more.
pub(super) const ROUNDING_TOLERANCE: f64 = 1e-12;

/// Distance from 1 below which a share counts as 1. Shares can be ratios of f32 sums, whose relative error is 6e-8.
const F32_TOLERANCE: f64 = 1e-6;

/// Share of a distribution below a 95 % interval; an equal share is above it.
pub const TAIL_SHARE: f64 = 0.025;

/// Range of a number, by which the scale of its t statistic is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// A share, from 0 to 1. The t statistic is computed for its logit, so that intervals stay within 0 and 1.
    Share,
    /// The difference of two shares, from -1 to 1. The t statistic is computed for the difference itself. Intervals of
    /// differences above 0 are cut at -1 and 1.
    Difference,
    /// A number without bounds. The t statistic is computed for the number itself.
    #[default]
    Real,
}

/// A number with its jackknife standard error, for tests and intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub standard_error: f64,
    /// Number of blocks with a nonzero denominator.
    pub blocks: usize,
    /// Effective number of blocks, `(sum n)² / sum n²` for denominators `n` (Kish 1965, section 11.2); one more than the
    /// degrees of freedom.
    pub effective_blocks: f64,
    pub scale: Scale,
}

impl Estimate {
    /// The estimate, or `None` below [`MIN_BLOCKS_FOR_TEST`] blocks or [`MIN_EFFECTIVE_BLOCKS`] effective blocks.
    pub fn if_testable(self) -> Option<Self> {
        is_testable(self.blocks, self.effective_blocks).then_some(self)
    }

    pub fn degrees_of_freedom(&self) -> f64 {
        self.effective_blocks - 1.0
    }

    /// Scale on which the t statistic is computed: `self.scale`, or [`Scale::Real`] for a value outside 0 to 1. A share
    /// outside 0 to 1 has no logit.
    fn scale(&self) -> Scale {
        let within = (-ROUNDING_TOLERANCE..=1.0 + F32_TOLERANCE).contains(&self.value);
        if within { self.scale } else { Scale::Real }
    }

    /// `(value, standard error)` on the scale of the t statistic; for a logit, by the delta method.
    fn scaled_value_and_error(&self) -> (f64, f64) {
        match self.scale() {
            Scale::Share => (logit(self.value), self.standard_error / (self.value * (1.0 - self.value))),
            Scale::Difference | Scale::Real => (self.value, self.standard_error),
        }
    }

    /// Whether the number is equal in all blocks: its standard error is 0, or it is a share of 0 or 1.
    fn is_constant(&self) -> bool {
        let at_end = self.value <= ROUNDING_TOLERANCE || 1.0 - self.value <= F32_TOLERANCE;
        (self.scale() == Scale::Share && at_end) || self.standard_error <= ROUNDING_TOLERANCE
    }

    /// 95 % interval: all margins that neither [`Self::p_above`] nor [`Self::p_below`] rejects at 2.5 %.
    pub fn interval(&self) -> Interval {
        if self.is_constant() || self.degrees_of_freedom() <= 0.0 {
            return Interval(self.value, self.value);
        }
        let (middle, error) = self.scaled_value_and_error();
        let reach = student_critical(self.degrees_of_freedom()) * error;
        match self.scale() {
            Scale::Share => Interval(logistic(middle - reach), logistic(middle + reach)),
            Scale::Difference => Interval((middle - reach).max(-1.0), (middle + reach).min(1.0)),
            Scale::Real => Interval(middle - reach, middle + reach),
        }
    }

    /// One-sided p-value for the number being above the margin. If the number is equal in all `m` blocks and above the margin,
    /// the p-value is `2^-m` (Fisher 1935, section 21).
    pub fn p_above(&self, margin: f64) -> f64 {
        self.one_sided_p(margin, 1.0)
    }

    /// One-sided p-value for the number being below the margin.
    pub fn p_below(&self, margin: f64) -> f64 {
        self.one_sided_p(margin, -1.0)
    }

    /// Two-sided p-value for the number being different from the margin.
    pub fn p_different(&self, margin: f64) -> f64 {
        (2.0 * self.p_above(margin).min(self.p_below(margin))).min(1.0)
    }

    /// P-value for the number being between two margins (TOST): the larger of two one-sided p-values (Schuirmann 1987).
    pub fn p_between(&self, low: f64, high: f64) -> f64 {
        if low < high { self.p_above(low).max(self.p_below(high)) } else { 1.0 }
    }

    /// One-sided p-value for the number being above the margin (`sign` 1) or below it (`sign` -1).
    fn one_sided_p(&self, margin: f64, sign: f64) -> f64 {
        let excess = sign * (self.value - margin);
        if self.is_constant() {
            return if excess > ROUNDING_TOLERANCE { (-(self.blocks as f64)).exp2() } else { 1.0 };
        }
        let (value, error) = self.scaled_value_and_error();
        let margin = if self.scale() == Scale::Share { logit(margin) } else { margin };
        let t = sign * (value - margin) / error;
        let half = student_p(t, self.degrees_of_freedom()) / 2.0;
        if t > 0.0 { half } else { 1.0 - half }
    }
}

/// Whether there are enough blocks, and enough effective blocks, for a test.
pub(super) fn is_testable(blocks: usize, effective_blocks: f64) -> bool {
    blocks >= MIN_BLOCKS_FOR_TEST && effective_blocks >= MIN_EFFECTIVE_BLOCKS
}

/// Logit `ln(share / (1 - share))`; infinite at 0 and 1, to which shares are clamped.
fn logit(share: f64) -> f64 {
    let share = share.clamp(0.0, 1.0);
    (share / (1.0 - share)).ln()
}

/// Inverse of the logit: `1 / (1 + exp(-logit))`.
fn logistic(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// Range of degrees of freedom for which Student's distribution is computed. Below it, the 97.5th percentile exceeds 10^15,
/// so that nothing is significant. Above it, the distribution equals the normal one to four digits. An analysis has at most
/// 64 blocks.
const FREEDOM_RANGE: RangeInclusive<f64> = 0.1..=1e4;

/// Clamps degrees of freedom to [`FREEDOM_RANGE`], since a report from a file may have any number.
fn clamp_freedom(freedom: f64) -> f64 {
    // `max` and `min` ignore NaN, `clamp` does not.
    freedom.max(*FREEDOM_RANGE.start()).min(*FREEDOM_RANGE.end())
}

/// 97.5th percentile of Student's distribution with these degrees of freedom.
///
/// Each thread caches percentiles: computing one takes 20 microseconds, and the heads of one metric share their degrees of
/// freedom.
pub(super) fn student_critical(freedom: f64) -> f64 {
    /// Maximum number of percentiles in the cache of a thread, more than a report has metrics and relations.
    const MAX_CACHE_ENTRIES: usize = 4096;
    thread_local! {
        static CACHE: RefCell<HashMap<u64, f64>> = RefCell::default();
    }
    let freedom = clamp_freedom(freedom);
    CACHE.with_borrow_mut(|cache| {
        if cache.len() >= MAX_CACHE_ENTRIES {
            cache.clear();
        }
        *cache.entry(freedom.to_bits()).or_insert_with(|| {
            let student = StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom above 0");
            student.inverse_cdf(1.0 - TAIL_SHARE)
        })
    })
}

/// Standard error of a number whose 95 % interval has the half-width `half`, with these degrees of freedom.
pub fn standard_error_from_half_width(half: f64, freedom: f64) -> f64 {
    half.max(0.0) / student_critical(freedom)
}

/// A ratio, or a difference of two ratios: its value over all blocks, and its values with one block left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Jackknife {
    /// Value over all blocks.
    all: f64,
    /// Value with each block left out, `[blocks]`; `None` for a block without a denominator.
    leave_one_out: Vec<Option<f64>>,
    /// Effective number of blocks, as in [`Estimate::effective_blocks`].
    effective_blocks: f64,
    scale: Scale,
}

impl Jackknife {
    /// The ratio `sum(numerators) / sum(denominators)`; both have one value per block.
    pub fn new(numerators: &[f64], denominators: &[f64]) -> Self {
        Self::from_totals([numerators.iter().sum(), denominators.iter().sum()], numerators, denominators)
    }

    /// The ratio `above / below` of two totals, with each block's contribution to them. The numerators need not add up
    /// to `above`, for example if `above` is a product of sums.
    pub fn from_totals([above, below]: [f64; 2], numerators: &[f64], denominators: &[f64]) -> Self {
        let without = |(numerator, denominator): (&f64, &f64)| {
            (*denominator != 0.0).then(|| (above - numerator) / (below - denominator))
        };
        let without_each = numerators.iter().zip(denominators).map(without).collect();
        Self::from_leave_one_out(above / below, without_each, denominators)
    }

    /// A number that is no ratio of sums: its value over all blocks, its value without each block (`None` for an empty
    /// block), and the size of each block in `denominators`.
    pub fn from_leave_one_out(all: f64, without: Vec<Option<f64>>, denominators: &[f64]) -> Self {
        Self { all, leave_one_out: without, effective_blocks: effective_blocks(denominators), scale: Scale::Real }
    }

    pub fn with_scale(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }

    /// The difference of this ratio and `other`, a ratio over the same sentences in the same blocks.
    pub fn minus(&self, other: &Self) -> Self {
        let difference = |(here, there): (&Option<f64>, &Option<f64>)| {
            // If only one side can leave out the block, the other side stays as it is.
            (here.is_some() || there.is_some()).then(|| here.unwrap_or(self.all) - there.unwrap_or(other.all))
        };
        let without = self.leave_one_out.iter().zip(&other.leave_one_out).map(difference).collect();
        let effective_blocks = self.effective_blocks.min(other.effective_blocks);
        let of_shares = self.scale == Scale::Share && other.scale == Scale::Share;
        let scale = if of_shares { Scale::Difference } else { Scale::Real };
        Self { all: self.all - other.all, leave_one_out: without, effective_blocks, scale }
    }

    pub fn value(&self) -> f64 {
        self.all
    }

    /// Number of blocks with a nonzero denominator.
    pub fn blocks(&self) -> usize {
        self.leave_one_out.iter().flatten().count()
    }

    /// The number with its standard error; `None` if the blocks are too few for a test, or if the number is not finite.
    pub fn estimate(&self) -> Option<Estimate> {
        let &Self { all, effective_blocks, scale, .. } = self;
        let blocks = self.blocks();
        let testable = is_testable(blocks, effective_blocks) && all.is_finite();
        let standard_error = testable.then(|| self.jackknife_error()).filter(|error| error.is_finite())?;
        Some(Estimate { value: all, standard_error, blocks, effective_blocks, scale })
    }

    pub fn standard_error(&self) -> Option<f64> {
        self.estimate().map(|estimate| estimate.standard_error)
    }

    pub fn interval(&self) -> Option<Interval> {
        self.estimate().map(|estimate| estimate.interval())
    }

    pub fn p_above(&self, margin: f64) -> Option<f64> {
        self.estimate().map(|estimate| estimate.p_above(margin))
    }

    /// Jackknife standard error, `SE² = (m - 1)/m · sum (θ_b - mean)²`. `θ_b` is the number without block `b` of `m`
    /// blocks, and `mean` the mean of all `θ_b`.
    fn jackknife_error(&self) -> f64 {
        let blocks = self.blocks() as f64;
        let mean = self.leave_one_out.iter().flatten().sum::<f64>() / blocks;
        let squares: f64 = self.leave_one_out.iter().flatten().map(|ratio| (ratio - mean).powi(2)).sum();
        ((blocks - 1.0) / blocks * squares).sqrt()
    }
}

/// Effective number of blocks, `(sum n)² / sum n²` for denominators `n`. It is smaller than the number of blocks if the
/// denominators are unequal.
pub fn effective_blocks(denominators: &[f64]) -> f64 {
    let sum: f64 = denominators.iter().sum();
    let squares: f64 = denominators.iter().map(|denominator| denominator * denominator).sum();
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

/// Two-sided p-value `P(|T| > |t|)` by Student's distribution with these degrees of freedom.
pub fn student_p(t: f64, freedom: f64) -> f64 {
    let freedom = clamp_freedom(freedom);
    // An incomplete beta function keeps small chances exact where 1 - cdf would not.
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-6 * expected.abs().max(1e-3), "{actual:e}, not {expected:e}");
    }

    fn estimate(value: f64, standard_error: f64, effective_blocks: f64, scale: Scale) -> Estimate {
        Estimate { value, standard_error, blocks: 64, effective_blocks, scale }
    }

    #[test]
    fn an_example_by_hand() {
        // Left out one at a time: 0.3/4, 0.5/5, 0.4/3; their mean is 0.102778.
        let (differences, items) = ([0.3, 0.1, 0.2], [2.0, 1.0, 3.0]);
        let ratio = Jackknife::new(&differences, &items);
        let error = ratio.jackknife_error();
        close(error, 0.033_793_1);
        // Two degrees of freedom: t = 0.1 / 0.0337931 = 2.959182, and p = 1 - t / sqrt(2 + t²), half of it on one side.
        let estimate = |effective_blocks| estimate(0.1, error, effective_blocks, Scale::Real);
        close(estimate(3.0).p_different(0.0), 0.097_741_527);
        close(estimate(3.0).p_above(0.0), 0.048_870_76);
        // They are as good as 36 / 14 blocks of equal size; half a degree fewer makes it less sure.
        close(ratio.effective_blocks, 36.0 / 14.0);
        assert!(estimate(36.0 / 14.0).p_above(0.0) > 0.048_870_76);
        assert_eq!(ratio.estimate(), None);
    }

    #[test]
    fn a_share_by_hand() {
        // Sixteen blocks of one item, half of them 0.9 and half of them 0.7: SE² = 0.01 / 15, and t = (ln 4 - ln 3) 0.16 / SE.
        let values: Vec<f64> = (0..16).map(|block| 0.8 + 0.1 * f64::from(1 - 2 * (block % 2))).collect();
        let share = Jackknife::new(&values, &[1.0; 16]).with_scale(Scale::Share).estimate().unwrap();
        close(share.standard_error, (0.01_f64 / 15.0).sqrt());
        // t = 1.782701 with 15 degrees of freedom, by scipy 1.17: t.sf(t, 15).
        close(share.p_above(0.75), 0.047_440_43);
        // t.ppf(.975, 15) = 2.131450; logit .8 = 1.386294, its standard error SE / .16 = .161374.
        let Interval(low, high) = share.interval();
        close(low, 0.739_299_94);
        close(high, 0.849_445_11);
        assert_eq!([share.p_above(1.0), share.p_below(0.0)], [1.0, 1.0]);
        // A variance component may come out below 0, where it is no share.
        let below = |scale| estimate(-0.01, 0.02, 16.0, scale).interval();
        assert_eq!(below(Scale::Share), below(Scale::Real));
    }

    #[test]
    fn small_chances_are_those_of_a_table() {
        // Student's distribution with 63 degrees of freedom, by scipy 1.17: 2 * t.sf(t, 63).
        let table =
            [(1.998_340_542_520_741_7, 0.05), (10.5, 1.802_908_800_225_731e-15), (40.0, 1.697_427_992_090_12e-46)];
        for (t, p) in table {
            let found = estimate(t, 1.0, 64.0, Scale::Real).p_different(0.0);
            assert!((found / p - 1.0).abs() < 1e-9, "{found:e}, not {p:e}");
        }
        close(student_critical(63.0), 1.998_340_542_520_741_7);
        close(student_critical(1.5), 6.016_663_1);
        for freedom in [-1.0, 0.0, 1e-320, 1e8, 1e30, f64::INFINITY, f64::NAN] {
            assert!(student_critical(freedom) >= 1.959_96, "{freedom}");
            assert!((0.0..=1.0).contains(&student_p(2.0, freedom)), "{freedom}");
        }
    }

    #[test]
    fn what_is_below_a_margin_is_not_above_it() {
        let found = estimate(0.1, 0.033_793_1, 3.0, Scale::Real);
        close(found.p_above(0.0), 0.048_870_7);
        close(found.p_above(0.0) + found.p_below(0.0), 1.0);
        // Between 0 and 0.15 is as sure as the less sure of the two ends: t is 1.479591 at the upper one.
        assert_eq!(found.p_between(0.0, 0.15), found.p_below(0.15));
        assert_eq!(found.p_between(0.0, 0.0), 1.0);
    }

    #[test]
    fn what_does_not_vary_is_a_matter_of_sides() {
        let words: Vec<f64> = (0..30).map(|block| f64::from(1 + block % 3)).collect();
        let third: Vec<f64> = words.iter().map(|words| words / 3.0).collect();
        let found = Jackknife::new(&third, &words).estimate().unwrap();
        assert_eq!((found.p_above(0.25), found.p_above(1.0 / 3.0), found.p_above(0.5)), (f64::exp2(-30.0), 1.0, 1.0));
        assert_eq!((found.p_below(0.5), found.p_different(0.5)), (f64::exp2(-30.0), f64::exp2(-29.0)));
        assert_eq!(found.interval().half_width(), 0.0);
        let all = Jackknife::new(&words, &words).with_scale(Scale::Share).estimate().unwrap();
        assert_eq!((all.p_above(0.9), all.interval()), (f64::exp2(-30.0), Interval(1.0, 1.0)));
    }

    #[test]
    fn one_large_block_leaves_nothing_to_test() {
        // Ten documents, one with 700 of 970 sentences: (970)² / (700² + 9 · 30²) = 1.89 blocks of equal size.
        let mut sentences = vec![30.0; 10];
        sentences[4] = 700.0;
        assert!((effective_blocks(&sentences) - 1.889).abs() < 1e-3);
        let right: Vec<f64> = sentences.iter().zip(0..).map(|(n, block)| n * f64::from(block % 2)).collect();
        assert_eq!(Jackknife::new(&right, &sentences).estimate(), None);
        // With 100 in the large one they are 370² / (100² + 9 · 30²) = 7.6.
        sentences[4] = 100.0;
        assert!(Jackknife::new(&right, &sentences).estimate().is_some());
        assert_eq!(estimate(0.5, 0.1, 4.9, Scale::Real).if_testable(), None);
    }

    #[test]
    fn a_difference_of_shares_ends_at_one() {
        // t.ppf(.975, 4) = 2.776445: .5 ± 2.776445 · .4 is -.611 to 1.611.
        let Interval(low, high) = estimate(0.5, 0.4, 5.0, Scale::Difference).interval();
        close(low, -0.610_578);
        assert_eq!(high, 1.0);
        let share = |values: &[f64]| Jackknife::new(values, &[1.0; 12]).with_scale(Scale::Share);
        assert_eq!(share(&[0.5; 12]).minus(&share(&[0.25; 12])).estimate().unwrap().scale, Scale::Difference);
    }

    #[test]
    fn blocks_without_a_denominator_do_not_count() {
        let blocks =
            |present: usize| -> Vec<f64> { (0..64).map(|block| f64::from(u8::from(block < present))).collect() };
        let error = |present: usize| Jackknife::new(&[0.0; 64], &blocks(present)).standard_error();
        assert_eq!([error(0), error(MIN_BLOCKS_FOR_TEST - 1), error(MIN_BLOCKS_FOR_TEST)], [None, None, Some(0.0)]);
        assert_eq!(effective_blocks(&blocks(12)), 12.0);
        assert_eq!(effective_blocks(&blocks(0)), 0.0);
    }

    proptest! {
        /// With blocks of one size it is the standard error of their mean.
        #[test]
        fn equal_blocks_have_the_standard_error_of_a_mean(values in prop::collection::vec(-9.0..9.0_f64, 20..64)) {
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let error = Jackknife::new(&values, &vec![1.0; values.len()]).standard_error().unwrap();
            prop_assert!((error - (variance / count).sqrt()).abs() < 1e-9);
        }

        #[test]
        fn more_excess_is_never_less_significant(excess in 0.0..9.0_f64, more in 0.0..9.0_f64, blocks in 2..64_usize) {
            let p = |value| estimate(value, 1.0, blocks as f64, Scale::Real).p_above(0.0);
            prop_assert!(p(excess + more) <= p(excess) + 1e-12);
        }

        /// The interval holds just the margins that the one-sided tests at 2.5 % do not rule out.
        #[test]
        fn interval_and_test_agree(
            value in 0.01..0.99_f64,
            error in 0.001..0.2_f64,
            effective_blocks in 3.0..64.0_f64,
            is_share in any::<bool>(),
            margin in 0.01..0.99_f64,
        ) {
            let found = estimate(value, error, effective_blocks, if is_share { Scale::Share } else { Scale::Real });
            let Interval(low, high) = found.interval();
            prop_assert!(low <= value && value <= high);
            prop_assume!((margin - low).abs() > 1e-6 && (margin - high).abs() > 1e-6);
            prop_assert_eq!(found.p_above(margin) < TAIL_SHARE, margin < low);
            prop_assert_eq!(found.p_below(margin) < TAIL_SHARE, margin > high);
        }
    }
}
