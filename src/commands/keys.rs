//! Explains keys of a report or of `--json` output from their JSON Schemas: `headscope explain report.pruning`.

use std::iter::successors;

use itertools::Itertools as _;
use schemars::{Schema, schema_for};
use serde_json::{Map, Value};

use super::saved::compare::outcome::CompareOutcome;
use super::saved::confirm::ConfirmOutcome;
use super::saved::gate::GateOutcome;
use super::saved::numbers::outcome::NumbersOutcome;
use super::sentences::matching::MatchOutcome;
use crate::report;
use crate::system::counts::format_count;

/// JSON document that this program writes, with its schema.
struct JsonDocument {
    /// Name with which paths into the document begin.
    name: &'static str,
    /// The document's name in messages, such as `a report`.
    name_in_messages: &'static str,
    schema: fn() -> Schema,
}

const DOCUMENTS: [JsonDocument; 6] = [
    JsonDocument { name: "report", name_in_messages: "a report", schema: report::schema },
    JsonDocument { name: "compare", name_in_messages: "`compare --json`", schema: || schema_for!(CompareOutcome) },
    JsonDocument {
        name: "numbers",
        name_in_messages: "`compare --numbers --json`",
        schema: || schema_for!(NumbersOutcome),
    },
    JsonDocument { name: "confirm", name_in_messages: "`confirm --json`", schema: || schema_for!(ConfirmOutcome) },
    JsonDocument { name: "gate", name_in_messages: "`gate --json`", schema: || schema_for!(GateOutcome) },
    JsonDocument { name: "match", name_in_messages: "`match --json`", schema: || schema_for!(MatchOutcome) },
];

/// JSON Schema of the document with this name; `None` if there is no such document.
pub fn schema_by_name(name: &str) -> Option<Value> {
    DOCUMENTS.iter().find(|document| document.name == name).map(|document| Value::from((document.schema)()))
}

/// Explains the value at a path such as `report.pruning.orders`, and each key in it; `None` if the path does not exist.
pub fn explain_path(path: &str) -> Option<String> {
    let mut segments = path.split('.');
    let root = schema_by_name(segments.next()?)?;
    let mut schema = &root;
    for segment in segments {
        schema = schema_properties(object_schema(schema, &root)?)?.get(segment)?;
    }
    let text = schema_description(schema, &root);
    let Some(keys) = object_schema(schema, &root).and_then(schema_properties) else {
        return Some(format!("{path}\n\n{text}\n"));
    };
    let entries: Vec<(String, String)> =
        keys.iter().map(|(key, value)| (key.clone(), schema_description(value, &root))).collect();
    let inner = keys.iter().filter(|(_, value)| object_schema(value, &root).is_some());
    let inner = inner.map(|(key, _)| format!("{path}.{key}")).join(", ");
    let more = if inner.is_empty() { String::new() } else { format!("\nMore: {inner}\n") };
    Some(format!("{path}\n\n{text}\n\n{}{more}", two_column_lines(&entries)))
}

/// Formats entries, each as (name, meaning), as lines with two columns.
fn two_column_lines(entries: &[(String, String)]) -> String {
    let width = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, meaning): &(String, String)| format!("{name:width$}  {meaning}").trim_end().to_owned() + "\n";
    entries.iter().map(line).collect()
}

/// Maximum number of keys or values that the explanation of a word lists.
const MAX_LISTED_PLACES: usize = 8;

/// Explains a key or a value of a JSON document by name; `None` if no document has it. Reports are searched first.
pub fn explain_word(word: &str) -> Option<String> {
    DOCUMENTS.iter().find_map(|document| document.explain_key_or_value(word))
}

impl JsonDocument {
    /// Explains a key or a value of this document by name; `None` if the document has none.
    fn explain_key_or_value(&self, word: &str) -> Option<String> {
        let root = &Value::from((self.schema)());
        let mut places = Vec::new();
        collect_matching_keys(self.name, root, (root, word), &mut Vec::new(), &mut places);
        if places.is_empty() {
            places.extend(enum_value_description(root, word).map(|text| (word.to_owned(), text)));
        }
        if places.is_empty() {
            return None;
        }
        let lines = two_column_lines(&places[..places.len().min(MAX_LISTED_PLACES)]);
        let more = match places.len().saturating_sub(MAX_LISTED_PLACES) {
            0 => String::new(),
            more => format!("and in {}\n", format_count(more, "more place")),
        };
        Some(format!("{word} (in {})\n\n{lines}{more}", self.name_in_messages))
    }
}

/// Adds to `places` each key below `path` that is named `word` or has `word` as a possible value, with its meaning.
/// `enclosing` holds the object schemas around `schema_at_path`. They are skipped below it, so that recursive schemas end.
fn collect_matching_keys<'a>(
    path: &str,
    schema_at_path: &'a Value,
    (root, word): (&'a Value, &str),
    enclosing: &mut Vec<&'a Value>,
    places: &mut Vec<(String, String)>,
) {
    let Some(object) = object_schema(schema_at_path, root)
        .filter(|object| !enclosing.iter().any(|other| std::ptr::eq(*other, *object)))
    else {
        return;
    };
    enclosing.push(object);
    for (key, schema) in schema_properties(object).into_iter().flatten() {
        let path = format!("{path}.{key}");
        if key == word {
            places.push((path.clone(), schema_description(schema, root)));
        }
        if object_schema(schema, root).is_some() {
            collect_matching_keys(&path, schema, (root, word), enclosing, places);
        } else {
            let mut types = successors(Some(schema), |&schema| target_schema(schema, root));
            let text = types.find_map(|schema| enum_value_description(schema, word));
            places.extend(text.map(|text| (format!("{path} = {word}"), text)));
        }
    }
    enclosing.pop();
}

