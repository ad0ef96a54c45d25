//! Describes the two analyses of a comparison: file, model, corpus, differing settings, and numbers not compared.

use std::fmt::{self, Write};

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::export::page;
use crate::report::ReportContext;
use crate::stats::interval::Interval;
use crate::study::show::wording::with_interval;
use crate::system::counts::format_count;
use crate::system::printable::one_line;

/// File, model and corpus of an analysis that is compared.
#[derive(Serialize, JsonSchema)]
pub struct Described {
    /// Path of the report or partial, as it was given.
    pub file: String,
    /// Shard that a partial covers, such as `1/4`; null for a report.
    pub shard: Option<String>,
    /// Hub id, name of a built-in model, or folder name of the model.
    pub model: String,
    /// Name of the corpus, or of the task where no corpus was analysed.
    pub corpus: String,
    /// Number of analysed sentences; 0 where only a task was analysed.
    pub sentences: u64,
}

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Valued {
    /// Estimate, in the unit that `unit` names.
    pub value: f64,
    /// 95 % interval of the estimate; null if there is none.
    pub ci95: Option<Interval>,
}

/// Numbers, labels or sections that were not compared, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftAside {
    /// Reason why the entries were not compared, in words that continue `count`: 12 `numbers are there on one side only`.
    pub why: String,
    /// Number of entries that were not compared for this reason.
    pub count: usize,
    /// Names of the relations, metrics, labels or sections that were not compared.
    pub of: Vec<String>,
}

/// A setting or fact in which two runs differ.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fact {
    /// Path of the fact in a report, such as `corpus.files[0].sha256`.
    pub key: String,
    /// Value of the fact in the first analysis.
    pub a: Value,
    /// Value of the fact in the second analysis.
    pub b: Value,
}

impl Valued {
    pub fn in_words(&self, digits: usize) -> String {
        with_interval(self.value, self.ci95, digits)
    }
}

impl Described {
    pub fn in_words(&self) -> String {
        let Self { file, shard, model, corpus, sentences } = self;
        let shard = shard.as_ref().map_or_else(String::new, |shard| format!(", shard {shard}"));
        let sentences =
            if *sentences == 0 { String::new() } else { format!(", {}", format_count(*sentences, "sentence")) };
        format!("{file}{shard}: {model} over {corpus}{sentences}")
    }
}

/// Lists the values under the report keys `tool`, `model`, `corpus` and `settings` that differ between two runs. Nested
/// objects are compared value by value.
pub fn differing_facts(runs: [&ReportContext; 2]) -> Vec<Fact> {
    let [a, b] = runs.map(|ReportContext { tool, model, corpus, settings, .. }| {
        json!({ "tool": tool, "model": model, "corpus": corpus, "settings": settings })
    });
    differing_values("", &a, &b)
}

/// Relative difference up to which numbers count as equal. A report keeps six digits, a partial keeps all digits.
const ROUNDING: f64 = 5e-6;

/// Whether two values are equal up to the rounding of reports.
pub fn are_equal_when_rounded(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(ours), Value::Number(theirs)) if ours.is_f64() || theirs.is_f64() => {
            let near = |(a, b): (f64, f64)| (a - b).abs() <= ROUNDING * a.abs().max(b.abs());
            ours.as_f64().zip(theirs.as_f64()).is_some_and(near)
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| are_equal_when_rounded(a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let is_there = |(key, a): (&String, &Value)| theirs.get(key).is_some_and(|b| are_equal_when_rounded(a, b));
            ours.len() == theirs.len() && ours.iter().all(is_there)
        }
        _ => a == b,
    }
}

/// Lists the single values that differ between `a` and `b`; `at` is the path of both in a report.
fn differing_values(at: &str, a: &Value, b: &Value) -> Vec<Fact> {
    match (a, b) {
        _ if are_equal_when_rounded(a, b) => Vec::new(),
        (Value::Object(whole), Value::Null) | (Value::Null, Value::Object(whole)) => {
            // If one side lacks an object, each of its values is a fact.
            whole.keys().flat_map(|key| differing_values(&format!("{at}.{key}"), &a[key], &b[key])).collect()
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let more = theirs.keys().filter(|key| !ours.contains_key(*key));
            let inner = |key: &String| if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            ours.keys().chain(more).flat_map(|key| differing_values(&inner(key), &a[key], &b[key])).collect()
        }
        // Items of equally long lists are compared by position: `corpus.files[0].sha256`.
        (Value::Array(ours), Value::Array(theirs))
            if ours.len() == theirs.len() && ours.iter().all(Value::is_object) =>
        {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.flat_map(|(place, (a, b))| differing_values(&format!("{at}[{place}]"), a, b)).collect()
        }
        _ => vec![Fact { key: at.to_owned(), a: a.clone(), b: b.clone() }],
    }
}

