//! Percentile intervals of ratios by the bootstrap over blocks of sentences (Efron & Tibshirani 1993, chapter 13).

use multiversion::multiversion;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::blocks::BLOCKS;

/// The bootstrap of a report: all that its intervals depend on beside the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bootstrap {
    /// How many times the blocks were drawn with replacement.
    pub resamples: usize,
    /// The seed of the draws: the first eight bytes, little-endian, of the `ChaCha8` key, the others being 0.
    pub seed: u64,
}

/// The bootstrap of every report.
///
/// 2,000 resamples put 50 beyond either end of a 95 % interval, which makes its ends good to about a tenth of its
/// width. The seed is the year of the method's first paper (Efron 1979).
pub const BOOTSTRAP: Bootstrap = Bootstrap { resamples: RESAMPLES, seed: 1979 };

const RESAMPLES: usize = 2000;

/// The share of resamples below an interval, and above it: it covers 95 %.
const TAIL: f64 = 0.025;

/// Resamples that are summed together: their sums fit the registers, 5 of the widest.
const CHUNK: usize = 40;
const _: () = assert!(RESAMPLES.is_multiple_of(CHUNK));

/// An interval, written `[low, high]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Interval(pub f64, pub f64);

impl<'de> Deserialize<'de> for Interval {
    /// An interval from a file may be invalid: it must begin before it ends.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (low, high) = Deserialize::deserialize(deserializer)?;
        if low > high {
            return Err(D::Error::custom(format!("the interval from {low} to {high} ends before it begins")));
        }
        Ok(Self(low, high))
    }
}

impl Interval {
    /// The lower end.
    pub fn low(self) -> f64 {
        self.0
    }

    /// The upper end.
    pub fn high(self) -> f64 {
        self.1
    }

    /// The interval of a quantity that is larger by `amount`.
    pub fn moved(self, amount: f64) -> Self {
        Self(self.0 + amount, self.1 + amount)
    }

    /// Half of the width: what stands after a ±.
    pub fn half_width(self) -> f64 {
        (self.1 - self.0) / 2.0
    }
}

/// A quantity of each block.
pub type PerBlock = [f64; BLOCKS];

/// How often each block was drawn in each resample.
pub struct Resamples {
    /// `[RESAMPLES / CHUNK, BLOCKS, CHUNK]`; f32 since half a megabyte stays in the second-level cache.
    counts: Vec<f32>,
}

impl Default for Resamples {
    fn default() -> Self {
        Self::new()
    }
}

impl Resamples {
    /// Draws the resamples of [`BOOTSTRAP`]: always the same ones.
    ///
    /// Each draw of a block is one byte of the `ChaCha8` stream modulo 64, which has no bias since 64 divides 256,
    /// and depends on no library's way of drawing from a range.
    pub fn new() -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&BOOTSTRAP.seed.to_le_bytes());
        let mut stream = ChaCha8Rng::from_seed(key);
        let mut counts = vec![0.0; RESAMPLES * BLOCKS];
        for resample in 0..RESAMPLES {
            let mut draws = [0; BLOCKS];
            stream.fill_bytes(&mut draws);
            for draw in draws {
                let block = usize::from(draw) % BLOCKS;
                counts[(resample / CHUNK * BLOCKS + block) * CHUNK + resample % CHUNK] += 1.0;
            }
        }
        Self { counts }
    }

    /// No resamples: whatever is made of them has no interval.
    pub fn none() -> Self {
        Self { counts: Vec::new() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How often each block is in the resample of this number.
    /// Panics if there is none.
    pub fn block_counts(&self, resample: usize) -> PerBlock {
        let chunk = resample / CHUNK * BLOCKS;
        std::array::from_fn(|block| f64::from(self.counts[(chunk + block) * CHUNK + resample % CHUNK]))
    }

    /// Adds up a quantity over the blocks of each resample.
    pub fn sums(&self, quantity: &PerBlock) -> Resampled {
        if self.is_empty() {
            return Resampled { sums: Vec::new(), blocks: 0 };
        }
        let occupied: Vec<(usize, f64)> =
            quantity.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
        let mut sums = vec![0.0; RESAMPLES];
        add_up(&occupied, &self.counts, &mut sums);
        Resampled { sums, blocks: occupied.len() }
    }

    /// The 95 % percentile interval of a statistic that is computed in each resample, given its number; resamples
    /// without a value are left out. `None` if fewer than half of them have one.
    pub fn interval(&self, statistic: impl Fn(usize) -> Option<f64>) -> Option<Interval> {
        let drawn = if self.is_empty() { 0 } else { RESAMPLES };
        let values: Vec<f64> = (0..drawn).filter_map(statistic).collect();
        (!values.is_empty() && 2 * values.len() >= drawn).then(|| percentiles(values))
    }
}

/// Adds up the values of some blocks, as often as each resample has the block.
///
/// Compiled for each instruction set; without fused multiply-add all give the same sums.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn add_up(values: &[(usize, f64)], counts: &[f32], sums: &mut [f64]) {
    for (sums, counts) in sums.chunks_exact_mut(CHUNK).zip(counts.chunks_exact(BLOCKS * CHUNK)) {
        let mut partial = [0.0; CHUNK];
        for &(block, value) in values {
            let counts = &counts[block * CHUNK..][..CHUNK];
            partial.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += value * f64::from(count));
        }
        sums.copy_from_slice(&partial);
    }
}

