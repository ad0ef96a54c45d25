//! How well the heads, and the best fixed offset, predict one dependency relation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arcs::{Agreement, RelationSums, baseline_offsets};
use crate::model::grid::HeadGrid;
use crate::stats::bootstrap::{Interval, PerBlock, Resampled, Resamples};
use crate::stats::significance::mcnemar;
use crate::studies::evidence::{ByDirection, Comparison, Direction};

/// How well the heads, and the best fixed offset, predict one relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationMetrics {
    /// Universal Dependencies relation, with subtype if any; `all` pools all but `punct`.
    pub relation: String,
    /// Scored words.
    pub count: u64,
    /// Layer of the best head on all data.
    pub layer: usize,
    /// The best head on all data.
    pub head: usize,
    /// The direction in which it is best.
    pub direction: Direction,
    /// Its accuracy on all data: biased upwards, since it was chosen on the same data.
    pub accuracy: f64,
    /// Accuracy of the heads chosen on one half of the sentences and scored on the other, pooled;
    /// null where one half has no such word.
    pub heldout_accuracy: Option<f64>,
    /// The best fixed offset.
    pub baseline: OffsetBaseline,
    /// The 95 % intervals of the accuracies above.
    pub ci95: RelationIntervals,
    /// The best head against the best fixed offset.
    pub versus_offset: Comparison,
    /// Every head in both directions.
    pub by_head: Vec<HeadAccuracy>,
}

/// The best rule of the form "the head is the word at `d + offset`".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OffsetBaseline {
    /// The offset in words that is best on all data.
    pub offset: i32,
    /// Its accuracy on all data.
    pub accuracy: f64,
    /// Accuracy of the offsets chosen on one half of the sentences and scored on the other, pooled.
    pub heldout_accuracy: Option<f64>,
}

/// The intervals of a relation's accuracies, with the selections as they are; keyed as those.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationIntervals {
    /// Of the best head.
    pub accuracy: Option<Interval>,
    /// Of the heads chosen on the other half.
    pub heldout_accuracy: Option<Interval>,
    /// Of the best fixed offset.
    pub baseline: BaselineIntervals,
}

/// The intervals of an [`OffsetBaseline`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineIntervals {
    /// Of the offset that is best on all data.
    pub accuracy: Option<Interval>,
    /// Of the offsets chosen on the other half.
    pub heldout_accuracy: Option<Interval>,
}

/// One head's accuracy on one relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadAccuracy {
    /// Layer.
    pub layer: usize,
    /// Head within the layer.
    pub head: usize,
    /// Accuracy by direction.
    #[serde(flatten)]
    pub accuracy: ByDirection<f64>,
    /// Its 95 % interval; null where no two blocks have such a word.
    pub ci95: ByDirection<Option<Interval>>,
    /// The head against the relation's best fixed offset.
    pub versus_offset: ByDirection<Comparison>,
}

