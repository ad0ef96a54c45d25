//! The table of the summary: the best head of each type of links beside the rules.

use comfy_table::{CellAlignment, Table};

use super::link::{BestRule, LinkMetrics};
use crate::study::show::wording::{percent, plain_table, plus_minus_percent, significance};
use crate::system::printable::one_line;

/// A column: its name, whether it holds text, and what it says of a type.
type LinkColumn = (&'static str, bool, fn(&LinkMetrics) -> String);

const TEXT: bool = true;
const NUMBER: bool = false;

const COLUMNS: [LinkColumn; 11] = [
    ("links", TEXT, |links| one_line(&links.title())),
    ("sources", NUMBER, |links| links.count.to_string()),
    ("head", TEXT, |links| links.place.to_string()),
    ("direction", TEXT, |links| links.direction.name().to_owned()),
    ("accuracy", NUMBER, |links| percent(Some(links.accuracy)) + &plus_minus_percent(links.ci95.accuracy)),
    ("held-out", NUMBER, |links| percent(links.heldout_accuracy) + &plus_minus_percent(links.ci95.heldout_accuracy)),
    ("place", NUMBER, |links| rule(&links.by_place)),
    ("same class", NUMBER, |links| rule(&links.by_class)),
    ("class rules", NUMBER, |links| percent(links.by_class_rules.as_ref().map(|rules| rules.accuracy))),
    ("to special", NUMBER, |links| percent(links.best().and_then(|head| *head.to_special.get(links.direction)))),
    ("q", NUMBER, |links| {
        let leads = links.best().and_then(|head| head.leads.get(links.direction).as_ref());
        leads.and_then(|leads| leads.over_place.q).map_or_else(|| "-".to_owned(), significance)
    }),
];

/// The columns that may go where there is no room, the first of them first.
pub(super) const MAY_GO: &[usize] = &[9, 1, 8, 3, 7, 6, 4, 10, 5];

fn rule(best: &BestRule) -> String {
    format!("{}: {}", best.rule, percent(Some(best.accuracy)))
}

/// A row for each of these types.
pub(super) fn table(all: &[&LinkMetrics]) -> Table {
    let mut table = plain_table();
    table.set_header(COLUMNS.map(|(name, ..)| name));
    for links in all {
        table.add_row(COLUMNS.map(|(_, _, cell)| cell(links)));
    }
    for (column, (_, is_text, _)) in table.column_iter_mut().zip(COLUMNS) {
        column.set_cell_alignment(if is_text { CellAlignment::Left } else { CellAlignment::Right });
    }
    table
}
