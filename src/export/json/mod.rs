//! The whole report as JSON, there and back.

mod bounds;
mod one_line;

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::passes::observation::partial;
use crate::report::{Report, SCHEMA_VERSION};
use crate::system::errors::{Class, Facts};
use crate::system::files::{gzip, input};
use crate::system::json::problem_in_line;
use crate::system::printable::is_unprintable;

/// How JSON is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonForm {
    /// On one line, not indented.
    pub compact: bool,
    /// Packed by gzip.
    pub packed: bool,
}

/// A report, or a comparison of two, with a newline at the end. Floats are the shortest that read back to the same value.
/// Fails for neither.
pub fn render(report: &impl Serialize, form: JsonForm) -> Result<Vec<u8>> {
    let text = if form.compact { escaped(&serde_json::to_string(report)?) + "\n" } else { indented(report)? };
    Ok(if form.packed { gzip::packed(text.as_bytes())? } else { text.into_bytes() })
}

/// Whatever is JSON, indented, as [`render`] writes it.
/// Fails if it cannot be expressed in JSON.
pub fn indented(value: &impl Serialize) -> Result<String> {
    Ok(escaped(&numbers_on_one_line(&serde_json::to_string_pretty(value)?)))
}

/// The longest report that is read, in bytes: 1 GiB. One of 4096 heads, the most that are analysed, has 330 MB over the
/// gold treebank of the box.
const LONGEST: u64 = 1 << 30;

/// The text of a saved report, packed by gzip or not; `-` is standard input.
/// Fails if it cannot be read.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = if path == Path::new("-") {
        input::stdin().and_then(|stdin| input::read_all(stdin, LONGEST))
    } else {
        input::read(path, LONGEST)
    };
    let shown = path.display();
    let bytes = bytes.cannot("read the report", &shown).class(Class::Input)?;
    if partial::is_one(&bytes) {
        let sums = anyhow!("`{shown}` is a partial, the sums of a run or of a shard, and no report").about(&shown);
        return Err(sums.hint(format!("`headscope merge {shown} -o report.json` makes the report of it")))
            .class(Class::Input);
    }
    gzip::unpacked(bytes, LONGEST).and_then(input::text).cannot("read the report", shown).class(Class::Input)
}

/// Parses what [`render`] wrote; `name` is what errors call it.
/// Fails if it is no report, one of another schema version, or one with parts missing.
pub fn parse(name: &str, text: &str) -> Result<Report> {
    let mut report = parse_as_far_as_it_goes(name, text)?;
    match report.complete() {
        Some(defect) => Err(not_whole(name, &defect)).class(Class::Input),
        None => Ok(report),
    }
}

/// The same for a terminal: each text of it is one line, of which a terminal obeys nothing.
/// Fails as [`parse`].
pub fn parse_to_show(name: &str, text: &str) -> Result<Report> {
    parse(name, &on_one_line(text))
}

/// The text of a report with each text in it on one line, of which a terminal obeys nothing. What is no JSON stays as it is,
/// to be refused where it is parsed.
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    one_line::on_one_line(text).unwrap_or(Cow::Borrowed(text))
}

fn not_whole(name: &str, defect: &str) -> anyhow::Error {
    anyhow!("{name}: the report is not whole: {defect}").about(name)
}

/// The same of a report that another version may have written, with fewer metrics or more.
/// Fails if it is no report, one of another schema version, or one whose parts do not fit together.
pub fn parse_as_far_as_it_goes(name: &str, text: &str) -> Result<Report> {
    parsed(name, text).class(Class::Input)
}

fn parsed(name: &str, text: &str) -> Result<Report> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
        // Keys that comparisons alone have.
        labels_by_outcome: Option<IgnoredAny>,
        left_aside: Option<IgnoredAny>,
    }
    let broken = |error: serde_json::Error| anyhow!(problem_in_line(&error)).at(name, error.line() as u64);
    let Version { schema_version, labels_by_outcome, left_aside } =
        serde_json::from_str(text).map_err(broken).context("this is no report of headscope in JSON")?;
    let compared_by = labels_by_outcome.map(|_| "compare").or(left_aside.map(|_| "diff"));
    if let Some(command) = compared_by {
        let comparison =
            anyhow!("{name}: this is a comparison of two reports (of `headscope {command}`), and no report");
        return Err(comparison.about(name).hint("give a report that it compares"));
    }
    if schema_version != SCHEMA_VERSION {
        bail!(
            anyhow!("{name}: its schema_version is {schema_version} and this program reads {SCHEMA_VERSION}")
                .about(name)
                .of_value(schema_version)
                .hint("take the version of headscope that wrote it, or analyse again")
        );
    }
    bounds::ensure_bounded(text).map_err(|error| broken(error).hint("was it changed by hand?"))?;
    let report = Report::parse(text).map_err(|error| {
        let other = |problem| format!("{problem}; this version of headscope writes other reports");
        broken(error).reworded(other).hint("analyse again")
    })?;
    match report.defect() {
        Some(defect) => Err(not_whole(name, &defect)),
        None => Ok(report),
    }
}

/// JSON whose strings hold nothing that a terminal obeys. JSON itself demands escapes only up to U+001F.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) && c != '\n' {
            // All of them are below U+10000. Outside of strings there is none but line ends.
            write!(text, "\\u{:04x}", u32::from(c)).expect("writing to a string does not fail");
        } else {
            text.push(c);
        }
    }
    text
}

/// Joins the lines of each array of numbers, and ends the last line: intervals read as `[0.25, 0.5]`.
///
/// A line of indented JSON ends with `[` only where an array begins: no string of it holds a line's end.
fn numbers_on_one_line(json: &str) -> String {
    let is_number = |line: &&str| line.trim_start().starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let mut joined = String::with_capacity(json.len());
    let mut lines = json.lines().peekable();
    while let Some(line) = lines.next() {
        joined.push_str(line);
        if line.ends_with('[') && lines.peek().is_some_and(is_number) {
            while let Some(item) = lines.next_if(is_number) {
                joined.push_str(item.trim_start());
                joined.push_str(if item.ends_with(',') { " " } else { "" });
            }
            joined.push_str(lines.next().map_or("", str::trim_start));
        }
        joined.push('\n');
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_reads_as_before() {
        let value = serde_json::json!({ "\u{9b}31m": ["\u{1b}[31m\u{7f}\u{202e}\n\"é😀"] });
        let text = escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| is_unprintable(c) && c != '\n'), "{text:?}");
        assert!(text.contains("é😀"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn arrays_of_numbers_alone_are_joined() {
        let value = serde_json::json!({ "a": [-0.5, 1e-300], "b [": ["-1", "["], "c": [{ "d": [2] }, []], "e": 1 });
        let text = numbers_on_one_line(&serde_json::to_string_pretty(&value).unwrap());
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        let expected = [
            "{",
            "\"a\": [-0.5, 1e-300],",
            "\"b [\": [",
            "\"-1\",",
            "\"[\"",
            "],",
            "\"c\": [",
            "{",
            "\"d\": [2]",
            "},",
            "[]",
            "],",
            "\"e\": 1",
            "}",
        ];
        assert_eq!(lines, expected);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
