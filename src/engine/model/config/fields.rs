//! The fields of a `config.json`, with errors that name them, and the defaults of those that it leaves out.

use anyhow::{Error, Result, anyhow};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};

use crate::system::errors::Facts;
use crate::system::json::problem;

/// Reads the text of a `config.json` as any of the types that say which fields a family has.
/// Fails if a field is missing or has a value of another type; the error names the field, the line and the column.
pub(in crate::model) fn fields<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
        .map_err(|error| wrong_field(&error.path().to_string(), problem(error.inner()), error.inner().line()))
}

/// The error of a field, by its problem, which may name it.
pub(super) fn wrong_field(field: &str, problem: String, line: usize) -> Error {
    // `.` is the whole object, as where a field is missing, which the problem itself names.
    let named = field == "." || problem.starts_with(field);
    let problem = if named { anyhow!(problem) } else { anyhow!("{field}: {problem}") };
    problem.in_line(line as u64)
}

/// The number `N`.
pub(in crate::model) fn number<T: From<u16>, const N: u16>() -> T {
    N.into()
}

/// The number `N` of an option, which null is another value of.
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

/// transformers' default in every family.
pub(in crate::model) fn default_initializer_range() -> f64 {
    0.02
}

/// Null is the default.
pub(in crate::model) fn initializer_range<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_else(default_initializer_range))
}
