//! The overview of a batch: a table for programs (runs.csv) and a page for people (index.html), the same rows in both.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use itertools::Itertools as _;
use serde_json::{Value, json};

use super::ledger::{LedgerEntry, RunStatus};
use crate::export::page;
use crate::export::tables::csv;
use crate::passes::observation::identity::Tool;
use crate::system::counts::format_count;
use crate::system::files::output::Output;

/// Row of the overview: a run with its status, report summary and files.
pub struct RunRow<'a> {
    pub run: &'a str,
    pub status: RunStatus,
    /// Ledger entry of the run; `None` if the run has no report.
    pub entry: Option<&'a LedgerEntry>,
    /// Names of the run's existing files.
    pub report_files: Vec<&'a str>,
}

pub fn write_overview(folder: &Path, rows: &[RunRow<'_>]) -> Result<()> {
    for (name, bytes) in [("runs.csv", csv::rows_csv(&csv_rows(rows))?), ("index.html", render_page(rows)?)] {
        Output::open(&folder.join(name))?.finish(&bytes)?;
    }
    Ok(())
}

const CSV_COLUMNS: &str =
    "run status message reports model layers heads corpus sentences words tokens skipped firm firm_before";

/// Rows of `runs.csv`: a header, then a row per run, in which unknown cells are empty.
/// A label family that no run measured has no column.
fn csv_rows(rows: &[RunRow<'_>]) -> Vec<Vec<String>> {
    let entries = || rows.iter().filter_map(|row| row.entry);
    let families: BTreeSet<&str> =
        entries().flat_map(|entry| entry.found.label_counts.keys().map(String::as_str)).collect();
    let columns = |of: &str| families.iter().map(|family| format!("{of}.{family}")).collect::<Vec<_>>();
    let header =
        [CSV_COLUMNS.split(' ').map(str::to_owned).collect(), columns("labels"), columns("firm_labels")].concat();
    let line = |row: &RunRow<'_>| {
        let mut cells = vec![
            row.run.to_owned(),
            row.status.name().to_owned(),
            row.status.failure_message().unwrap_or_default().to_owned(),
        ];
        if let Some(LedgerEntry { found, before, .. }) = row.entry {
            cells.push(row.report_files.join(" "));
            cells.push(found.model.clone());
            cells.extend([found.layers, found.heads].map(|number| number.to_string()));
            cells.push(found.corpus.clone());
            cells.extend([found.sentences, found.words, found.tokens, found.skipped].map(|number| number.to_string()));
            cells.push(found.firm.to_string());
            cells.push(before.as_ref().map_or_else(String::new, |before| before.firm.to_string()));
            for counts in [&found.label_counts, &found.firm_label_counts] {
                let count = |family: &&str| counts.get(*family).map_or_else(String::new, u64::to_string);
                cells.extend(families.iter().map(count));
            }
        }
        cells.resize(header.len(), String::new());
        cells
    };
    [header.clone()].into_iter().chain(rows.iter().map(line)).collect()
}

/// Formats the changes in the number of firm labels; each is (label family, difference).
fn changes_in_words(changes: Vec<(&str, i64)>) -> String {
    if changes.is_empty() {
        return "none".to_owned();
    }
    let text = |(family, change)| format!("{family} {change:+}").replace(" -", " \u{2212}");
    changes.into_iter().map(text).join(", ")
}

fn render_page(rows: &[RunRow<'_>]) -> Result<Vec<u8>> {
    let count = |name: &str| rows.iter().filter(|row| row.status.name() == name).count();
    let counts = ["done", "from saved report", "up to date", "earlier", "missing", "failed"]
        .into_iter()
        .filter(|name| count(name) > 0)
        .map(|name| format!("{} {name}", count(name)))
        .join(", ");
    let row = |RunRow { run, status, entry, report_files: reports }: &RunRow<'_>| {
        // The format is the file name after the run's name.
        let link = |file: &&str| {
            let format = file.strip_prefix(run).and_then(|end| end.strip_prefix('.')).unwrap_or(file);
            json!({ "file": file, "format": format })
        };
        json!({
            "run": run,
            "status": status.name(),
            "message": status.failure_message().unwrap_or_default(),
            "found": entry.map(|entry| &entry.found),
            "changes": entry.and_then(LedgerEntry::label_count_changes).map_or_else(String::new, changes_in_words),
            "reports": reports.iter().map(link).collect::<Vec<_>>(),
        })
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let Tool { name, version, .. } = Tool::default();
    let page = json!({
        "title": "Runs",
        // Facts shared by all runs are not known.
        "facts": [],
        "footer": format!("{name} {version}"),
        "count": format_count(rows.len(), "run"),
        "counts": counts,
        "rows": rows,
        "failed": rows.iter().filter(|row| row["message"] != "").collect::<Vec<_>>(),
    });
    page::fill_template("runs", &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_text() {
        let failed = RunStatus::Failed("no `<script>alert(\"a\")</script>`".to_owned());
        let html =
            render_page(&[RunRow { run: "a.b", status: failed, entry: None, report_files: Vec::new() }]).unwrap();
        let html = String::from_utf8(html).unwrap();
        assert!(html.contains("no `&lt;script&gt;alert(&quot;a&quot;)&lt;/script&gt;`"), "{html}");
        assert!(html.contains("1 run: 1 failed."), "{html}");
    }

    #[test]
    fn every_line_has_every_column() {
        let lines =
            csv_rows(&[RunRow { run: "a.b", status: RunStatus::NotRun, entry: None, report_files: Vec::new() }]);
        assert_eq!(lines[1].join(","), "a.b,missing,,,,,,,,,,,,");
        assert_eq!(lines[0].len(), lines[1].len());
    }
}
