//! The parts of the report's JSON Schema that are made from the tables of metrics, labels and thresholds.

use std::ops::RangeInclusive;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::studies::registry::{self, STUDIES, default_policy};
use crate::study::AnyStudy;
use crate::study::labels::{ABSENT, Detector, Label, Near, Parameter, REMOVED, UNLABELLED};
use crate::study::metrics::metric::{Denominator, MetricKeys};

/// The schema of an object with a number or null for each metric. Metrics of studies that were not run are absent.
pub(super) fn values(_: &mut SchemaGenerator) -> Schema {
    metrics_schema(|range| number_schema(range, &["number", "null"]))
}

/// The schema of an object with an interval or null for each metric.
pub(super) fn intervals(_: &mut SchemaGenerator) -> Schema {
    metrics_schema(|range| {
        let end = number_schema(range, &["number"]);
        json_schema!({ "type": ["array", "null"], "items": end, "minItems": 2, "maxItems": 2 })
    })
}

/// The schema of an object with a denominator for each metric.
pub(super) fn denominators(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<Denominator>();
    metrics_schema(|_| value.clone())
}

/// The schema of an object with a denominator for each metric, or null where the head has the common denominator.
pub(super) fn head_denominators(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<Option<Denominator>>();
    metrics_schema(|_| value.clone())
}

/// The schema of a value with one of these JSON `types`; a number must be within `range`.
fn number_schema(range: &RangeInclusive<f64>, types: &[&str]) -> Schema {
    let mut schema = json_schema!({ "type": types });
    for (key, bound) in [("minimum", range.start()), ("maximum", range.end())] {
        if bound.is_finite() {
            schema.insert(key.to_owned(), json!(bound));
        }
    }
    schema
}

/// The schema of an object with a key for each metric; `value` makes the schema of a metric's value from the
/// metric's range.
fn metrics_schema(value: impl Fn(&RangeInclusive<f64>) -> Schema) -> Schema {
    let metric = |range: &RangeInclusive<f64>, keys: MetricKeys, text: &str| match keys {
        MetricKeys::Single => {
            let mut schema = value(range);
            schema.insert("description".to_owned(), text.into());
            schema
        }
        MetricKeys::Several(count, name) => {
            let names: Vec<String> = (0..count).map(name).collect();
            let properties: Map<String, Value> = names.iter().map(|name| (name.clone(), value(range).into())).collect();
            json_schema!({
                "description": text,
                "type": "object",
                "properties": properties,
                "required": names,
                "additionalProperties": false,
            })
        }
    };
    let of_study = |study: &'static dyn AnyStudy| {
        let metrics = (study.card().metrics)().into_iter();
        metrics.map(move |(explanation, keys)| ((study.card().range)(explanation.name), explanation, keys))
    };
    let all = STUDIES.iter().flat_map(|study| of_study(*study));
    let properties: Map<String, Value> =
        all.map(|(range, text, keys)| (text.name.to_owned(), metric(&range, keys, text.measures).into())).collect();
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn label_schema() -> Schema {
    let of_detector = |detector: &Detector| match detector.parameter {
        Parameter::None => json!({ "const": detector.explanation.name }),
        Parameter::OneOf(family, all) => {
            json!({ "enum": all().iter().map(|one| format!("{family}:{one}")).collect::<Vec<_>>() })
        }
        Parameter::Any(family, _) => json!({ "pattern": format!("^{family}:.") }),
        Parameter::Keyed(family) => json!({ "pattern": format!("^{family}:[^=]+=.") }),
    };
    json_schema!({ "type": "string", "anyOf": registry::detectors().map(of_detector).collect::<Vec<_>>() })
}

/// The schema of a head's `primary`: its first label, or why it has none.
pub(super) fn primary_label(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [label_schema(), { "enum": [UNLABELLED, ABSENT, REMOVED] }] })
}

pub(super) fn names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": label_schema() })
}

pub(super) fn labels(generator: &mut SchemaGenerator) -> Schema {
    labelled_list(&generator.subschema_for::<Label>())
}

/// The schema of a head's `chooses`: the label for how the head chooses its keys, or null.
pub(super) fn choice_label(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<Label>();
    json_schema!({ "anyOf": [{ "allOf": [item, { "properties": { "label": label_schema() } }] }, { "type": "null" }] })
}

/// The schema of the list of labels that a head without a label comes nearest to.
pub(super) fn nearest_labels(generator: &mut SchemaGenerator) -> Schema {
    labelled_list(&generator.subschema_for::<Near>())
}

/// The schema of a list whose `item`s each have the name of a label.
fn labelled_list(item: &Schema) -> Schema {
    json_schema!({ "type": "array", "items": { "allOf": [item, { "properties": { "label": label_schema() } }] } })
}

pub(super) fn counts(generator: &mut SchemaGenerator) -> Schema {
    let count = generator.subschema_for::<u64>();
    let names = registry::detectors().map(|detector| detector.explanation.name.to_owned());
    let properties: Map<String, Value> = names.map(|name| (name, count.clone().into())).collect();
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

pub(super) fn policy(_: &mut SchemaGenerator) -> Schema {
    let policy = default_policy();
    let properties: Map<String, Value> =
        policy.thresholds().map(|threshold| (threshold.name.to_owned(), threshold.schema())).collect();
    let names: Vec<&str> = policy.thresholds().map(|threshold| threshold.name).collect();
    json_schema!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
}

/// The schema of the sections of all studies; sections of studies that were not run are absent.
pub(super) fn sections(generator: &mut SchemaGenerator) -> Schema {
    let entries = STUDIES.iter().flat_map(|study| study.schema(generator));
    let properties: Map<String, Value> = entries.map(|(key, schema)| (key.to_owned(), schema.into())).collect();
    json_schema!({ "type": "object", "properties": json!(properties) })
}
