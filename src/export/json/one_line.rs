//! A report whose every text is one line that a terminal can show: for all that is made of a saved report but JSON.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::system::printable;

/// The report with its texts, and its keys, on one line each; what a terminal would obey is shown.
/// Fails if it is no JSON.
pub(super) fn on_one_line(json: &str) -> serde_json::Result<Cow<'_, str>> {
    if is_plain(json) {
        return Ok(Cow::Borrowed(json));
    }
    Ok(Cow::Owned(shown(serde_json::from_str(json)?).to_string()))
}

/// The bytes that are looked at together, without a branch for each: enough for vectors, and few to look at in vain.
const BLOCK: usize = 4096;

/// Whether no text of it can hold anything but what is seen: JSON has line ends between its tokens alone, and within texts
/// escapes.
fn is_plain(json: &str) -> bool {
    let mut escapes = json.match_indices('\\').map(|(at, _)| json.as_bytes().get(at + 1));
    // Bytes first: of ten megabytes nearly all are ASCII, and decoding them takes as long as reading the report does.
    let is_seen = |byte: u8| !byte.is_ascii_control() || matches!(byte, b'\n' | b'\r' | b'\t');
    let beyond_ascii = || json.chars().filter(|c| !c.is_ascii());
    escapes.all(|escaped| matches!(escaped, Some(b'"' | b'\\' | b'/')))
        && json.as_bytes().chunks(BLOCK).all(|block| block.iter().fold(true, |seen, byte| seen & is_seen(*byte)))
        && (json.is_ascii() || !beyond_ascii().any(printable::is_unprintable))
}

fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable::one_line(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(shown).collect()),
        Value::Object(fields) => {
            let field = |(key, value): (String, Value)| (printable::one_line(&key), shown(value));
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
        assert!(matches!(on_one_line(plain).unwrap(), Cow::Borrowed(same) if same == plain));
        for (json, expected) in [
            (r#"{"a": "b\nerror: c"}"#, r#"{"a":"b\\nerror: c"}"#),
            (r#"{"\u001b[31m": [0.1, "\u202e"]}"#, r#"{"\\u{1b}[31m":[0.1,"\\u{202e}"]}"#),
            ("[\"\u{9b}31m\"]", r#"["\\u{9b}31m"]"#),
        ] {
            assert_eq!(on_one_line(json).unwrap(), expected);
        }
    }
}
