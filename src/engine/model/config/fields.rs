//! Reads fields of a `config.json`, with errors that name them, and defaults for missing ones.

use anyhow::{Error, Result, anyhow};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};

use crate::system::errors::Facts;
use crate::system::json::problem;

/// Parses the text of a `config.json` as a type whose fields are keys of the file. Fails if a field is missing or has a value of
/// another type; the error names the field, the line and the column.
pub(in crate::model) fn fields<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
        .map_err(|error| wrong_field(&error.path().to_string(), problem(error.inner()), error.inner().line()))
}

/// Makes the error for a field from `problem`, which may name the field already.
pub(super) fn wrong_field(field: &str, problem: String, line: usize) -> Error {
    // `.` is the whole object, as where a field is missing, which the problem itself names.
    let named = field == "." || problem.starts_with(field);
    let problem = if named { anyhow!(problem) } else { anyhow!("{field}: {problem}") };
    problem.in_line(line as u64)
}

/// The number `N`, as a serde default.
pub(in crate::model) fn number<T: From<u16>, const N: u16>() -> T {
    N.into()
}

/// `Some(N)`, as a serde default of a field that null sets to `None`.
#[expect(clippy::unnecessary_wraps, reason = "a default of an option")]
pub(in crate::model) fn some<T: From<u16>, const N: u16>() -> Option<T> {
    Some(N.into())
}

/// `1e-N`, rounded as the literal is: one division of exact numbers.
pub(in crate::model) fn ten_to_minus<const N: u32>() -> f64 {
    1.0 / 10_u64.pow(N) as f64
}

pub(in crate::model) fn yes() -> bool {
    true
}

/// transformers' default of `initializer_range` in every family.
pub(in crate::model) fn default_initializer_range() -> f64 {
    0.02
}

/// Deserializes `initializer_range`; null stands for the default.
pub(in crate::model) fn initializer_range<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_else(default_initializer_range))
}
