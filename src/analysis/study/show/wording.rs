//! Numbers and tables as the summary writes them.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::sequences::reading::Context;
use crate::stats::interval::Interval;
use crate::study::labels::Label;
use crate::system::counts::format_count;

/// The name that an enum variant without fields has in a report. Panics if the value is not serialized as a string.
pub fn serialized_name(variant: &impl Serialize) -> String {
    let name = serde_json::to_value(variant).ok().and_then(|name| name.as_str().map(str::to_owned));
    name.expect("a variant without fields is a string in a report")
}

/// Writes a share in per cent with one decimal; `-` for `None`.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0))
}

/// Noun for a sequence: a sentence, or a window where a decoder read whole documents.
pub fn sequence_noun(read: Context) -> &'static str {
    if read == Context::Document { "window" } else { "sentence" }
}

/// Writes a number of sentences, or of windows where a decoder read whole documents.
pub fn counted_sequences(count: u64, read: Context) -> String {
    format_count(count, sequence_noun(read))
}

/// The reason why a study of a sample found nothing: no sentence of the sample has `what`.
pub fn empty_sample_reason(what: &str, read: Context) -> String {
    format!("none of the {}s that were drawn has {what} (`--sample` draws more)", sequence_noun(read))
}

/// Writes a share in whole per cent, for use within a sentence.
pub fn whole_percent(share: f64) -> String {
    format!("{} %", decimal(100.0 * share, 0))
}

/// Writes a number with `digits` decimals; a number that rounds to 0 has no minus sign.
pub fn decimal(value: f64, digits: usize) -> String {
    let shown = format!("{value:.digits$}");
    match shown.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| "0.".contains(c)) => zero.to_owned(),
        _ => shown,
    }
}

/// Writes a number with its sign and `digits` decimals; a number that rounds to 0 has a plus sign.
pub fn signed_decimal(value: f64, digits: usize) -> String {
    let shown = decimal(value, digits);
    if shown.starts_with('-') { shown } else { format!("+{shown}") }
}

pub fn capitalize(sentence: &str) -> String {
    let (first, rest) = sentence.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// Writes a number with `digits` decimals, and its interval in brackets: `0.87 [0.84, 0.89]`.
pub fn with_interval(value: f64, interval: Option<Interval>, digits: usize) -> String {
    let shown = |value: f64| decimal(value, digits);
    let ends = |interval: Interval| format!(" [{}, {}]", shown(interval.low()), shown(interval.high()));
    format!("{}{}", shown(value), interval.map_or_else(String::new, ends))
}

/// Writes half of an interval's width with `digits` decimals, after a ±; empty without an interval.
pub fn plus_minus(interval: Option<Interval>, digits: usize) -> String {
    interval.map_or_else(String::new, |interval| format!(" ±{:.digits$}", interval.half_width()))
}

/// As [`plus_minus`], in per cent with one decimal.
pub fn plus_minus_percent(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |interval| format!(" ±{:.1}", interval.half_width() * 100.0))
}

/// Text on how many points a syntactic label is below the word-class baseline. `None` unless the whole interval is
/// below 0.
pub fn word_class_deficit_text(label: &Label) -> Option<String> {
    let tags = label.word_class_deficit()?;
    Some(format!("{:.1}{} points below word classes", -100.0 * tags.difference, plus_minus_percent(tags.ci95)))
}

/// Text for the end of a line on how often a special token has more weight than the chosen word. Empty if the share
/// is unknown.
pub fn special_token_note(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("; a special token has more weight for {} %", percent(Some(share))))
}

/// Writes a p-value or q-value, to one digit if it is small.
///
/// A value below one in a million is written as `<1e-6`. How far below depends on the tail of Student's
/// distribution more than on the data.
pub fn significance_text(q: f64) -> String {
    const MIN_WRITTEN_VALUE: f64 = 1e-6;
    if q < MIN_WRITTEN_VALUE {
        format!("<{MIN_WRITTEN_VALUE:e}")
    } else if q < 0.001 {
        format!("{q:.0e}")
    } else {
        // A value above the level of a test is not rounded to the level.
        let digits =
            (3..=6).find(|&digits| q <= TEST_LEVEL || format!("{q:.digits$}") != format!("{TEST_LEVEL:.digits$}"));
        format!("{q:.*}", digits.unwrap_or(6))
    }
}

/// Level of a test; a value above it is not rounded to it.
const TEST_LEVEL: f64 = 0.05;

/// A table without ruled lines, with this header and these rows. The columns in the range `right` are aligned to
/// the right.
pub fn aligned_table<R: Into<comfy_table::Row>>(
    header: impl Into<comfy_table::Row>,
    rows: impl IntoIterator<Item = R>,
    right: impl std::ops::RangeBounds<usize>,
) -> Table {
    let mut table = plain_table();
    table.set_header(header).add_rows(rows);
    let right = table.column_iter_mut().enumerate().filter(|(place, _)| right.contains(place));
    right.for_each(|(_, column)| column.set_cell_alignment(comfy_table::CellAlignment::Right));
    table
}

pub fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// A column of a table: `(heading, whether the column holds text, function that writes a row's cell)`.
pub type TableColumn<T> = (&'static str, bool, fn(&T) -> String);

/// A table with one row for each item; texts are aligned to the left, numbers to the right.
pub fn column_table<T>(columns: &[TableColumn<T>], rows: &[&T]) -> Table {
    let mut table = plain_table();
    table.set_header(columns.iter().map(|(name, ..)| *name));
    for row in rows {
        table.add_row(columns.iter().map(|(.., cell)| cell(row)));
    }
    for (column, (_, is_text, _)) in table.column_iter_mut().zip(columns) {
        column.set_cell_alignment(if *is_text { CellAlignment::Left } else { CellAlignment::Right });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign() {
        let numbers = [(-0.0004, 3), (-0.0, 1), (-0.4, 0), (-0.0006, 3), (0.0004, 3), (-10.0, 0)];
        assert_eq!(
            numbers.map(|(value, digits)| decimal(value, digits)),
            ["0.000", "0.0", "0", "-0.001", "0.000", "-10"]
        );
        assert_eq!([-0.0004, -0.001, 0.25].map(|value| signed_decimal(value, 3)), ["+0.000", "-0.001", "+0.250"]);
    }

    #[test]
    fn significance_of_any_size() {
        let shown = [0.0, 4e-320, 9e-7, 1e-6, 0.0009, 0.001, 0.0498, 0.05, 0.0502, 0.0764, 1.0].map(significance_text);
        let expected =
            ["<1e-6", "<1e-6", "<1e-6", "1e-6", "9e-4", "0.001", "0.050", "0.050", "0.0502", "0.076", "1.000"];
        assert_eq!(shown, expected);
    }
}
