//! A flat table of several reports: the relations of a paper side by side, any other table stacked.

use crate::study::show::table::{Cell, Table};

/// The table whose reports stand side by side.
const PAPER: &str = "paper";

/// The column that says what a row of [`PAPER`] is about.
const KEY: &str = "relation";

/// The columns of [`PAPER`] that each report has when several stand side by side.
const OF_EACH: [&str; 2] = ["head", "accuracy"];

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

/// A row for each relation of any report; for each report the best head, its accuracy, and the better of both baselines.
fn side_by_side(tables: &[(&str, Table)]) -> Table {
    let mut relations: Vec<&Cell> = Vec::new();
    for relation in tables.iter().flat_map(|(_, table)| table.rows.iter().map(|row| cell(table, row, KEY))) {
        if !relations.contains(&relation) {
            relations.push(relation);
        }
    }
    let row = |relation: &&Cell| {
        let of_report = |(report, table): &'_ (&str, Table)| -> Vec<(String, Cell)> {
            let found = table.rows.iter().find(|row| cell(table, row, KEY) == *relation);
            let get = |column| found.map_or(Cell::Empty, |row| cell(table, row, column).clone());
            let baseline = larger(get("offset"), get("word_classes"));
            let own = OF_EACH.map(|column| (column, get(column))).into_iter().chain([("baseline", baseline)]);
            own.map(|(column, cell)| (format!("{report}.{column}"), cell)).collect()
        };
        [(KEY.to_owned(), (*relation).clone())].into_iter().chain(tables.iter().flat_map(of_report)).collect()
    };
    Table::new(PAPER, relations.iter().map(row).collect())
}

fn cell<'a>(table: &Table, row: &'a [Cell], column: &str) -> &'a Cell {
    let place = table.columns.iter().position(|known| known == column);
    place.map_or(&Cell::Empty, |place| &row[place])
}

/// The larger of two numbers, or the one that there is.
fn larger(a: Cell, b: Cell) -> Cell {
    match (&a, &b) {
        (Cell::Number(x), Cell::Number(y)) if y > x => b,
        (Cell::Number(_), _) => a,
        _ => b,
    }
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
        let columns = ["relation", "en.head", "en.accuracy", "en.baseline", "de.head", "de.accuracy", "de.baseline"];
        assert_eq!(table.columns, columns);
        let text = |text: &str| Cell::Text(text.to_owned());
        assert_eq!(table.rows[0][..2], [text("obj"), text("L0H1")]);
        // The better baseline of `obj` is that of word classes; German has no `obj`.
        assert_eq!((&table.rows[0][3], &table.rows[0][4]), (&Cell::Number(0.5), &Cell::Empty));
        assert_eq!(table.rows[1][3..6], [Cell::Number(0.5), text("L1H1"), text("0.25")]);
    }

    #[test]
    fn other_tables_are_stacked() {
        let one = |value: i64| Table::new("t", vec![vec![("a".to_owned(), Cell::Integer(value))]]);
        let table = stacked(&[("x", one(1)), ("y", one(2))]);
        assert_eq!(table.columns, ["report", "a"]);
        assert_eq!(table.rows[1], [Cell::Text("y".to_owned()), Cell::Integer(2)]);
    }
}
