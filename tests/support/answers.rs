//! Printed answers of the program, held whole by reviewed snapshots.
//!
//! A rewording is one review: `INSTA_UPDATE=always cargo test --release --test suite`, then the difference of
//! `tests/suite/snapshots`.

use std::fmt::Write;
use std::path::Path;

use insta::{Settings, assert_snapshot};

use super::path;

/// The answers of one test, each under a title; one snapshot holds them all.
pub struct Answers {
    /// Names that differ between runs, with what is written for them.
    hidden: Vec<(String, String)>,
    text: String,
}

impl Answers {
    /// No answer yet; the path of the package is written `ROOT`, that of temporary files `TMP`.
    pub fn new() -> Self {
        let temporary = std::env::temp_dir();
        let hidden = [(env!("CARGO_MANIFEST_DIR"), "ROOT"), (path(&temporary), "TMP")];
        Self { hidden: hidden.map(|(text, shown)| (text.to_owned(), shown.to_owned())).to_vec(), text: String::new() }
    }

    /// As [`Answers::new`]; the path of this folder is written `DIR`.
    pub fn within(folder: &Path) -> Self {
        Self::new().hiding(path(folder), "DIR")
    }

    /// With another text written for this one.
    pub fn hiding(mut self, text: &str, shown: &str) -> Self {
        // The first are replaced first: a folder may lie in another one.
        self.hidden.insert(0, (text.to_owned(), shown.to_owned()));
        self
    }

    /// Adds a text.
    pub fn said(&mut self, title: &str, text: &str) {
        let hide = |text: String, (from, to): &(String, String)| text.replace(from.as_str(), to);
        let [title, text] = [title, text].map(|text| self.hidden.iter().fold(text.to_owned(), hide));
        let text = without_decimals(&without_random_names(&text));
        let shown = if text.trim().is_empty() { "(nothing)" } else { text.trim_end() };
        writeln!(self.text, "== {}\n{shown}\n", without_random_names(title.trim_end())).expect("writing to a string");
    }

    /// Adds the status and the message of a command that failed.
    pub fn refused(&mut self, title: &str, (status, message): &(i32, String)) {
        self.said(title, &format!("(status {status}) {message}"));
    }

    /// Holds all answers by the snapshot of this name.
    pub fn held(self, name: &str) {
        held(name, &self.text);
    }
}

/// Holds a text by the snapshot of this name; its module and expression would say nothing more.
pub fn held(name: &str, text: &str) {
    let mut settings = Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("../suite/snapshots");
    settings.bind(|| assert_snapshot!(name, text));
}

/// The text with `RANDOM` for the names of temporary folders, and `N` for columns of long lines, which are as far as numbers before them are
/// long.
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

/// The text with `#` in the place of each decimal number, each exponent and each percentage: their last digits differ between processors, and
/// goldens hold the values.
pub fn without_decimals(text: &str) -> String {
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let (mut written, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_of_number) {
        let (before, number) = rest.split_at(start);
        let length = number.find(|c| !is_of_number(c)).unwrap_or(number.len());
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
    // Columns are as wide as their numbers: one space parts what a table parts by several.
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
fn decimals_alone_are_left_out() {
    let text = "67 % [56, 75] of 12 heads: 0.50 [.41, 0.57], p 2.1e-10, 1..4, L0H1 is 3.";
    assert_eq!(without_decimals(text), "# % [#, #] of 12 heads: # [#, #], p #, 1..4, L0H1 is 3.");
}
