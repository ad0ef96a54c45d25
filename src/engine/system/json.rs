//! JSON: errors without Rust type names, and reading one value of an object without the rest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::printable::shorten;

/// Reads the value of one key of a JSON object. Reading stops there, since the keys that identify a long report come first.
/// `None` if the object lacks the key, the JSON is malformed up to the end of the key's value, or the value is no `T`.
pub fn read_key<'de, T: Deserialize<'de>>(json: &'de str, key: &str) -> Option<T> {
    let mut found = None;
    // serde_json reports an error if reading stops before the end of the object, so the result is ignored.
    let _ = serde_json::Deserializer::from_str(json).deserialize_map(KeyVisitor { key, found: &mut found });
    found
}

/// Deserialises the value of one key into `found`.
struct KeyVisitor<'a, T> {
    key: &'a str,
    found: &'a mut Option<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for KeyVisitor<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if key == self.key {
                *self.found = Some(fields.next_value()?);
                break;
            }
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A JSON object in which no key is repeated. Without this type, serde would keep the last value of a repeated key.
#[derive(Debug)]
pub struct UniqueKeys<T>(pub BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for UniqueKeys<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueKeysVisitor(PhantomData))
    }
}

struct UniqueKeysVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for UniqueKeysVisitor<T> {
    type Value = UniqueKeys<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = BTreeMap::new();
        while let Some(key) = fields.next_key::<String>()? {
            match found.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert(fields.next_value()?)),
                Entry::Occupied(entry) => {
                    let key = shorten(entry.key());
                    return Err(A::Error::custom(format_args!("the key `{}` is there twice", key.escape_debug())));
                }
            }
        }
        Ok(UniqueKeys(found))
    }
}

/// Rust types in the errors of serde, in groups that share one description in plain words.
const TYPE_DESCRIPTIONS: [(&[&str], &str); 3] = [
    (&["usize", "u64", "u32", "u16", "u8"], "a whole number of 0 or more"),
    (&["i64"], "a whole number"),
    (&["f64", "f32"], "a number"),
];

/// Rewords an error of `serde_json` in plain words, ending with the line and the column.
pub fn describe_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let Some((before, after)) = text.rsplit_once("expected ") else { return text };
    let word = after.split([' ', ',']).next().unwrap_or(after);
    let expected = TYPE_DESCRIPTIONS.iter().find(|(names, _)| names.contains(&word));
    let expected = expected.map(|(_, words)| (*words, &after[word.len()..]));
    // A type of this program: `struct Report at line 1 column 1`.
    let object =
        || after.strip_prefix("struct ").map(|name| ("an object", name.trim_start_matches(char::is_alphanumeric)));
    expected.or_else(object).map_or_else(|| text.clone(), |(words, place)| format!("{before}expected {words}{place}"))
}

/// Rewords an error as [`describe_error`], ending with the column alone, for a message that already names the line.
pub fn describe_error_in_line(error: &serde_json::Error) -> String {
    describe_error(error).replace(&format!(" at line {} column ", error.line()), " at column ")
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
    fn a_key_is_there_once() {
        assert_eq!(serde_json::from_str::<UniqueKeys<u8>>("{\"a\": 1, \"b\": 2}").unwrap().0.len(), 2);
        let error = serde_json::from_str::<UniqueKeys<u8>>("{\"a\": 1,\n\"a\": 1}").unwrap_err();
        insta::assert_snapshot!(error, @"the key `a` is there twice at line 2 column 3");
    }

    #[test]
    fn nothing_is_read_after_a_value() {
        let json = "{\"a\": [1], \"b\": 2, and what is no JSON";
        assert_eq!(read_key::<u32>(json, "b"), Some(2));
        assert_eq!(read_key::<Vec<u32>>(json, "a"), Some(vec![1]));
        for (json, key) in [(json, "c"), (json, "a"), ("{\"a\": ", "a"), ("[1]", "a"), ("", "a")] {
            assert_eq!(read_key::<u32>(json, key), None, "{json} {key}");
        }
    }

    #[test]
    fn types_have_words_and_the_line_stands_once() {
        let of = |text: &str| serde_json::from_str::<std::collections::BTreeMap<String, u64>>(text).unwrap_err();
        let found = describe_error(&of("{\n\"a\": -1}"));
        assert_eq!(found, "invalid value: integer `-1`, expected a whole number of 0 or more at line 2 column 7");
        let version = serde_json::from_str::<Version>("1\tThe").unwrap_err();
        assert_eq!(describe_error_in_line(&version), "invalid type: integer `1`, expected an object at column 1");
        assert_eq!(describe_error_in_line(&of("nothing")), "expected ident at column 2");
        assert_eq!(
            describe_error_in_line(&of("{\"a\": \"expected u64\"}")).split(" at ").next().unwrap(),
            "invalid type: string \"expected u64\", expected a whole number of 0 or more"
        );
    }
}
