//! Labels of heads whose attention follows a dependency relation: `syntactic:<relation>`.

use anstyle::AnsiColor;

use super::relation::{HeadAccuracy, RelationMetrics};
use super::section::Relations;
use super::thresholds::{BEYOND_MARGIN, MARGIN, MIN_COUNT, Q};
use crate::studies::evidence::{Direction, Reach};
use crate::studies::explanation::Explanation;
use crate::studies::label::{Assessment, Bound, Detector, Measured, Parameter, Shown, assess, best};
use crate::studies::policy::Policy;
use crate::studies::section::section;

pub(super) const SYNTACTIC: Detector = Detector {
    explanation: Explanation {
        name: "syntactic:<relation>",
        measures: "The head's attention points from a word to its head in the dependency tree (dep->head), \
            or from the head to the word (head->dep), for words of one Universal Dependencies relation. \
            The relation `all` pools every relation but `punct`.",
        formula: "count >= {syntactic_min_count}, accuracy >= baseline + {syntactic_margin} and q <= {syntactic_q}, the baseline being the best fixed offset on \
            the same words",
        chance: "the accuracy of the best fixed offset (\"the head is the word at d+k\"), for each relation; beside it \
            that of the best tags (\"the head is the nearest word of a UPOS on one side\", by the UPOS of d), and in \
            `beyond` how far the label reaches: `offset`, or `tags` if the head is also above the better of both by \
            {syntactic_beyond_margin} over the whole interval, with a block test against that of q <= {syntactic_q}",
        source: "Ten points over the best fixed offset: Voita et al. 2019, section 5.2. \
            Accuracy by the most attended word: Clark et al. 2019, section 4.2. \
            Significance: exact McNemar test, corrected by Benjamini & Hochberg 1995 for all heads, directions and \
            relations.",
        caveats: "The test takes words as independent, which those of one sentence are not: \
            a label is borderline where the bootstrap interval of the difference, which does not, falls below 0.1. \
            The accuracy of the best head is biased upwards: compare `heldout_accuracy`. \
            Most labels do not reach beyond tags: that the head knows more than word classes is then not shown. \
            A tree is one theory of syntax, and the labels depend on it.",
    },
    thresholds: &[&MARGIN, &MIN_COUNT, &Q, &BEYOND_MARGIN],
    parameter: Parameter::Of("syntactic", |relation| !relation.is_empty()),
    shown: Shown { code: None, colour: AnsiColor::Green, in_controls: true },
    assess: |evidence, policy| {
        let Relations { relations, .. } = section(evidence.section);
        relations.iter().filter_map(|relation| of_relation(relation, evidence.place, policy)).collect()
    },
};

/// The better of the two directions of one head on one relation; `None` if the relation has too few words.
pub(super) fn of_relation(relation: &RelationMetrics, place: usize, policy: &Policy) -> Option<Assessment> {
    if relation.count < policy.count(&MIN_COUNT) {
        return None;
    }
    let label = format!("syntactic:{}", relation.relation);
    let baseline = relation.baseline.accuracy;
    let (head, margin, most) = (&relation.by_head[place], policy.share(&MARGIN), policy.rule(&Q));
    best(Direction::BOTH.into_iter().filter_map(|direction| {
        let (accuracy, ci95) = (*head.accuracy.get(direction), *head.ci95.get(direction));
        let comparison = head.versus_offset.get(direction);
        let metric = format!("accuracy({}, {})", relation.relation, direction.name());
        let measured = Measured { score: Some(accuracy), ci95, baseline: Some(baseline) };
        let mut assessment = assess(&label, &metric, measured, Bound::AtLeast, Some(baseline + margin))?;
        // The baseline varies with the words too, so it is the difference that must keep its distance.
        let holds = |difference: f64| Bound::AtLeast.holds(difference, margin);
        assessment.fires &= most.is_none_or(|most| comparison.q.is_some_and(|q| q <= most));
        assessment.may_fire = comparison.ci95.map_or(assessment.fires, |difference| holds(difference.high()));
        let label = &mut assessment.label;
        if let Some(most) = most {
            label.rule = format!("{} and q <= {most}", label.rule);
        }
        label.borderline = comparison.ci95.is_none_or(|difference| !holds(difference.low()));
        label.direction = Some(direction);
        label.versus_offset = Some(comparison.clone());
        label.versus_tags.clone_from(head.versus_tags.get(direction));
        label.beyond = reach(relation, head, direction, policy);
        Some(assessment)
    }))
}

/// How far the label of a head reaches; `None` where the relation has no tag baseline.
fn reach(relation: &RelationMetrics, head: &HeadAccuracy, direction: Direction, policy: &Policy) -> Option<Reach> {
    let (tags, better) = (head.versus_tags.get(direction).as_ref()?, relation.versus_better(head, direction)?);
    let margin = policy.share(&BEYOND_MARGIN);
    let significant = policy.rule(&Q).is_none_or(|most| tags.q.is_some_and(|q| q <= most));
    let above = better.ci95.is_some_and(|difference| Bound::AtLeast.holds(difference.low(), margin));
    Some(if significant && above { Reach::Tags } else { Reach::Offset })
}
