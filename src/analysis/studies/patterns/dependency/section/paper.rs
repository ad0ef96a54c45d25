//! The table of relations as a paper shows it: the best head of each beside both baselines.

use std::cmp::Reverse;

use serde::Serialize;

use super::super::assessment::of_relation;
use super::super::relation::RelationMetrics;
use super::super::thresholds::MIN_COUNT;
use crate::study::labels;
use crate::study::labels::policy::Policy;
use crate::study::show::table::TableRows;
use crate::study::show::wording::with_interval;

/// The digits of accuracies.
const DIGITS: usize = 3;

/// A relation with its best head.
#[derive(Serialize)]
struct PaperRow {
    relation: String,
    words: u64,
    /// The head and its direction.
    head: String,
    /// Its accuracy, with the interval.
    accuracy: String,
    /// Accuracy of the best fixed offset.
    offset: f64,
    /// Accuracy of the best rules by word classes.
    word_classes: Option<f64>,
    held_out: Option<f64>,
    /// Whether the head has a firm label of the relation in this direction.
    firm: bool,
}

/// The relations with enough words for a label, the most frequent first.
pub(super) fn table(relations: &[RelationMetrics], policy: &Policy) -> TableRows<'static> {
    let mut tested: Vec<&RelationMetrics> =
        relations.iter().filter(|relation| relation.count >= policy.count(&MIN_COUNT)).collect();
    tested.sort_by_key(|relation| Reverse(relation.count));
    let row = |relation: &RelationMetrics| PaperRow {
        relation: relation.title(),
        words: relation.count,
        head: format!("{} {}", relation.place, relation.direction.name()),
        accuracy: with_interval(relation.accuracy, relation.ci95.accuracy, DIGITS),
        offset: relation.baseline.accuracy,
        word_classes: relation.tag_baseline.as_ref().map(|tags| tags.accuracy),
        held_out: relation.heldout_accuracy,
        firm: is_firm(relation, policy),
    };
    TableRows::of("paper", tested.into_iter().map(row).collect::<Vec<_>>())
}

/// Whether the best head has a firm label of the relation in its direction. Its q-value is corrected in the section, over the
/// family of tests that labels are corrected over.
fn is_firm(relation: &RelationMetrics, policy: &Policy) -> bool {
    let place = relation.by_head.iter().position(|head| head.place == relation.place);
    let assessed = place.map_or_else(Vec::new, |place| of_relation(relation, place, policy));
    let test = &relation.versus_offset;
    labels::is_firm(&assessed, relation.direction, [test.p, test.q], policy)
}
