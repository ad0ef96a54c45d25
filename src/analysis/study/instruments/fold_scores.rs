//! Accuracies in each block and in the two folds, with intervals and differences. A held-out accuracy is measured on one
//! fold, for a head or rule that was chosen on the other fold (docs/methodology/dependency.md).

use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::blocks::{Merge, PerBlock};
use crate::stats::interval::Interval;

/// Sums of a study that scores words.
pub trait ScoredSums: Merge + Clone {
    fn scored_words(&self) -> u64;
}

/// Sums of a study over a corpus: in each block, in both folds, and in total.
pub struct FoldScores<'a, S> {
    /// Sums of each block, `[BLOCKS]`; `None` for a block without a scored word.
    pub blocks: &'a [Option<&'a S>],
    /// Sums over all blocks.
    pub total: S,
    /// Sums over `[even-numbered, odd-numbered]` blocks.
    folds: [S; 2],
    /// Number of scored words of each block.
    pub words: PerBlock,
}

/// Numbers of right predictions.
pub struct HitCounts {
    /// Number of right predictions over all blocks.
    pub count: u64,
    pub by_block: PerBlock,
}

/// The difference of two shares, with its interval and standard error; both are `None` if there are too few blocks.
#[derive(Clone, Copy)]
pub struct ShareDifference {
    pub value: f64,
    pub ci95: Option<Interval>,
    pub standard_error: Option<f64>,
}

impl<'a, S: ScoredSums> FoldScores<'a, S> {
    /// Adds up the sums of `blocks`, in total and by fold. `empty` has the sums of no word.
    pub fn new(blocks: &'a [Option<&'a S>], empty: &S) -> Self {
        let pool = |first: usize, step: usize| {
            let mut sums = empty.clone();
            blocks.iter().skip(first).step_by(step).flatten().for_each(|block| sums.merge(block));
            sums
        };
        let words = per_block(blocks, |_, sums| sums.scored_words() as f64);
        Self { blocks, total: pool(0, 1), folds: [pool(0, 2), pool(1, 2)], words }
    }

    /// Accuracy: the number of `right` predictions as a share of the scored words.
    pub fn accuracy(&self, right: u64) -> f64 {
        right as f64 / self.total.scored_words() as f64
    }

    /// Counts the right predictions of one attention head or rule, in total and by block. `right` returns the count
    /// in a block's sums.
    pub fn count_hits(&self, right: impl Fn(&S) -> u64) -> HitCounts {
        HitCounts { count: right(&self.total), by_block: self.per_block(|sums| right(sums) as f64) }
    }

    /// Applies `number` to the sums of each block; 0 for a block without a scored word.
    pub fn per_block(&self, number: impl Fn(&S) -> f64) -> PerBlock {
        per_block(self.blocks, |_, sums| number(sums))
    }

    /// 95 % interval of an accuracy, from the number of `right` predictions in each block.
    pub fn accuracy_interval(&self, right: &PerBlock) -> Option<Interval> {
        Jackknife::new(right, &self.words).with_scale(Scale::Share).interval()
    }

    /// Accuracy of the [held-out predictions](Self::count_held_out_hits) with its 95 % interval; both are `None` if a
    /// fold has no scored word.
    pub fn held_out_accuracy<C>(
        &self,
        choose: impl Fn(&S) -> C,
        right: impl Fn(&S, &C) -> u64,
    ) -> (Option<f64>, Option<Interval>) {
        let Some(hits) = self.count_held_out_hits(choose, right) else { return (None, None) };
        (Some(self.accuracy(hits.count)), self.accuracy_interval(&hits.by_block))
    }

    /// Counts the held-out right predictions. `choose` picks an attention head or rule on one fold, and `right` counts its
    /// right predictions on the other fold, for each fold in turn. `None` if a fold has no scored word.
    pub fn count_held_out_hits<C>(&self, choose: impl Fn(&S) -> C, right: impl Fn(&S, &C) -> u64) -> Option<HitCounts> {
        if self.folds.iter().any(|fold| fold.scored_words() == 0) {
            return None;
        }
        let [even, odd] = &self.folds;
        let elsewhere = [choose(odd), choose(even)];
        let by_block = per_block(self.blocks, |block, sums| right(sums, &elsewhere[block % 2]) as f64);
        Some(HitCounts { count: right(even, &elsewhere[0]) + right(odd, &elsewhere[1]), by_block })
    }

    /// Difference of two numbers of right predictions (`first` minus `second`, in each block), as a share of the
    /// scored words.
    pub fn share_difference(&self, first: &PerBlock, second: &PerBlock) -> ShareDifference {
        let by_block: PerBlock = std::array::from_fn(|block| first[block] - second[block]);
        let difference = Jackknife::new(&by_block, &self.words).with_scale(Scale::Difference);
        let total = |numbers: &PerBlock| numbers.iter().sum::<f64>();
        ShareDifference {
            value: (total(first) - total(second)) / self.total.scored_words() as f64,
            ci95: difference.interval(),
            standard_error: difference.standard_error(),
        }
    }
}

/// Applies `number` to the index and the sums of each block; 0 for a block without a scored word.
pub fn per_block<S>(blocks: &[Option<&S>], number: impl Fn(usize, &S) -> f64) -> PerBlock {
    std::array::from_fn(|block| blocks[block].map_or(0.0, |sums| number(block, sums)))
}
