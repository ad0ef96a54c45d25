//! Reader of a saved report's sections, in one pass: a report of ten megabytes is mostly sections, and each study reads its own.

use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::AnyStudy;
use super::section::{KeyValues, Section};

/// Reads the sections of these `studies`, in their order, from the JSON of a report. Fails if a section is missing, or is not of
/// its study's type.
pub fn read_sections(studies: &[&'static dyn AnyStudy], report: &str) -> serde_json::Result<Vec<Box<dyn Section>>> {
    let reader = Reader { studies, report };
    let mut values = serde_json::Deserializer::from_str(report).deserialize_map(reader)?;
    studies.iter().map(|study| study.section_from_values(&mut values).map_err(Error::missing_field)).collect()
}

/// Deserializer that reads the values of the keys of all sections, and skips all other keys.
struct Reader<'a> {
    studies: &'a [&'static dyn AnyStudy],
    report: &'a str,
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = KeyValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut report: A) -> Result<KeyValues, A::Error> {
        let mut values = KeyValues::new();
        while let Some(key) = report.next_key::<String>()? {
            let Some((key, parse)) = self.studies.iter().find_map(|study| study.parser(&key)) else {
                report.next_value::<IgnoredAny>()?;
                continue;
            };
            // The value is read as text, which the study then parses. Parsing through `erased_serde` takes twice as long.
            let json = report.next_value::<&RawValue>()?.get();
            let value = parse(json).map_err(|error| Error::custom(error_in_report(self.report, json, &error)))?;
            if values.insert(key, value).is_some() {
                return Err(Error::duplicate_field(key));
            }
        }
        Ok(values)
    }
}

/// Message of a parse error in a `part` of a report. Line and column are counted from the start of the report, in the
/// form of `serde_json`.
fn error_in_report(report: &str, part: &str, error: &serde_json::Error) -> String {
    // `part` is borrowed from the report.
    let before = &report[..part.as_ptr().addr() - report.as_ptr().addr()];
    let lines = before.matches('\n').count();
    let column = if error.line() == 1 { before.len() - before.rfind('\n').map_or(0, |end| end + 1) } else { 0 };
    let words = error.to_string();
    let own = format!(" at line {} column {}", error.line(), error.column());
    let words = words.strip_suffix(&own).unwrap_or(&words);
    format!("{words} at line {} column {}", lines + error.line(), column + error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_place_in_the_report() {
        for report in ["{\"a\": [1,\n\"b\"]}", "{\"c\": 1,\n \"a\": [1, \"b\"]}", "[1, 2]"] {
            let part = &report[report.find('[').unwrap()..=report.find(']').unwrap()];
            let error = serde_json::from_str::<Vec<u8>>(part).err();
            let error = error.unwrap_or_else(|| serde_json::from_str::<Vec<bool>>(part).unwrap_err());
            let shown = error_in_report(report, part, &error);
            let (line, column) = shown.rsplit_once(" at line ").unwrap().1.split_once(" column ").unwrap();
            let line = report.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
            // The column is that of the last character of what is wrong.
            let end = column.parse::<usize>().unwrap();
            assert!(line[..end].ends_with("\"b\"") || line[..end].ends_with('1'), "{shown}");
            assert_eq!(shown.matches(" at line ").count(), 1);
        }
    }
}
