//! Bounds on the texts and numbers of a saved report, so that the report can be laid out and drawn.
//! Numbers keep to the ranges of the schema, on which later computations rely.
//! For example, degrees of freedom are above 0, and shares are at most 1.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::report;

/// Largest absolute value of a number in a report; sums and products of such numbers are far from infinite.
const MAX_NUMBER: f64 = 1e30;

/// Largest count that is read; files of sums have the same limit. Corpora have fewer tokens, and the sum of a report's
/// counts does not overflow.
const MAX_COUNT: u64 = 1 << 46;

/// Maximum length of a text in bytes: 64 KiB. Names are shorter than a line of a terminal, and caveats than a page.
const MAX_TEXT_BYTES: usize = 1 << 16;

/// Maximum length of a text from a corpus: 16 MiB. A word has a megabyte at most, and the names of many files are one text.
const MAX_CORPUS_TEXT_BYTES: usize = 1 << 24;

/// Keys of a report that hold texts from a corpus.
const CORPUS_TEXT_KEYS: [&str; 2] = ["corpus", "examples"];

/// Key of a report that holds the settings of the run, which include seeds of any size.
const SETTINGS_KEY: &str = "settings";

/// Fails if a number or a text of a report is out of bounds, or the report is no JSON; the error has the line.
pub(super) fn ensure_bounded(json: &str) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_str(json);
    Bounds { max_text_bytes: MAX_TEXT_BYTES, limits_counts: true, is_root: true, place: REPORT_RANGES.root() }
        .deserialize(&mut reader)?;
    reader.end()
}

/// Bounds on the value at one position of a report.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    max_text_bytes: usize,
    /// Whether whole numbers are limited to [`MAX_COUNT`]. Those in the settings are not: seeds may have any size.
    limits_counts: bool,
    /// Whether the value is the report itself, and no part of it.
    is_root: bool,
    place: SchemaPlace<'a>,
}

impl Bounds<'_> {
    /// Bounds of the value that an object has under the key `key`.
    fn bounds_of_field(self, key: &str) -> Self {
        let longest =
            if self.is_root && CORPUS_TEXT_KEYS.contains(&key) { MAX_CORPUS_TEXT_BYTES } else { self.max_text_bytes };
        let counts = self.limits_counts && !(self.is_root && key == SETTINGS_KEY);
        Self { max_text_bytes: longest, limits_counts: counts, is_root: false, place: self.place.place_of_field(key) }
    }

    fn ensure_in_range<E: Error>(self, number: f64) -> Result<(), E> {
        self.place.range_error(number).map_or(Ok(()), |fault| Err(E::custom(fault)))
    }

    fn ensure_short<E: Error>(self, text: &str) -> Result<(), E> {
        if text.len() <= self.max_text_bytes {
            return Ok(());
        }
        Err(E::custom(format_args!("a text of {} bytes, and at most {} are read", text.len(), self.max_text_bytes)))
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
        if self.limits_counts && number > MAX_COUNT {
            return Err(E::custom(format_args!("the number {number}, and the largest that is read is {MAX_COUNT}")));
        }
        self.ensure_in_range(number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        Self { place: self.place.without_range(), ..self }.visit_u64(number.unsigned_abs())?;
        self.ensure_in_range(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        if number.abs() > MAX_NUMBER {
            return Err(E::custom(format_args!(
                "the number {number:e}, and the largest that is read is {MAX_NUMBER:e}"
            )));
        }
        self.ensure_in_range(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.ensure_short(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let within = Self { is_root: false, place: self.place.place_of_items(), ..self };
        while list.next_element_seed(within)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(within) = fields.next_key_seed(BoundedKey(self))? {
            fields.next_value_seed(within)?;
        }
        Ok(())
    }
}

/// Deserializer of an object's key. It refuses a key that is too long, and returns the bounds of the key's value.
/// The key is not copied, because a report has a quarter of a million keys.
struct BoundedKey<'a>(Bounds<'a>);

impl<'de, 'a> DeserializeSeed<'de> for BoundedKey<'a> {
    type Value = Bounds<'a>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Bounds<'a>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for BoundedKey<'a> {
    type Value = Bounds<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Bounds<'a>, E> {
        self.0.ensure_short(key)?;
        Ok(self.0.bounds_of_field(key))
    }
}

/// Ranges of the numbers in a report, from its schema.
///
/// The schema is the one place where a field has its range (`#[schemars(range(...))]`, and a metric's card).
/// A report that somebody edited by hand has to keep to the ranges.
pub(super) static REPORT_RANGES: LazyLock<SchemaRanges> =
    LazyLock::new(|| SchemaRanges::new(report::schema().as_value()));

/// Tolerance beyond an end of a range, relative to the larger of that end and 1, since ratios of sums are rounded.
const ROUNDING_TOLERANCE: f64 = 1e-6;

/// Node of a schema: the range of a number, and the indices of the nodes for an object's keys and a list's items.
#[derive(Debug, Default)]
struct SchemaPart {
    /// Smallest allowed number; `None` if the schema sets no limit.
    minimum: Option<f64>,
    /// Largest allowed number; `None` if the schema sets no limit.
    maximum: Option<f64>,
    /// Index of the node for the value of each key that the schema names.
    fields: HashMap<String, usize>,
    /// Index of the node for the values of keys that the schema does not name.
    other_fields: Option<usize>,
    /// Index of the schema's node for the items of a list.
    items: Option<usize>,
}

/// All nodes of a schema; the first one is the root.
#[derive(Debug)]
pub(super) struct SchemaRanges(Vec<SchemaPart>);

/// Position in a report: the index of the schema's node for the position, and the key of the value there.
/// Items of a list have the key of the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaPlace<'a> {
    ranges: &'a SchemaRanges,
    /// Index of the schema's node for this position; `None` where the schema says nothing.
    part: Option<usize>,
    /// Key of the value at this position; empty if the schema names none.
    name: &'a str,
}

