//! One metric of every attention head by block of sentences, for rank correlations with the metric of another study.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::block_test::Jackknife;
use crate::stats::blocks::{BLOCKS, PerBlock};
use crate::stats::interval::Interval;
use crate::stats::ranks::spearman;

/// Sums of a metric in each block, for a metric whose denominators are equal for all heads.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricByBlock {
    /// Numerators of each head in each block, `[layers * heads]`.
    numerators: Vec<PerBlock>,
    denominators: PerBlock,
}

/// Spearman's rank correlation of two metrics over the heads of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankCorrelation {
    /// Mean of two correlations: one metric over even-numbered blocks with the other over odd-numbered blocks, and the reverse.
    /// Null where one of the metrics is equal for all heads, or if all blocks are of one parity.
    #[schemars(range(min = -1, max = 1))]
    pub rho: Option<f64>,
    /// The 95 % interval of `rho`, by leaving out one block at a time; null where fewer than 10 blocks can be left out.
    pub ci95: Option<Interval>,
}

impl MetricByBlock {
    /// Computes the sums from `numerator(head, block)` and `denominator(block)`, where `head` is the head's index.
    pub fn new(heads: usize, numerator: impl Fn(usize, usize) -> f64, denominator: impl Fn(usize) -> f64) -> Self {
        let of_head = |head: usize| std::array::from_fn(|block| numerator(head, block));
        Self { numerators: (0..heads).map(of_head).collect(), denominators: std::array::from_fn(denominator) }
    }

    /// Rank correlation of this metric with another over the heads, with the two metrics estimated on blocks of
    /// opposite parity. The result is the mean over both assignments of the parities. Estimates on equal blocks would
    /// share sampling noise.
    pub fn rank_correlation_across_folds(&self, other: &Self) -> RankCorrelation {
        // All heads have the same denominator, so the order of heads is the order of the numerators.
        let fold = |metric: &Self, parity: usize, without: Option<usize>| -> Option<Vec<f64>> {
            let blocks = || (parity..BLOCKS).step_by(2).filter(move |&block| without != Some(block));
            let has_denominator = blocks().any(|block| metric.denominators[block] != 0.0);
            let sum = |head: &PerBlock| blocks().map(|block| head[block]).sum();
            has_denominator.then(|| metric.numerators.iter().map(sum).collect())
        };
        let mean = |without: Option<usize>| {
            let one_way = |parity| spearman(&fold(self, parity, without)?, &fold(other, 1 - parity, without)?);
            Some(f64::midpoint(one_way(0)?, one_way(1)?))
        };
        let without = |block: usize| {
            let has_denominators = self.denominators[block] != 0.0 && other.denominators[block] != 0.0;
            has_denominators.then(|| mean(Some(block))).flatten()
        };
        let rho = mean(None);
        let interval = |rho| {
            let Interval(low, high) =
                Jackknife::from_leave_one_out(rho, (0..BLOCKS).map(without).collect(), &self.denominators)
                    .interval()?;
            // A correlation lies within these limits.
            Some(Interval(low.max(-1.0), high.min(1.0)))
        };
        RankCorrelation { rho, ci95: rho.and_then(interval) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads with these values in every block, and in odd ones `odd` more.
    fn of(values: [f64; 3], odd: [f64; 3]) -> MetricByBlock {
        MetricByBlock::new(3, |head, block| values[head] + if block % 2 == 1 { odd[head] } else { 0.0 }, |_| 1.0)
    }

    #[test]
    fn orders_are_held_against_each_other() {
        let rising = of([1.0, 2.0, 3.0], [0.0; 3]);
        let found = rising.rank_correlation_across_folds(&of([-3.0, 0.0, 4.0], [0.0; 3]));
        assert_eq!(found, RankCorrelation { rho: Some(1.0), ci95: Some(Interval(1.0, 1.0)) });
        // In even blocks 1, 2, 3, in odd ones 1, 4.02, 3: the mean of 1 and 0.5.
        let found = rising.rank_correlation_across_folds(&of([1.0, 2.0, 3.0], [0.0, 2.02, 0.0]));
        assert_eq!(found, RankCorrelation { rho: Some(0.75), ci95: Some(Interval(0.75, 0.75)) });
    }

    #[test]
    fn noise_that_both_share_is_no_agreement() {
        // Heads that differ in even blocks one way and in odd blocks the other way: over the same blocks the order is the same.
        let noise = of([1.0, 2.0, 3.0], [2.0, 0.0, -2.0]);
        let found = noise.rank_correlation_across_folds(&noise);
        assert_eq!(found.rho, Some(-1.0));
    }

    #[test]
    fn an_interval_is_of_what_leaving_a_block_out_changes() {
        // Over odd blocks the last two heads sum up to 32 and 32.5; one block has 1 more of the second.
        let uneven =
            |head: usize, block: usize| [0.0, 1.0, 32.5 / 32.0][head] + f64::from(u8::from(head == 1 && block == 1));
        let uneven = MetricByBlock::new(3, uneven, |_| 1.0);
        let found = of([1.0, 2.0, 3.0], [0.0; 3]).rank_correlation_across_folds(&uneven);
        // 1 over even blocks and 0.5 over odd ones, and 1 over odd ones without that block.
        let Interval(low, high) = found.ci95.unwrap();
        assert!(found.rho == Some(0.75) && low < 0.75 && high > 0.75, "{found:?}");
    }

    #[test]
    fn few_blocks_have_no_interval() {
        let only = |values: [f64; 3]| {
            let of = |block: usize, value: f64| if block < 9 { value } else { 0.0 };
            MetricByBlock::new(3, |head, block| of(block, values[head]), |block| of(block, 1.0))
        };
        let found = only([1.0, 2.0, 3.0]).rank_correlation_across_folds(&only([2.0, 1.0, 3.0]));
        assert_eq!(found, RankCorrelation { rho: Some(0.5), ci95: None });
        let same = only([1.0; 3]).rank_correlation_across_folds(&only([2.0, 1.0, 3.0]));
        assert_eq!(same, RankCorrelation::default());
        // A single block has no other parity to be held against.
        let one = MetricByBlock::new(
            3,
            |head, block| if block == 0 { head as f64 } else { 0.0 },
            |block| f64::from(u8::from(block == 0)),
        );
        assert_eq!(one.rank_correlation_across_folds(&one), RankCorrelation::default());
    }
}
