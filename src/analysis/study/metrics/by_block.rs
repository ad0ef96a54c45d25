//! One metric of every head by block of sentences, for comparison with the metric of another study, block by block.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::bootstrap::{Interval, PerBlock, Resampled, Resamples};
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
    /// Its 95 % interval, by the bootstrap over blocks of sentences; null where no two blocks can be resampled.
    pub ci95: Option<Interval>,
}

impl ByBlock {
    /// `numerator` of a head, by its place, in a block, and `denominator` of a block.
    pub fn new(heads: usize, numerator: impl Fn(usize, usize) -> f64, denominator: impl Fn(usize) -> f64) -> Self {
        let of_head = |head: usize| std::array::from_fn(|block| numerator(head, block));
        Self { numerators: (0..heads).map(of_head).collect(), denominators: std::array::from_fn(denominator) }
    }

    /// The rank correlation of the heads by this metric and by another.
    pub fn rank_correlation(&self, other: &Self, resamples: &Resamples) -> RankCorrelation {
        // All heads have the same denominator, so their order is that of the numerators.
        let whole = |of: &Self| of.numerators.iter().map(|blocks| blocks.iter().sum()).collect::<Vec<f64>>();
        let drawn = |of: &Self| of.numerators.iter().map(|blocks| resamples.sums(blocks)).collect::<Vec<Resampled>>();
        let (here, there) = (drawn(self), drawn(other));
        let enough = [self, other].iter().all(|of| resamples.sums(&of.denominators).blocks() > 1);
        let at = |of: &[Resampled], resample: usize| of.iter().map(|sums| sums.at(resample)).collect::<Vec<f64>>();
        let of_resample = |resample: usize| spearman(&at(&here, resample), &at(&there, resample));
        let rho = spearman(&whole(self), &whole(other));
        RankCorrelation { rho, ci95: rho.filter(|_| enough).and_then(|_| resamples.interval(of_resample)) }
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
        let (resamples, rising) = (Resamples::new(), of([1.0, 2.0, 3.0], [0.0; 3]));
        let found = rising.rank_correlation(&of([-3.0, 0.0, 4.0], [0.0; 3]), &resamples);
        assert_eq!(found, RankCorrelation { rho: Some(1.0), ci95: Some(Interval(1.0, 1.0)) });
        // The order of the last two depends on how many odd blocks are drawn; the first is always the least.
        let found = rising.rank_correlation(&of([0.0, 1.0, 2.0], [0.0, 2.0, 0.0]), &resamples);
        let Interval(low, high) = found.ci95.unwrap();
        assert!((low - 0.5).abs() < 1e-12 && (high - 1.0).abs() < 1e-12, "{low} to {high}");
        let none = rising.rank_correlation(&of([0.0, 1.0, 2.0], [0.0; 3]), &Resamples::none());
        assert_eq!(none, RankCorrelation { rho: Some(1.0), ci95: None });
    }

    #[test]
    fn one_block_has_no_interval() {
        let only = |values: [f64; 3]| {
            let of = |block: usize, value: f64| if block == 5 { value } else { 0.0 };
            ByBlock::new(3, |head, block| of(block, values[head]), |block| of(block, 1.0))
        };
        let found = only([1.0, 2.0, 3.0]).rank_correlation(&only([2.0, 1.0, 3.0]), &Resamples::new());
        assert_eq!(found, RankCorrelation { rho: Some(0.5), ci95: None });
        let same = only([1.0; 3]).rank_correlation(&only([2.0, 1.0, 3.0]), &Resamples::new());
        assert_eq!(same, RankCorrelation::default());
    }
}
