//! Layout of JSON: indented for people, or on one line. Both escape the characters that a terminal obeys.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::system::printable::is_unprintable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Indented by two spaces per level. An object in an array is a row: one line without spaces, except that its own arrays of
    /// objects have one line per row. Arrays of numbers have one line.
    Indented,
    Compact,
}

/// Writes a value as JSON, with a newline at the end. Floats are the shortest that read back to the same value.
pub(super) fn to_json_text(value: &impl Serialize, layout: Layout) -> serde_json::Result<String> {
    to_json_text_with(value, layout, Digits::ALL)
}

/// Writes a value as JSON, with a newline at the end. Floats are rounded to `digits` significant digits.
pub(super) fn to_json_text_with(value: &impl Serialize, layout: Layout, digits: Digits) -> serde_json::Result<String> {
    let mut json = Vec::new();
    let writer = JsonWriter { layout, digits, open_containers: Vec::new(), depth: 0, is_empty: true };
    value.serialize(&mut Serializer::with_formatter(&mut json, writer))?;
    json.push(b'\n');
    Ok(String::from_utf8(json).expect("JSON is written from strings"))
}

/// Layout of an array or object whose end is not yet written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    /// An array before its first value.
    Undecided,
    /// An array with all values on one line.
    SingleLine,
    /// An array with a line for each value.
    LinePerValue,
    /// An object with a line for each key.
    LinePerKey,
    /// An object in an array: all its keys are on one line.
    Row,
}

/// Writer of JSON in a layout, with rounded floats.
struct JsonWriter {
    layout: Layout,
    digits: Digits,
    /// Layouts of the arrays and objects around the current position, the innermost last.
    open_containers: Vec<Container>,
    /// Number of open arrays and objects whose content is indented.
    depth: usize,
    /// Whether the innermost array or object is empty so far.
    is_empty: bool,
}

impl JsonWriter {
    /// Begins a new line with its indent, unless the JSON is compact.
    fn write_new_line(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        if self.layout == Layout::Compact {
            return Ok(());
        }
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }

    /// Writes the space after a colon or a comma, except in compact JSON and inside an object on one line.
    fn write_space(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let is_wanted = self.layout == Layout::Indented && !self.is_in_one_line_object();
        if is_wanted { out.write_all(b" ") } else { Ok(()) }
    }

    /// Whether the current position is inside an object that stands on one line.
    fn is_in_one_line_object(&self) -> bool {
        self.open_containers.contains(&Container::Row)
    }

    /// Chooses the layout of an array at its first value: a line for each value if `stands_alone`; else one line for all.
    fn begin_value(&mut self, out: &mut (impl Write + ?Sized), stands_alone: bool) -> io::Result<()> {
        let Some(values @ Container::Undecided) = self.open_containers.last_mut() else { return Ok(()) };
        *values = if stands_alone { Container::LinePerValue } else { Container::SingleLine };
        if !stands_alone {
            return Ok(());
        }
        self.depth += 1;
        self.write_new_line(out)
    }

    /// Begins a value that is neither a number nor an object. Inside an object on one line, it stays on that line.
    fn begin_other_value(&mut self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        self.begin_value(out, !self.is_in_one_line_object())
    }
}

impl Formatter for JsonWriter {
    fn write_null<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin_other_value(out)?;
        out.write_all(b"null")
    }

    fn write_bool<W: ?Sized + Write>(&mut self, out: &mut W, value: bool) -> io::Result<()> {
        self.begin_other_value(out)?;
        out.write_all(if value { b"true" } else { b"false" })
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        CompactFormatter.write_f64(out, self.digits.round(value))
    }

    fn begin_string<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin_other_value(out)?;
        out.write_all(b"\"")
    }

    /// Escapes the characters that a terminal obeys; JSON itself demands escapes only up to U+001F.
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return out.write_all(text.as_bytes());
        }
        text.chars().try_for_each(|c| match c {
            // All unprintable characters are below U+10000.
            c if is_unprintable(c) => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "{c}"),
        })
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin_other_value(out)?;
        self.open_containers.push(Container::Undecided);
        self.is_empty = true;
        out.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        if is_first {
            return Ok(());
        }
        out.write_all(b",")?;
        match self.open_containers.last_mut() {
            Some(Container::LinePerValue) => self.write_new_line(out),
            Some(values) => {
                *values = Container::SingleLine;
                self.write_space(out)
            }
            None => Ok(()),
        }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.open_containers.pop() == Some(Container::LinePerValue) {
            self.depth -= 1;
            self.write_new_line(out)?;
        }
        out.write_all(b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin_value(out, true)?;
        let is_element = self.open_containers.last().is_some_and(|container| *container != Container::LinePerKey);
        let object = if is_element { Container::Row } else { Container::LinePerKey };
        self.depth += usize::from(object == Container::LinePerKey);
        self.open_containers.push(object);
        self.is_empty = true;
        out.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            out.write_all(b",")?;
        }
        match self.open_containers.last() {
            Some(Container::Row) => Ok(()),
            _ => self.write_new_line(out),
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b":")?;
        self.write_space(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.open_containers.pop() == Some(Container::LinePerKey) {
            self.depth -= 1;
            if !self.is_empty {
                self.write_new_line(out)?;
            }
        }
        self.is_empty = false;
        out.write_all(b"}")
    }
}

