//! Dependency relations: how often a head's attention points from a word to its syntactic head (METHODOLOGY,
//! "Dependency alignment").

pub mod arcs;
mod assessment;
mod figure;
mod measure;
mod relation;
pub mod section;
pub mod sums;
mod syntactic;
mod table;
pub mod tags;
mod thresholds;

use std::ops::RangeInclusive;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::corpus::relation::ALL;
use crate::passes::observer::{self, Observer, observer_of, sums};
use crate::study::aim::Aim;
use crate::study::labels::evidence::Direction;
use crate::study::labels::policy::Policy;
use crate::study::labels::{Detector, Label};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::{Fraction, Keys, Metric};
use crate::study::section::{Section, section};
use crate::study::show::figure::Figure;
use crate::study::show::table::Table;
use crate::study::upstream::UpstreamResults;
use crate::study::{Card, Caveat, Judged, Observed, Study, Subject, columns};
use crate::system::parallel::in_parallel;
use arcs::RelationSums;
use section::{Relations, Tests};
use sums::DependencySums;

pub use relation::{
    AtDistance, BaselineIntervals, HeadAccuracy, OffsetBaseline, RelationIntervals, RelationMetrics, SingleRule,
    TagBaseline,
};

/// Which relations each head's attention follows.
pub struct Dependency;

/// A metric of the sums of the relation `all` in a block, and of the places of a head and of a direction.
type ArcMetric = Metric<fn(&RelationSums, usize, usize) -> Fraction>;

const METRICS: &[ArcMetric] = &[Metric {
    explanation: Explanation {
        name: "uas",
        measures: "How often the most attended word is the word's head in the gold tree, in each direction.",
        formula: "the accuracy of the relation `all`",
        chance: "the offset baseline of `all` in `relations`",
        source: "Clark et al. 2019, section 4.2.",
        caveats: "Predicted heads need not form a tree.",
    },
    keys: Keys::Each(2, |direction| Direction::BOTH[direction].name().to_owned()),
    value: |sums, head, direction| {
        let hits = sums.hits.get(head).map_or(0, |hits| hits[direction]);
        Fraction::new(hits as f64, sums.count as f64)
    },
    chance: Some(|sums, _, _| Fraction::NONE.resting_on(sums.count, sums.sentences)),
}];

impl Study for Dependency {
    fn card(&self) -> &'static Card {
        &Card {
            name: "dependency",
            question: "Which dependency relations does each head's attention follow, and better than a fixed offset or word \
                classes do?",
            needs: "a corpus with dependency trees",
            by_default: true,
            settings_key: None,
        }
    }

    fn in_unlisted_reports(&self) -> bool {
        true
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(DependencySums::new(subject.grid, subject.from))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<DependencySums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn range(&self, _metric: &str) -> RangeInclusive<f64> {
        0.0..=1.0
    }

    fn detectors(&self) -> &'static [Detector] {
        const { &[syntactic::SYNTACTIC] }
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &DependencySums = sums(observed[0].sums);
        let relations = in_parallel(context.threads, sums.relations(), |(name, &place)| {
            let blocks = sums.blocks().iter().map(|block| block.get(place)).collect::<Vec<_>>();
            RelationMetrics::new(name, &blocks, (&sums.agreements()[place], &sums.later()[place]), context)
        });

        let none = RelationSums::default();
        let place = sums.relations().get(ALL).copied();
        let of_block = |block: usize| place.and_then(|all| sums.blocks()[block].get(all)).unwrap_or(&none);
        let mut total = RelationSums::default();
        (0..sums.blocks().len()).for_each(|block| total.merge(of_block(block)));
        let of_head = |block: Option<usize>, head: usize| {
            let sums = block.map_or(&total, of_block);
            METRICS
                .iter()
                .flat_map(|metric| metric.keys.places().map(move |cell| (metric.value)(sums, head, cell)))
                .collect()
        };
        let of_chance = |block: Option<usize>| {
            let sums = block.map_or(&total, of_block);
            METRICS
                .iter()
                .flat_map(|metric| {
                    metric.keys.places().map(move |cell| metric.chance.unwrap_or(metric.value)(sums, 0, cell))
                })
                .collect()
        };
        let estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        (estimates, Box::new(Relations { relations, tests: Tests::default() }))
    }

    fn found(&self, _: &[Observed<'_>], judged: &Judged<'_>) -> UpstreamResults {
        UpstreamResults {
            claims: section::<Relations>(judged.section).claims(judged.verdicts),
            ..UpstreamResults::default()
        }
    }

    fn aim(&self, label: &Label) -> Option<(Aim, Option<String>)> {
        let (relation, direction) = (label.label.strip_prefix("syntactic:")?.to_owned(), label.direction?);
        Some((Aim::Partner { relation, direction }, None))
    }

    fn figures(&self, found: &dyn Section, policy: &Policy) -> Vec<Figure> {
        figure::figures(section::<Relations>(found), policy)
    }

    fn tables(&self, found: &dyn Section) -> Vec<Table> {
        section::<Relations>(found).tables()
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        let relations = generator.subschema_for::<Vec<RelationMetrics>>();
        vec![("relations", relations), ("tests", generator.subschema_for::<Tests>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<Relations>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        section::<Relations>(judged.section).caveats(judged)
    }
}
