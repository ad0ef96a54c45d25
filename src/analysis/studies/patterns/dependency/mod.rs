//! Study `dependency`: how often an attention head points from a word to its syntactic head (docs/methodology/dependency.md).

pub mod arcs;
mod assessment;
mod figure;
mod measure;
pub mod parser;
mod relation;
pub mod section;
mod specificity;
pub mod sums;
pub mod tags;

use std::num::NonZeroU64;

use anstyle::AnsiColor;

use crate::corpus::relation::POOLED_RELATION;
use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::stats::blocks::Merge;
use crate::study::aim::Aim;
use crate::study::labels::evidence::{Direction, LABEL_Q};
use crate::study::labels::{Detector, LabelStyle, Parameter, VerbPhrase};
use crate::study::metrics::metric::{self, Fraction, Metric, MetricKeys};
use crate::study::{
    Card, Estimates, EstimationContext, Explanation, Labelling, ObservedPasses, PassSpec, Study, UpstreamResults,
    VerdictRule, columns,
};
use crate::system::parallel::parallel_map;
use arcs::RelationSums;
use assessment::{BETTER_BASELINE_MARGIN, MARGIN, MIN_COUNT, SPECIFICITY_MARGIN, assess_on_relation};
use relation::{scored_directions, set_side_shares};
use section::{Relations, Tests};
use sums::DependencySums;

pub use measure::BaselineParsers;
pub use relation::{
    AtDistance, BaselineIntervals, HeadAccuracy, OffsetBaseline, RelationIntervals, RelationMetrics, SingleRule,
    TagBaseline,
};

pub struct Dependency;

/// A metric of the relation `all`. Arguments: sums of the relation in each direction, index of the attention head, and
/// index of the direction.
type DependencyMetric = Metric<fn(&[RelationSums; 2], usize, usize) -> Fraction>;

const DIRECTION_KEYS: MetricKeys = MetricKeys::Several(2, |direction| Direction::BOTH[direction].name().to_owned());

const METRICS: &[DependencyMetric] = &[DependencyMetric::keyed(DIRECTION_KEYS, |sums, head, direction| {
    let sums = &sums[direction];
    let hits = sums.hits.get(head).map_or(0, |hits| hits[direction]);
    Fraction::new(hits as f64, sums.count as f64)
})
.with_chance(|sums, _, direction| Fraction::NONE.with_evidence(sums[direction].count, sums[direction].sentences).without_numerator())
.with_explanation(Explanation {
    name: "uas",
    measures: "How often the most attended word is the word's head in the gold tree, in each direction.",
    formula: "the accuracy of the relation `all`; in a decoder of its words that can be scored in the direction",
    chance: "the offset baseline of `all` in `relations`",
    source: "Clark et al. 2019, section 4.2.",
    caveats: "Predicted heads need not form a tree. In a decoder dep->head is over the words after their heads, head->dep \
        over those before them: not the same words as in an encoder.",
})];

impl Study for Dependency {
    type Section = Relations;

    const CARD: Card = Card {
        name: "dependency",
        allows_absent_heads: true,
        question: "Which dependency relations does each head's attention follow, and better than a fixed offset or word \
            classes do?",
        needs: "a corpus with dependency trees",
        is_default: true,
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        labels: &[SYNTACTIC_DETECTOR],
        caveats: section::CAVEATS,
        range: |_| 0.0..=1.0,
        is_share_metric: |_| true,
        verdicts: &[SPECIFICITY_VERDICT, BETTER_BASELINE_VERDICT],
        aim: |label| {
            let (relation, direction) = (label.label.strip_prefix("syntactic:")?.to_owned(), label.direction?);
            Some((Aim::Partner { relation, direction }, None))
        },
        figures: &["relations", "relations:HEAD", "distances:HEAD"],
        tables: &["relations", "by_head", "by_distance", "rules", "paper"],
        needs_language: true,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| {
            DependencySums::new(subject.grid, subject.classes.clone(), subject.from_token)
        })]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &DependencySums = observed.first_sums();
        let mut relations = parallel_map(context.threads, &sums.relations, |(key, &place)| {
            let blocks = sums.blocks.iter().map(|block| block.get(place)).collect::<Vec<_>>();
            RelationMetrics::new(key, &blocks, (&sums.agreements[place], &sums.later[place]), context)
        });
        set_side_shares(&mut relations);

        let all = || sums.relations.iter().filter(|(key, _)| key.name == POOLED_RELATION);
        let of_direction = |block: &Vec<RelationSums>, direction| {
            let mut places = all().filter(|(key, _)| scored_directions(key.side).contains(&direction));
            places.find_map(|(_, &place)| block.get(place)).cloned().unwrap_or_default()
        };
        let of_block = |block| Direction::BOTH.map(|direction| of_direction(block, direction));
        let blocks: Vec<[RelationSums; 2]> = sums.blocks.iter().map(of_block).collect();
        let mut total = <[RelationSums; 2]>::default();
        blocks.iter().for_each(|block| total.merge(block));
        let at = |block: Option<usize>| block.map_or(&total, |block| &blocks[block]);
        let of_head = |block: Option<usize>, head: usize| {
            metric::cells(METRICS, |metric, cell| (metric.value)(at(block), head, cell))
        };
        let of_chance = |block: Option<usize>| {
            metric::cells(METRICS, |metric, cell| metric.chance.unwrap_or(metric.value)(at(block), 0, cell))
        };
        let estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        let tests = Tests {
            out_of_sight: NonZeroU64::new(sums.out_of_sight),
            with_first: NonZeroU64::new(sums.with_first),
            ..Tests::default()
        };
        (estimates, Relations { relations, tests })
    }

    fn upstream_results(
        &self,
        _: &ObservedPasses<'_>,
        section: &Self::Section,
        labelling: &Labelling<'_>,
    ) -> UpstreamResults {
        UpstreamResults { claims: section.arc_claims(labelling.verdicts), ..UpstreamResults::default() }
    }
}

