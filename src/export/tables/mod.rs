//! The flat tables of a report: the tables of every report, and the tables of its studies.

pub mod csv;
mod heads;
pub mod latex;
#[cfg(feature = "parquet")]
pub mod parquet;

use std::collections::BTreeMap;

use anyhow::{Error, Result, anyhow};
use itertools::Itertools;
use serde::Serialize;

use crate::model::grid::HeadPlace;
use crate::passes::control::Control;
use crate::report::{HeadReport, Report};
use crate::stats::interval::Interval;
use crate::studies::registry::STUDIES;
use crate::study::labels::Label;
use crate::study::labels::evidence::LABEL_Q;
use crate::study::show::table::{Cell, Table, TableRows};
use crate::system::counts::format_count;
use crate::system::errors::{ErrorExt, similar};
use heads::{cell_in_column, place_cells};
pub use heads::{head_objects, head_table, terminal_head_table};

/// Makes the table of this name. Fails if the report lacks it.
pub fn named_table(report: &Report, name: &str) -> Result<Table> {
    type MakeTable = fn(&Report) -> Table;
    /// Tables that every report has, each with its name.
    const COMMON_TABLES: [(&str, MakeTable); 5] = [
        ("heads", head_table),
        ("labels", label_table),
        ("metrics", metric_table),
        ("controls", control_table),
        ("files", |report| Table::from_rows("files", &report.corpus.files)),
    ];
    if let Some((_, make)) = COMMON_TABLES.iter().find(|(known, _)| *known == name) {
        return Ok(make(report));
    }
    let of_studies: Vec<TableRows<'_>> = report.section_views().flat_map(|(_, view)| view.tables).collect();
    let names: Vec<&str> =
        COMMON_TABLES.iter().map(|(name, _)| *name).chain(of_studies.iter().map(|table| table.name)).collect();
    let table = of_studies.into_iter().find(|table| table.name == name);
    table.map(TableRows::table).ok_or_else(|| {
        let none = anyhow!("the report has no table `{name}`: it has {}", names.join(", ")).with_value(name);
        match study_with_table(name) {
            Some(study) => none.hint(format!("the study `{study}` makes it: `headscope analyze --with {study}`")),
            None => none.did_you_mean(similar::closest_name(name, names)),
        }
    })
}

/// Joins the table of this name from several named reports. Fails if a report lacks it.
pub fn joined_table(reports: &[(String, Report)], name: &str) -> Result<Table> {
    let table = |(report, found): &'_ (String, Report)| named_table(found, name).cannot("read", report);
    let tables = reports.iter().map(|one| Ok((one.0.as_str(), table(one)?))).collect::<Result<Vec<_>>>()?;
    Ok(join_tables(&tables))
}

/// The caption of a table: models, corpora and numbers of sentences, and a note on the table's intervals and tests.
pub fn caption(reports: &[(String, Report)], table: &Table) -> String {
    let of_each = |about: &dyn Fn(&Report) -> String| {
        let each: Vec<String> = reports.iter().map(|(_, report)| about(report)).collect();
        if each.iter().all_equal() {
            return each[0].clone();
        }
        reports.iter().zip(&each).map(|((name, _), about)| format!("{name}: {about}")).join("; ")
    };
    let over = of_each(&|report| {
        let [sentence, _] = report.model.text_units();
        format!("{} over {} ({})", report.model.id, report.corpus.name, format_count(report.corpus.sentences, sentence))
    });
    let unit = of_each(&|report| report.unit_in_words());
    let firm = of_each(&|report| match report.settings.policy.rule(&LABEL_Q) {
        Some(most) => format!("q of at most {most} (Benjamini-Hochberg)"),
        None => "a one-sided p of at most 0.025".to_owned(),
    });
    let has = |name: &str| table.columns.iter().any(|column| column == name || column.ends_with(&format!(".{name}")));
    let is_firm = if table.columns.iter().any(|column| latex::firm_column(table, column).is_some()) {
        "* is firm"
    } else {
        "Firm"
    };
    // In the table `paper`, an accuracy is a text with its interval.
    let is_bracketed = |column: &str| column == "accuracy" || column.ends_with(".accuracy");
    let has_brackets =
        |place: usize| table.rows.iter().any(|row| matches!(&row[place], Cell::Text(text) if text.contains(" [")));
    let is_interval =
        |(place, column): (usize, &String)| column.contains("ci95") || (is_bracketed(column) && has_brackets(place));
    let has_intervals = table.columns.iter().enumerate().any(is_interval);
    let parts = [
        Some(format!("{over}.")),
        has_intervals.then(|| format!("In brackets: 95% intervals (block jackknife); sampling over {unit}.")),
        (!has_intervals && (has("p") || has("q"))).then(|| format!("Tests: sampling over {unit}.")),
        (has("firm") || has("borderline"))
            .then(|| format!("{is_firm}: the block test against the threshold of the label has {firm}.")),
    ];
    parts.into_iter().flatten().join(" ")
}