/// Maximum number of listed facts without `--full`.
const MAX_FACTS: usize = 6;

/// Maximum number of names listed for each reason why something was not compared, without `--full`.
const MAX_NAMES: usize = 6;

/// Maximum number of characters shown of a value; digests and lists of files are longer.
const MAX_VALUE_LENGTH: usize = 40;

/// Number of characters that are shown before the first difference of two long values.
const SHOWN_BEFORE_DIFFERENCE: usize = 12;

pub fn write_sides(out: &mut impl Write, [a, b]: [&Described; 2]) -> fmt::Result {
    writeln!(out, "\na  {}\nb  {}\n", one_line(&a.in_words()), one_line(&b.in_words()))
}

/// Writes the numbers, labels and sections that were not compared, and why; with `full`, all their names.
pub fn write_not_compared(out: &mut impl Write, all: &[LeftAside], full: bool) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot compared:")?;
    for aside in all {
        let names: Vec<String> = aside.of.iter().take(list_limit(MAX_NAMES, full)).map(|name| one_line(name)).collect();
        let more = if aside.of.len() > names.len() { ", ..." } else { "" };
        let names = if names.is_empty() { String::new() } else { format!(" ({}{more})", names.join(", ")) };
        writeln!(out, "  {} {}{names}", aside.count, aside.why)?;
    }
    Ok(())
}

/// Writes the settings and facts in which two runs differ; with `full`, all of them at full length.
/// Otherwise facts on the corpus are only counted, since the text names the two corpora elsewhere.
pub fn write_differing_facts(out: &mut impl Write, facts: &[Fact], full: bool) -> fmt::Result {
    if facts.is_empty() {
        return Ok(());
    }
    let is_shown = |fact: &&Fact| full || !fact.key.starts_with("corpus.");
    let shown: Vec<&Fact> = facts.iter().filter(is_shown).take(list_limit(MAX_FACTS, full)).collect();
    if shown.is_empty() {
        let values = format_count(facts.len(), "value");
        return writeln!(
            out,
            "\n{values} that describe the corpus differ, not counted as changes (--full lists them)."
        );
    }
    writeln!(out, "\nSettings and facts that differ (a | b), not counted as changes:")?;
    for fact in &shown {
        let [a, b] = differing_excerpts([&fact.a, &fact.b], full);
        writeln!(out, "  {}: {a} | {b}", one_line(&fact.key))?;
    }
    match facts.len() - shown.len() {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more: --full"),
    }
}

/// Texts of two values, `[a, b]`. Long texts are cut to the part where they begin to differ, unless `full` is set.
fn differing_excerpts(values: [&Value; 2], full: bool) -> [String; 2] {
    let texts = values.map(|value| one_line(&value.to_string()).chars().collect::<Vec<char>>());
    let common = texts[0].iter().zip(&texts[1]).take_while(|(a, b)| a == b).count();
    let shown = list_limit(MAX_VALUE_LENGTH, full);
    let start = if common + SHOWN_BEFORE_DIFFERENCE < shown { 0 } else { common - SHOWN_BEFORE_DIFFERENCE };
    texts.map(|text| {
        let part: String = text.iter().skip(start).take(shown).collect();
        let [before, after] =
            [start > 0, text.len() > start + part.chars().count()].map(|cut| if cut { "..." } else { "" });
        format!("{before}{part}{after}")
    })
}

/// Maximum length of a list: `usual`, or no limit with `full`.
pub fn list_limit(usual: usize, full: bool) -> usize {
    if full { usize::MAX } else { usual }
}