/// A quantity added up over the blocks of each resample.
#[derive(Clone)]
pub struct Resampled {
    sums: Vec<f64>,
    /// The number of blocks where it is not 0.
    blocks: usize,
}

impl Resampled {
    /// The difference of two quantities.
    pub fn minus(&self, other: &Self) -> Self {
        let sums = self.sums.iter().zip(&other.sums).map(|(sum, other)| sum - other).collect();
        Self { sums, blocks: self.blocks.max(other.blocks) }
    }

    /// The 95 % percentile interval of the ratio of two quantities.
    ///
    /// Resamples without a denominator are left out. `None` where there are no resamples, and where fewer than two blocks
    /// have a denominator: a single block cannot show how much blocks differ.
    pub fn over(&self, denominators: &Self) -> Option<Interval> {
        if denominators.blocks < 2 {
            return None;
        }
        let mut ratios = vec![0.0; RESAMPLES];
        divide(&self.sums, &denominators.sums, &mut ratios);
        if denominators.sums.contains(&0.0) {
            let mut denominators = denominators.sums.iter();
            ratios.retain(|_| denominators.next().is_some_and(|&denominator| denominator != 0.0));
        }
        Some(percentiles(ratios))
    }

    /// The sum in the resample of this number.
    pub fn at(&self, resample: usize) -> f64 {
        self.sums[resample]
    }

    /// The number of blocks where the quantity is not 0.
    pub fn blocks(&self) -> usize {
        self.blocks
    }
}

