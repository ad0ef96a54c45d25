//! The fields of a `config.json`, with errors that name them.

use anyhow::{Result, anyhow};
use serde::de::DeserializeOwned;

use crate::system::errors::Facts;
use crate::system::json::problem;

/// Reads the text of a `config.json` as any of the types that say which fields a family has.
/// Fails if a field is missing or has a value of another type; the error names the field, the line and the column.
pub(in crate::model) fn fields<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(|error| {
        let field = error.path().to_string();
        let problem = problem(error.inner());
        // `.` is the whole object, as where a field is missing, which the problem itself names.
        let named = field == "." || problem.starts_with(&field);
        let problem = if named { anyhow!(problem) } else { anyhow!("{field}: {problem}") };
        problem.in_line(error.inner().line() as u64)
    })
}
