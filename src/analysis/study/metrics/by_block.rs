//! One metric of every head by block of sentences, for comparison with the metric of another study, block by block.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::block_test::Jackknife;
use crate::stats::blocks::{BLOCKS, PerBlock};
use crate::stats::interval::Interval;
use crate::stats::ranks::spearman;

/// The sums of a metric whose denominators are the same for all heads.
#[derive(Clone, Debug, PartialEq)]
pub struct ByBlock {
    /// `[layers * heads]`
    numerators: Vec<PerBlock>,
    denominators: PerBlock,
}

/// Spearman's rank correlation of two metrics over the heads of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankCorrelation {
    /// The correlation; null where all heads have the same value of one of the two.
    #[schemars(range(min = -1, max = 1))]
    pub rho: Option<f64>,
    /// Its 95 % interval, by leaving out one block at a time; null where fewer than 10 can be.
    pub ci95: Option<Interval>,
}

impl ByBlock {
    /// `numerator` of a head, by its place, in a block, and `denominator` of a block.
    pub fn new(heads: usize, numerator: impl Fn(usize, usize) -> f64, denominator: impl Fn(usize) -> f64) -> Self {
        let of_head = |head: usize| std::array::from_fn(|block| numerator(head, block));
        Self { numerators: (0..heads).map(of_head).collect(), denominators: std::array::from_fn(denominator) }
    }

    /// The rank correlation of the heads by this metric and by another over the same blocks.
    pub fn rank_correlation(&self, other: &Self) -> RankCorrelation {
        // All heads have the same denominator, so their order is that of the numerators.
        let whole = |of: &Self| of.numerators.iter().map(|blocks| blocks.iter().sum::<f64>()).collect::<Vec<f64>>();
        let (here, there) = (whole(self), whole(other));
        let less = |all: &[f64], of: &Self, block: usize| -> Vec<f64> {
            all.iter().zip(&of.numerators).map(|(all, blocks)| all - blocks[block]).collect()
        };
        let without = |block: usize| {
            let present = self.denominators[block] != 0.0 && other.denominators[block] != 0.0;
            let rho = || spearman(&less(&here, self, block), &less(&there, other, block));
            present.then(rho).flatten()
        };
        let rho = spearman(&here, &there);
        let interval = |rho| Jackknife::of(rho, (0..BLOCKS).map(without).collect(), &self.denominators).interval();
        RankCorrelation { rho, ci95: rho.and_then(interval) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads with these values in every block, and in odd ones `odd` more.
    fn of(values: [f64; 3], odd: [f64; 3]) -> ByBlock {
        ByBlock::new(3, |head, block| values[head] + if block % 2 == 1 { odd[head] } else { 0.0 }, |_| 1.0)
    }

    #[test]
    fn orders_are_held_against_each_other() {
        let rising = of([1.0, 2.0, 3.0], [0.0; 3]);
        let found = rising.rank_correlation(&of([-3.0, 0.0, 4.0], [0.0; 3]));
        assert_eq!(found, RankCorrelation { rho: Some(1.0), ci95: Some(Interval(1.0, 1.0)) });
        // Without one odd block the last two change places: their sums differ by 64 and 63 units, 32 of 2.02 in odd blocks.
        let found = rising.rank_correlation(&of([0.0, 1.0, 2.0], [0.0, 2.02, 0.0]));
        let Interval(low, high) = found.ci95.unwrap();
        assert!(found.rho == Some(0.5) && low < 0.5 && 0.5 < high, "{found:?}");
    }

    #[test]
    fn few_blocks_have_no_interval() {
        let only = |values: [f64; 3]| {
            let of = |block: usize, value: f64| if block < 9 { value } else { 0.0 };
            ByBlock::new(3, |head, block| of(block, values[head]), |block| of(block, 1.0))
        };
        let found = only([1.0, 2.0, 3.0]).rank_correlation(&only([2.0, 1.0, 3.0]));
        assert_eq!(found, RankCorrelation { rho: Some(0.5), ci95: None });
        let same = only([1.0; 3]).rank_correlation(&only([2.0, 1.0, 3.0]));
        assert_eq!(same, RankCorrelation::default());
    }
}
