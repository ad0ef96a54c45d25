//! Labels of heads whose attention follows a dependency relation: `syntactic:<relation>`.

use anstyle::AnsiColor;

use super::relation::RelationMetrics;
use super::section::Relations;
use super::thresholds::{MARGIN, MIN_COUNT, Q};
use crate::studies::evidence::Direction;
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
        chance: "the accuracy of the best fixed offset (\"the head is the word at d+k\"), for each relation",
        source: "Ten points over the best fixed offset: Voita et al. 2019, section 5.2. \
            Accuracy by the most attended word: Clark et al. 2019, section 4.2. \
            Significance: exact McNemar test, corrected by Benjamini & Hochberg 1995 for all heads, directions and \
            relations.",
        caveats: "The test takes words as independent, which those of one sentence are not: \
            a label is borderline where the bootstrap interval of the difference, which does not, falls below 0.1. \
            The accuracy of the best head is biased upwards: compare `heldout_accuracy`. \
            A tree is one theory of syntax, and the labels depend on it.",
    },
    thresholds: &[&MARGIN, &MIN_COUNT, &Q],
    parameter: Parameter::Of("syntactic", |relation| !relation.is_empty()),
    shown: Shown { code: None, colour: AnsiColor::Green, in_controls: true },
    assess: |evidence, policy| {
        let Relations { relations, .. } = section(evidence.section);
        let enough = relations.iter().filter(|relation| relation.count >= policy.count(&MIN_COUNT));
        enough.filter_map(|relation| of_relation(relation, evidence.place, policy)).collect()
    },
};

/// The better of the two directions of one head on one relation.
fn of_relation(relation: &RelationMetrics, place: usize, policy: &Policy) -> Option<Assessment> {
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
        Some(assessment)
    }))
}
