//! Printed answers of the program, compared whole with reviewed snapshots.
//!
//! To review a rewording, run `INSTA_UPDATE=always cargo test --release --test suite` and read the difference in
//! `tests/suite/snapshots`.

use std::fmt::Write;
use std::path::Path;

use insta::{Settings, assert_snapshot};

use super::path;

/// The answers of one test, each under a title. One snapshot holds them all.
pub struct Answers {
    /// Texts that differ between runs, each with its replacement.
    hidden: Vec<(String, String)>,
    text: String,
}

impl Answers {
    /// No answer yet. `ROOT` replaces the path of the package, and `TMP` the path of temporary files.
    pub fn new() -> Self {
        let temporary = std::env::temp_dir();
        let hidden = [(env!("CARGO_MANIFEST_DIR"), "ROOT"), (path(&temporary), "TMP")];
        Self { hidden: hidden.map(|(text, shown)| (text.to_owned(), shown.to_owned())).to_vec(), text: String::new() }
    }

    /// As [`Answers::new`]. In addition, `DIR` replaces the path of `folder`.
    pub fn within(folder: &Path) -> Self {
        Self::new().hiding(path(folder), "DIR")
    }

    /// Also replaces `text` by `shown`.
    pub fn hiding(mut self, text: &str, shown: &str) -> Self {
        // The latest replacement is applied first, because one folder may lie in another.
        self.hidden.insert(0, (text.to_owned(), shown.to_owned()));
        self
    }

    /// Adds `text` under `title`.
    pub fn said(&mut self, title: &str, text: &str) {
        let hide = |text: String, (from, to): &(String, String)| text.replace(from.as_str(), to);
        let [title, text] = [title, text].map(|text| self.hidden.iter().fold(text.to_owned(), hide));
        let text = without_decimals(&without_random_names(&text));
        let shown = if text.trim().is_empty() { "(nothing)" } else { text.trim_end() };
        writeln!(self.text, "== {}\n{shown}\n", without_random_names(title.trim_end())).expect("writing to a string");
    }

    /// Adds the status and the message of a failed command.
    pub fn refused(&mut self, title: &str, (status, message): &(i32, String)) {
        self.said(title, &format!("(status {status}) {message}"));
    }

    /// Compares all answers with the snapshot `name`.
    pub fn held(self, name: &str) {
        held(name, &self.text);
    }
}

/// Compares `text` with the snapshot `name`. The snapshot leaves out module and expression, which add nothing.
pub fn held(name: &str, text: &str) {
    let mut settings = Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("../suite/snapshots");
    settings.bind(|| assert_snapshot!(name, text));
}

/// The text with `RANDOM` for the random names of temporary folders and `N` for the columns of long lines. A column
/// depends on the length of the numbers before it.
fn without_random_names(text: &str) -> String {
    const NAME: &str = ".tmp";
    const LETTERS: usize = 6;
    let mut parts = text.split(NAME);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_random = part.len() >= LETTERS && part.bytes().take(LETTERS).all(|byte| byte.is_ascii_alphanumeric());
        written.push_str(if is_random { "RANDOM" } else { NAME });
        written.push_str(if is_random { &part[LETTERS..] } else { part });
    }
    let mut columns = written.split(" at column ");
    let first = columns.next().unwrap_or_default().to_owned();
    columns.fold(first, |all, after| all + " at column N" + after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// The text with `#` for each decimal number, exponent and percentage. Their last digits differ between processors;
/// goldens hold the values.
pub fn without_decimals(text: &str) -> String {
    let is_number_char = |c: char| c.is_ascii_digit() || c == '.';
    let (mut written, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_number_char) {
        let (before, number) = rest.split_at(start);
        let length = number.find(|c| !is_number_char(c)).unwrap_or(number.len());
        let (number, after) = number.split_at(length);
        // A full stop after a number, an ellipsis and a range (`1..4`) are no decimals.
        let is_decimal = number
            .trim_end_matches('.')
            .split_once('.')
            .is_some_and(|(_, end)| !end.is_empty() && !end.starts_with('.'));
        let is_end = before.ends_with('[') && after.starts_with(", ") || before == ", " && after.starts_with(']');
        // `layer.0.weight` and `files.0` are names.
        let is_name = number.starts_with('.') && before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_measured = !is_name
            && (is_decimal || is_end || after.starts_with(" %") || after.starts_with("e-") || after.starts_with(" ±"));
        written.push_str(before);
        written.push_str(if is_measured { "#" } else { number });
        written.push_str(if is_measured && number.ends_with('.') { "." } else { "" });
        rest = after
            .strip_prefix("e-")
            .filter(|_| is_measured)
            .map_or(after, |exponent| exponent.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    // Column widths follow their numbers, so one space replaces the padding of a table.
    let lines = (written + rest)
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let indent = line.len() - line.trim_start().len();
            format!("{:indent$}{}", "", words.join(" ")).trim_end().to_owned()
        })
        .collect::<Vec<_>>();
    lines.join("\n")
}

#[test]
fn only_decimals_are_left_out() {
    let text = "67 % [56, 75] of 12 heads: 0.50 [.41, 0.57], p 2.1e-10, 1..4, L0H1 is 3.";
    assert_eq!(without_decimals(text), "# % [#, #] of 12 heads: # [#, #], p #, 1..4, L0H1 is 3.");
}
