//! The sections of a saved report, read in one pass: a report of ten megabytes is mostly sections, and each study knows its own.

use std::any::Any;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::AnyStudy;
use super::section::{KeyValues, Section};

/// The sections of these studies, in their order, of the JSON of a report.
/// Fails if the report lacks one, or it is another.
pub fn sections(studies: &[&'static dyn AnyStudy], report: &str) -> serde_json::Result<Vec<Box<dyn Section>>> {
    let mut parts = serde_json::Deserializer::from_str(report).deserialize_map(Reader(studies))?;
    studies.iter().map(|study| study.of_parts(&mut parts).map_err(Error::missing_field)).collect()
}

/// Reads the keys of some studies, and passes over others.
struct Reader<'a>(&'a [&'static dyn AnyStudy]);

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = KeyValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut report: A) -> Result<KeyValues, A::Error> {
        let mut parts = KeyValues::new();
        while let Some(key) = report.next_key::<String>()? {
            let owned = |study: &&'static dyn AnyStudy| Some((*study, *study.keys().iter().find(|own| **own == key)?));
            let Some((study, key)) = self.0.iter().find_map(owned) else {
                report.next_value::<IgnoredAny>()?;
                continue;
            };
            let part = report.next_value_seed(ValueOf { study, key })?;
            if parts.insert(key, part).is_some() {
                return Err(Error::duplicate_field(key));
            }
        }
        Ok(parts)
    }
}

/// Reads the value of a key of a study.
struct ValueOf {
    study: &'static dyn AnyStudy,
    key: &'static str,
}

impl<'de> DeserializeSeed<'de> for ValueOf {
    type Value = Box<dyn Any>;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        // The words of the error have its line and column, of which serde_json makes an error of that place again.
        self.study.part(self.key, &mut <dyn erased_serde::Deserializer<'_>>::erase(value)).map_err(Error::custom)
    }
}
