//! One row per head: its names, its labels, every metric, every label's score.

use std::collections::BTreeSet;

use anyhow::Result;
use itertools::Itertools;
use serde_json::json;

use super::heads::label_names;
use crate::report::{HeadReport, Report};
use crate::stats::interval::Interval;
use crate::study::show::table::{Cell, Table};
use crate::system::printable::escape_controls;

/// Renders a report as CSV. An empty cell is a value that could not be computed, or a label that the head does not have.
///
/// Columns: `layer`, `head`, `name`, `primary`, all `labels` and the `borderline` ones (separated by spaces); with controls
/// `kept.<control>` (labels that the head keeps in that control with every seed); metrics by their keys in the JSON report
/// (`offset_mass.-1`, `uas.dep->head`), each followed by the ends of its interval (`uuas_ci95_low`, `uuas_ci95_high`); and
/// `score.<label>` for each label that some head has.
pub fn report_csv(report: &Report) -> Result<Vec<u8>> {
    let scored: BTreeSet<&str> =
        report.heads.iter().flat_map(|head| &head.labels).map(|label| label.label.as_str()).collect();
    let mut header = ["layer", "head", "name", "primary", "labels", "borderline"].map(str::to_owned).to_vec();
    let controls = report.controls_by_kind();
    header.extend(controls.iter().map(|(kind, _)| format!("kept.{kind}")));
    for (name, _) in report.chance.cells() {
        header.extend([name.clone(), format!("{name}_ci95_low"), format!("{name}_ci95_high")]);
    }
    header.extend(scored.iter().map(|label| format!("score.{label}")));
    let mut rows = vec![header];
    for head in &report.heads {
        let mut row = vec![
            head.place.layer.to_string(),
            head.place.head.to_string(),
            head.place.to_string(),
            head.primary.clone(),
            label_names(head, |_| true),
            label_names(head, |label| label.borderline),
        ];
        row.extend(controls.iter().map(|(_, runs)| head.labels_in_all_controls(runs).join(" ")));
        row.extend(metric_cells(head));
        row.extend(scored.iter().map(|name| {
            let label = head.labels.iter().find(|label| label.label == *name);
            label.map_or_else(String::new, |label| label.score.to_string())
        }));
        rows.push(row);
    }
    rows_csv(&rows)
}

/// Renders a flat table as CSV; the cell of a value that could not be computed is empty.
pub fn table_csv(table: &Table) -> Result<Vec<u8>> {
    let cell = |cell: &Cell| match cell {
        Cell::Empty => String::new(),
        Cell::Flag(flag) => flag.to_string(),
        Cell::Integer(number) => number.to_string(),
        Cell::Number(number) => json!(number).to_string(),
        Cell::Text(text) => text.clone(),
    };
    let mut rows = vec![table.columns.clone()];
    rows.extend(table.rows.iter().map(|row| row.iter().map(cell).collect()));
    rows_csv(&rows)
}

/// Renders rows of cells as CSV, the header first, made safe for terminals and spreadsheets.
/// Fails if rows differ in their number of cells.
pub fn rows_csv(rows: &[Vec<String>]) -> Result<Vec<u8>> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row.iter().map(|cell| escape_cell(cell)))?;
    }
    Ok(writer.into_inner().map_err(::csv::IntoInnerError::into_error)?)
}

/// Cells of a head's metrics by column, each metric with the ends of its interval. A cell is empty without a value.
fn metric_cells(head: &HeadReport) -> impl Iterator<Item = String> {
    let cell = |value: Option<f64>| value.map_or_else(String::new, |value| json!(value).to_string());
    let values = head.metrics.cells().zip(head.ci95.cells());
    values
        .flat_map(move |((_, &value), (_, &ci95))| [value, ci95.map(Interval::low), ci95.map(Interval::high)].map(cell))
}

/// Makes a cell safe for terminals and spreadsheets.
///
/// Spreadsheets take a cell that begins with `=`, `+`, `-`, `@`, a tab or CR for a formula, unless an apostrophe comes first.
/// Numbers may begin with a sign and stay unchanged.
fn escape_cell(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    format!("{}{}", if is_formula { "'" } else { "" }, escape_controls(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text_and_numbers_stay() {
        for (cell, expected) in [
            ("=1+1", "'=1+1"),
            ("+cmd", "'+cmd"),
            ("-x", "'-x"),
            ("@sum", "'@sum"),
            ("\t=1", "'\\t=1"),
            ("-0.5", "-0.5"),
            ("+1e-3", "+1e-3"),
            ("nsubj:pass", "nsubj:pass"),
            ("", ""),
            ("a\u{1b}[31m\u{9b}\u{202e}", "a\\u{1b}[31m\\u{9b}\\u{202e}"),
        ] {
            assert_eq!(escape_cell(cell), expected);
        }
    }
}
