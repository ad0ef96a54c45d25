//! The table of heads in three forms: a flat table for files, a table for the terminal, and JSON.

use comfy_table::CellAlignment;
use itertools::Itertools;
use serde_json::{Map, Value};

use crate::model::grid::HeadPlace;
use crate::report::{HeadReport, Report};
use crate::stats::interval::Interval;
use crate::study::labels::{BORDERLINE_MARK, Label};
use crate::study::show::summary::Summary;
use crate::study::show::table::{Cell, Table};
use crate::study::show::wording::{aligned_table, decimal, plus_minus};
use crate::system::printable::one_line;

/// Name of the column with the effect on the loss of removing a head.
const EFFECT_COLUMN: &str = "loss_effect";

/// Flat table of heads, a row per head.
/// The table has columns on how heads choose where to attend, and on the effect of removal, only if these were measured.
///
/// Columns: `layer`, `head`, `name`, in some models `key_value_group`; `primary`, the first label, with its `score`,
/// `ci95_low`, `ci95_high`, `baseline`, `threshold` and `q`; all `labels` and the `borderline` ones; `chooses` with its score
/// `chooses_share`, its interval and the flag `chooses_borderline`; `loss_effect` in nats with its interval; and `description`,
/// the sentence on the head.
pub fn head_table(report: &Report) -> Table {
    let with_choice = report.sections.0.iter().any(|(study, _)| !study.card().choices.is_empty());
    let row = |head: &HeadReport| {
        let mut row = label_columns(head);
        if with_choice {
            row.extend(choice_columns(head.chooses.as_ref()));
        }
        row.extend(effect_columns(head));
        row.push(("description", Cell::Text(head.description.clone())));
        row.into_iter().map(|(column, cell)| (column.to_owned(), cell)).collect()
    };
    Table::new("heads", report.heads.iter().map(row).collect())
}