/// Table on the page of a comparison.
#[derive(Serialize)]
pub struct PageTable {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl PageTable {
    /// A table of these rows, without columns that are empty in every row.
    pub fn new(title: impl Into<String>, columns: &[&'static str], mut rows: Vec<Vec<String>>) -> Self {
        let is_filled = |column: usize| rows.is_empty() || rows.iter().any(|row| !matches!(&*row[column], "" | "-"));
        let filled: Vec<bool> = (0..columns.len()).map(is_filled).collect();
        let columns = columns.iter().zip(&filled).filter(|(_, filled)| **filled).map(|(column, _)| *column).collect();
        for row in &mut rows {
            let mut filled = filled.iter();
            row.retain(|_| *filled.next().expect("a row has a cell in each column"));
        }
        Self { title: title.into(), columns, rows }
    }
}

/// Page of a comparison: verdict and findings, how the comparison was made, and the tables.
pub fn render_comparison_page(
    title: &str,
    [a, b]: [&Described; 2],
    verdict: &str,
    findings: &[String],
    how: &str,
    tables: &[PageTable],
) -> Result<Vec<u8>> {
    let page = json!({
        "title": title,
        "facts": [("a", a.in_words()), ("b", b.in_words())],
        "verdict": verdict,
        "findings": findings,
        "how": how,
        "parts": tables,
        "footer": "Layers and heads are counted from 0.",
    });
    page::fill_template("changes", &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(key: &str, a: Value, b: Value) -> Fact {
        Fact { key: key.to_owned(), a, b }
    }

    #[test]
    fn items_of_equally_long_lists_are_named_by_their_places() {
        let a = json!({ "files": [{ "path": "x" }, { "path": "y", "sha256": "1" }], "sizes": [1, 2] });
        let b = json!({ "files": [{ "path": "x" }, { "path": "y", "sha256": "2" }], "sizes": [1, 3] });
        let found = differing_values("", &a, &b);
        assert_eq!(
            found,
            [named("files[1].sha256", json!("1"), json!("2")), named("sizes", json!([1, 2]), json!([1, 3]))]
        );
        let longer = json!({ "files": [{ "path": "x" }], "sizes": [1, 2] });
        assert_eq!(differing_values("", &a, &longer), [named("files", a["files"].clone(), longer["files"].clone())]);
    }

    #[test]
    fn an_object_that_one_side_lacks_is_named_value_by_value() {
        let (a, b) = (json!({ "documents": { "taken": 51, "of": 318 } }), json!({ "documents": null }));
        let found = differing_values("", &a, &b);
        assert_eq!(
            found,
            [named("documents.of", json!(318), Value::Null), named("documents.taken", json!(51), Value::Null)]
        );
    }

    #[test]
    fn single_values_are_named_by_their_keys() {
        let a = json!({ "model": { "id": "x", "layers": 2, "old": [1] }, "same": 1 });
        let b = json!({ "model": { "id": "y", "layers": 2, "new": true }, "same": 1 });
        let found = differing_values("", &a, &b);
        assert_eq!(
            found,
            [
                named("model.id", json!("x"), json!("y")),
                named("model.old", json!([1]), Value::Null),
                named("model.new", Value::Null, json!(true)),
            ]
        );
    }

    #[test]
    fn of_long_values_the_part_that_differs_is_shown() {
        let [a, b] = ["1.2", "1.3"].map(|end| json!(format!("{}{end}{}", "x".repeat(60), "y".repeat(60))));
        let shown = differing_excerpts([&a, &b], false);
        assert_eq!(shown, ["2", "3"].map(|digit| format!("...{}1.{digit}{}...", "x".repeat(10), "y".repeat(27))));
        assert_eq!(differing_excerpts([&a, &b], true), [a.to_string(), b.to_string()]);
        assert_eq!(differing_excerpts([&json!(1), &json!(null)], false), ["1", "null"]);
        // A difference near the beginning is shown with the beginning.
        let [a, b] = ["p", "q"].map(|first| json!(format!("{first}{}", "x".repeat(60))));
        assert_eq!(differing_excerpts([&a, &b], false)[0], format!("\"p{}...", "x".repeat(38)));
    }

    #[test]
    fn columns_without_anything_are_left_out() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table = PageTable::new("t", &["x", "y", "z"], vec![row(["1", "-", ""]), row(["2", "-", "3"])]);
        assert_eq!(
            (table.columns, table.rows),
            (vec!["x", "z"], vec![vec!["1".to_owned(), String::new()], vec!["2".to_owned(), "3".to_owned()]])
        );
        assert_eq!(PageTable::new("t", &["x", "y"], Vec::new()).columns, ["x", "y"]);
    }
}
