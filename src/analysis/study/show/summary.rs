//! The text of a study for the summary: lines and tables, fitted to the terminal when they are shown.

use std::fmt;

use comfy_table::{Column, ColumnConstraint, ContentArrangement, Table, Width};
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, wrap};

/// Lines and tables, in order. Lines are written through [`fmt::Write`], and wrapped only when the summary is
/// shown.
#[derive(Clone, Debug, Default)]
pub struct Summary(Vec<Passage>);

/// Part of a summary: lines of text, or one table.
#[derive(Clone, Debug)]
enum Passage {
    /// Lines of text, each with its line break.
    Lines(String),
    /// A table, with the indices of its optional columns in the order in which they are dropped.
    Table(Box<Table>, Vec<usize>),
}

/// Maximum width of a line of text in characters, however wide the terminal is. Longer lines are hard to read.
const MAX_LINE_WIDTH: usize = 100;

impl Summary {
    pub fn from_writer(write: impl FnOnce(&mut Self) -> fmt::Result) -> Self {
        let mut summary = Self::default();
        write(&mut summary).expect("writing to a string does not fail");
        summary
    }

    /// Adds a table whose columns are all needed.
    pub fn add_table(&mut self, table: Table) {
        self.table_with_optional_columns(table, &[]);
    }

    /// Adds a table. Its optional columns `may_go` are dropped in this order if the table is too wide.
    pub fn table_with_optional_columns(&mut self, table: Table, may_go: &[usize]) {
        self.0.push(Passage::Table(Box::new(table), may_go.to_vec()));
    }

    pub fn add_blank_line(&mut self) {
        self.append("\n".into());
    }

    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text for a terminal of `width` columns. Without a width, no line is wrapped and no column dropped.
    pub fn fit(&self, width: Option<usize>) -> String {
        self.0.iter().map(|passage| passage.fit(width)).collect()
    }
}

impl From<String> for Summary {
    /// Makes a summary from lines that each end with a line break. An empty text gives an empty summary.
    fn from(lines: String) -> Self {
        Self(if lines.is_empty() { Vec::new() } else { vec![Passage::Lines(lines)] })
    }
}

impl From<&str> for Summary {
    fn from(lines: &str) -> Self {
        lines.to_owned().into()
    }
}

impl fmt::Write for Summary {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some(Passage::Lines(lines)) = self.0.last_mut() {
            lines.push_str(text);
        } else {
            self.0.push(Passage::Lines(text.to_owned()));
        }
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fit(None))
    }
}

impl Passage {
    fn fit(&self, width: Option<usize>) -> String {
        match (self, width) {
            (Self::Lines(lines), None) => lines.clone(),
            (Self::Lines(lines), Some(width)) => {
                lines.lines().map(|line| wrap_line(line, width.min(MAX_LINE_WIDTH)) + "\n").collect()
            }
            (Self::Table(table, may_go), width) => {
                let (table, dropped) = fit_table(Table::clone(table), may_go, width);
                let dropped: Vec<String> =
                    dropped.iter().filter_map(|&column| column_heading(&table, column)).collect();
                let note = if dropped.is_empty() {
                    String::new()
                } else {
                    let note = format!("(no room for: {})", dropped.join(", "));
                    wrap_line(&note, width.unwrap_or(usize::MAX)) + "\n"
                };
                format!("{table}\n{note}")
            }
        }
    }
}

/// Wraps a line to `width`. Further lines are indented as the first or, in a list, as the text of the list item.
fn wrap_line(line: &str, width: usize) -> String {
    let text = line.trim_start();
    let text = text.strip_prefix("- ").unwrap_or(text);
    let indent = " ".repeat(line.len() - text.len());
    let options = Options::new(width).subsequent_indent(&indent).break_words(false);
    wrap(line, options.word_splitter(WordSplitter::NoHyphenation)).join("\n")
}

/// Fits a table to a width, and returns the table and the indices of the dropped columns.
///
/// The optional columns `may_go` are dropped first. If the table is still too wide, cells are wrapped between
/// words. If the longest words do not fit either, further columns are dropped from the right, except the first two.
fn fit_table(mut table: Table, may_go: &[usize], width: Option<usize>) -> (Table, Vec<usize>) {
    let Some(width) = width else { return (table, Vec::new()) };
    let mut dropped = Vec::new();
    let others = (2..table.column_count()).rev().filter(|column| !may_go.contains(column));
    let mut next = may_go.iter().copied().chain(others);
    while table_width(&table) > width {
        let min_widths = min_column_widths(&table);
        let fits = dropped.len() >= may_go.len()
            && min_widths.iter().map(|(_, width)| usize::from(*width)).sum::<usize>() <= width;
        let Some(column) = next.next().filter(|_| !fits) else {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
            for (column, min_width) in min_widths {
                let column = table.column_mut(column).expect("a column of the table");
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(min_width)));
            }
            break;
        };
        if let Some(column) = table.column_mut(column) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
        dropped.push(column);
    }
    (table, dropped)
}