/// The interval that has a share of [`TAIL`] of some values on either side.
fn percentiles(mut values: Vec<f64>) -> Interval {
    let low = lower_quantile(&values);
    values.iter_mut().for_each(|value| *value = -*value);
    // Subtracted from 0, so that there is no -0.
    Interval(low, 0.0 - lower_quantile(&values))
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn divide(numerators: &[f64], denominators: &[f64], ratios: &mut [f64]) {
    for ((ratio, numerator), denominator) in ratios.iter_mut().zip(numerators).zip(denominators) {
        *ratio = numerator / denominator;
    }
}

/// The quantile of some values that has a share of [`TAIL`] below it, interpolated between order statistics
/// (type 7 of Hyndman & Fan 1996).
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
fn lower_quantile(values: &[f64]) -> f64 {
    let place = (values.len() - 1) as f64 * TAIL;
    let below = place as usize;
    // Few values are candidates: those up to about the twelfth part, by a sixteenth of them as a pilot.
    let mut pilot: Vec<f64> = values.iter().step_by(16).copied().collect();
    let middle = pilot.len() / 12;
    let (_, &mut bound, _) = pilot.select_nth_unstable_by(middle, f64::total_cmp);
    let mut candidates = vec![0.0; values.len()];
    let mut count = 0;
    for &value in values {
        // Written and counted without a branch, which no processor could predict.
        candidates[count] = value;
        count += usize::from(value <= bound);
    }
    candidates.truncate(count);
    if candidates.len() < below + 2 {
        candidates = values.to_vec();
    }
    let (_, &mut at, above) = candidates.select_nth_unstable_by(below, f64::total_cmp);
    let next = above.iter().copied().min_by(f64::total_cmp).unwrap_or(at);
    at + place.fract() * (next - at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn per_block(value: impl Fn(usize) -> f64) -> PerBlock {
        std::array::from_fn(value)
    }

    #[test]
    fn every_resample_has_as_many_blocks_as_there_are() {
        let resamples = Resamples::new();
        let sums = resamples.sums(&[1.0; BLOCKS]);
        assert_eq!(sums.sums, [BLOCKS as f64; RESAMPLES]);
        // Each block is drawn once per resample on average; its standard error is sqrt(63/64/2000) = 0.022.
        for block in 0..BLOCKS {
            let only = resamples.sums(&per_block(|other| f64::from(u8::from(other == block))));
            let mean = only.sums.iter().sum::<f64>() / RESAMPLES as f64;
            assert!((mean - 1.0).abs() < 5.0 * 0.0222, "block {block} is drawn {mean} times");
        }
    }

    #[test]
    fn an_interval_is_read_the_right_way_round() {
        let read = serde_json::from_str::<Interval>;
        assert_eq!(read("[-1, 0.5]").unwrap(), Interval(-1.0, 0.5));
        assert_eq!(read("[0.5, 0.5]").unwrap(), Interval(0.5, 0.5));
        let error = read("[0.5, -1]").unwrap_err().to_string();
        assert!(error.contains("the interval from 0.5 to -1 ends before it begins"), "{error}");
    }

    #[test]
    fn quantiles_interpolate() {
        // Place 0.025 x 4 = 0.1 is between 1 and 2.
        assert!((lower_quantile(&[5.0, 1.0, 4.0, 2.0, 3.0]) - 1.1).abs() < 1e-15);
        assert_eq!(lower_quantile(&[7.0]), 7.0);
        assert_eq!(lower_quantile(&[7.0, 7.0]), 7.0);
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values(values in prop::collection::vec(-9.0..9.0_f64, 1..400)) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            // Place (n - 1) / 40, in whole numbers.
            let (below, rest) = ((values.len() - 1) / 40, (values.len() - 1) % 40);
            let next = sorted[(below + 1).min(values.len() - 1)];
            let expected = sorted[below] + rest as f64 / 40.0 * (next - sorted[below]);
            prop_assert!((lower_quantile(&values) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn what_does_not_vary_has_an_interval_without_width() {
        let resamples = Resamples::new();
        let words = resamples.sums(&per_block(|block| block as f64));
        assert_eq!(resamples.sums(&per_block(|block| block as f64 / 4.0)).over(&words), Some(Interval(0.25, 0.25)));
    }

    #[test]
    fn the_interval_is_about_two_standard_errors_wide() {
        // Blocks alternate between 0 and 1: the mean has a standard error of 0.5 / 8.
        let resamples = Resamples::new();
        let ones = resamples.sums(&[1.0; BLOCKS]);
        let interval = resamples.sums(&per_block(|block| (block % 2) as f64)).over(&ones).unwrap();
        assert!((interval.low() - (0.5 - 1.96 / 16.0)).abs() < 0.02, "{interval:?}");
        assert!((interval.high() - (0.5 + 1.96 / 16.0)).abs() < 0.02, "{interval:?}");
        assert!((interval.half_width() - 1.96 / 16.0).abs() < 0.01);
    }

    #[test]
    fn one_block_alone_has_no_interval() {
        let resamples = Resamples::new();
        let in_blocks = |count: usize| resamples.sums(&per_block(|block| f64::from(u8::from(block < count))));
        assert_eq!(in_blocks(1).over(&in_blocks(1)), None);
        // One of two blocks is right and one is wrong; many resamples have one of the two only.
        assert_eq!(in_blocks(1).over(&in_blocks(2)), Some(Interval(0.0, 1.0)));
        assert_eq!(in_blocks(0).over(&in_blocks(0)), None);
    }

    #[test]
    fn a_difference_is_resampled_block_by_block() {
        // Two quantities that vary together: their difference does not vary.
        let resamples = Resamples::new();
        let more = resamples.sums(&per_block(|block| block as f64 + 2.0));
        let less = resamples.sums(&per_block(|block| block as f64));
        let ones = resamples.sums(&[1.0; BLOCKS]);
        assert_eq!(more.minus(&less).over(&ones), Some(Interval(2.0, 2.0)));
    }
}
