//! Reads fields of a `config.json`, with errors that name them, and defaults for missing ones.

use std::fmt::Display;

use anyhow::{Error, Result, anyhow};
use serde::de::DeserializeOwned;

use crate::system::errors::ErrorExt;
use crate::system::json::describe_error;

/// Parses the text of a `config.json` as a type whose fields are keys of the file. Fails if a field is missing or has a value of
/// another type; the error names the field, the line and the column.
pub(in crate::model) fn parse_fields<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
        .map_err(|error| wrong_field(&error.path().to_string(), describe_error(error.inner()), error.inner().line()))
}

/// Makes the error about the field `field`. `problem` describes the error and may already contain the field's name.
pub(super) fn wrong_field(field: &str, problem: String, line: usize) -> Error {
    // `.` is the whole object, as where a field is missing, which the problem itself names.
    let named = field == "." || problem.starts_with(field);
    let problem = if named { anyhow!(problem) } else { anyhow!("{field}: {problem}") };
    problem.with_line(line as u64)
}

/// Makes the error that `key` has an unusable value, which `reason` explains.
pub(in crate::model) fn wrong_value(key: &str, value: impl Display, reason: impl Display) -> Error {
    anyhow!("{key} is {value}: {reason}").with_value(value)
}

/// Default of `type_vocab_size`.
pub(super) fn default_segments() -> usize {
    2
}

/// Default of `layer_norm_eps`.
pub(super) fn default_epsilon() -> f64 {
    1e-12
}

/// Default of `tie_word_embeddings`.
pub(super) fn default_tied() -> bool {
    true
}
