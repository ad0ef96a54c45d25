//! From sums to ratios: each head's metrics, their chance levels, how well each relation is predicted, and how sure
//! each of these numbers is.

mod head;
mod relation;

pub use head::{ByOffset, HeadIntervals, HeadMetrics, Metrics};
pub use relation::{
    BaselineIntervals, ByDirection, Comparison, HeadAccuracy, OffsetBaseline, RelationIntervals, RelationMetrics,
};

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::bootstrap::Resamples;
use crate::stats::significance::benjamini_hochberg;
use crate::studies::dependency::sums::ALL;
use crate::studies::observe::{BLOCKS, Sums};
use crate::system::parallel::in_parallel;

use head::{BlockFractions, Fraction, Intervals};

/// All that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// The metrics of each head, `[layers * heads]`.
    pub heads: Vec<HeadMetrics>,
    /// Their 95 % intervals, `[layers * heads]`.
    pub ci95: Vec<HeadIntervals>,
    /// What the metrics would be without any preference.
    pub chance: HeadMetrics,
    /// The 95 % intervals of those.
    pub chance_ci95: HeadIntervals,
    /// Dependency relations by name.
    pub relations: Vec<RelationMetrics>,
}

/// How many tests of a head against a fixed offset a run makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tests {
    /// Tests: every head in both directions, on every relation with enough words.
    pub count: usize,
    /// Those with a q-value of at most `settings.policy.syntactic_q`; null where that is, and no significance is asked.
    pub significant: Option<usize>,
}

impl Measurements {
    /// Divides the sums, and resamples their blocks, on `threads` threads.
    #[must_use]
    pub fn new(sums: &Sums, threads: NonZeroUsize) -> Self {
        let resamples = Resamples::new();
        let (grid, blocks) = (sums.grid(), sums.blocks());
        let total = sums.pool(0..BLOCKS);
        let relations = in_parallel(threads, sums.relations(), |(name, &place)| {
            let blocks = blocks.iter().map(|block| block.relations.get(place)).collect::<Vec<_>>();
            RelationMetrics::new(name, grid, &blocks, &sums.agreements()[place], &resamples)
        });
        let all = sums.relations().get(ALL).copied();
        let of_total = BlockFractions::new(&total, &total.exposure, all);
        let of_blocks: Vec<_> = blocks.iter().map(|block| BlockFractions::new(block, &total.exposure, all)).collect();
        let measure = |intervals: &mut Intervals<'_>, fractions: &dyn Fn(&BlockFractions<'_>) -> Metrics<Fraction>| {
            let metrics = fractions(&of_total).map(Fraction::value);
            let ci95 = intervals.of(&metrics, &of_blocks.iter().map(fractions).collect::<Vec<_>>());
            (metrics, ci95)
        };
        let (chance, chance_ci95) = measure(&mut Intervals::new(&resamples), &|sums| sums.chance());
        let layers = in_parallel(threads, 0..grid.layers, |layer| {
            let mut intervals = Intervals::new(&resamples);
            let of_head = |head| measure(&mut intervals, &|sums| sums.of_head(grid.index(layer, head)));
            (0..grid.heads).map(of_head).collect::<Vec<_>>()
        });
        let (heads, ci95) = layers.into_iter().flatten().unzip();
        Self { heads, ci95, chance, chance_ci95, relations }
    }

    /// Corrects for the number of tests: sets the q-values of all relations with at least `min_count` words, and
    /// takes away those of the others, which are not tested.
    pub fn correct(&mut self, min_count: u64) {
        let tested = self.relations.iter().filter(|relation| relation.count >= min_count);
        let p: Vec<f64> = tested.flat_map(RelationMetrics::comparisons).map(|comparison| comparison.p).collect();
        let mut q = benjamini_hochberg(&p).into_iter();
        for relation in &mut self.relations {
            let tested = relation.count >= min_count;
            relation.comparisons_mut().for_each(|comparison| comparison.q = if tested { q.next() } else { None });
            relation.compare_best();
        }
    }

    /// How many tests there are, and how many have a q-value of at most `most`, if there is such a bound.
    #[must_use]
    pub fn tests(&self, most: Option<f64>) -> Tests {
        let tested: Vec<f64> = self
            .relations
            .iter()
            .flat_map(RelationMetrics::comparisons)
            .filter_map(|comparison| comparison.q)
            .collect();
        let significant = most.map(|most| tested.iter().filter(|&&q| q <= most).count());
        Tests { count: tested.len(), significant }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::dependency::sums::Direction;

    #[test]
    fn q_values_go_to_the_tests_they_are_of() {
        let relation = |name: &str, count: u64, p: [f64; 2]| {
            let comparison =
                |p| Comparison { difference: 0.0, ci95: None, head_only: 0, offset_only: 0, p, q: Some(0.5) };
            let [dependent_to_head, head_to_dependent] = p;
            let versus_offset = ByDirection {
                dependent_to_head: comparison(dependent_to_head),
                head_to_dependent: comparison(head_to_dependent),
            };
            RelationMetrics {
                relation: name.to_owned(),
                count,
                layer: 0,
                head: 0,
                direction: Direction::HeadToDependent,
                accuracy: 0.0,
                heldout_accuracy: None,
                baseline: OffsetBaseline { offset: 1, accuracy: 0.0, heldout_accuracy: None },
                ci95: RelationIntervals::default(),
                versus_offset: comparison(head_to_dependent),
                by_head: vec![HeadAccuracy {
                    layer: 0,
                    head: 0,
                    accuracy: ByDirection::default(),
                    ci95: ByDirection::default(),
                    versus_offset,
                }],
            }
        };
        let relations = vec![
            relation("few", 9, [0.5, 0.0]),
            relation("many", 10, [0.5, 0.01]),
            relation("rare", 1, [0.0, 0.0]),
            relation("some", 11, [0.25, 0.125]),
        ];
        let mut measured = Measurements {
            heads: Vec::new(),
            ci95: Vec::new(),
            chance: HeadMetrics::default(),
            chance_ci95: HeadIntervals::default(),
            relations,
        };
        measured.correct(10);
        let q: Vec<Option<f64>> =
            measured.relations.iter().flat_map(RelationMetrics::comparisons).map(|comparison| comparison.q).collect();
        // Four tests: 0.01 x 4, 0.125 x 2, 0.25 x 4/3, 0.5.
        let expected = [None, None, Some(0.5), Some(0.04), None, None, Some(1.0 / 3.0), Some(0.25)];
        assert_eq!(q, expected);
        // The best head of `many` is the second direction's.
        assert_eq!(measured.relations[1].versus_offset.q, Some(0.04));
        assert_eq!(measured.relations[0].versus_offset.q, None);
        assert_eq!(measured.tests(Some(0.3)), Tests { count: 4, significant: Some(2) });
        assert_eq!(measured.tests(None), Tests { count: 4, significant: None });
        measured.correct(12);
        assert_eq!(measured.tests(Some(1.0)), Tests { count: 0, significant: Some(0) });
    }
}
