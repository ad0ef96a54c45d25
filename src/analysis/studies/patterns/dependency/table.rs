//! The table of the summary: the best head of each relation beside both baselines.

use comfy_table::{CellAlignment, Table};

use super::relation::RelationMetrics;
use crate::stats::interval::Interval;
use crate::study::show::wording::{percent, plain_table, plus_minus_percent, signed, significance};
use crate::system::printable::one_line;

/// A column: its name, whether it holds text, and what it says of a relation.
type RelationColumn = (&'static str, bool, fn(&RelationMetrics) -> String);

const TEXT: bool = true;
const NUMBER: bool = false;

const COLUMNS: [RelationColumn; 11] = [
    ("relation", TEXT, |relation| one_line(&relation.relation)),
    ("words", NUMBER, |relation| relation.count.to_string()),
    ("head", TEXT, |relation| relation.place.to_string()),
    ("direction", TEXT, |relation| relation.direction.name().to_owned()),
    ("accuracy", NUMBER, |relation| percent(Some(relation.accuracy)) + &plus_minus_percent(relation.ci95.accuracy)),
    ("held-out", NUMBER, |relation| {
        percent(relation.heldout_accuracy) + &plus_minus_percent(relation.ci95.heldout_accuracy)
    }),
    ("offset", NUMBER, |relation| {
        format!("{:+}: {}", relation.baseline.offset, percent(Some(relation.baseline.accuracy)))
    }),
    ("tags", NUMBER, |relation| percent(relation.tag_baseline.as_ref().map(|tags| tags.accuracy))),
    ("over offset", NUMBER, |relation| gain(relation.versus_offset.difference, relation.versus_offset.ci95)),
    ("q", NUMBER, |relation| relation.versus_offset.q.map_or_else(|| "-".to_owned(), significance)),
    ("over tags", NUMBER, |relation| {
        relation.versus_tags.as_ref().map_or_else(|| "-".to_owned(), |tags| gain(tags.difference, tags.ci95))
    }),
];

/// The columns that may go where there is no room, the first of them first: accuracy out of the half that chose the head, and the
/// q-value, go last, for the accuracy of the best head of many and its gain mean little without them.
pub(super) const MAY_GO: &[usize] = &[1, 7, 6, 3, 10, 8, 4, 9, 5];

/// A difference of accuracies in percentage points.
fn gain(difference: f64, ci95: Option<Interval>) -> String {
    signed(100.0 * difference, 1) + &plus_minus_percent(ci95)
}

/// A row for each of these relations.
pub(super) fn table(relations: &[&RelationMetrics]) -> Table {
    let mut table = plain_table();
    table.set_header(COLUMNS.map(|(name, ..)| name));
    for relation in relations {
        table.add_row(COLUMNS.map(|(_, _, cell)| cell(relation)));
    }
    for (column, (_, is_text, _)) in table.column_iter_mut().zip(COLUMNS) {
        column.set_cell_alignment(if is_text { CellAlignment::Left } else { CellAlignment::Right });
    }
    table
}
