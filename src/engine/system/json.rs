//! Errors in JSON text, in the words of files and not of Rust.

/// serde's words for Rust types in an error, and the words that everybody knows.
const TYPES: [(&str, &str); 8] = [
    ("usize", "a whole number of 0 or more"),
    ("u64", "a whole number of 0 or more"),
    ("u32", "a whole number of 0 or more"),
    ("u16", "a whole number of 0 or more"),
    ("u8", "a whole number of 0 or more"),
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("f32", "a number"),
];

/// The error of serde, with the place at its end.
pub fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let Some((before, after)) = text.rsplit_once("expected ") else { return text };
    let word = after.split([' ', ',']).next().unwrap_or(after);
    let expected = TYPES.iter().find(|(name, _)| *name == word).map(|(_, words)| (*words, &after[word.len()..]));
    // A type of this program: `struct Report at line 1 column 1`.
    let object =
        || after.strip_prefix("struct ").map(|name| ("an object", name.trim_start_matches(char::is_alphanumeric)));
    expected.or_else(object).map_or_else(|| text.clone(), |(words, place)| format!("{before}expected {words}{place}"))
}

/// The same where the number of the line stands before it: only the column is at its end.
pub fn problem_in_line(error: &serde_json::Error) -> String {
    problem(error).replace(&format!(" at line {} column ", error.line()), " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Version {
        #[serde(rename = "schema_version")]
        _number: u32,
    }

    #[test]
    fn types_have_words_and_the_line_stands_once() {
        let of = |text: &str| serde_json::from_str::<std::collections::BTreeMap<String, u64>>(text).unwrap_err();
        let found = problem(&of("{\n\"a\": -1}"));
        assert_eq!(found, "invalid value: integer `-1`, expected a whole number of 0 or more at line 2 column 7");
        let version = serde_json::from_str::<Version>("1\tThe").unwrap_err();
        assert_eq!(problem_in_line(&version), "invalid type: integer `1`, expected an object at column 1");
        assert_eq!(problem_in_line(&of("nothing")), "expected ident at column 2");
        assert_eq!(
            problem_in_line(&of("{\"a\": \"expected u64\"}")).split(" at ").next().unwrap(),
            "invalid type: string \"expected u64\", expected a whole number of 0 or more"
        );
    }
}
