//! Conditions on the rows of a flat table, as the command line writes them: `relation=det`, `score>=0.5`.

use std::cmp::Ordering;
use std::str::FromStr;

use anyhow::{Error, Result, anyhow};

use super::table::{Cell, Table};
use crate::system::errors::ErrorExt;

/// A condition on the cells of a column: the column's name, a comparison sign, and the value to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    column: String,
    /// The comparison sign, one of [`COMPARISON_SIGNS`].
    comparison_sign: &'static str,
    /// Value that a cell is compared with, as text.
    value: String,
}

/// A comparison sign, with the function that returns whether an ordering of cell and value meets it.
type ComparisonSign = (&'static str, fn(Ordering) -> bool);

/// All comparison signs; `>=` and `<=` come before `>` and `<`, which are prefixes of them.
const COMPARISON_SIGNS: [ComparisonSign; 6] = [
    ("!=", Ordering::is_ne),
    (">=", Ordering::is_ge),
    ("<=", Ordering::is_le),
    ("=", Ordering::is_eq),
    (">", Ordering::is_gt),
    ("<", Ordering::is_lt),
];

impl FromStr for Condition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = COMPARISON_SIGNS.iter().filter_map(|(relation, _)| Some((text.find(relation)?, *relation)));
        // The leftmost relation counts, since a value may contain others. Of two at one place, the longer stands first.
        let (at, relation) = found.min_by_key(|(at, _)| *at).ok_or_else(|| {
            anyhow!("`{text}` is no condition").with_value(text).hint("write COLUMN=VALUE, or !=, >=, <=, > or < for =")
        })?;
        let [column, value] = [&text[..at], &text[at + relation.len()..]].map(|part| part.trim().to_owned());
        Ok(Self { column, comparison_sign: relation, value })
    }
}

impl Condition {
    /// Whether a cell meets the condition. An empty cell equals an empty value, and is neither above nor below any
    /// value. Fails if the cell is a number and the value a text, or if the sign asks for an order of texts.
    fn is_met(&self, cell: &Cell) -> Result<bool> {
        let Self { column, comparison_sign: relation, value } = self;
        let (_, holds) =
            COMPARISON_SIGNS.into_iter().find(|(known, _)| known == relation).expect("one of the relations");
        let number = |known: f64| {
            // `nan` is refused, since no number is above, below or equal to it.
            let asked: f64 =
                value.parse().ok().filter(|asked: &f64| !asked.is_nan()).ok_or_else(|| {
                    anyhow!("`{column}` is a column of numbers, and `{value}` is none").with_value(value)
                })?;
            Ok(known.partial_cmp(&asked).is_some_and(holds))
        };
        let text = |known: &str| match *relation {
            "=" => Ok(known == value),
            "!=" => Ok(known != value),
            _ => Err(anyhow!("`{column}` is a column of texts, which are only = or !=").with_value(column)),
        };
        match cell {
            Cell::Empty => Ok(match *relation {
                "=" => value.is_empty(),
                "!=" => !value.is_empty(),
                _ => false,
            }),
            // An empty value selects the numbers that are there: `q!=`.
            Cell::Integer(_) | Cell::Number(_) if value.is_empty() => Ok(*relation == "!="),
            Cell::Integer(known) => number(*known as f64),
            Cell::Number(known) => number(*known),
            Cell::Flag(known) => text(if *known { "true" } else { "false" }),
            Cell::Text(known) => text(known),
        }
    }
}

impl Table {
    /// Keeps the rows that meet all conditions. Fails if the table lacks a condition's column, or if a condition
    /// does not fit the column's cells.
    pub fn rows_where(mut self, conditions: &[Condition]) -> Result<Self> {
        for condition in conditions {
            let place = self.column_index(&condition.column)?;
            let met = self.rows.iter().map(|row| condition.is_met(&row[place])).collect::<Result<Vec<bool>>>()?;
            let mut met = met.into_iter();
            self.rows.retain(|_| met.next().unwrap_or_default());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let text = |text: &str| Cell::Text(text.to_owned());
        let rows = [
            [text("det"), Cell::Number(0.5), Cell::Flag(true)],
            [text("a=b"), Cell::Number(-1.0), Cell::Flag(false)],
            [text("det"), Cell::Empty, Cell::Empty],
        ];
        let columns = ["relation", "score", "firm"].map(str::to_owned).to_vec();
        Table { name: "t", columns, rows: rows.map(Vec::from).to_vec() }
    }

    #[test]
    fn conditions_by_hand() {
        let kept = |conditions: &[&str]| -> Vec<usize> {
            let conditions: Vec<Condition> = conditions.iter().map(|text| text.parse().unwrap()).collect();
            let (all, kept) = (table().rows, table().rows_where(&conditions).unwrap().rows);
            kept.iter().map(|row| all.iter().position(|known| known == row).unwrap()).collect()
        };
        assert_eq!(kept(&["relation=det"]), [0, 2]);
        assert_eq!(kept(&["relation=a=b"]), [1]);
        assert_eq!(kept(&["relation=det", "score>=0.5"]), [0]);
        assert_eq!((kept(&["score<0"]), kept(&["score > 0.5"])), (vec![1], vec![]));
        assert_eq!((kept(&["score="]), kept(&["score!="])), (vec![2], vec![0, 1]));
        assert_eq!((kept(&["firm=true"]), kept(&["firm!=true"])), (vec![0], vec![1, 2]));
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_names_it() {
        let failed = |text: &str| -> String {
            let condition = text.parse::<Condition>();
            condition.and_then(|condition| table().rows_where(&[condition])).unwrap_err().to_string()
        };
        let errors = ["det", "kind=det", "score>much", "score>=nan", "relation>a"].map(failed);
        insta::assert_snapshot!(errors.join("\n"), @"
        `det` is no condition: write COLUMN=VALUE, or !=, >=, <=, > or < for =
        the table `t` has no column `kind`: it has relation, score, firm
        `score` is a column of numbers, and `much` is none
        `score` is a column of numbers, and `nan` is none
        `relation` is a column of texts, which are only = or !=
        ");
    }
}