impl SchemaRanges {
    fn new(schema: &Value) -> Self {
        let definitions = schema.get("$defs").and_then(Value::as_object);
        let mut compiler = SchemaCompiler { definitions, known_parts: HashMap::new(), parts: Vec::new() };
        compiler.part_index(schema);
        Self(compiler.parts)
    }

    pub(super) fn root(&self) -> SchemaPlace<'_> {
        SchemaPlace { ranges: self, part: Some(0), name: "" }
    }
}

impl<'a> SchemaPlace<'a> {
    /// Node of the schema for this position; `None` where the schema says nothing.
    fn schema_part(&self) -> Option<&'a SchemaPart> {
        self.part.map(|part| &self.ranges.0[part])
    }

    /// Position of the value that an object has under the key `key`.
    pub(super) fn place_of_field(self, key: &str) -> Self {
        let Some(part) = self.schema_part() else { return Self { name: "", ..self } };
        match part.fields.get_key_value(key) {
            Some((name, &part)) => Self { part: Some(part), name, ..self },
            None => Self { part: part.other_fields, name: "", ..self },
        }
    }

    /// Removes the schema's node from this position, so that [`Self::range_error`] accepts every number.
    pub(super) fn without_range(self) -> Self {
        Self { part: None, ..self }
    }

    /// Position of an item, if the value at this position is a list.
    pub(super) fn place_of_items(self) -> Self {
        Self { part: self.schema_part().and_then(|part| part.items), ..self }
    }

    /// Error text for a number that is out of its range; `None` if it is within.
    pub(super) fn range_error(self, number: f64) -> Option<String> {
        let SchemaPart { minimum, maximum, .. } = self.schema_part()?;
        let slack = |end: f64| ROUNDING_TOLERANCE * end.abs().max(1.0);
        let named = || if self.name.is_empty() { "a number".to_owned() } else { format!("`{}`", self.name) };
        if let Some(least) = minimum.filter(|&least| number < least - slack(least)) {
            return Some(format!("{} is {number:?}, and the least that it can be is {least}", named()));
        }
        let most = maximum.filter(|&most| number > most + slack(most))?;
        Some(format!("{} is {number:?}, and the most that it can be is {most}", named()))
    }
}

/// Compiler of a JSON Schema into nodes with the ranges of numbers.
struct SchemaCompiler<'a> {
    /// Definitions of the schema (`$defs`), by name.
    definitions: Option<&'a Map<String, Value>>,
    /// Index in `parts` of the node for each definition of the schema, by the definition's name.
    known_parts: HashMap<&'a str, usize>,
    /// Nodes that are compiled so far.
    parts: Vec<SchemaPart>,
}

impl<'a> SchemaCompiler<'a> {
    /// Returns the index of the node for a schema; compiles the node if it is new.
    fn part_index(&mut self, schema: &'a Value) -> usize {
        let referenced_definition = referenced_definition(schema);
        if let Some(&known) = referenced_definition.and_then(|name| self.known_parts.get(name)) {
            return known;
        }
        let number = self.parts.len();
        self.parts.push(SchemaPart::default());
        if let Some(name) = referenced_definition {
            self.known_parts.insert(name, number);
        }
        let mut part = SchemaPart::default();
        self.fill_part(schema, &mut part);
        self.parts[number] = part;
        number
    }

    /// Adds the range, the keys and the items of a schema to the node `part`.
    fn fill_part(&mut self, schema: &'a Value, part: &mut SchemaPart) {
        let definition = reference_target(schema).and_then(|name| self.definitions?.get(name));
        let every = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let one_of = ["anyOf", "oneOf"].iter().filter_map(|key| only_alternative(schema.get(key)?));
        for schema in definition.into_iter().chain(every).chain(one_of) {
            self.fill_part(schema, part);
        }
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        part.minimum = bound("minimum").or(part.minimum);
        part.maximum = bound("maximum").or(part.maximum);
        for (key, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let field = self.part_index(schema);
            part.fields.entry(key.clone()).or_insert(field);
        }
        if let Some(others) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
            part.other_fields = Some(self.part_index(others));
        }
        if let Some(items) = schema.get("items").filter(|schema| schema.is_object()) {
            part.items = Some(self.part_index(items));
        }
    }
}

