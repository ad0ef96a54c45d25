//! Labels of heads whose attention follows a dependency relation: `syntactic:<relation>`.

use super::{Assessment, Bound, Detector, Explanation, Policy, assess, best};
use crate::metrics::RelationMetrics;
use crate::observe::dependency::Direction;

pub(super) const SYNTACTIC: Detector = Detector {
    explanation: Explanation {
        name: "syntactic:<relation>",
        measures: "The head's attention points from a word to its head in the dependency tree (dep->head), \
            or from the head to the word (head->dep), for words of one Universal Dependencies relation. \
            The relation `all` pools every relation but `punct`.",
        formula: "count >= 100 and accuracy >= baseline + 0.1, the baseline being the best fixed offset on the same words",
        chance: "the accuracy of the best fixed offset (\"the head is the word at d+k\"), for each relation",
        threshold: "the baseline + 0.1 (ten percentage points)",
        source: "Ten points over the best fixed offset: Voita et al. 2019, section 5.2. \
            Accuracy by the most attended word: Clark et al. 2019, section 4.2.",
        caveats: "Every head is tried in both directions on every relation, so a few pass by luck when words are few; \
            no significance test is applied yet. The accuracy of the best head is biased upwards: \
            compare `heldout_accuracy`. A tree is one theory of syntax, and the labels depend on it.",
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
    best(Direction::BOTH.into_iter().filter_map(|direction| {
        let accuracy = relation.by_head[place].accuracy.get(direction);
        let metric = format!("accuracy({}, {})", relation.relation, direction.name());
        let threshold = baseline + policy.syntactic_margin;
        let mut assessment = assess(&label, &metric, Some(accuracy), Some(baseline), Bound::AtLeast, threshold)?;
        assessment.label.direction = Some(direction);
        Some(assessment)
    }))
}