/// Error for a table of the report without rows: why it has none, and what would fill it.
pub fn no_rows_error(report: &Report, name: &str) -> Error {
    let view = |study: &str| report.section_views().find(|(known, _)| known.card().name == study);
    let (why, filled) = match (name, study_with_table(name)) {
        ("controls", _) if report.controls.is_empty() => {
            ("no control was run".to_owned(), Some("`headscope analyze --control random-init`".to_owned()))
        }
        ("controls", _) => ("no head has a label in a control".to_owned(), None),
        ("labels", _) => ("no head has a label".to_owned(), None),
        ("metrics", _) => {
            ("no study that was run has metrics".to_owned(), Some("`headscope analyze --with attention`".to_owned()))
        }
        (_, Some(study)) => {
            let said = view(study).map(|(_, view)| view.summary.to_string());
            let said = said.and_then(|said| Some(said.lines().next()?.trim_end_matches(['.', ':']).to_owned()));
            let said = said.unwrap_or_else(|| "it found nothing to list".to_owned());
            (format!("the study `{study}` fills it, and here: {said}"), None)
        }
        _ => ("there is nothing to list".to_owned(), None),
    };
    let error = anyhow!("the table `{name}` has no rows: {why}").with_value(name);
    match filled {
        Some(way_out) => error.hint(format!("{way_out} fills it")),
        None => error,
    }
}

/// Name of the study that makes the table `name`.
fn study_with_table(name: &str) -> Option<&'static str> {
    STUDIES.iter().map(|study| study.card()).find(|card| card.tables.contains(&name)).map(|card| card.name)
}

/// Table with a row for each label of each head.
fn label_table(report: &Report) -> Table {
    #[derive(Serialize)]
    struct LabelRow<'a> {
        #[serde(flatten)]
        place: HeadPlace,
        #[serde(flatten)]
        label: &'a Label,
    }
    let rows = report
        .heads
        .iter()
        .flat_map(|HeadReport { place, labels, .. }| labels.iter().map(|label| LabelRow { place: *place, label }));
    Table::from_rows("labels", rows)
}

/// A row for each metric of each head, with its interval, standard error and chance level.
fn metric_table(report: &Report) -> Table {
    let chance = report.chance.by_name();
    let rows = report.heads.iter().zip(report.standard_errors()).flat_map(|(head, errors)| {
        let errors: BTreeMap<String, Option<f64>> = errors.cells().map(|(name, error)| (name, *error)).collect();
        let (ci95, own, chance) = (head.ci95.by_name(), head.chance.by_name(), &chance);
        let row = move |(metric, value): (String, &Option<f64>)| {
            let ci95 = ci95.get(&metric).copied().copied().flatten();
            let error = errors.get(&metric).copied().flatten();
            let own = own.get(&metric).copied().copied().flatten();
            let chance = own.or_else(|| chance.get(&metric).copied().copied().flatten());
            let metric = [
                ("metric", Cell::Text(metric)),
                ("value", Cell::from(*value)),
                ("ci95_low", Cell::from(ci95.map(Interval::low))),
                ("ci95_high", Cell::from(ci95.map(Interval::high))),
                ("standard_error", Cell::from(error)),
                ("chance", Cell::from(chance)),
            ];
            place_cells(head.place).into_iter().chain(metric).map(|(column, cell)| (column.to_owned(), cell)).collect()
        };
        head.metrics.cells().map(row).collect::<Vec<_>>()
    });
    Table::new("metrics", rows.collect())
}

/// Table with a row for each label that a head has in a control run.
fn control_table(report: &Report) -> Table {
    #[derive(Serialize)]
    struct ControlRow<'a> {
        #[serde(flatten)]
        control: &'a Control,
        #[serde(flatten)]
        place: HeadPlace,
        label: &'a str,
        kept: bool,
    }
    let rows = report.controls.iter().flat_map(|run| {
        run.heads.iter().flat_map(|head| {
            head.labels.iter().map(|label| ControlRow {
                control: &run.control,
                place: head.place,
                label,
                kept: head.kept.contains(label),
            })
        })
    });
    Table::from_rows("controls", rows)
}

/// Name of the table in which several reports stand side by side.
const PAPER_TABLE: &str = "paper";

/// The column of [`PAPER_TABLE`] that identifies its rows.
const KEY_COLUMN: &str = "relation";

/// The columns of [`PAPER_TABLE`] that each report has when several stand side by side.
const REPORT_COLUMNS: [&str; 3] = ["head", "accuracy", "firm"];

/// The columns of [`PAPER_TABLE`] that do not depend on the head, and that reports over one corpus share.
const BASELINE_COLUMNS: [&str; 2] = ["offset", "word_classes"];

/// Joins tables of one name, each as (report name, table); there is at least one.
fn join_tables(tables: &[(&str, Table)]) -> Table {
    if tables[0].1.name == PAPER_TABLE { join_side_by_side(tables) } else { stack_tables(tables) }
}

