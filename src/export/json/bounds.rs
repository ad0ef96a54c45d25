//! Bounds on what a saved report holds, whatever its keys: numbers that can be drawn, and texts that can be laid out.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

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
    Bounds { longest: LONGEST_TEXT, counts: true, is_top: true }.deserialize(&mut reader)?;
    reader.end()
}

/// The bounds of a part of a report.
#[derive(Clone, Copy)]
struct Bounds {
    longest: usize,
    /// Whether whole numbers are counts.
    counts: bool,
    /// Whether it is all of the report.
    is_top: bool,
}

impl Bounds {
    /// The bounds of what is under this key.
    fn under(self, key: &str) -> Self {
        let longest = if self.is_top && OF_CORPUS.contains(&key) { LONGEST_OF_CORPUS } else { self.longest };
        Self { longest, counts: self.counts && !(self.is_top && key == SETTINGS), is_top: false }
    }

    fn text<E: Error>(self, text: &str) -> Result<(), E> {
        if text.len() <= self.longest {
            return Ok(());
        }
        Err(E::custom(format_args!("a text of {} bytes, and at most {} are read", text.len(), self.longest)))
    }
}

impl<'de> DeserializeSeed<'de> for Bounds {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounds {
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
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_u64(number.unsigned_abs())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        if number.abs() > LARGEST {
            return Err(E::custom(format_args!("the number {number:e}, and the largest that is read is {LARGEST:e}")));
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let within = Self { is_top: false, ..self };
        while list.next_element_seed(within)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        if self.is_top {
            while let Some(key) = fields.next_key::<String>()? {
                self.text(&key)?;
                fields.next_value_seed(self.under(&key))?;
            }
            return Ok(());
        }
        // Further down no key matters but for its length, and a report has a quarter of a million of them.
        while fields.next_key_seed(self)?.is_some() {
            fields.next_value_seed(self)?;
        }
        Ok(())
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
        assert!(refused("{} x").starts_with("trailing characters"));
        // Words of a corpus are longer, seeds larger.
        let good =
            format!("{{\"examples\": [{long}], \"settings\": {{\"seed\": {}}}, \"a\": [null, true, -1e30]}}", u64::MAX);
        ensure_bounded(&good).unwrap();
        assert!(ensure_bounded(&format!("{{\"a\": {{\"examples\": {long}}}}}")).is_err(), "only at the top");
    }
}