/// Description of the enumerated value `word`, searched at every depth of a schema. `None` if the schema has no such value.
fn enum_value_description(schema: &Value, word: &str) -> Option<String> {
    let inner = match schema {
        Value::Array(schemas) => schemas.iter().find_map(|schema| enum_value_description(schema, word)),
        Value::Object(object) if object.get("const").is_some_and(|value| value == word) => {
            return Some(schema_description(schema, &Value::Null));
        }
        Value::Object(object) => object.values().find_map(|inner| enum_value_description(inner, word)),
        _ => None,
    };
    let is_listed = || schema.get("enum")?.as_array().map(|values| values.iter().any(|value| value == word));
    inner.or_else(|| is_listed().unwrap_or(false).then(|| schema_description(schema, &Value::Null)))
}

/// Schemas of an object's properties, by key; `None` if the schema describes no properties.
fn schema_properties(object: &Value) -> Option<&Map<String, Value>> {
    object.get("properties")?.as_object()
}

/// Schema to which a schema refers: the target of its `$ref`, the first of its `allOf` or `anyOf`, or its list items.
/// Returns `None` if the schema refers to none of these.
fn target_schema<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Value> {
    if let Some(reference) = schema.get("$ref") {
        return root.pointer(reference.as_str()?.strip_prefix('#')?);
    }
    let first = |of: &str| schema.get(of).and_then(Value::as_array).and_then(|schemas| schemas.first());
    first("allOf").or_else(|| first("anyOf")).or_else(|| schema.get("items")).filter(|inner| inner.is_object())
}

/// The schema itself if it has properties, else the first schema with properties among those to which it refers.
/// Returns `None` if there is no such schema.
fn object_schema<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Value> {
    if schema_properties(schema).is_some() { Some(schema) } else { object_schema(target_schema(schema, root)?, root) }
}

/// Description of a schema on one line; without one, the description of the schema to which it refers.
fn schema_description(schema: &Value, root: &Value) -> String {
    match schema.get("description").and_then(Value::as_str) {
        Some(text) => text.split_whitespace().join(" "),
        None => target_schema(schema, root).map(|inner| schema_description(inner, root)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lists_the_keys_behind_references_lists_and_null() {
        let lines = |path: &str, starts: &[&str]| {
            let text = explain_path(path).unwrap();
            text.lines().filter(|line| starts.iter().any(|start| line.starts_with(start))).join("\n")
        };
        insta::assert_snapshot!(lines("report.pruning", &["report.pruning", "sentences  ", "More: "]), @"
        report.pruning
        sentences                  Number of sentences with a scored token, in odd-numbered blocks.
        More: report.pruning.interaction, report.pruning.orders, report.pruning.right
        ");
        insta::assert_snapshot!(lines("report.pruning.interaction", &["together"]), @"together    Effect of removing all of `heads` together, in nats per scored token.");
        insta::assert_snapshot!(lines("report.heads.labels.test", &["q "]), @"q               q-value of the score: twice `p`, corrected by Benjamini & Hochberg over all labels of this kind with scores above their thresholds. Null where this score is not above.");
        insta::assert_snapshot!(explain_path("report.heads.primary").unwrap(), @"
        report.heads.primary

        The firm label with the largest margin over its threshold, a borderline one if none is firm, or `unlabelled`. A head that the checkpoint was saved without has `absent`, a head that the run removed (`--remove`) has `removed`.
        ");
        assert!(explain_path("numbers.labels").is_some() && explain_path("compare.agreement").is_some());
        for nothing in ["report.pruned", "report.heads.primary.name", "reports", "report."] {
            assert_eq!(explain_path(nothing), None, "{nothing}");
        }
    }

    /// Every key below a schema, and every value of those that are listed.
    fn words(schema: &Value, found: &mut std::collections::BTreeSet<String>) {
        match schema {
            Value::Array(schemas) => schemas.iter().for_each(|schema| words(schema, found)),
            Value::Object(object) => {
                found.extend(schema_properties(schema).into_iter().flatten().map(|(key, _)| key.clone()));
                let listed = object.get("enum").and_then(Value::as_array).into_iter().flatten();
                let values = object.get("const").into_iter().chain(listed);
                found.extend(values.filter_map(Value::as_str).map(str::to_owned));
                object.values().for_each(|schema| words(schema, found));
            }
            _ => {}
        }
    }

    #[test]
    fn every_word_of_a_report_is_explained() {
        let mut found = std::collections::BTreeSet::new();
        words(&Value::from(report::schema()), &mut found);
        assert!(found.len() > 500 && found.contains("not_above_baseline") && found.contains("heldout_accuracy"));
        let unknown: Vec<&String> =
            found.iter().filter(|word| crate::commands::explain::explain(word).is_err()).collect();
        assert_eq!(unknown, Vec::<&String>::new());
        insta::assert_snapshot!(explain_word("too_few_units").unwrap(), @"
        too_few_units (in a report)

        report.task.obstacle = too_few_units  There are fewer items, or fewer sampling units, than the policy asks for.
        ");
        assert_eq!(explain_word("no_such_word"), None);
    }

    #[test]
    fn every_key_of_the_report_has_a_meaning() {
        let root = Value::from(report::schema());
        for (key, value) in schema_properties(&root).unwrap() {
            assert!(!schema_description(value, &root).is_empty(), "{key}");
        }
    }
}
