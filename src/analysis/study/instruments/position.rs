//! Position-matched chance: the expected score of a head that prefers the measured head's offsets but ignores content
//! (docs/methodology/words.md).
//!
//! A head that attends to nearby tokens scores well wherever targets tend to be near. So its mean weight in each bin
//! of offsets, over the queries of a metric, is multiplied by the share of targets in that bin.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use serde::{Deserialize, Serialize};

use crate::linalg::lanes::sum_any_length;
use crate::sequences::fold::roles::{MAX_OFFSET_TOKENS, OFFSET_COUNT};
use crate::sequences::fold::text::TextAttention;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::{ExactSum, add_elementwise, round_to_i64};

/// Largest distances of the first and of the second far bin on each side, in tokens. The third far bin has all larger
/// distances. Far bins begin beyond [`MAX_OFFSET_TOKENS`].
const FAR_BIN_ENDS: [usize; 2] = [16, 32];

const FAR_BINS_PER_SIDE: usize = FAR_BIN_ENDS.len() + 1;

/// Number of bins of offsets. Offsets from -8 to 8 have one bin each; then come 9-16, 17-32 and more on the left,
/// and the same on the right.
///
/// Offset 0 has a bin, but it enters no expectation, since a query is never its own key.
pub const OFFSET_BIN_COUNT: usize = 2 * MAX_OFFSET_TOKENS + 1 + 2 * FAR_BINS_PER_SIDE;

/// Index of the nearest far bin on the left of the query.
const FIRST_LEFT_FAR_BIN: usize = 2 * MAX_OFFSET_TOKENS + 1;
/// Index of the nearest far bin on the right of the query.
const FIRST_RIGHT_FAR_BIN: usize = FIRST_LEFT_FAR_BIN + FAR_BINS_PER_SIDE;

/// A value for each bin of offsets.
pub type PerOffsetBin<T> = [T; OFFSET_BIN_COUNT];

/// Weight of uniform attention on a target (such as a word class), summed over the (query, key) pairs in each bin of
/// offsets. A key counts by the share of it that is in the target.
pub type TargetSums = PerOffsetBin<ExactSum>;

/// Index of the bin of the offset from `query` to `key`.
fn bin_index(query: usize, key: usize) -> usize {
    let distance = query.abs_diff(key);
    if distance <= MAX_OFFSET_TOKENS {
        return key + MAX_OFFSET_TOKENS - query;
    }
    let far = FAR_BIN_ENDS.iter().filter(|&&farthest| distance > farthest).count();
    if key < query { FIRST_LEFT_FAR_BIN + far } else { FIRST_RIGHT_FAR_BIN + far }
}

/// Weights of one head over one sequence in each bin of offsets, summed over queries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OffsetProfile(PerOffsetBin<f64>);

impl OffsetProfile {
    /// Adds the weights of a query on all keys (`row`), times `scale`, to the bins of the keys.
    #[inline(always)]
    pub fn add<W: Copy + Into<f64>>(&mut self, row: &[W], query: usize, scale: f64) {
        let (start, end) = (query.saturating_sub(MAX_OFFSET_TOKENS), row.len().min(query + MAX_OFFSET_TOKENS + 1));
        let near = &mut self.0[start + MAX_OFFSET_TOKENS - query..end + MAX_OFFSET_TOKENS - query];
        near.iter_mut().zip(&row[start..end]).for_each(|(sum, &weight)| *sum += scale * weight.into());
        self.add_far_weights(row, query, scale);
    }

    /// Adds the weights of a query on keys farther than [`MAX_OFFSET_TOKENS`], times `scale`, to the bins of the
    /// keys.
    #[inline(always)]
    fn add_far_weights<W: Copy + Into<f64>>(&mut self, row: &[W], query: usize, scale: f64) {
        let (start, end) = (query.saturating_sub(MAX_OFFSET_TOKENS), row.len().min(query + MAX_OFFSET_TOKENS + 1));
        if start > 0 {
            self.add_far_bins(FIRST_LEFT_FAR_BIN, scale, |nearest, farthest| {
                &row[query.saturating_sub(farthest)..(query + 1).saturating_sub(nearest)]
            });
        }
        if end < row.len() {
            let at = |distance: usize| row.len().min(query.saturating_add(distance));
            self.add_far_bins(FIRST_RIGHT_FAR_BIN, scale, |nearest, farthest| {
                &row[at(nearest)..at(farthest.saturating_add(1))]
            });
        }
    }

