//! Labels of heads whose attention follows a dependency relation: `syntactic:<relation>`.

use super::{Assessment, Bound, Detector, Explanation, Measured, Policy, assess, best};
use crate::studies::dependency::sums::Direction;
use crate::studies::metrics::RelationMetrics;

pub(super) const SYNTACTIC: Detector = Detector {
    explanation: Explanation {
        name: "syntactic:<relation>",
        measures: "The head's attention points from a word to its head in the dependency tree (dep->head), \
            or from the head to the word (head->dep), for words of one Universal Dependencies relation. \
            The relation `all` pools every relation but `punct`.",
        formula: "count >= 100, accuracy >= baseline + 0.1 and q <= 0.05, the baseline being the best fixed offset on \
            the same words",
        chance: "the accuracy of the best fixed offset (\"the head is the word at d+k\"), for each relation",
        threshold: "syntactic_margin = 0.1 above the baseline (ten percentage points), syntactic_q = 0.05, \
            syntactic_min_count = 100",
        source: "Ten points over the best fixed offset: Voita et al. 2019, section 5.2. \
            Accuracy by the most attended word: Clark et al. 2019, section 4.2. \
            Significance: exact McNemar test, corrected by Benjamini & Hochberg 1995 for all heads, directions and \
            relations.",
        caveats: "The test takes words as independent, which those of one sentence are not: \
            a label is borderline where the bootstrap interval of the difference, which does not, falls below 0.1. \
            The accuracy of the best head is biased upwards: compare `heldout_accuracy`. \
            A tree is one theory of syntax, and the labels depend on it.",
    },
    assess: |evidence, policy| {
        let enough = evidence.relations.iter().filter(|relation| relation.count >= policy.syntactic_min_count);
        enough.filter_map(|relation| of_relation(relation, evidence.place, policy)).collect()
    },
};

/// The better of the two directions of one head on one relation.
fn of_relation(relation: &RelationMetrics, place: usize, policy: &Policy) -> Option<Assessment> {
    let label = format!("syntactic:{}", relation.relation);
    let baseline = relation.baseline.accuracy;
    let head = &relation.by_head[place];
    best(Direction::BOTH.into_iter().filter_map(|direction| {
        let (accuracy, ci95) = (*head.accuracy.get(direction), *head.ci95.get(direction));
        let comparison = head.versus_offset.get(direction);
        let metric = format!("accuracy({}, {})", relation.relation, direction.name());
        let measured = Measured { score: Some(accuracy), ci95, baseline: Some(baseline) };
        let mut assessment =
            assess(&label, &metric, measured, Bound::AtLeast, Some(baseline + policy.syntactic_margin))?;
        // The baseline varies with the words too, so it is the difference that must keep its distance.
        let holds = |difference: f64| Bound::AtLeast.holds(difference, policy.syntactic_margin);
        assessment.fires &= policy.syntactic_q.is_none_or(|most| comparison.q.is_some_and(|q| q <= most));
        assessment.may_fire = comparison.ci95.map_or(assessment.fires, |difference| holds(difference.high()));
        let label = &mut assessment.label;
        if let Some(most) = policy.syntactic_q {
            label.rule = format!("{} and q <= {most}", label.rule);
        }
        label.borderline = comparison.ci95.is_none_or(|difference| !holds(difference.low()));
        label.direction = Some(direction);
        label.versus_offset = Some(comparison.clone());
        Some(assessment)
    }))
}