/// Only alternative of a schema besides null; `None` if there are several, since any of them may apply.
fn only_alternative(alternatives: &Value) -> Option<&Value> {
    let not_null = |schema: &&Value| schema.get("type").and_then(Value::as_str) != Some("null");
    let mut alternatives = alternatives.as_array()?.iter().filter(not_null);
    alternatives.next().filter(|_| alternatives.next().is_none())
}

/// Name of the definition to which a schema refers directly or as an alternative to null; `None` without such a reference.
/// The schema may have annotations besides, but nothing else.
fn referenced_definition(schema: &Value) -> Option<&str> {
    const ANNOTATIONS: [&str; 3] = ["title", "description", "default"];
    let mut says = schema.as_object()?.iter().filter(|(key, _)| !ANNOTATIONS.contains(&key.as_str()));
    match (says.next()?, says.next()) {
        ((key, _), None) if key == "$ref" => reference_target(schema),
        ((key, alternatives), None) if key == "anyOf" => referenced_definition(only_alternative(alternatives)?),
        _ => None,
    }
}

/// Name of the definition to which the `$ref` of a schema points; `None` without one.
fn reference_target(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

#[cfg(test)]
mod tests {
    use itertools::Itertools;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_texts_have_bounds() {
        let long = format!("\"{}\"", "x".repeat(MAX_TEXT_BYTES + 1));
        let out_of_bounds = [
            "{\"a\": [1e30,\n -1.5e30]}",
            "{\"a\": 70368744177665}",
            &format!("[{long}]"),
            &format!("{{{long}: 1}}"),
            "{\"denominators\": {\"uuas\": {\"effective_blocks\": -1}}}",
            "{} x",
        ];
        insta::assert_snapshot!(out_of_bounds.iter().map(|json| ensure_bounded(json).unwrap_err()).join("\n"), @"
        the number -1.5e30, and the largest that is read is 1e30 at line 2 column 8
        the number 70368744177665, and the largest that is read is 70368744177664 at line 1 column 20
        a text of 65537 bytes, and at most 65536 are read at line 1 column 65540
        a text of 65537 bytes, and at most 65536 are read at line 1 column 65540
        `effective_blocks` is -1.0, and the least that it can be is 0 at line 1 column 49
        trailing characters at line 1 column 4
        ");
        // Words of a corpus are longer, seeds larger.
        let good =
            format!("{{\"examples\": [{long}], \"settings\": {{\"seed\": {}}}, \"a\": [null, true, -1e30]}}", u64::MAX);
        ensure_bounded(&good).unwrap();
        assert!(ensure_bounded(&format!("{{\"a\": {{\"examples\": {long}}}}}")).is_err(), "only at the top");
    }

    #[test]
    fn ranges_are_found_through_references_and_alternatives() {
        let ranges = SchemaRanges::new(&json!({
            "properties": {
                "a": { "anyOf": [{ "$ref": "#/$defs/Part" }, { "type": "null" }] },
                "b": { "items": { "allOf": [{ "$ref": "#/$defs/Part" }] } },
                "c": { "additionalProperties": { "type": "number", "maximum": 1 } },
            },
            "$defs": { "Part": { "properties": {
                "share": { "minimum": 0, "maximum": 1 }, "within": { "$ref": "#/$defs/Part" }
            } } },
        }));
        let fault = |keys: &[&str], number| {
            let mut place = ranges.root();
            for key in keys {
                place = if *key == "*" { place.place_of_items() } else { place.place_of_field(key) };
            }
            place.range_error(number)
        };
        for keys in [&["a", "share"][..], &["b", "*", "share"], &["a", "within", "within", "share"]] {
            assert_eq!(fault(keys, -0.5).unwrap(), "`share` is -0.5, and the least that it can be is 0");
            assert_eq!(fault(keys, 1.5).unwrap(), "`share` is 1.5, and the most that it can be is 1");
            assert_eq!(fault(keys, 1.000_000_1), None, "rounded");
        }
        assert_eq!(fault(&["c", "any"], 2.0).unwrap(), "a number is 2.0, and the most that it can be is 1");
        assert_eq!(fault(&["unknown", "share"], 2.0), None);
    }

    #[test]
    fn the_report_has_the_ranges_of_what_distributions_are_made_of() {
        let blocks = REPORT_RANGES
            .root()
            .place_of_field("denominators")
            .place_of_field("uuas")
            .place_of_field("effective_blocks");
        assert!(
            blocks.range_error(-1.0).is_some()
                && blocks.range_error(1e8).is_some()
                && blocks.range_error(63.5).is_none()
        );
        let of_relation =
            REPORT_RANGES.root().place_of_field("relations").place_of_items().place_of_field("effective_blocks");
        assert!(of_relation.range_error(1e8).is_some() && of_relation.range_error(64.0).is_none());
    }
}
