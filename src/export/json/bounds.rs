//! Bounds on what a saved report holds: numbers in the ranges of its schema that can be drawn, and texts that can be laid out.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::ranges::{OF_REPORT, SchemaPlace};

/// The largest number without a sign, far from where sums and products of such numbers are infinite.
const LARGEST: f64 = 1e30;

/// The largest whole number, that of a partial: more tokens than all corpora have, and the sum of all in a report is one.
const LARGEST_COUNT: u64 = 1 << 46;

/// The longest text, in bytes: 64 KiB. Names are shorter than a line of a terminal, and caveats than a page.
const LONGEST_TEXT: usize = 1 << 16;

/// The longest text of a corpus, in bytes: 16 MiB. A word has a megabyte at most, and the names of many files are one text.
const LONGEST_OF_CORPUS: usize = 1 << 24;

/// The parts of a report that hold texts of a corpus.
const OF_CORPUS: [&str; 2] = ["corpus", "examples"];

/// The part of a report that holds what was asked for, seeds of any size among it.
const SETTINGS: &str = "settings";

/// Makes sure that the numbers and the texts of a report are within their bounds.
/// Fails if one is not, or if it is no JSON; the error has its line.
pub(super) fn ensure_bounded(json: &str) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_str(json);
    Bounds { longest: LONGEST_TEXT, counts: true, is_top: true, place: OF_REPORT.top() }.deserialize(&mut reader)?;
    reader.end()
}

/// The bounds of a part of a report.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    longest: usize,
    /// Whether whole numbers are counts.
    counts: bool,
    /// Whether it is all of the report.
    is_top: bool,
    /// Its place in the schema.
    place: SchemaPlace<'a>,
}

impl Bounds<'_> {
    /// The bounds of what is under this key.
    fn under(self, key: &str) -> Self {
        let longest = if self.is_top && OF_CORPUS.contains(&key) { LONGEST_OF_CORPUS } else { self.longest };
        let counts = self.counts && !(self.is_top && key == SETTINGS);
        Self { longest, counts, is_top: false, place: self.place.under(key) }
    }

    fn within_range<E: Error>(self, number: f64) -> Result<(), E> {
        self.place.fault(number).map_or(Ok(()), |fault| Err(E::custom(fault)))
    }

    fn text<E: Error>(self, text: &str) -> Result<(), E> {
        if text.len() <= self.longest {
            return Ok(());
        }
        Err(E::custom(format_args!("a text of {} bytes, and at most {} are read", text.len(), self.longest)))
    }
}

impl<'de> DeserializeSeed<'de> for Bounds<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounds<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a report")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        if self.counts && number > LARGEST_COUNT {
            return Err(E::custom(format_args!(
                "the number {number}, and the largest that is read is {LARGEST_COUNT}"
            )));
        }
        self.within_range(number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        Self { place: self.place.anywhere(), ..self }.visit_u64(number.unsigned_abs())?;
        self.within_range(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        if number.abs() > LARGEST {
            return Err(E::custom(format_args!("the number {number:e}, and the largest that is read is {LARGEST:e}")));
        }
        self.within_range(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let within = Self { is_top: false, place: self.place.items(), ..self };
        while list.next_element_seed(within)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(within) = fields.next_key_seed(Key(self))? {
            fields.next_value_seed(within)?;
        }
        Ok(())
    }
}

/// A key of an object with these bounds: it gives the bounds of what is under it, and is not copied, for a report has a quarter
/// of a million of them.
struct Key<'a>(Bounds<'a>);

impl<'de, 'a> DeserializeSeed<'de> for Key<'a> {
    type Value = Bounds<'a>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Bounds<'a>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Key<'a> {
    type Value = Bounds<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Bounds<'a>, E> {
        self.0.text(key)?;
        Ok(self.0.under(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_have_bounds() {
        let refused = |json: &str| ensure_bounded(json).unwrap_err().to_string();
        let long = format!("\"{}\"", "x".repeat(LONGEST_TEXT + 1));
        assert!(refused("{\"a\": [1e30,\n -1.5e30]}").starts_with("the number -1.5e30, "));
        assert!(refused("{\"a\": 70368744177665}").ends_with("is 70368744177664 at line 1 column 20"));
        assert!(refused(&format!("[{long}]")).starts_with("a text of 65537 bytes, and at most 65536 are read"));
        assert!(refused(&format!("{{{long}: 1}}")).starts_with("a text of 65537 bytes"));
        assert!(
            refused("{\"denominators\": {\"uuas\": {\"effective_blocks\": -1}}}")
                .starts_with("`effective_blocks` is -1.0")
        );
        assert!(refused("{} x").starts_with("trailing characters"));
        // Words of a corpus are longer, seeds larger.
        let good =
            format!("{{\"examples\": [{long}], \"settings\": {{\"seed\": {}}}, \"a\": [null, true, -1e30]}}", u64::MAX);
        ensure_bounded(&good).unwrap();
        assert!(ensure_bounded(&format!("{{\"a\": {{\"examples\": {long}}}}}")).is_err(), "only at the top");
    }
}
