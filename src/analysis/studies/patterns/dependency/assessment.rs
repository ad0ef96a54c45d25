//! How a head stands to a syntactic label, and how far the label reaches.

use super::relation::{HeadAccuracy, RelationMetrics};
use super::thresholds::{BEYOND_MARGIN, MARGIN, MIN_COUNT, Q};
use crate::study::labels::evidence::{Direction, MIN_SENTENCES, Reach};
use crate::study::labels::policy::Policy;
use crate::study::labels::{Assessment, Bound, Measured, assess, best};

/// The accuracy of a head on a relation, as rules name it.
pub(super) fn accuracy_of(relation: &str, direction: Direction) -> String {
    format!("accuracy({relation}, {})", direction.name())
}

/// The label of a head that follows a relation.
pub(super) fn label_of(relation: &str) -> String {
    format!("syntactic:{relation}")
}

/// The better of the two directions of one head on one relation; `None` if the relation has too few words, or they are
/// of too few sentences.
pub(super) fn of_relation(relation: &RelationMetrics, place: usize, policy: &Policy) -> Option<Assessment> {
    let few_sentences = relation.sentences.is_some_and(|sentences| sentences < policy.count(&MIN_SENTENCES));
    if relation.count < policy.count(&MIN_COUNT) || few_sentences {
        return None;
    }
    let label = label_of(&relation.relation);
    let baseline = relation.baseline.accuracy;
    let (head, margin, most) = (&relation.by_head[place], policy.share(&MARGIN), policy.rule(&Q));
    best(Direction::BOTH.into_iter().filter_map(|direction| {
        let (accuracy, ci95) = (*head.accuracy.get(direction), *head.ci95.get(direction));
        let comparison = head.versus_offset.get(direction);
        let metric = accuracy_of(&relation.relation, direction);
        let measured = Measured { score: Some(accuracy), ci95, baseline: Some(baseline), ..Measured::default() };
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