impl RelationMetrics {
    /// Of the sums of each block; `None` for a block without such a word.
    pub(super) fn new(
        name: &str,
        grid: HeadGrid,
        blocks: &[Option<&RelationSums>],
        agreement: &Agreement,
        resamples: &Resamples,
    ) -> Self {
        let pool = |first: usize, step: usize| {
            let mut sums = RelationSums { hits: vec![[0; 2]; grid.count()], ..RelationSums::default() };
            blocks.iter().skip(first).step_by(step).flatten().for_each(|block| sums.merge(block));
            sums
        };
        // Even and odd sentences: blocks are sentence numbers modulo an even number.
        let (total, folds) = (pool(0, 1), [pool(0, 2), pool(1, 2)]);
        let best = best_head(&total);
        let offset = best_offset(&total);
        let share = |hits: u64| hits as f64 / total.count as f64;
        let scored = folds.iter().all(|fold| fold.count > 0);

        let resampled = |hits: &dyn Fn(usize, &RelationSums) -> u64| -> Resampled {
            let of_block: PerBlock =
                std::array::from_fn(|block| blocks[block].map_or(0, |sums| hits(block, sums)) as f64);
            resamples.sums(&of_block)
        };
        let words = resampled(&|_, sums| sums.count);
        let by_offset = resampled(&|_, sums| sums.offset_hits[offset]);
        // A block's sentences are scored with what is best on the other fold.
        let best_elsewhere = [best_head(&folds[1]), best_head(&folds[0])];
        let offset_elsewhere = [best_offset(&folds[1]), best_offset(&folds[0])];
        let heldout = |hits: &dyn Fn(usize, &RelationSums) -> u64| {
            let right: u64 = folds.iter().enumerate().map(|(fold, sums)| hits(fold, sums)).sum();
            let value = scored.then(|| share(right));
            (value, value.and_then(|_| resampled(&|block, sums| hits(block % 2, sums)).over(&words)))
        };
        let (heldout_accuracy, heldout_interval) = heldout(&|fold, sums| sums.hits_of(best_elsewhere[fold]));
        let (heldout_offset, heldout_offset_interval) = heldout(&|fold, sums| sums.offset_hits[offset_elsewhere[fold]]);

        let of_head = |place: usize| {
            let compared = [0, 1].map(|direction| {
                let hits = total.hits[place][direction];
                let both = agreement.both[place][direction][offset];
                let right = resampled(&|_, sums| sums.hits_of((place, direction)));
                let (head_only, offset_only) = (hits - both, total.offset_hits[offset] - both);
                let comparison = Comparison {
                    difference: (head_only as f64 - offset_only as f64) / total.count as f64,
                    ci95: right.minus(&by_offset).over(&words),
                    head_only,
                    offset_only,
                    p: mcnemar(head_only, offset_only),
                    q: None,
                };
                (share(hits), right.over(&words), comparison)
            });
            let (layer, head) = grid.at(place);
            HeadAccuracy {
                layer,
                head,
                accuracy: ByDirection::new(|direction| compared[direction].0),
                ci95: ByDirection::new(|direction| compared[direction].1),
                versus_offset: ByDirection::new(|direction| compared[direction].2.clone()),
            }
        };
        let by_head: Vec<HeadAccuracy> = (0..grid.count()).map(of_head).collect();
        let (layer, head) = grid.at(best.0);
        let direction = Direction::BOTH[best.1];
        Self {
            relation: name.to_owned(),
            count: total.count,
            layer,
            head,
            direction,
            accuracy: share(total.hits_of(best)),
            heldout_accuracy,
            baseline: OffsetBaseline {
                offset: offset_at(offset),
                accuracy: share(total.offset_hits[offset]),
                heldout_accuracy: heldout_offset,
            },
            ci95: RelationIntervals {
                accuracy: *by_head[best.0].ci95.get(direction),
                heldout_accuracy: heldout_interval,
                baseline: BaselineIntervals {
                    accuracy: by_offset.over(&words),
                    heldout_accuracy: heldout_offset_interval,
                },
            },
            versus_offset: by_head[best.0].versus_offset.get(direction).clone(),
            by_head,
        }
    }

    /// The comparisons of all heads, both directions of the first head first.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.by_head.iter().flat_map(|head| Direction::BOTH.map(|direction| head.versus_offset.get(direction)))
    }

    /// The same to change them.
    pub(super) fn comparisons_mut(&mut self) -> impl Iterator<Item = &mut Comparison> {
        self.by_head.iter_mut().flat_map(|head| {
            let ByDirection { dependent_to_head, head_to_dependent } = &mut head.versus_offset;
            [dependent_to_head, head_to_dependent]
        })
    }

    /// The entry of the best head.
    fn best(&self) -> &HeadAccuracy {
        let is_best = |entry: &&HeadAccuracy| (entry.layer, entry.head) == (self.layer, self.head);
        self.by_head.iter().find(is_best).expect("the best head is one of the heads")
    }

    /// Takes the comparison of the best head from those of all heads.
    pub(super) fn compare_best(&mut self) {
        self.versus_offset = self.best().versus_offset.get(self.direction).clone();
    }
}

impl RelationSums {
    /// The right predictions of a head in a direction, by their places.
    fn hits_of(&self, (place, direction): (usize, usize)) -> u64 {
        self.hits.get(place).map_or(0, |hits| hits[direction])
    }
}

/// Place and direction of the head with most hits; ties go to the lowest place, then to [`Direction::BOTH`]'s first.
fn best_head(sums: &RelationSums) -> (usize, usize) {
    let mut best = (0, 0);
    for (place, hits) in sums.hits.iter().enumerate() {
        for (direction, &count) in hits.iter().enumerate() {
            if count > sums.hits[best.0][best.1] {
                best = (place, direction);
            }
        }
    }
    best
}

/// The slot of the offset with most hits; ties go to the smaller distance, then to the word on the right.
fn best_offset(sums: &RelationSums) -> usize {
    let rank = |&slot: &usize| {
        let offset = offset_at(slot);
        (sums.offset_hits[slot], -offset.abs(), offset)
    };
    (0..sums.offset_hits.len()).max_by_key(rank).expect("there are offsets")
}