/// Index and minimum width of each visible column. The minimum is the width of the column's longest word plus the
/// padding.
fn min_column_widths(table: &Table) -> Vec<(usize, u16)> {
    let shown = table.column_iter().enumerate().filter(|(_, column)| !column.is_hidden());
    let widest = |place: usize| {
        let cells = table.header().into_iter().chain(table.row_iter()).filter_map(|row| row.cell_iter().nth(place));
        let words = cells.filter_map(|cell| cell.content().split_whitespace().map(display_width).max());
        words.max().unwrap_or(0)
    };
    let least = |place: usize, column: &Column| {
        u16::try_from(widest(place)).unwrap_or(u16::MAX).saturating_add(column.padding_width())
    };
    shown.map(|(place, column)| (place, least(place, column))).collect()
}

/// The width of a table in terminal columns.
pub fn table_width(table: &Table) -> usize {
    table.lines().map(|line| display_width(line.trim_end())).max().unwrap_or(0)
}

/// The heading of a column; `None` if the table has no header.
fn column_heading(table: &Table, column: usize) -> Option<String> {
    Some(table.header()?.cell_iter().nth(column)?.content())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use itertools::Itertools;

    use super::*;
    use crate::study::show::wording::aligned_table;

    fn table() -> Table {
        aligned_table(["head", "score", "held-out"], [["L0H1", "1.25", "1.00"]], 0..0)
    }

    #[test]
    fn lines_are_wrapped_and_keep_their_indent() {
        let mut summary = Summary::default();
        write!(summary, "Four words in").unwrap();
        writeln!(summary, " a line.\n\n  as many as these").unwrap();
        assert_eq!(summary.fit(Some(14)), "Four words in\na line.\n\n  as many as\n  these\n");
        assert_eq!(summary.to_string(), "Four words in a line.\n\n  as many as these\n");
        assert_eq!(wrap_line("  - one item of a list", 12), "  - one item\n    of a\n    list");
        // A word is never broken, a colour takes no room.
        assert_eq!(wrap_line("unbreakable a", 5), "unbreakable\na");
        assert_eq!(wrap_line("\u{1b}[31mred\u{1b}[0m one", 7), "\u{1b}[31mred\u{1b}[0m one");
        // No line is as wide as a wide terminal.
        assert!(wrap_line(&"word ".repeat(60), MAX_LINE_WIDTH).lines().all(|line| line.len() <= MAX_LINE_WIDTH));
    }

    #[test]
    fn columns_go_where_there_is_no_room_and_are_named() {
        let mut summary = Summary::default();
        summary.table_with_optional_columns(table(), &[2, 1]);
        let shown = |width| summary.fit(width).lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(None), [" head  score  held-out", " L0H1  1.25   1.00"]);
        assert_eq!(shown(Some(22)), shown(None));
        assert_eq!(shown(Some(21)), [" head  score", " L0H1  1.25", "(no room for:", "held-out)"]);
        assert_eq!(shown(Some(8))[..2], [" head", " L0H1"]);
    }

    #[test]
    fn what_is_too_wide_without_them_is_wrapped_between_words() {
        let rows = [["L0H1", "nsubj:pass, conj", "+1.2 ±0.4"]];
        let mut summary = Summary::default();
        summary.add_table(aligned_table(["head", "first labels", "over offset"], rows, 0..0));
        let shown = |width| summary.fit(Some(width));
        // 4, 11 and 6 letters in the longest words, and two spaces around each.
        for width in 27..44 {
            let text = shown(width);
            assert!(text.lines().all(|line| display_width(line.trim_end()) <= width), "{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            for word in ["head", "L0H1", "nsubj:pass,", "conj", "over", "offset", "+1.2", "±0.4"] {
                assert!(words.contains(&word), "{word} in {width} columns:\n{text}");
            }
        }
        // With less room a column is dropped, from the right, and named.
        // A bar keeps the space at the start of each line.
        let barred = |width| shown(width).lines().map(|line| format!("|{}", line.trim_end())).join("\n");
        insta::assert_snapshot!(barred(26), @"
        | head  first labels
        | L0H1  nsubj:pass, conj
        |(no room for: over offset)
        ");
        // The first two columns stay, and no word is broken.
        insta::assert_snapshot!(barred(8), @"
        | head  first
        |       labels
        | L0H1  nsubj:pass,
        |       conj
        |(no room
        |for:
        |over
        |offset)
        ");
    }
}