    /// Adds the weights of a query on other tokens of text, times `scale`, to the bins of these tokens.
    #[inline(always)]
    pub fn add_text(&mut self, text: &TextAttention, query: usize, scale: f64) {
        let near = self.0[..OFFSET_COUNT].iter_mut().zip(text.offset_weights(query));
        near.for_each(|(sum, &weight)| *sum += scale * f64::from(weight));
        self.add_far_weights(&text.row(query)[..text.tokens()], query, scale);
    }

    /// Adds the weights of a query, times `scale`, to the far bins of one side, which begin at index `first`. `between`
    /// returns the weights on keys between two distances, both included.
    #[inline(always)]
    fn add_far_bins<'a, W: Copy + Into<f64> + 'a>(
        &mut self,
        first: usize,
        scale: f64,
        between: impl Fn(usize, usize) -> &'a [W],
    ) {
        for far in 0..FAR_BINS_PER_SIDE {
            let nearest = if far == 0 { MAX_OFFSET_TOKENS + 1 } else { FAR_BIN_ENDS[far - 1] + 1 };
            let farthest = FAR_BIN_ENDS.get(far).copied().unwrap_or(usize::MAX);
            self.0[first + far] += scale * sum_any_length(between(nearest, farthest));
        }
    }

    /// Adds a query whose whole weight is on one key.
    #[inline(always)]
    pub fn add_single_key(&mut self, query: usize, key: usize) {
        self.0[bin_index(query, key)] += 1.0;
    }

    pub fn sum_with(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(sum, other)| *sum += other);
        self
    }
}

/// The fixed-point number that stands for a weight of 1: 2^32.
const FIXED_POINT_ONE: f64 = 4_294_967_296.0;

/// The profiles of many sequences as fixed-point integers, whose sum is exact in any order.
///
/// A profile has 23 bins for each head, block and set of queries, so a bin has 64 bits where [`ExactSum`] has 128.
/// With 32 bits of fraction, each sequence is rounded by at most 1.2e-10. A block holds the weights of 2^31
/// queries, enough for 10^11 tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileSums(PerOffsetBin<i64>);

merge_fields!(ProfileSums { 0 });

impl ProfileSums {
    #[inline(always)]
    pub fn add(&mut self, profile: &OffsetProfile) {
        for (sum, &weight) in self.0.iter_mut().zip(&profile.0) {
            *sum += round_to_i64(weight * FIXED_POINT_ONE);
        }
    }

    /// The sum over bins of the weight times the bin's rate.
    fn weighted_sum(&self, rates: &PerOffsetBin<f64>) -> f64 {
        self.0.iter().zip(rates).map(|(&weight, rate)| weight as f64 / FIXED_POINT_ONE * rate).sum()
    }
}

/// Rates of a target: the share of uniform attention that is on the target's keys, in each bin of offsets. There is one
/// rate over the whole corpus, and one over the corpus without one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetRates {
    /// Rate in each bin, over the corpus without the block.
    without: PerOffsetBin<f64>,
    /// Rate in each bin over the whole corpus, minus the rate without the block.
    change: PerOffsetBin<f64>,
}

impl TargetRates {
    /// Contribution of one block to the score over the corpus that is expected of a head that knows offsets alone.
    /// `block` and `corpus` are the head's profiles in the block and in the whole corpus.
    ///
    /// The expected score is `corpus · rates`, with `rates = without + change`. Without the block, it is
    /// `(corpus - block) · without`. The contribution is the difference of these two scores, so the jackknife takes
    /// into account that rates are estimated as well. If no block is left out, the contribution is `block · rates`.
    pub fn expected_score_part(&self, block: &ProfileSums, corpus: &ProfileSums) -> f64 {
        block.weighted_sum(&self.without) + corpus.weighted_sum(&self.change)
    }
}

