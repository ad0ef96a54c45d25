//! How JSON is laid out: indented for people, or on one line; in both of texts that a terminal shows and does not obey.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::system::printable::is_unprintable;

/// Whether JSON is indented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// A line for each value, by two spaces a level. Arrays of numbers have one line: intervals read as `[0.25, 0.5]`.
    Indented,
    /// All on one line.
    Compact,
}

/// A value as JSON, with a newline at the end. Floats are the shortest that read back to the same value.
/// Fails if it cannot be expressed in JSON.
pub(super) fn written(value: &impl Serialize, layout: Layout) -> serde_json::Result<String> {
    let mut json = Vec::new();
    let writer = JsonWriter { layout, arrays: Vec::new(), depth: 0, is_empty: true };
    value.serialize(&mut Serializer::with_formatter(&mut json, writer))?;
    json.push(b'\n');
    Ok(String::from_utf8(json).expect("JSON is written from strings"))
}

/// Where the values of an array stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayLines {
    /// On one line, if the first turns out to be a number.
    Undecided,
    OneLine,
    LineEach,
}

struct JsonWriter {
    layout: Layout,
    /// The arrays that have begun, the innermost last.
    arrays: Vec<ArrayLines>,
    /// The levels that are indented.
    depth: usize,
    /// Whether nothing has been written in the innermost array or object.
    is_empty: bool,
}

impl JsonWriter {
    fn new_line(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        if self.layout == Layout::Compact {
            return Ok(());
        }
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }

    /// Decides where the values of an array stand whose first is about to be written, and is no number.
    fn is_no_number(&mut self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        match self.arrays.last_mut() {
            Some(values @ ArrayLines::Undecided) => *values = ArrayLines::LineEach,
            _ => return Ok(()),
        }
        self.depth += 1;
        self.new_line(out)
    }
}

impl Formatter for JsonWriter {
    fn write_null<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.is_no_number(out)?;
        out.write_all(b"null")
    }

    fn write_bool<W: ?Sized + Write>(&mut self, out: &mut W, value: bool) -> io::Result<()> {
        self.is_no_number(out)?;
        out.write_all(if value { b"true" } else { b"false" })
    }

    fn begin_string<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.is_no_number(out)?;
        out.write_all(b"\"")
    }

    /// Escapes what a terminal obeys; JSON itself demands it up to U+001F only.
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return out.write_all(text.as_bytes());
        }
        text.chars().try_for_each(|c| match c {
            // All of them are below U+10000.
            c if is_unprintable(c) => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "{c}"),
        })
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.is_no_number(out)?;
        self.arrays.push(ArrayLines::Undecided);
        self.is_empty = true;
        out.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        if is_first {
            return Ok(());
        }
        out.write_all(b",")?;
        match self.arrays.last_mut() {
            Some(ArrayLines::LineEach) => self.new_line(out),
            Some(values) => {
                *values = ArrayLines::OneLine;
                if self.layout == Layout::Indented { out.write_all(b" ") } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.arrays.pop() == Some(ArrayLines::LineEach) {
            self.depth -= 1;
            self.new_line(out)?;
        }
        out.write_all(b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.is_no_number(out)?;
        self.depth += 1;
        self.is_empty = true;
        out.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            out.write_all(b",")?;
        }
        self.new_line(out)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.layout == Layout::Indented { b": " } else { b":" })
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if !self.is_empty {
            self.new_line(out)?;
        }
        self.is_empty = false;
        out.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_reads_as_before() {
        let value = json!({ "\u{9b}31m": ["\u{1b}[31m\u{7f}\u{202e}\n\"é😀"] });
        for layout in [Layout::Indented, Layout::Compact] {
            let text = written(&value, layout).unwrap();
            assert!(!text.chars().any(|c| is_unprintable(c) && c != '\n'), "{text:?}");
            assert!(text.contains("é😀"));
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn arrays_of_numbers_have_one_line() {
        let value = json!({
            "a": [-0.5, 1e-300], "b [": ["-1", "["], "c": [{ "d": [2] }, [], [[0.5, null]], {}], "e": 1
        });
        let expected = r#"{
  "a": [-0.5, 1e-300],
  "b [": [
    "-1",
    "["
  ],
  "c": [
    {
      "d": [2]
    },
    [],
    [
      [0.5, null]
    ],
    {}
  ],
  "e": 1
}
"#;
        assert_eq!(written(&value, Layout::Indented).unwrap(), expected);
        let compact = written(&value, Layout::Compact).unwrap();
        assert_eq!(
            compact,
            "{\"a\":[-0.5,1e-300],\"b [\":[\"-1\",\"[\"],\"c\":[{\"d\":[2]},[],[[0.5,null]],{}],\"e\":1}\n"
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..5).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn all_json_reads_as_it_was(value in any_json()) {
            for layout in [Layout::Indented, Layout::Compact] {
                let text = written(&value, layout).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &value);
                prop_assert!(text.ends_with('\n'));
            }
            prop_assert_eq!(written(&value, Layout::Compact).unwrap().lines().count(), 1);
        }
    }
}
