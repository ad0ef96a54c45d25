//! The keys of a report, and of what `compare --json` prints, from their JSON Schemas:
//! `headscope explain report.pruning`.

use serde_json::{Map, Value};

use super::saved::sides::matching;
use super::saved::{compare, confirm, numbers};
use crate::report;

/// The meaning of what is at a path, such as `report.pruning.orders`, and of each key in it; `None` if nothing is there.
pub fn explain(path: &str) -> Option<String> {
    let mut segments = path.split('.');
    let schema = match segments.next()? {
        "report" => report::schema(),
        "numbers" => numbers::outcome::schema(),
        "compare" => compare::outcome::schema(),
        "confirm" => confirm::outcome::schema(),
        "match" => matching::schema(),
        _ => return None,
    };
    let root = Value::from(schema);
    let mut at = &root;
    for segment in segments {
        at = keys(with_keys(at, &root)?)?.get(segment)?;
    }
    let meant = meaning(at, &root);
    let Some(keys) = with_keys(at, &root).and_then(keys) else { return Some(format!("{path}\n\n{meant}\n")) };
    let width = keys.keys().map(String::len).max().unwrap_or(0);
    let line =
        |(key, value): (&String, &Value)| format!("{key:width$}  {}", meaning(value, &root)).trim_end().to_owned();
    let lines: Vec<String> = keys.iter().map(line).collect();
    let inner: Vec<String> = keys
        .iter()
        .filter(|(_, value)| with_keys(value, &root).is_some())
        .map(|(key, _)| format!("{path}.{key}"))
        .collect();
    let more = if inner.is_empty() { String::new() } else { format!("\nMore: {}\n", inner.join(", ")) };
    Some(format!("{path}\n\n{meant}\n\n{}\n{more}", lines.join("\n")))
}

fn keys(object: &Value) -> Option<&Map<String, Value>> {
    object.get("properties")?.as_object()
}

/// The type behind a schema: the one it refers to or narrows, the one beside null, or the type of a list's elements.
fn behind<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Value> {
    if let Some(reference) = schema.get("$ref") {
        return root.pointer(reference.as_str()?.strip_prefix('#')?);
    }
    let first = |of: &str| schema.get(of).and_then(Value::as_array).and_then(|schemas| schemas.first());
    first("allOf").or_else(|| first("anyOf")).or_else(|| schema.get("items")).filter(|inner| inner.is_object())
}

/// The object with keys that a schema stands for.
fn with_keys<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Value> {
    if keys(schema).is_some() { Some(schema) } else { with_keys(behind(schema, root)?, root) }
}

/// The description of a schema, or else of what it stands for, on one line.
fn meaning(schema: &Value, root: &Value) -> String {
    match schema.get("description").and_then(Value::as_str) {
        Some(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        None => behind(schema, root).map(|inner| meaning(inner, root)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lists_the_keys_behind_references_lists_and_null() {
        let pruning = explain("report.pruning").unwrap();
        assert!(pruning.starts_with("report.pruning\n\n") && pruning.contains("\nsentences  "), "{pruning}");
        assert!(pruning.contains("\nMore: ") && pruning.contains("report.pruning.orders"), "{pruning}");
        assert!(explain("report.pruning.interaction").unwrap().contains("\ntogether"));
        assert!(explain("report.heads.labels.test").unwrap().contains("\nq "));
        assert!(explain("report.heads.primary").unwrap().starts_with("report.heads.primary\n\nThe firm label"));
        assert!(explain("numbers.labels").is_some() && explain("compare.agreement").is_some());
        for nothing in ["report.pruned", "report.heads.primary.name", "reports", "report."] {
            assert_eq!(explain(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn every_key_of_the_report_has_a_meaning() {
        let root = Value::from(report::schema());
        for (key, value) in keys(&root).unwrap() {
            assert!(!meaning(value, &root).is_empty(), "{key}");
        }
    }
}