/// A query and a different key, with the weight and target from which [`TargetRates`] are estimated.
#[derive(Clone, Copy, Debug)]
pub struct QueryKeyPair {
    pub query: usize,
    pub key: usize,
    /// Weight of uniform attention from the query to the key.
    pub weight: f64,
    /// `(index of a target, share of the key that counts towards the target)`; `None` if the key belongs to no target.
    /// The share is 1 for a member of a class.
    pub target: Option<(usize, f64)>,
}

/// Uniform attention over all pairs of a query and another key, in each bin of offsets: its total weight, and its
/// weight on targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionPairs {
    /// Weight of uniform attention in each bin, summed over pairs.
    weights: PerOffsetBin<ExactSum>,
    /// Weight of uniform attention times the key's share in the target, summed over the pairs of each bin, `[targets]`.
    targets: Vec<TargetSums>,
}

merge_fields!(PositionPairs { weights, targets });

impl PositionPairs {
    pub fn new(targets: usize) -> Self {
        Self { weights: PerOffsetBin::default(), targets: vec![PerOffsetBin::default(); targets] }
    }

    pub fn add(&mut self, pairs: impl Iterator<Item = QueryKeyPair>) {
        let (mut weights, mut targets) = ([0.0; OFFSET_BIN_COUNT], vec![[0.0; OFFSET_BIN_COUNT]; self.targets.len()]);
        for QueryKeyPair { query, key, weight, target } in pairs {
            let bin = bin_index(query, key);
            weights[bin] += weight;
            if let Some((target, share)) = target {
                targets[target][bin] += weight * share;
            }
        }
        add_elementwise(&mut self.weights, &weights);
        self.targets.iter_mut().zip(&targets).for_each(|(sums, values)| add_elementwise(sums, values));
    }

    /// Moves the sums of all targets out, so that the caller can store them target by target.
    pub fn take_targets(&mut self) -> Vec<TargetSums> {
        std::mem::take(&mut self.targets)
    }

    /// Number of targets for which weights are summed.
    pub fn target_count(&self) -> usize {
        self.targets.len()
    }

    /// Rates of a target ([`TargetRates`]) over the corpus without `block` and with it. A bin without pairs has a rate
    /// of 0. Without a block, both are equal.
    pub fn rates(&self, target: usize, block: Option<&Self>) -> TargetRates {
        self.rates_from_sums(&self.targets[target], block.map(|block| (block, &block.targets[target])))
    }