/// Joins tables by putting all rows one below the other, with the report's name in the first column.
fn stack_tables(tables: &[(&str, Table)]) -> Table {
    let name = tables[0].1.name;
    let rows = tables.iter().flat_map(|(report, table)| {
        table.rows.iter().map(|row| {
            let report = ("report".to_owned(), Cell::Text((*report).to_owned()));
            let cells = table.columns.iter().cloned().zip(row.iter().cloned());
            [report].into_iter().chain(cells).collect()
        })
    });
    Table::new(name, rows.collect())
}

/// Joins tables side by side: a row for each relation of any report, with the columns [`REPORT_COLUMNS`] per report.
/// The columns [`BASELINE_COLUMNS`] are there once or, if they differ between reports, per report.
fn join_side_by_side(tables: &[(&str, Table)]) -> Table {
    let mut relations: Vec<&Cell> = Vec::new();
    for relation in
        tables.iter().flat_map(|(_, table)| table.rows.iter().map(|row| cell_in_column(table, row, KEY_COLUMN)))
    {
        if !relations.contains(&relation) {
            relations.push(relation);
        }
    }
    let get = |table: &Table, relation: &Cell, column: &str| {
        let found = table.rows.iter().find(|row| cell_in_column(table, row, KEY_COLUMN) == relation);
        found.map_or(Cell::Empty, |row| cell_in_column(table, row, column).clone())
    };
    let is_shared = |relation: &&Cell| {
        let baselines = |table| BASELINE_COLUMNS.map(|column| get(table, relation, column));
        tables.iter().all(|(_, table)| baselines(table) == baselines(&tables[0].1))
    };
    let shared: &[&str] = if relations.iter().all(is_shared) { &BASELINE_COLUMNS } else { &[] };
    let row = |relation: &&Cell| {
        let of_report = |(report, table): &'_ (&str, Table)| -> Vec<(String, Cell)> {
            let own = REPORT_COLUMNS.iter().chain(if shared.is_empty() { &BASELINE_COLUMNS[..] } else { &[] });
            own.map(|column| (format!("{report}.{column}"), get(table, relation, column))).collect()
        };
        let once = shared.iter().map(|column| ((*column).to_owned(), get(&tables[0].1, relation, column)));
        let key = [(KEY_COLUMN.to_owned(), (*relation).clone())];
        key.into_iter().chain(once).chain(tables.iter().flat_map(of_report)).collect()
    };
    Table::new(PAPER_TABLE, relations.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(rows: &[(&str, &str, &str, f64, f64)]) -> Table {
        let row = |&(relation, head, accuracy, offset, classes): &(&str, &str, &str, f64, f64)| {
            let text = |text: &str| Cell::Text(text.to_owned());
            [
                ("relation", text(relation)),
                ("head", text(head)),
                ("accuracy", text(accuracy)),
                ("offset", Cell::Number(offset)),
                ("word_classes", Cell::Number(classes)),
            ]
            .map(|(column, cell)| (column.to_owned(), cell))
            .to_vec()
        };
        Table::new(PAPER_TABLE, rows.iter().map(row).collect())
    }

    #[test]
    fn relations_of_two_reports_share_a_row() {
        let english = paper(&[("obj", "L0H1", "0.750 [0.625, 0.875]", 0.25, 0.5), ("det", "L2H0", "0.5", 0.5, 0.25)]);
        let german = paper(&[("det", "L1H1", "0.25", 0.125, 0.0)]);
        let table = join_side_by_side(&[("en", english), ("de", german)]);
        let of_each = ["head", "accuracy", "firm", "offset", "word_classes"];
        let of_each = ["en", "de"].iter().flat_map(|report| of_each.map(|column| format!("{report}.{column}")));
        assert_eq!(table.columns, ["relation".to_owned()].into_iter().chain(of_each).collect::<Vec<_>>());
        let text = |text: &str| Cell::Text(text.to_owned());
        assert_eq!(table.rows[0][..2], [text("obj"), text("L0H1")]);
        // German has no `obj`.
        assert_eq!(table.rows[0][4..7], [Cell::Number(0.25), Cell::Number(0.5), Cell::Empty]);
        assert_eq!(table.rows[1][5..8], [Cell::Number(0.25), text("L1H1"), text("0.25")]);
        // Two models over one corpus have the baselines once.
        let [a, b] = ["L0H1", "L2H2"].map(|head| paper(&[("obj", head, "0.75", 0.25, 0.5)]));
        let table = join_side_by_side(&[("a", a), ("b", b)]);
        let columns =
            ["relation", "offset", "word_classes", "a.head", "a.accuracy", "a.firm", "b.head", "b.accuracy", "b.firm"];
        assert_eq!(table.columns, columns);
        assert_eq!(table.rows[0][1..4], [Cell::Number(0.25), Cell::Number(0.5), text("L0H1")]);
    }

    #[test]
    fn other_tables_are_stacked() {
        let one = |value: i64| Table::new("t", vec![vec![("a".to_owned(), Cell::Integer(value))]]);
        let table = stack_tables(&[("x", one(1)), ("y", one(2))]);
        assert_eq!(table.columns, ["report", "a"]);
        assert_eq!(table.rows[1], [Cell::Text("y".to_owned()), Cell::Integer(2)]);
    }
}
