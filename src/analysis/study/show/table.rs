//! Flat tables of results, for data frames: rows of values from the report, under the report's keys.

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::study::metrics::named::Named;
use crate::system::errors::{ErrorExt, similar};

/// A flat table of results.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The table's name on the command line.
    pub name: &'static str,
    /// Names of the columns, which are keys of the report. Keys of nested objects are joined by dots. The ends of
    /// an interval are `ci95_low` and `ci95_high`.
    pub columns: Vec<String>,
    /// Rows, each with one cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

/// The value in one row and column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A value that could not be computed.
    Empty,
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Empty, Self::Number)
    }
}

/// A JSON value of a report, whose objects keep the order of their keys.
#[derive(Deserialize)]
#[serde(untagged)]
enum ReportValue {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<ReportValue>),
    Object(Named<ReportValue>),
    Null(()),
}

/// Rows of a flat table. They are flattened only when the table is used.
pub struct TableRows<'a> {
    pub name: &'static str,
    rows: Box<dyn Iterator<Item = Vec<(String, Cell)>> + 'a>,
}

impl<'a> TableRows<'a> {
    pub fn new<R: Serialize + 'a>(name: &'static str, rows: impl IntoIterator<Item = R, IntoIter: 'a>) -> Self {
        Self { name, rows: Box::new(rows.into_iter().map(|row| cells(&row))) }
    }

    /// Drops the columns for whose names `is_left_out` is true.
    pub fn without_columns(self, is_left_out: fn(&str) -> bool) -> Self {
        let kept = move |row: Vec<(String, Cell)>| row.into_iter().filter(|(column, _)| !is_left_out(column)).collect();
        Self { rows: Box::new(self.rows.map(kept)), ..self }
    }

    /// The table with all single values of each row, at any depth. Lists of words are joined by spaces. Lists of
    /// objects are left out, since they have tables of their own. Panics if a row is no object of the report.
    pub fn table(self) -> Table {
        Table::new(self.name, self.rows.collect())
    }
}

/// The cells of a row with the names of their columns.
fn cells<R: Serialize>(row: &R) -> Vec<(String, Cell)> {
    let text = serde_json::to_string(row).expect("what a report has is JSON");
    let mut cells = Vec::new();
    flatten("", serde_json::from_str(&text).expect("JSON that was just written"), &mut cells);
    cells
}

impl Table {
    /// A table of these `rows` of the report, flattened as by [`TableRows::table`]. Panics if a row is no object of
    /// the report.
    pub fn from_rows<R: Serialize>(name: &'static str, rows: impl IntoIterator<Item = R>) -> Self {
        TableRows::new(name, rows).table()
    }

    /// A table of rows of `(column, cell)`. A column that a row lacks is empty in that row. A null interval has two
    /// empty cells.
    pub fn new(name: &'static str, rows: Vec<Vec<(String, Cell)>>) -> Self {
        let mut columns: Vec<String> = Vec::new();
        for row in &rows {
            let mut after = 0;
            for (column, _) in row {
                let place = columns.iter().position(|known| known == column).unwrap_or_else(|| {
                    columns.insert(after, column.clone());
                    after
                });
                after = place + 1;
            }
        }
        // An interval that is null in some rows has two columns, for its ends; likewise an object has the columns of its keys.
        let has_parts = |column: &String| {
            let (low, within) = (format!("{column}_low"), format!("{column}."));
            columns.iter().any(|other| *other == low || other.starts_with(&within))
        };
        let columns: Vec<String> = columns.iter().filter(|column| !has_parts(column)).cloned().collect();
        let cells = |mut row: Vec<(String, Cell)>| {
            let cell = |column: &String| {
                let place = row.iter().position(|(known, _)| known == column);
                place.map_or(Cell::Empty, |place| row.swap_remove(place).1)
            };
            columns.iter().map(cell).collect()
        };
        Self { name, rows: rows.into_iter().map(cells).collect(), columns }
    }

    /// The table with only these columns, in this order. Fails if the table lacks one of them.
    pub fn select(self, columns: &[String]) -> Result<Self> {
        let places = columns.iter().map(|name| self.column_index(name)).collect::<Result<Vec<_>>>()?;
        let row = |row: &Vec<Cell>| places.iter().map(|&place| row[place].clone()).collect();
        Ok(Self { name: self.name, columns: columns.to_vec(), rows: self.rows.iter().map(row).collect() })
    }

    /// Index of the column called `name`. Fails if there is no such column.
    pub(super) fn column_index(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column == name).ok_or_else(|| {
            let known = self.columns.join(", ");
            let closest = similar::closest_name(name, self.columns.iter().map(String::as_str));
            anyhow!("the table `{}` has no column `{name}`: it has {known}", self.name)
                .with_value(name)
                .did_you_mean(closest)
        })
    }
}

/// Adds the cells of `value` to `cells`. Values inside objects get columns named `name` and their keys, joined by dots.
fn flatten(name: &str, value: ReportValue, cells: &mut Vec<(String, Cell)>) {
    let mut add = |cell: Cell| cells.push((name.to_owned(), cell));
    match value {
        ReportValue::Null(()) => add(Cell::Empty),
        ReportValue::Flag(flag) => add(Cell::Flag(flag)),
        ReportValue::Integer(number) => add(Cell::Integer(number)),
        ReportValue::Number(number) => add(Cell::Number(number)),
        ReportValue::Text(text) => add(Cell::Text(text)),
        ReportValue::Object(Named(entries)) => {
            for (key, value) in entries {
                flatten(&if name.is_empty() { key } else { format!("{name}.{key}") }, value, cells);
            }
        }
        ReportValue::List(list) => {
            let word = |item: &ReportValue| if let ReportValue::Text(text) = item { Some(text.clone()) } else { None };
            if let Some([low, high]) = interval_ends(&list) {
                cells.push((format!("{name}_low"), Cell::Number(low)));
                cells.push((format!("{name}_high"), Cell::Number(high)));
            } else if let Some(words) = list.iter().map(word).collect::<Option<Vec<_>>>() {
                add(Cell::Text(words.join(" ")));
            }
        }
    }
}

/// The ends of an interval; `None` if the list is not two numbers.
fn interval_ends(list: &[ReportValue]) -> Option<[f64; 2]> {
    let number = |value: &ReportValue| match value {
        ReportValue::Number(number) => Some(*number),
        ReportValue::Integer(number) => Some(*number as f64),
        _ => None,
    };
    let [low, high] = list else { return None };
    Some([number(low)?, number(high)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_flat_and_keep_their_names() {
        let rows = [
            json!({ "a": 1, "ci95": null, "o": null, "list": [{ "no": 1 }] }),
            json!({ "a": 2.5, "ci95": [0.0, 1.5], "labels": ["p", "q"], "o": { "x": true, "y": "u" } }),
        ];
        let table = Table::from_rows("t", rows);
        assert_eq!(table.columns, ["a", "ci95_low", "ci95_high", "labels", "o.x", "o.y"]);
        let text = |text: &str| Cell::Text(text.to_owned());
        let first = [Cell::Integer(1), Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty];
        let second =
            [Cell::Number(2.5), Cell::Number(0.0), Cell::Number(1.5), text("p q"), Cell::Flag(true), text("u")];
        assert_eq!(table.rows, [first, second]);
    }

    #[test]
    fn no_rows_are_no_columns() {
        let table = Table::from_rows("t", [0_u8; 0]);
        assert_eq!((table.columns.len(), table.rows.len()), (0, 0));
    }
}