    /// As [`Self::rates`], for a target whose sums are stored separately ([`Self::take_targets`]). `target` has the
    /// target's sums over the corpus. `block` is `(sums over all pairs, sums of the target)` in the block.
    pub fn rates_from_sums(&self, target: &TargetSums, block: Option<(&Self, &TargetSums)>) -> TargetRates {
        let mean = |block: Option<(&Self, &TargetSums)>| -> PerOffsetBin<f64> {
            std::array::from_fn(|bin| {
                let [mut weight, mut share] = [self.weights[bin], target[bin]].map(ExactSum::value);
                if let Some((block, target)) = block {
                    weight -= block.weights[bin].value();
                    share -= target[bin].value();
                }
                if weight > 0.0 { share / weight } else { 0.0 }
            })
        };
        let (all, without) = (mean(None), mean(block));
        TargetRates { without, change: std::array::from_fn(|bin| all[bin] - without[bin]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_by_hand() {
        assert_eq!(
            [bin_index(20, 12), bin_index(20, 19), bin_index(20, 20), bin_index(20, 21), bin_index(20, 28)],
            [0, 7, 8, 9, 16]
        );
        assert_eq!(
            [bin_index(40, 31), bin_index(40, 24), bin_index(40, 23), bin_index(40, 8), bin_index(40, 7)],
            [17, 17, 18, 18, 19]
        );
        assert_eq!(
            [bin_index(0, 9), bin_index(0, 16), bin_index(0, 17), bin_index(0, 32), bin_index(0, 33)],
            [20, 20, 21, 21, 22]
        );
    }

    /// Tags `N V N N`; the words have 1, 1, 2 and 1 tokens, between two special ones: 7.
    const TAGS: [char; 4] = ['N', 'V', 'N', 'N'];
    const TOKENS: [f64; 4] = [1.0, 1.0, 2.0, 1.0];
    const WEIGHTS: [[f64; 4]; 4] =
        [[0.0, 0.4, 0.2, 0.1], [0.3, 0.0, 0.3, 0.1], [0.1, 0.2, 0.0, 0.4], [0.1, 0.1, 0.6, 0.0]];

    fn same(query: usize, key: usize) -> f64 {
        f64::from(u8::from(TAGS[query] == TAGS[key]))
    }

    /// The mean attention to another word of the query's tag, and what is expected by offsets alone.
    fn same_tag(queries: &[usize], weights: &[[f64; 4]; 4]) -> (f64, f64) {
        let pairs =
            || queries.iter().flat_map(|&query| (0..4).filter(move |&key| key != query).map(move |key| (query, key)));
        let (mut profile, mut sums, mut uniform) =
            (OffsetProfile::default(), ProfileSums::default(), PositionPairs::new(1));
        queries.iter().for_each(|&query| profile.add(&weights[query], query, 1.0));
        sums.add(&profile);
        uniform.add(pairs().map(|(query, key)| QueryKeyPair {
            query,
            key,
            weight: TOKENS[key] / 7.0,
            target: Some((0, same(query, key))),
        }));
        let observed: f64 = pairs().map(|(query, key)| weights[query][key] * same(query, key)).sum();
        let count = queries.len() as f64;
        (observed / count, uniform.rates(0, None).expected_score_part(&sums, &sums) / count)
    }

    #[test]
    fn an_example_by_hand() {
        let close = |(observed, expected): (f64, f64), by_hand: (f64, f64)| {
            assert!(
                (observed - by_hand.0).abs() < 1e-9 && (expected - by_hand.1).abs() < 1e-9,
                "{observed} {expected}"
            );
        };
        // Offsets -3..3: 0.025 x 1, 0.05 x 1/2, 0.275 x 1/2, 0.275 x 1/4, 0.075 x 2/3, 0.025 x 1.
        close(same_tag(&[0, 1, 2, 3], &WEIGHTS), (0.375, 0.33125));
        // Without the verb, which has no other of its tag: (0.1 + 0.1 x 1/2 + 0.8 x 2/3 + 0.8 x 1/2 + 0.2 x 1 + 0.1)/3;
        // at -2 the pairs 2-0 and 3-1, at -1 2-1 and 3-2 with 1 and 2 tokens, at 1 0-1 and 2-3.
        close(same_tag(&[0, 2, 3], &WEIGHTS), (0.5, (0.1 + 0.1 + 0.8 * 2.0 / 3.0 + 0.4 + 0.2 + 0.1) / 3.0));
        // A head without any preference scores what is expected of it.
        let uniform: [[f64; 4]; 4] =
            std::array::from_fn(|query| std::array::from_fn(|key| if key == query { 0.0 } else { TOKENS[key] / 7.0 }));
        let (observed, expected) = same_tag(&[0, 2, 3], &uniform);
        assert!((observed - expected).abs() < 1e-9);
    }

    proptest! {
        /// A row by slices is the row key by key, whatever its length.
        #[test]
        fn every_weight_is_in_its_bin(row in prop::collection::vec(0.0..1.0_f32, 1..120), at in 0..120_usize) {
            let query = at % row.len();
            let mut by_key = [0.0; OFFSET_BIN_COUNT];
            row.iter().enumerate().for_each(|(key, &weight)| by_key[bin_index(query, key)] += 0.5 * f64::from(weight));
            let mut profile = OffsetProfile::default();
            profile.add(&row, query, 0.5);
            for (sum, by_key) in profile.0.iter().zip(by_key) {
                prop_assert!((sum - by_key).abs() < 1e-9);
            }
        }
    }
}