/// Number of significant decimal digits to which the floats of a report are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits(u8);

impl Digits {
    /// All 17 digits, from which every double reads back to the same value.
    pub const ALL: Self = Self(17);
    /// Six digits: from a share of fewer than 500,000 words, the number of words in the share can be recovered.
    /// Rounding changes a share between .1 and .9 by at most 5e-7.
    /// The change is less than a fiftieth of the share's standard error over 10^8 words.
    pub const DEFAULT: Self = Self(6);
    pub const RANGE: RangeInclusive<u64> = 3..=17;

    /// The nearest number with this many digits. Rounding twice gives the same result.
    pub fn round(self, value: f64) -> f64 {
        if self == Self::ALL {
            return value;
        }
        format!("{value:.*e}", usize::from(self.0) - 1).parse().expect("a float in scientific notation")
    }
}

impl TryFrom<u64> for Digits {
    type Error = &'static str;

    fn try_from(digits: u64) -> Result<Self, Self::Error> {
        let digits = u8::try_from(digits).ok().filter(|_| Self::RANGE.contains(&digits));
        digits.map(Self).ok_or("a report has 3 to 17 digits")
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
            let text = to_json_text(&value, layout).unwrap();
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
    {"d":[2]},
    [],
    [
      [0.5, null]
    ],
    {}
  ],
  "e": 1
}
"#;
        assert_eq!(to_json_text(&value, Layout::Indented).unwrap(), expected);
        let compact = to_json_text(&value, Layout::Compact).unwrap();
        assert_eq!(
            compact,
            "{\"a\":[-0.5,1e-300],\"b [\":[\"-1\",\"[\"],\"c\":[{\"d\":[2]},[],[[0.5,null]],{}],\"e\":1}\n"
        );
    }

    #[test]
    fn an_object_in_an_array_is_a_row() {
        let row = json!({ "at": { "x": 1, "y": [2, 3] }, "of": ["a", "b"], "parts": [{ "p": 0.5 }, { "p": null }], "z": true });
        let expected = r#"{
  "rows": [
    {"at":{"x":1,"y":[2,3]},"of":["a","b"],"parts":[
      {"p":0.5},
      {"p":null}
    ],"z":true},
    {}
  ]
}
"#;
        assert_eq!(to_json_text(&json!({ "rows": [row, {}] }), Layout::Indented).unwrap(), expected);
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
                let text = to_json_text(&value, layout).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &value);
                prop_assert!(text.ends_with('\n'));
            }
            prop_assert_eq!(to_json_text(&value, Layout::Compact).unwrap().lines().count(), 1);
        }
    }

    #[test]
    fn a_share_keeps_its_count() {
        let six = Digits::DEFAULT;
        assert_eq!(six.round(2.0 / 3.0).to_string(), "0.666667");
        assert_eq!(format!("{:e}", six.round(-1.234_567_8e-300)), "-1.23457e-300");
        assert_eq!(six.round(0.0).to_string(), "0");
        for words in [3_u32, 2015, 499_999] {
            for hits in [0, 1, words / 3, words - 1, words] {
                let share = six.round(f64::from(hits) / f64::from(words));
                assert_eq!((share * f64::from(words)).round(), f64::from(hits), "{hits} of {words}");
            }
        }
    }

    proptest! {
        #[test]
        fn rounding_keeps_order_and_is_done_once(a in -1e300..1e300_f64, b in -1.0..1.0_f64, digits in Digits::RANGE) {
            let digits = Digits::try_from(digits).unwrap();
            let (x, y) = (digits.round(a), digits.round(b));
            prop_assert_eq!(digits.round(x), x);
            prop_assert!(a > b || x <= y);
            prop_assert!((x - a).abs() <= a.abs() * 0.5 * 10_f64.powi(1 - i32::from(digits.0)) * (1.0 + 1e-9));
        }
    }
}