fn offset_at(slot: usize) -> i32 {
    baseline_offsets().nth(slot).expect("a slot of the baseline")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::blocks::BLOCKS;

    const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

    fn relation(count: u64, hits: [[u64; 2]; 2], offsets: &[(i32, u64)]) -> RelationSums {
        let mut sums = RelationSums { count, hits: hits.to_vec(), ..RelationSums::default() };
        for (offset, hits) in offsets {
            sums.offset_hits[slot(*offset)] = *hits;
        }
        sums
    }

    fn slot(offset: i32) -> usize {
        baseline_offsets().position(|known| known == offset).unwrap()
    }

    fn measure(blocks: &[Option<&RelationSums>], agreement: &Agreement) -> RelationMetrics {
        let absent = std::iter::repeat_n(None, BLOCKS - blocks.len());
        let blocks: Vec<_> = blocks.iter().copied().chain(absent).collect();
        RelationMetrics::new("obj", GRID, &blocks, agreement, &Resamples::new())
    }

    fn no_agreement() -> Agreement {
        let mut agreement = Agreement::default();
        agreement.resize(GRID.count());
        agreement
    }

    #[test]
    fn what_is_chosen_on_one_fold_is_scored_on_the_other() {
        // On even sentences head 0 dep->head is best (8 of 10), on odd ones head 1 head->dep (6 of 10).
        let even = relation(10, [[8, 0], [1, 2]], &[(-1, 5), (1, 4)]);
        let odd = relation(10, [[3, 0], [1, 6]], &[(-1, 1), (1, 6)]);
        let measured = measure(&[Some(&even), Some(&odd)], &no_agreement());
        // On all: head 0 has 11 of 20, head 1 8 of 20.
        assert_eq!((measured.head, measured.direction), (0, Direction::DependentToHead));
        assert_eq!(measured.accuracy, 11.0 / 20.0);
        // Held out: head 0 scores 3 on odd, head 1 scores 2 on even.
        assert_eq!(measured.heldout_accuracy, Some(5.0 / 20.0));
        // Offsets on all: +1 has 10, -1 has 6; held out: -1 scores 1 on odd, +1 scores 4 on even.
        let expected = OffsetBaseline { offset: 1, accuracy: 0.5, heldout_accuracy: Some(0.25) };
        assert_eq!(measured.baseline, expected);
        assert_eq!(*measured.by_head[1].accuracy.get(Direction::HeadToDependent), 8.0 / 20.0);
        // Two blocks of ten words: most resamples hold both, and the others one of the two.
        assert_eq!(measured.ci95.accuracy, Some(Interval(0.3, 0.8)));
        assert_eq!(measured.ci95.heldout_accuracy, Some(Interval(0.2, 0.3)));
        assert_eq!(measured.ci95.baseline.accuracy, Some(Interval(0.4, 0.6)));
        assert_eq!(measured.ci95.baseline.heldout_accuracy, Some(Interval(0.1, 0.4)));
        // Head 0 less offset +1: 8 - 4 on even, 3 - 6 on odd.
        assert_eq!(measured.versus_offset.ci95, Some(Interval(-0.3, 0.4)));
    }

    #[test]
    fn one_fold_alone_cannot_be_held_out() {
        let even = relation(1, [[1, 0], [0, 0]], &[(1, 1)]);
        let measured = measure(&[Some(&even)], &no_agreement());
        assert_eq!((measured.heldout_accuracy, measured.baseline.heldout_accuracy), (None, None));
        // Nor does one block have an interval.
        assert_eq!(measured.ci95, RelationIntervals::default());
        assert_eq!(measured.versus_offset.ci95, None);
    }

    #[test]
    fn the_words_on_which_one_alone_is_right() {
        let words = relation(20, [[12, 0], [3, 4]], &[(-2, 7), (2, 2)]);
        let mut agreement = no_agreement();
        // Head 0 shares five words with offset -2 and one with +2.
        agreement.both[0][0][slot(-2)] = 5;
        agreement.both[0][0][slot(2)] = 1;
        let Comparison { difference, head_only, offset_only, p, q, .. } =
            measure(&[Some(&words)], &agreement).versus_offset;
        assert_eq!((difference, head_only, offset_only, q), (0.25, 7, 2, None));
        // At least seven of nine: (36 + 9 + 1) / 512.
        assert!((p - 46.0 / 512.0).abs() < 1e-15);
    }

    #[test]
    fn ties_between_heads_and_between_offsets() {
        let sums = relation(4, [[1, 2], [2, 2]], &[(-2, 3), (-1, 3), (1, 3)]);
        assert_eq!(best_head(&sums), (0, 1));
        assert_eq!(offset_at(best_offset(&sums)), 1);
        assert_eq!(offset_at(best_offset(&relation(4, [[0; 2]; 2], &[(-2, 3), (3, 3)]))), -2);
    }
}
