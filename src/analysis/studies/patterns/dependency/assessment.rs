//! Thresholds of syntactic labels, and the assessment of attention heads: which labels they get, and which baselines they beat.

use std::cmp::Reverse;

use itertools::Itertools;

use super::relation::{HeadAccuracy, RelationMetrics};
use crate::corpus::relation::POOLED_RELATION;
use crate::stats::interval::Interval;
use crate::study::labels::evidence::{Direction, LABEL_Q, MIN_SENTENCES, MarginTest, Reach};
use crate::study::labels::{Assessment, MeasuredScore, Policy, Threshold, ThresholdBound, assess};

pub(super) const MARGIN: Threshold = Threshold::share(
    "syntactic_margin",
    0.1,
    "smallest accuracy above the offset baseline of a syntactic label, as a share; Voita et al. 2019, section \
        5.2: 10 %, taken as percentage points",
);

pub(super) const MIN_COUNT: Threshold = Threshold::count(
    "syntactic_min_count",
    ("words", 100),
    "fewest scored words of a syntactic label; relations with fewer are not tested",
);

pub(super) const SPECIFICITY_MARGIN: Threshold = Threshold::share(
    "syntactic_specific_margin",
    0.05,
    "smallest accuracy on a relation above that on the other arcs of the same sentences of a syntactic label that is \
        beyond other arcs, as a share; with names of relations permuted within sentences the difference is 0 in the mean",
);

pub(super) const BETTER_BASELINE_MARGIN: Threshold = Threshold::share(
    "syntactic_beyond_margin",
    0.02,
    "smallest accuracy above the better of the offset and the tag baseline of a syntactic label that is \
        beyond word classes, as a share; two percentage points, so that an edge too small to matter is none",
);

/// Returns the relations with enough words for a label, most frequent first.
pub(super) fn testable_relations<'a>(relations: &'a [RelationMetrics], policy: &Policy) -> Vec<&'a RelationMetrics> {
    let min_count = policy.count(&MIN_COUNT);
    let testable = relations.iter().filter(|relation| relation.count >= min_count);
    testable.sorted_by_key(|relation| Reverse(relation.count)).collect()
}

/// Returns the name of the accuracy metric of a relation and direction, as printed in label rules.
pub(super) fn accuracy_name(relation: &str, direction: Direction) -> String {
    format!("accuracy({relation}, {})", direction.name())
}

/// Returns the label of attention heads that follow a relation, such as `syntactic:nsubj`.
pub(super) fn label_name(relation: &str) -> String {
    format!("syntactic:{relation}")
}

/// Assesses the attention head with index `place` on one relation, once per direction. Empty if the relation has too few
/// words or sentences.
pub(super) fn assess_on_relation(relation: &RelationMetrics, place: usize, policy: &Policy) -> Vec<Assessment> {
    let few_sentences = relation.sentences.is_some_and(|sentences| sentences < policy.count(&MIN_SENTENCES));
    if relation.count < policy.count(&MIN_COUNT) || few_sentences {
        return Vec::new();
    }
    let label = label_name(&relation.relation);
    let baseline = relation.baseline.accuracy;
    let (head, margin) = (&relation.by_head[place], policy.share(&MARGIN));
    let of_direction = |direction| {
        let (accuracy, ci95) = ((*head.accuracy.get(direction))?, *head.ci95.get(direction));
        let comparison = head.versus_offset.get(direction).as_ref()?;
        let metric = accuracy_name(&relation.relation, direction);
        let measured =
            MeasuredScore { score: Some(accuracy), ci95, baseline: Some(baseline), ..MeasuredScore::default() };
        let mut assessment = assess(&label, &metric, measured, ThresholdBound::AtLeast, Some(baseline + margin))?;
        // The baseline varies with the words as well, so the test is on the difference.
        let difference = relation.estimate_offset_lead(comparison);
        assessment.p_below_threshold = difference.map(|difference| difference.p_below(margin));
        let label = &mut assessment.label;
        let p = comparison.p.or_else(|| difference.map(|difference| difference.p_above(margin)));
        label.test = MarginTest { standard_error: difference.map(|difference| difference.standard_error), p, q: None };
        label.direction = Some(direction);
        label.versus_offset = Some(comparison.clone());
        label.versus_tags.clone_from(head.versus_tags.get(direction));
        label.specific.clone_from(head.specific.get(direction));
        label.beyond = Some(strongest_reach(relation, head, direction, policy));
        Some(assessment)
    };
    Direction::BOTH.into_iter().filter_map(of_direction).collect()
}

/// Returns the strongest baseline that an attention head's label beats. The relation `all` never has
/// [`Reach::Relation`], since no other arcs are left to compare with.
fn strongest_reach(relation: &RelationMetrics, head: &HeadAccuracy, direction: Direction, policy: &Policy) -> Reach {
    let is_shown = |q: Option<f64>, ci95: Option<Interval>, margin: &Threshold| {
        let above = || ci95.is_some_and(|difference| difference.low() > policy.share(margin));
        policy.rule(&LABEL_Q).map_or_else(above, |most| q.is_some_and(|q| q <= most))
    };
    let specific = head.specific.get(direction).as_ref();
    if relation.relation != POOLED_RELATION
        && !specific.is_some_and(|found| is_shown(found.q, found.ci95, &SPECIFICITY_MARGIN))
    {
        return Reach::Offset;
    }
    let tags = head.versus_tags.get(direction).as_ref().zip(relation.versus_better_baseline(head, direction));
    match tags {
        Some((tags, better)) if is_shown(tags.q, better.ci95, &BETTER_BASELINE_MARGIN) => Reach::Tags,
        _ if relation.relation == POOLED_RELATION => Reach::Offset,
        _ => Reach::Relation,
    }
}
