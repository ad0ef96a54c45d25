//! How a head stands to a syntactic label, and how far the label reaches.

use super::relation::{HeadAccuracy, RelationMetrics};
use super::thresholds::{BEYOND_MARGIN, MARGIN, MIN_COUNT};
use crate::study::labels::evidence::{Direction, LABEL_Q, MIN_SENTENCES, MarginTest, Reach};
use crate::study::labels::policy::Policy;
use crate::study::labels::{Assessment, Bound, Measured, assess};

/// The accuracy of a head on a relation, as rules name it.
pub(super) fn accuracy_of(relation: &str, direction: Direction) -> String {
    format!("accuracy({relation}, {})", direction.name())
}

/// The label of a head that follows a relation.
pub(super) fn label_of(relation: &str) -> String {
    format!("syntactic:{relation}")
}

/// The two directions of one head on one relation; none if the relation has too few words, or they are of too few sentences.
pub(super) fn of_relation(relation: &RelationMetrics, place: usize, policy: &Policy) -> Vec<Assessment> {
    let few_sentences = relation.sentences.is_some_and(|sentences| sentences < policy.count(&MIN_SENTENCES));
    if relation.count < policy.count(&MIN_COUNT) || few_sentences {
        return Vec::new();
    }
    let label = label_of(&relation.relation);
    let baseline = relation.baseline.accuracy;
    let (head, margin) = (&relation.by_head[place], policy.share(&MARGIN));
    let of_direction = |direction| {
        let (accuracy, ci95) = ((*head.accuracy.get(direction))?, *head.ci95.get(direction));
        let comparison = head.versus_offset.get(direction).as_ref()?;
        let metric = accuracy_of(&relation.relation, direction);
        let measured = Measured { score: Some(accuracy), ci95, baseline: Some(baseline), ..Measured::default() };
        let mut assessment = assess(&label, &metric, measured, Bound::AtLeast, Some(baseline + margin))?;
        // The baseline varies with the words too, so it is the difference that is tested against the margin.
        let difference = relation.estimate(comparison.difference, comparison.standard_error);
        assessment.p_of_failing = difference.map(|difference| difference.p_below(margin));
        let label = &mut assessment.label;
        label.test = MarginTest { standard_error: comparison.standard_error, p: comparison.p, q: None };
        label.direction = Some(direction);
        label.versus_offset = Some(comparison.clone());
        label.versus_tags.clone_from(head.versus_tags.get(direction));
        label.beyond = reach(relation, head, direction, policy);
        Some(assessment)
    };
    Direction::BOTH.into_iter().filter_map(of_direction).collect()
}

/// How far the label of a head reaches; `None` where the relation has no tag baseline.
fn reach(relation: &RelationMetrics, head: &HeadAccuracy, direction: Direction, policy: &Policy) -> Option<Reach> {
    let (tags, better) = (head.versus_tags.get(direction).as_ref()?, relation.versus_better(head, direction)?);
    let above = || better.ci95.is_some_and(|difference| difference.low() > policy.share(&BEYOND_MARGIN));
    let beyond = policy.rule(&LABEL_Q).map_or_else(above, |most| tags.q.is_some_and(|q| q <= most));
    Some(if beyond { Reach::Tags } else { Reach::Offset })
}
