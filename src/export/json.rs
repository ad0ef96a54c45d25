//! The whole report as JSON.

use std::fmt::Write;

use anyhow::Result;

use super::output::is_obeyed;
use crate::report::Report;

/// The report, indented, with a newline at the end. Floats are the shortest that read back to the same value.
///
/// # Errors
///
/// None that a report can cause.
pub fn render(report: &Report) -> Result<Vec<u8>> {
    Ok(escaped(&serde_json::to_string_pretty(report)?).into_bytes())
}

/// JSON whose strings hold nothing that a terminal obeys, with a line's end at its end. JSON itself demands escapes only
/// up to U+001F.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if is_obeyed(c) && c != '\n' {
            // All of them are below U+10000. Outside of strings there is none but line ends.
            write!(text, "\\u{:04x}", u32::from(c)).expect("writing to a string does not fail");
        } else {
            text.push(c);
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_reads_as_before() {
        let value = serde_json::json!({ "\u{9b}31m": ["\u{1b}[31m\u{7f}\u{202e}\n\"é😀"] });
        let text = escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| is_obeyed(c) && c != '\n'), "{text:?}");
        assert!(text.contains("é😀"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
