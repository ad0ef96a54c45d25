//! Tables of dependency relations for the summary, the export, and a paper.

use serde::Serialize;

use super::super::assessment::{assess_on_relation, testable_relations};
use super::super::relation::{RelationMetrics, signed_points};
use super::super::tags::{Side, TagRule};
use crate::study::show::wording::{TableColumn, percent, plus_minus_percent, significance_text, with_interval};
use crate::study::{Policy, TableRows, labels};
use crate::system::printable::one_line;

/// Columns of the summary table: title, whether the column is left-aligned text, and cell.
pub(super) const COLUMNS: [TableColumn<RelationMetrics>; 11] = [
    ("relation", true, |relation| one_line(&relation.relation)),
    ("words", false, |relation| relation.count.to_string()),
    ("head", true, |relation| relation.place.to_string()),
    ("direction", true, |relation| relation.direction.name().to_owned()),
    ("accuracy", false, |relation| percent(Some(relation.accuracy)) + &plus_minus_percent(relation.ci95.accuracy)),
    ("held-out", false, |relation| {
        percent(relation.heldout_accuracy) + &plus_minus_percent(relation.ci95.heldout_accuracy)
    }),
    ("offset", false, |relation| {
        format!("{:+}: {}", relation.baseline.offset, percent(Some(relation.baseline.accuracy)))
    }),
    ("tags", false, |relation| percent(relation.tag_baseline.as_ref().map(|tags| tags.accuracy))),
    ("over offset", false, |relation| signed_points(relation.versus_offset.difference, relation.versus_offset.ci95)),
    ("q", false, |relation| relation.versus_offset.q.map_or_else(|| "-".to_owned(), significance_text)),
    ("over tags", false, |relation| {
        relation.versus_tags.as_ref().map_or_else(|| "-".to_owned(), |tags| signed_points(tags.difference, tags.ci95))
    }),
];

/// Indices of [`COLUMNS`] dropped when the table is too wide, first to last. Held-out accuracy and the q-value go last: the
/// accuracy of the best of many heads means little without them.
pub(super) const COLUMN_DROP_ORDER: &[usize] = &[1, 7, 6, 3, 10, 8, 4, 9, 5];

/// Returns the tables of the export. The last one has the form for a paper.
pub(super) fn tables<'a>(all: &'a [RelationMetrics], policy: &Policy) -> Vec<TableRows<'a>> {
    /// Row of table `by_head` or `by_distance`: an entry of the field with that name in [`RelationMetrics`], with the
    /// relation's name.
    #[derive(Serialize)]
    struct RelationEntry<'a, T> {
        relation: &'a str,
        #[serde(flatten)]
        entry: &'a T,
    }
    fn entry_rows<'a, T>(
        relation: &'a RelationMetrics,
        entries: &'a [T],
    ) -> impl Iterator<Item = RelationEntry<'a, T>> {
        entries.iter().map(|entry| RelationEntry { relation: &relation.relation, entry })
    }
    /// Row of table `rules`: the tag baseline's rule for dependents of one UPOS.
    #[derive(Serialize)]
    struct RuleRow<'a> {
        relation: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        head_side: Option<Side>,
        dependent: &'a str,
        #[serde(flatten)]
        rule: &'a TagRule,
    }
    fn rule_rows(relation: &RelationMetrics) -> impl Iterator<Item = RuleRow<'_>> {
        let rules = relation.tag_baseline.iter().flat_map(|tags| &tags.rules);
        rules.map(|(dependent, rule)| RuleRow {
            relation: &relation.relation,
            head_side: relation.side,
            dependent,
            rule,
        })
    }
    vec![
        // The rules by UPOS would take two columns each, so they have their own table.
        TableRows::new("relations", all).without_columns(|column| column.starts_with("tag_baseline.rules")),
        TableRows::new("by_head", all.iter().flat_map(|relation| entry_rows(relation, &relation.by_head))),
        TableRows::new("by_distance", all.iter().flat_map(|relation| entry_rows(relation, &relation.by_distance))),
        TableRows::new("rules", all.iter().flat_map(rule_rows)),
        table_for_paper(all, policy),
    ]
}

/// Row of the table for a paper: a relation with its best attention head.
#[derive(Serialize)]
struct PaperRow {
    relation: String,
    words: u64,
    /// Best attention head of the relation, with its direction.
    head: String,
    /// Accuracy of the best attention head, with its interval.
    accuracy: String,
    /// Accuracy of the best fixed offset.
    offset: f64,
    /// Accuracy of the best tag rules. `None` if no word has a UPOS.
    word_classes: Option<f64>,
    held_out: Option<f64>,
    /// Whether the best attention head has a firm label of the relation in this direction.
    firm: bool,
}

/// Returns the table for a paper: the best attention head of each tested relation, beside both baselines.
fn table_for_paper(relations: &[RelationMetrics], policy: &Policy) -> TableRows<'static> {
    let row = |relation: &RelationMetrics| PaperRow {
        relation: relation.title(),
        words: relation.count,
        head: format!("{} {}", relation.place, relation.direction.name()),
        accuracy: with_interval(relation.accuracy, relation.ci95.accuracy, 3),
        offset: relation.baseline.accuracy,
        word_classes: relation.tag_baseline.as_ref().map(|tags| tags.accuracy),
        held_out: relation.heldout_accuracy,
        firm: is_best_head_firm(relation, policy),
    };
    TableRows::new("paper", testable_relations(relations, policy).into_iter().map(row).collect::<Vec<_>>())
}

/// Whether the best attention head has a firm label for the relation: the rule is met, and the test against the best
/// offset is significant.
fn is_best_head_firm(relation: &RelationMetrics, policy: &Policy) -> bool {
    let place = relation.by_head.iter().position(|head| head.place == relation.place);
    let assessed = place.map_or_else(Vec::new, |place| assess_on_relation(relation, place, policy));
    let test = &relation.versus_offset;
    labels::has_firm_label(&assessed, relation.direction, [test.p, test.q], policy)
}
