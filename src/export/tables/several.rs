//! A flat table of several reports: the relations of a paper side by side, any other table stacked.

use crate::study::show::table::{Cell, Table};

/// The table whose reports stand side by side.
const PAPER: &str = "paper";

/// The column that says what a row of [`PAPER`] is about.
const KEY: &str = "relation";

/// The columns of [`PAPER`] that each report has when several stand side by side.
const OF_EACH: [&str; 3] = ["head", "accuracy", "firm"];

/// The columns of [`PAPER`] that say nothing of a head: reports over one corpus have them once.
const BASELINES: [&str; 2] = ["offset", "word_classes"];

/// One table from the tables of several reports, each named by its report; there is at least one.
pub fn together(tables: &[(&str, Table)]) -> Table {
    if tables[0].1.name == PAPER { side_by_side(tables) } else { stacked(tables) }
}

/// All rows, with the report of each in the first column.
fn stacked(tables: &[(&str, Table)]) -> Table {
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

/// A row for each relation of any report: for each report the best head, its accuracy and whether its label is firm; both baselines, of each report where
/// they differ.
fn side_by_side(tables: &[(&str, Table)]) -> Table {
    let mut relations: Vec<&Cell> = Vec::new();
    for relation in tables.iter().flat_map(|(_, table)| table.rows.iter().map(|row| cell(table, row, KEY))) {
        if !relations.contains(&relation) {
            relations.push(relation);
        }
    }
    let get = |table: &Table, relation: &Cell, column: &str| {
        let found = table.rows.iter().find(|row| cell(table, row, KEY) == relation);
        found.map_or(Cell::Empty, |row| cell(table, row, column).clone())
    };
    let is_shared = |relation: &&Cell| {
        let baselines = |table| BASELINES.map(|column| get(table, relation, column));
        tables.iter().all(|(_, table)| baselines(table) == baselines(&tables[0].1))
    };
    let shared: &[&str] = if relations.iter().all(is_shared) { &BASELINES } else { &[] };
    let row = |relation: &&Cell| {
        let of_report = |(report, table): &'_ (&str, Table)| -> Vec<(String, Cell)> {
            let own = OF_EACH.iter().chain(if shared.is_empty() { &BASELINES[..] } else { &[] });
            own.map(|column| (format!("{report}.{column}"), get(table, relation, column))).collect()
        };
        let once = shared.iter().map(|column| ((*column).to_owned(), get(&tables[0].1, relation, column)));
        let key = [(KEY.to_owned(), (*relation).clone())];
        key.into_iter().chain(once).chain(tables.iter().flat_map(of_report)).collect()
    };
    Table::new(PAPER, relations.iter().map(row).collect())
}

fn cell<'a>(table: &Table, row: &'a [Cell], column: &str) -> &'a Cell {
    let place = table.columns.iter().position(|known| known == column);
    place.map_or(&Cell::Empty, |place| &row[place])
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
        Table::new(PAPER, rows.iter().map(row).collect())
    }

    #[test]
    fn relations_of_two_reports_share_a_row() {
        let english = paper(&[("obj", "L0H1", "0.750 [0.625, 0.875]", 0.25, 0.5), ("det", "L2H0", "0.5", 0.5, 0.25)]);
        let german = paper(&[("det", "L1H1", "0.25", 0.125, 0.0)]);
        let table = side_by_side(&[("en", english), ("de", german)]);
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
        let table = side_by_side(&[("a", a), ("b", b)]);
        let columns =
            ["relation", "offset", "word_classes", "a.head", "a.accuracy", "a.firm", "b.head", "b.accuracy", "b.firm"];
        assert_eq!(table.columns, columns);
        assert_eq!(table.rows[0][1..4], [Cell::Number(0.25), Cell::Number(0.5), text("L0H1")]);
    }

    #[test]
    fn other_tables_are_stacked() {
        let one = |value: i64| Table::new("t", vec![vec![("a".to_owned(), Cell::Integer(value))]]);
        let table = stacked(&[("x", one(1)), ("y", one(2))]);
        assert_eq!(table.columns, ["report", "a"]);
        assert_eq!(table.rows[1], [Cell::Text("y".to_owned()), Cell::Integer(2)]);
    }
}
