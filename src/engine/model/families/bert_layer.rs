//! The names of the parts of BERT's layers.

use super::{Intermediate, LayerNames, QueryKeyValue};

/// The parts of a layer; RoBERTa and ELECTRA were made from the same source.
pub(super) const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["attention.self.query", "attention.self.key", "attention.self.value"]),
    query_key_norms: None,
    write_norms: None,
    distances: Some("attention.self.distance_embedding"),
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    intermediate: Intermediate::Plain("intermediate.dense"),
    output: "output.dense",
    output_norm: "output.LayerNorm",
};

/// The names in families whose positions are absolute.
pub(super) const ABSOLUTE: LayerNames = LayerNames { distances: None, ..LAYER };