/// A cell with the name of its column.
pub(super) type NamedCell = (&'static str, Cell);

fn integer_cell(number: usize) -> Cell {
    Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The columns `layer`, `head` and `name` of a head.
pub(super) fn place_cells(place: HeadPlace) -> [NamedCell; 3] {
    [("layer", integer_cell(place.layer)), ("head", integer_cell(place.head)), ("name", Cell::Text(place.to_string()))]
}

/// Names of the labels of a head that `is_wanted`, separated by spaces.
pub(super) fn label_names(head: &HeadReport, is_wanted: fn(&Label) -> bool) -> String {
    let labels = head.labels.iter().filter(|label| is_wanted(label));
    labels.map(|label| &label.label).join(" ")
}

fn label_columns(head: &HeadReport) -> Vec<NamedCell> {
    let first = head.labels.first();
    let group = head.key_value_group.map(|group| ("key_value_group", integer_cell(group)));
    let label = [
        ("primary", Cell::Text(head.primary.clone())),
        ("score", Cell::from(first.map(|label| label.score))),
        ("ci95_low", interval_end_cell(first.and_then(|label| label.ci95), Interval::low)),
        ("ci95_high", interval_end_cell(first.and_then(|label| label.ci95), Interval::high)),
        ("baseline", Cell::from(first.and_then(|label| label.baseline))),
        ("threshold", Cell::from(first.map(|label| label.threshold))),
        ("q", Cell::from(first.and_then(|label| label.test.q))),
        ("labels", Cell::Text(label_names(head, |_| true))),
        ("borderline", Cell::Text(label_names(head, |label| label.borderline))),
    ];
    place_cells(head.place).into_iter().chain(group).chain(label).collect()
}

fn choice_columns(chooses: Option<&Label>) -> [NamedCell; 5] {
    let ci95 = chooses.and_then(|label| label.ci95);
    [
        ("chooses", chooses.map_or(Cell::Empty, |label| Cell::Text(label.label.clone()))),
        ("chooses_share", Cell::from(chooses.map(|label| label.score))),
        ("chooses_ci95_low", interval_end_cell(ci95, Interval::low)),
        ("chooses_ci95_high", interval_end_cell(ci95, Interval::high)),
        ("chooses_borderline", chooses.map_or(Cell::Empty, |label| Cell::Flag(label.borderline))),
    ]
}

/// Columns of the effect on the loss of removing a head; empty if effects were not measured.
fn effect_columns(head: &HeadReport) -> Vec<NamedCell> {
    let Some(effect) = head.metrics.by_name().get(EFFECT_COLUMN).map(|effect| **effect) else { return Vec::new() };
    let ci95 = head.ci95.by_name().get(EFFECT_COLUMN).and_then(|ci95| **ci95);
    vec![
        ("loss_effect", Cell::from(effect)),
        ("loss_effect_ci95_low", interval_end_cell(ci95, Interval::low)),
        ("loss_effect_ci95_high", interval_end_cell(ci95, Interval::high)),
    ]
}

/// Cell with one end of an interval, which `of` selects; empty without an interval.
fn interval_end_cell(ci95: Option<Interval>, of: fn(Interval) -> f64) -> Cell {
    Cell::from(ci95.map(of))
}

/// Column of the table of heads in the terminal: its heading, its alignment, and a cell for each head.
type TerminalColumn = (&'static str, CellAlignment, Vec<String>);

/// The table of heads for the terminal: one row per head, rounded. On a narrow terminal, the sentence is dropped first.
pub fn terminal_head_table(report: &Report) -> Summary {
    let table = head_table(report);
    let has = |name: &str| table.columns.iter().any(|known| known == name);
    let text_column = |title: &'static str, cell: &dyn Fn(&HeadReport) -> String| -> TerminalColumn {
        (title, CellAlignment::Left, report.heads.iter().map(cell).collect())
    };
    // The column `name`, with the ends of its interval in the columns `ends`.
    let number_column = |title: &'static str, name: &str, ends: Option<[&str; 2]>| -> Option<TerminalColumn> {
        let cells = table.rows.iter().map(|row| format_number(&|name| cell_in_column(&table, row, name), name, ends));
        has(name).then(|| (title, CellAlignment::Right, cells.collect()))
    };
    let choice = |head: &HeadReport| {
        let name = |label: &Label| one_line(label.label.strip_prefix("chooses:").unwrap_or(&label.label));
        let mark = |label: &Label| if label.borderline { BORDERLINE_MARK } else { "" };
        head.chooses.as_ref().map_or_else(String::new, |label| name(label) + mark(label))
    };
    let columns = [
        Some(text_column("head", &|head| head.place.to_string())),
        Some(text_column("label", &|head| one_line(&head.primary) + &report.head_marks(head))),
        number_column("score", "score", Some(["ci95_low", "ci95_high"])),
        number_column("baseline", "baseline", None),
        has("chooses").then(|| text_column("chooses by", &choice)),
        number_column("share", "chooses_share", Some(["chooses_ci95_low", "chooses_ci95_high"])),
        number_column("effect, nats", "loss_effect", Some(["loss_effect_ci95_low", "loss_effect_ci95_high"])),
        Some(text_column("in a sentence", &|head| one_line(&head.description))),
    ];
    let columns: Vec<TerminalColumn> = columns.into_iter().flatten().collect();
    let rows = (0..report.heads.len()).map(|head| columns.iter().map(move |(_, _, cells)| &cells[head]));
    let mut shown = aligned_table(columns.iter().map(|(title, ..)| *title), rows, ..0);
    for (column, (_, alignment, _)) in shown.column_iter_mut().zip(&columns) {
        column.set_cell_alignment(*alignment);
    }
    // Columns to drop on narrow terminals, in this order.
    let place = |wanted: &str| columns.iter().position(|(title, ..)| *title == wanted);
    let may_go: Vec<usize> = ["in a sentence", "baseline", "share"].into_iter().filter_map(place).collect();
    let mut out = Summary::default();
    out.table_with_optional_columns(shown, &may_go);
    out
}

/// The cell of a row in a named column; [`Cell::Empty`] if there is no such column.
pub(super) fn cell_in_column<'a>(table: &Table, row: &'a [Cell], column: &str) -> &'a Cell {
    table.columns.iter().position(|known| known == column).map_or(&Cell::Empty, |place| &row[place])
}

/// Formats the number in the column `name` with half the width of its interval; empty if the column has no number.
/// `ends` are the columns with the ends of the interval.
fn format_number<'a>(cell: &impl Fn(&str) -> &'a Cell, name: &str, ends: Option<[&str; 2]>) -> String {
    let value = |name: &str| if let Cell::Number(value) = cell(name) { Some(*value) } else { None };
    let Some(shown) = value(name) else { return String::new() };
    let ci95 = ends.and_then(|[low, high]| Some(Interval(value(low)?, value(high)?)));
    decimal(shown, 3) + &plus_minus(ci95, 3)
}

/// The table of heads as data: an object for each head, with the columns as keys.
pub fn head_objects(report: &Report) -> Vec<Map<String, Value>> {
    let Table { columns, rows, .. } = head_table(report);
    let value = |cell: Cell| match cell {
        Cell::Empty => Value::Null,
        Cell::Flag(flag) => flag.into(),
        Cell::Integer(number) => number.into(),
        Cell::Number(number) => number.into(),
        Cell::Text(text) => text.into(),
    };
    let object = |row: Vec<Cell>| columns.iter().cloned().zip(row.into_iter().map(value)).collect();
    rows.into_iter().map(object).collect()
}
