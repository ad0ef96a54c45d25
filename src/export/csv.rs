//! One row per head: its names, its labels, every metric, every label's score.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::json;

use crate::report::{HeadReport, Report};

/// The table; an empty cell is a value that could not be computed, or a label that the head does not have.
///
/// Columns: `layer`, `head`, `name`, `primary`, `labels` (separated by spaces), the metrics by their keys in the
/// JSON report (`offset_mass.-1`, `uas.dep->head`), and `score.<label>` for each label that some head has.
///
/// # Errors
///
/// None that a report can cause.
pub fn render(report: &Report) -> Result<Vec<u8>> {
    let scored: BTreeSet<&str> =
        report.heads.iter().flat_map(|head| &head.labels).map(|label| label.label.as_str()).collect();
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let mut header = ["layer", "head", "name", "primary", "labels"].map(str::to_owned).to_vec();
    if let Some(head) = report.heads.first() {
        header.extend(metrics(head).map(|(name, _)| name));
    }
    header.extend(scored.iter().map(|label| format!("score.{label}")));
    writer.write_record(&header)?;
    for head in &report.heads {
        let labels: Vec<&str> = head.labels.iter().map(|label| label.label.as_str()).collect();
        let mut row = vec![
            head.layer.to_string(),
            head.head.to_string(),
            head.name.clone(),
            head.primary.clone(),
            labels.join(" "),
        ];
        row.extend(metrics(head).map(|(_, cell)| cell));
        row.extend(scored.iter().map(|name| {
            let label = head.labels.iter().find(|label| label.label == *name);
            label.map_or_else(String::new, |label| label.score.to_string())
        }));
        writer.write_record(&row)?;
    }
    Ok(writer.into_inner().map_err(::csv::IntoInnerError::into_error)?)
}

/// The metrics of a head as columns, named by their keys in the JSON report joined by dots; null is an empty cell.
fn metrics(head: &HeadReport) -> impl Iterator<Item = (String, String)> {
    let cell = |value: Option<f64>| value.map_or_else(String::new, |value| json!(value).to_string());
    head.metrics.values().into_iter().map(move |(name, value)| (name, cell(value)))
}
