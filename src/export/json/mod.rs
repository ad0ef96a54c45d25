//! Reads and writes whole reports as JSON.

mod bounds;
mod layout;

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::passes::observation::Stage;
use crate::passes::observation::partial::{self, Header};
use crate::report::{Report, SCHEMA_VERSION};
use crate::sequences::shard::Shard;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::{gzip, input, output};
use crate::system::json::{describe_error_in_line, read_key};
use crate::system::parallel::run_both;
use crate::system::printable;
pub use layout::Digits;
use layout::{Layout, to_json_text, to_json_text_with};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonForm {
    /// Whether the JSON is on one line, not indented.
    pub is_compact: bool,
    /// Whether gzip packs the JSON.
    pub is_gzipped: bool,
}

/// Writes a report, or the outcome of a command, as JSON with a newline at the end. Floats are the shortest that read back
/// unchanged.
pub fn to_json(value: &impl Serialize, form: JsonForm) -> Result<Vec<u8>> {
    let text = to_json_text(value, if form.is_compact { Layout::Compact } else { Layout::Indented })?;
    Ok(if form.is_gzipped { gzip::compress(text.as_bytes())? } else { text.into_bytes() })
}

/// Writes any value as indented JSON, in the layout of [`to_json`].
pub fn to_indented_json(value: &impl Serialize) -> Result<String> {
    Ok(to_json_text(value, Layout::Indented)?)
}

/// Size limit of a report in bytes: 1 GiB. A report of 8192 heads, the maximum, has 660 MB over the built-in treebank.
const MAX_REPORT_BYTES: u64 = 1 << 30;

/// Reads the text of a saved report, packed by gzip or not; `-` is standard input. Fails if the file is a partial.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = if path == Path::new("-") {
        input::stdin().and_then(|stdin| input::read_all(stdin, MAX_REPORT_BYTES))
    } else {
        input::read(path, MAX_REPORT_BYTES)
    };
    let shown = path.display();
    let bytes = bytes.cannot("read the report", &shown).class(ErrorClass::Input)?;
    if partial::is_partial(&bytes) {
        return Err(error_for_partial(&bytes, &shown.to_string())).class(ErrorClass::Input);
    }
    gzip::decompress(bytes, MAX_REPORT_BYTES)
        .and_then(input::decode_utf8)
        .cannot("read the report", shown)
        .class(ErrorClass::Input)
}

/// Reads a report that this program wrote earlier and may overwrite.
/// Fails if the file is missing, cannot be read or is no report.
pub fn read_previous_report(path: &Path) -> Result<Report> {
    let shown = path.display().to_string();
    let bytes =
        output::read_previous_bytes(path, MAX_REPORT_BYTES).and_then(|bytes| bytes.ok_or(ErrorKind::NotFound.into()));
    let text = bytes.and_then(|bytes| gzip::decompress(bytes, MAX_REPORT_BYTES)).and_then(input::decode_utf8);
    parse(&shown, &text.cannot("read the report", &shown).class(ErrorClass::Input)?)
}

/// Error for a file with the sums of a run (a partial) where a report is expected. It says how to make the report.
fn error_for_partial(bytes: &[u8], shown: &str) -> Error {
    let Header { shard, stage, .. } = match partial::parse_header(bytes, shown) {
        Ok(header) => header,
        Err(unusable) => return unusable,
    };
    let is_all = shard == Shard::WHOLE;
    let of_what = match stage {
        Stage::Whole | Stage::Followed { .. } => "a run",
        Stage::First => "the first of two stages",
        Stage::After { .. } => "the second of two stages",
    };
    let what = if is_all { format!("the sums of {of_what}") } else { format!("shard {shard} of {of_what}") };
    // Other partials may be missing; `merge` then says which.
    let way_out = match (stage.is_complete(), is_all) {
        (true, true) => format!("`headscope merge {shown} -o report.json` makes the report of it"),
        (true, false) => format!("`headscope merge` makes the report of the partials of all {}", shard.shard_count()),
        (false, _) => "`headscope merge` makes the report of the partials of both stages".to_owned(),
    };
    anyhow!("`{shown}` is a partial, {what}, and no report").with_file(shown).hint(way_out)
}

/// Parses a report in JSON; `name` is its name in errors.
/// Fails if the text is no report, has another schema version, or lacks parts.
pub fn parse(name: &str, text: &str) -> Result<Report> {
    let mut report = parse_lenient(name, text)?;
    match report.order_metrics().err() {
        Some(defect) => Err(incomplete_error(name, &defect)).class(ErrorClass::Input),
        None => Ok(report),
    }
}

/// As [`parse`], for display: each text is on one line, without characters that a terminal obeys.
pub fn parse_for_display(name: &str, text: &str) -> Result<Report> {
    parse(name, &escape_texts(text))
}

/// As [`parse_for_display`], for a report in memory; `None` if all its texts can be displayed unchanged.
pub fn escape_for_display(report: &Report) -> Result<Option<Report>> {
    match escape_texts(&to_json_text(report, Layout::Compact)?) {
        Cow::Borrowed(_) => Ok(None),
        Cow::Owned(text) => parse("the report", &text).map(Some),
    }
}

