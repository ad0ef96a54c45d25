//! What changed, as a page: the same as on the terminal, whole, and sortable.

use anyhow::Result;
use serde::Serialize;

use super::outcome::{Change, Described, LabelChange, LeftAside, Method, Outcome, Standing, Valued};
use crate::export::page;
use crate::stats::bootstrap::Interval;
use crate::studies::wording::significance;
use crate::system::counted::{counted, plural};

#[derive(Serialize)]
struct Page {
    title: &'static str,
    facts: Vec<(&'static str, String)>,
    verdict: &'static str,
    how: String,
    parts: Vec<Part>,
    footer: &'static str,
}

/// A table of the page.
#[derive(Serialize)]
struct Part {
    title: String,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

/// The page as a file.
///
/// # Errors
///
/// None that an outcome can cause.
pub fn render(outcome: &Outcome) -> Result<Vec<u8>> {
    let Outcome { a, b, method, rate, tolerance, compared, labels, relations, metrics, left_aside, not_shared, .. } =
        outcome;
    let any = labels.len() + relations.len() + metrics.len() > 0;
    let how = match method {
        Method::PairedByBlock => "the same sentences, pairwise by blocks",
        Method::ByIntervals => "by their intervals",
    };
    let numbers = ["number", "head", "a", "b", "difference", "q"].as_slice();
    let facts = not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    let page = Page {
        title: "What changed between two analyses",
        facts: vec![("a", side(a)), ("b", side(b))],
        verdict: match (outcome.changed, any) {
            (false, _) => "Nothing changed beyond chance",
            (true, false) => "The models do not have the same heads",
            (true, true) => "Something changed beyond chance",
        },
        how: format!(
            "Compared {} {} of heads and {} {} on relations, {how}: changed where q is at most {rate}, corrected for all \
             {} of them, and farther apart than {tolerance}. Compared {} {} firm on either side: changed where \
             out of reach on the other. Intervals are of 95 %.",
            compared.metrics,
            plural(&compared.metrics, "metric", "metrics"),
            compared.relations,
            plural(&compared.relations, "accuracy", "accuracies"),
            compared.numbers,
            counted(compared.labels, "label"),
            plural(&compared.labels, "that is", "that are")
        ),
        parts: vec![
            Part {
                title: format!("Labels: {} changed", labels.len()),
                columns: &["head", "label", "", "a", "b", "threshold", "number", "q"],
                rows: labels.iter().map(label).collect(),
            },
            Part {
                title: format!("Accuracies on relations: {} of {} changed", relations.len(), compared.relations),
                columns: numbers,
                rows: relations.iter().map(change).collect(),
            },
            Part {
                title: format!("Metrics of heads: {} of {} changed", metrics.len(), compared.metrics),
                columns: numbers,
                rows: metrics.iter().map(change).collect(),
            },
            Part {
                title: "Not compared".to_owned(),
                columns: &["why", "how many", "of"],
                rows: left_aside.iter().map(aside).collect(),
            },
            Part { title: "Not shared, and no change".to_owned(), columns: &["fact", "a", "b"], rows: facts.collect() },
        ],
        footer: "Layers and heads are counted from 0.",
    };
    page::filled("changes", &page)
}

fn side(Described { file, shard, model, corpus, sentences }: &Described) -> String {
    let shard = shard.as_ref().map_or_else(String::new, |shard| format!(", shard {shard}"));
    format!("{file}{shard}: {model} over {corpus}, {}", counted(*sentences, "sentence"))
}

fn number(value: f64, ci95: Option<Interval>) -> String {
    let ci95 = ci95.map_or_else(String::new, |ci95| format!(" [{:.4}, {:.4}]", ci95.low(), ci95.high()));
    format!("{value:.4}{ci95}")
}

fn label(LabelChange { head, label, a, b, number: of, q }: &LabelChange) -> Vec<String> {
    let standing = |Standing { score, ci95, .. }: &Standing| number(*score, *ci95);
    let gone = if a.firm { "lost" } else { "gained" }.to_owned();
    let threshold = format!("{:.3}", a.threshold);
    vec![head.clone(), label.clone(), gone, standing(a), standing(b), threshold, of.clone(), significance(*q)]
}

fn change(Change { head, number: of, a, b, difference, q, .. }: &Change) -> Vec<String> {
    let valued = |Valued { value, ci95 }: &Valued| number(*value, *ci95);
    vec![of.clone(), head.clone(), valued(a), valued(b), format!("{difference:+.4}"), significance(*q)]
}

fn aside(LeftAside { why, count, of }: &LeftAside) -> Vec<String> {
    vec![why.clone(), count.to_string(), of.join(", ")]
}
