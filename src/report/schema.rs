//! The JSON Schema of the report: what depends on the tables of metrics and thresholds is made from them.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::stats::bootstrap::Interval;
use crate::studies::all::{STUDIES, default_policy};
use crate::studies::metric::{Denominator, Keys};

/// A value of each metric; those of studies that were not run are absent.
pub(super) fn values(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<Option<f64>>();
    metrics(&value)
}

/// An interval of each metric.
pub(super) fn intervals(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<Option<Interval>>();
    metrics(&value)
}

/// How much each metric rests on.
pub(super) fn denominators(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<Denominator>();
    metrics(&value)
}

fn metrics(value: &Schema) -> Schema {
    let metric = |keys: Keys, text: &str| match keys {
        Keys::Single => {
            let mut schema = value.clone();
            schema.insert("description".to_owned(), text.into());
            schema
        }
        Keys::Each(count, name) => {
            let names: Vec<String> = (0..count).map(name).collect();
            let properties: Map<String, Value> =
                names.iter().map(|name| (name.clone(), value.clone().into())).collect();
            json_schema!({
                "description": text,
                "type": "object",
                "properties": properties,
                "required": names,
                "additionalProperties": false,
            })
        }
    };
    let all = STUDIES.iter().flat_map(|study| study.metrics());
    let properties: Map<String, Value> = all
        .map(|(explanation, keys)| (explanation.name.to_owned(), metric(keys, explanation.measures).into()))
        .collect();
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Every threshold, by its name.
pub(super) fn policy(_: &mut SchemaGenerator) -> Schema {
    let policy = default_policy();
    let properties: Map<String, Value> =
        policy.thresholds().map(|threshold| (threshold.name.to_owned(), threshold.schema())).collect();
    let names: Vec<&str> = policy.thresholds().map(|threshold| threshold.name).collect();
    json_schema!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
}

/// The sections of all studies; those of studies that were not run are absent.
pub(super) fn sections(generator: &mut SchemaGenerator) -> Schema {
    let entries = STUDIES.iter().flat_map(|study| study.schema(generator));
    let properties: Map<String, Value> = entries.map(|(key, schema)| (key.to_owned(), schema.into())).collect();
    json_schema!({ "type": "object", "properties": json!(properties) })
}
