//! The whole report as JSON.

use anyhow::Result;

use crate::report::Report;

/// The report, indented, with a newline at the end. Floats are the shortest that read back to the same value.
///
/// # Errors
///
/// None that a report can cause.
pub fn render(report: &Report) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(report)?;
    bytes.push(b'\n');
    Ok(bytes)
}