/// Returns the report as it would be read back after saving with `digits`.
/// Fails if a number is out of its range, as happens after damage to a partial.
pub fn read_back(report: &Report, digits: Digits) -> Result<Report> {
    parse("the report", &to_json_text_with(report, Layout::Compact, digits)?)
}

/// Puts each text and key of JSON on one line, without characters that a terminal obeys.
/// Invalid JSON is returned unchanged; the parser refuses it later.
pub fn escape_texts(text: &str) -> Cow<'_, str> {
    if is_displayable(text) {
        return Cow::Borrowed(text);
    }
    serde_json::from_str(text).map_or(Cow::Borrowed(text), |json| Cow::Owned(escape_value(json).to_string()))
}

fn incomplete_error(name: &str, defect: &str) -> Error {
    anyhow!("{name}: the report is not whole: {defect}").with_file(name)
}

/// As [`parse`], but lenient: another version may have written the report, with fewer or more metrics.
/// Fails if the text is no report, has another schema version, or its parts do not fit together.
pub fn parse_lenient(name: &str, text: &str) -> Result<Report> {
    parse_checked(name, text).map_err(|error| comparison_error(name, text).unwrap_or(error)).class(ErrorClass::Input)
}

/// Error for a comparison where a report is expected; `None` for other texts. Only comparisons have the key `changed`.
fn comparison_error(name: &str, text: &str) -> Option<Error> {
    read_key::<u32>(text, "schema_version").and(read_key::<bool>(text, "changed"))?;
    let command = if read_key::<IgnoredAny>(text, "method").is_some() { "compare --numbers" } else { "compare" };
    let comparison = anyhow!("{name}: this is a comparison of two reports (of `headscope {command}`), and no report");
    Some(comparison.with_file(name).hint("give a report that it compares"))
}

fn parse_checked(name: &str, text: &str) -> Result<Report> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    let broken = |error: serde_json::Error| anyhow!(describe_error_in_line(&error)).at_line(name, error.line() as u64);
    let Version { schema_version } = match read_key(text, "schema_version") {
        Some(schema_version) => Version { schema_version },
        None => serde_json::from_str(text).map_err(broken).context("this is no report of headscope in JSON")?,
    };
    if schema_version != SCHEMA_VERSION {
        bail!(
            anyhow!("{name}: its schema_version is {schema_version} and this program reads {SCHEMA_VERSION}")
                .with_file(name)
                .with_value(schema_version)
                .hint("take the version of headscope that wrote it, or analyse again")
        );
    }
    let (bounded, report) = run_both(|| bounds::ensure_bounded(text), || Report::parse(text));
    bounded.map_err(|error| broken(error).hint("was it changed by hand?"))?;
    let report = report.map_err(|error| {
        let other = |problem| format!("{problem}; this version of headscope writes other reports");
        broken(error).map_message(other).hint("analyse again")
    })?;
    match report.defect() {
        Some(defect) => Err(incomplete_error(name, &defect)),
        None => Ok(report),
    }
}

/// Number of bytes of JSON that are checked together without a branch: enough for SIMD, and few enough to stop early.
const CHECK_BLOCK_BYTES: usize = 4096;

/// Whether a JSON document can be shown unchanged. Unprintable characters prevent it, except line ends and tabs between JSON
/// tokens. Escape sequences other than `\"`, `\\` and `\/` prevent it as well.
fn is_displayable(json: &str) -> bool {
    let mut escapes = json.match_indices('\\').map(|(at, _)| json.as_bytes().get(at + 1));
    // Bytes first: of ten megabytes nearly all are ASCII, and decoding them takes as long as reading the report does.
    let is_seen = |byte: u8| !byte.is_ascii_control() || matches!(byte, b'\n' | b'\r' | b'\t');
    let beyond_ascii = || json.chars().filter(|c| !c.is_ascii());
    escapes.all(|escaped| matches!(escaped, Some(b'"' | b'\\' | b'/')))
        && json
            .as_bytes()
            .chunks(CHECK_BLOCK_BYTES)
            .all(|block| block.iter().fold(true, |seen, byte| seen & is_seen(*byte)))
        && (json.is_ascii() || !beyond_ascii().any(printable::is_unprintable))
}

fn escape_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable::one_line(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(escape_value).collect()),
        Value::Object(fields) => {
            let field = |(key, value): (String, Value)| (printable::one_line(&key), escape_value(value));
            Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_line_and_the_rest_is_as_it_was() {
        let plain = "{\n\t\"a\": [\"b \\\"c\\\" é\", 0.1]\n}";
        assert!(matches!(escape_texts(plain), Cow::Borrowed(same) if same == plain));
        for (json, expected) in [
            (r#"{"a": "b\nerror: c"}"#, r#"{"a":"b\\nerror: c"}"#),
            (r#"{"\u001b[31m": [0.1, "\u202e"]}"#, r#"{"\\u{1b}[31m":[0.1,"\\u{202e}"]}"#),
            ("[\"\u{9b}31m\"]", r#"["\\u{9b}31m"]"#),
        ] {
            assert_eq!(escape_texts(json), expected);
        }
    }
}
