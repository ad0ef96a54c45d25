//! The two analyses of a comparison in words: what each is of, what was not compared, and what they do not share.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::report::ReportContext;
use crate::stats::interval::Interval;
use crate::study::show::wording::with_interval;
use crate::system::counted::counted;

/// One of the two analyses.
#[derive(Serialize, JsonSchema)]
pub struct Described {
    /// The file, as it was named.
    pub file: String,
    /// The shard of a partial; null for a report.
    pub shard: Option<String>,
    /// The model.
    pub model: String,
    /// The corpus, or the task where that alone was asked about.
    pub corpus: String,
    /// Sentences analysed; 0 of a task alone.
    pub sentences: u64,
}

/// A number with its interval.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Valued {
    /// The number.
    pub value: f64,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

/// Things that were not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftAside {
    /// Why, in words.
    pub why: String,
    /// How many.
    pub count: usize,
    /// The relations, metrics, labels or sections that they are of.
    pub of: Vec<String>,
}

/// A fact about the runs.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fact {
    /// Its key in a report.
    pub key: String,
    /// In the first analysis.
    pub a: Value,
    /// In the second.
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
        let sentences = if *sentences == 0 { String::new() } else { format!(", {}", counted(*sentences, "sentence")) };
        format!("{file}{shard}: {model} over {corpus}{sentences}")
    }
}

/// The single values in which the descriptions of two runs differ, by their keys in a report.
pub fn not_shared(runs: [&ReportContext; 2]) -> Vec<Fact> {
    let [a, b] = runs.map(|ReportContext { tool, model, corpus, settings, .. }| {
        json!({ "tool": tool, "model": model, "corpus": corpus, "settings": settings })
    });
    facts("", &a, &b)
}

/// The relative difference of two numbers that are one, since a report keeps six digits and a partial all of them.
const ROUNDING: f64 = 5e-6;

/// Whether two values are the same but for the digits that a report keeps.
pub fn are_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(ours), Value::Number(theirs)) if ours.is_f64() || theirs.is_f64() => {
            let near = |(a, b): (f64, f64)| (a - b).abs() <= ROUNDING * a.abs().max(b.abs());
            ours.as_f64().zip(theirs.as_f64()).is_some_and(near)
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| are_same(a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let is_there = |(key, a): (&String, &Value)| theirs.get(key).is_some_and(|b| are_same(a, b));
            ours.len() == theirs.len() && ours.iter().all(is_there)
        }
        _ => a == b,
    }
}

fn facts(at: &str, a: &Value, b: &Value) -> Vec<Fact> {
    match (a, b) {
        _ if are_same(a, b) => Vec::new(),
        (Value::Object(whole), Value::Null) | (Value::Null, Value::Object(whole)) => {
            // What one side lacks is named value by value.
            whole.keys().flat_map(|key| facts(&format!("{at}.{key}"), &a[key], &b[key])).collect()
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let more = theirs.keys().filter(|key| !ours.contains_key(*key));
            let inner = |key: &String| if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            ours.keys().chain(more).flat_map(|key| facts(&inner(key), &a[key], &b[key])).collect()
        }
        // Items of equally long lists are held against each other by their places: `corpus.files[0].sha256`.
        (Value::Array(ours), Value::Array(theirs))
            if ours.len() == theirs.len() && ours.iter().all(Value::is_object) =>
        {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.flat_map(|(place, (a, b))| facts(&format!("{at}[{place}]"), a, b)).collect()
        }
        _ => vec![Fact { key: at.to_owned(), a: a.clone(), b: b.clone() }],
    }
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
        let found = facts("", &a, &b);
        assert_eq!(
            found,
            [named("files[1].sha256", json!("1"), json!("2")), named("sizes", json!([1, 2]), json!([1, 3]))]
        );
        let longer = json!({ "files": [{ "path": "x" }], "sizes": [1, 2] });
        assert_eq!(facts("", &a, &longer), [named("files", a["files"].clone(), longer["files"].clone())]);
    }

    #[test]
    fn an_object_that_one_side_lacks_is_named_value_by_value() {
        let (a, b) = (json!({ "documents": { "taken": 51, "of": 318 } }), json!({ "documents": null }));
        let found = facts("", &a, &b);
        assert_eq!(
            found,
            [named("documents.of", json!(318), Value::Null), named("documents.taken", json!(51), Value::Null)]
        );
    }

    #[test]
    fn single_values_are_named_by_their_keys() {
        let a = json!({ "model": { "id": "x", "layers": 2, "old": [1] }, "same": 1 });
        let b = json!({ "model": { "id": "y", "layers": 2, "new": true }, "same": 1 });
        let found = facts("", &a, &b);
        assert_eq!(
            found,
            [
                named("model.id", json!("x"), json!("y")),
                named("model.old", json!([1]), Value::Null),
                named("model.new", Value::Null, json!(true)),
            ]
        );
    }
}