/// Names of the relations of Universal Dependencies, version 2 (<https://universaldependencies.org/u/dep/index.html>), and
/// of `all`.
const UNIVERSAL_RELATIONS: &str = "all acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse \
    dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root \
    vocative xcomp";

/// Whether a relation is in [`UNIVERSAL_RELATIONS`], with or without a subtype (`pass` in `nsubj:pass`).
fn is_universal_relation(relation: &str) -> bool {
    let main = relation.split_once(':').map_or(relation, |(main, _)| main);
    UNIVERSAL_RELATIONS.split_whitespace().any(|known| known == main)
}

/// Verdict on a syntactic label: does the attention head predict the relation better than other arcs of its sentences?
const SPECIFICITY_VERDICT: VerdictRule = VerdictRule {
    verdict: "a syntactic label is beyond other arcs",
    statistic: "accuracy on the relation less that on the other arcs of the same sentences",
    margin: "syntactic_specific_margin {syntactic_specific_margin}",
    test_family: "all syntactic labels, firm or borderline, with such a difference",
    min_evidence: "{syntactic_min_count} words of the relation; none of `all`",
    printed: "the difference with its interval, q",
};

/// Verdict on a syntactic label: does the attention head beat both baselines, the fixed offset and the tag rules?
const BETTER_BASELINE_VERDICT: VerdictRule = VerdictRule {
    verdict: "a syntactic label is beyond word classes, of those beyond other arcs",
    statistic: "accuracy less that of the better of the best offset and the best tags, on the same words",
    margin: "syntactic_beyond_margin {syntactic_beyond_margin}",
    test_family: "all heads, directions and relations with such a lead",
    min_evidence: "{syntactic_min_count} words with a tag baseline",
    printed: "the lead over tags with its interval, q",
};

/// Label `syntactic:RELATION` of attention heads that point from a word to its syntactic head, or back.
const SYNTACTIC_DETECTOR: Detector = Detector {
    thresholds: &[&MARGIN, &MIN_COUNT, &LABEL_Q, &SPECIFICITY_MARGIN, &BETTER_BASELINE_MARGIN],
    parameter: Parameter::Any("syntactic", is_universal_relation),
    phrase: VerbPhrase::Directed {
        to_head: "attends from {} words to their heads",
        to_dependent: "attends from heads to their {} words",
    },
    style: LabelStyle { code: None, colour: AnsiColor::Green, is_named_in_controls: true },
    assess: |evidence, policy| {
        let Relations { relations, .. } = evidence.section();
        relations.iter().flat_map(|relation| assess_on_relation(relation, evidence.place, policy)).collect()
    },
    ..Detector::new_role(Explanation {
        name: "syntactic:<relation>",
        measures: "The head's attention points from a word to its head in the dependency tree (dep->head), \
            or from the head to the word (head->dep), for words of one Universal Dependencies relation. \
            The relation `all` pools every relation but `punct`; `nsubj` pools its subtypes, such as `nsubj:pass`, which also \
            have labels of their own.",
        formula: "count >= {syntactic_min_count}, accuracy >= baseline + {syntactic_margin}, the baseline being the best fixed offset on the same words; firm if \
            the block test of the difference has q <= {label_q} over all heads, directions and relations",
        chance: "the accuracy of the best fixed offset (\"the head is the word at d+k\"), for each relation; beside it \
            that of the best tags (\"the head is the nearest word of a UPOS on one side\", by the UPOS of d), and in \
            `beyond` how far the label reaches, by block tests of q <= {label_q}: beyond the offset (`offset`); beyond other arcs \
            (`relation`) if the head is also better on the relation than on the other arcs of the same sentences by \
            {syntactic_specific_margin}; beyond word classes (`tags`) if it is then also above the better of both baselines by \
            {syntactic_beyond_margin}",
        source: "Ten points over the best fixed offset: Voita et al. 2019, section 5.2. \
            Accuracy by the most attended word: Clark et al. 2019, section 4.2. \
            Significance: block test against the margin, corrected by Benjamini & Hochberg 1995 for all heads, directions \
            and relations.",
        caveats: "The accuracy of the best head is biased upwards: compare `heldout_accuracy`. \
            A label that is beyond the offset alone may be that of a head that follows all arcs alike. Most labels are not beyond \
            word classes: that the head knows more than these is then not shown. \
            A tree is one theory of syntax, and the labels depend on it.",
    })
};
