//! Dependency relations: how often a head's attention points from a word to its syntactic head
//! (docs/methodology/dependency.md).

pub mod arcs;
mod assessment;
mod figure;
mod measure;
pub mod parser;
mod relation;
pub mod section;
mod specific;
pub mod sums;
mod syntactic;
pub mod tags;

use std::num::NonZeroU64;

use crate::corpus::relation::ALL;
use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::stats::blocks::Merge;
use crate::study::aim::Aim;
use crate::study::labels::evidence::Direction;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{self, Fraction, Keys, Metric};
use crate::study::upstream::UpstreamResults;
use crate::study::{Card, Labelling, Observed, PassSpec, Study, columns};
use crate::system::parallel::in_parallel;
use arcs::RelationSums;
use relation::{directions, set_shares};
use section::{Relations, Tests};
use sums::{DependencySums, RelationKey};

pub use measure::SimpleParsers;
pub use relation::{
    AtDistance, BaselineIntervals, HeadAccuracy, OffsetBaseline, RelationIntervals, RelationMetrics, SingleRule,
    TagBaseline,
};

/// The relations that each head's attention follows.
pub struct Dependency;

/// Metrics of the sums of the relation `all` in a block, by direction, and of the places of a head and of a direction.
const METRICS: &[Metric<fn(&[RelationSums; 2], usize, usize) -> Fraction>] = &[Metric {
    explanation: Explanation {
        name: "uas",
        measures: "How often the most attended word is the word's head in the gold tree, in each direction.",
        formula: "the accuracy of the relation `all`; in a decoder of its words that can be scored in the direction",
        chance: "the offset baseline of `all` in `relations`",
        source: "Clark et al. 2019, section 4.2.",
        caveats: "Predicted heads need not form a tree. In a decoder dep->head is over the words after their heads, head->dep \
            over those before them: not the same words as in an encoder.",
    },
    keys: Keys::Each(2, |direction| Direction::BOTH[direction].name().to_owned()),
    value: |sums, head, direction| {
        let sums = &sums[direction];
        let hits = sums.hits.get(head).map_or(0, |hits| hits[direction]);
        Fraction::new(hits as f64, sums.count as f64)
    },
    chance: Some(|sums, _, direction| Fraction::NONE.over(sums[direction].count, sums[direction].sentences).unknown()),
}];

impl Study for Dependency {
    type Section = Relations;

    const CARD: Card = Card {
        name: "dependency",
        allows_absent_heads: true,
        question: "Which dependency relations does each head's attention follow, and better than a fixed offset or word \
            classes do?",
        needs: "a corpus with dependency trees",
        by_default: true,
        controls: &ControlKind::ALL,
        metrics: || metric::listed(METRICS),
        labels: &[syntactic::SYNTACTIC],
        caveats: section::CAVEATS,
        range: |_| 0.0..=1.0,
        is_share: |_| true,
        verdicts: &[syntactic::SPECIFIC, syntactic::BEYOND],
        aim: |label| {
            let (relation, direction) = (label.label.strip_prefix("syntactic:")?.to_owned(), label.direction?);
            Some((Aim::Partner { relation, direction }, None))
        },
        figures: &["relations", "relations:HEAD", "distances:HEAD"],
        tables: &["relations", "by_head", "by_distance", "rules", "paper"],
        of_language: true,
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| {
            DependencySums::new(subject.grid, subject.classes.clone(), subject.from)
        })]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &DependencySums = observed.sums();
        let mut relations = in_parallel(context.threads, &sums.relations, |(key, &place)| {
            let blocks = sums.blocks.iter().map(|block| block.get(place)).collect::<Vec<_>>();
            RelationMetrics::new(key, &blocks, (&sums.agreements[place], &sums.later[place]), context)
        });
        set_shares(&mut relations);

        let of_direction = |block: usize, direction: Direction| {
            let of_key = |(key, &place): (&RelationKey, &usize)| {
                let counts = key.name == ALL && directions(key.side).contains(&direction);
                sums.blocks[block].get(place).filter(|_| counts)
            };
            sums.relations.iter().find_map(of_key).cloned().unwrap_or_default()
        };
        let of_block = |block: usize| Direction::BOTH.map(|direction| of_direction(block, direction));
        let blocks: Vec<[RelationSums; 2]> = (0..sums.blocks.len()).map(of_block).collect();
        let mut total = <[RelationSums; 2]>::default();
        blocks.iter().for_each(|block| total.merge(block));
        let of_head = |block: Option<usize>, head: usize| {
            let sums = block.map_or(&total, |block| &blocks[block]);
            METRICS.iter().flat_map(|one| one.keys.places().map(move |cell| (one.value)(sums, head, cell))).collect()
        };
        let of_chance = |block: Option<usize>| {
            let sums = block.map_or(&total, |block| &blocks[block]);
            let chances = METRICS.iter().map(|metric| (metric.keys, metric.chance.unwrap_or(metric.value)));
            chances.flat_map(|(keys, chance)| keys.places().map(move |cell| chance(sums, 0, cell))).collect()
        };
        let estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        let tests = Tests {
            out_of_sight: NonZeroU64::new(sums.out_of_sight),
            with_first: NonZeroU64::new(sums.with_first),
            ..Tests::default()
        };
        (estimates, Relations { relations, tests })
    }

    fn upstream(&self, _: &Observed<'_>, section: &Self::Section, labelling: &Labelling<'_>) -> UpstreamResults {
        UpstreamResults { claims: section.claims(labelling.verdicts), ..UpstreamResults::default() }
    }
}
