//! The page of a comparison: the same as on the terminal, whole, and sortable.

use anyhow::Result;
use serde::Serialize;

use super::outcome::{Change, Described, DiffOutcome, LabelChange, LeftAside, Method, Standing, Valued};
use crate::export::page;
use crate::stats::bootstrap::Interval;
use crate::study::show::wording::{decimal, significance};
use crate::system::counted::{counted, plural};

#[derive(Serialize)]
struct DiffPage {
    title: &'static str,
    facts: Vec<(&'static str, String)>,
    verdict: &'static str,
    how: String,
    parts: Vec<DiffTable>,
    footer: &'static str,
}

/// A table of the page.
#[derive(Serialize)]
struct DiffTable {
    title: String,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

/// The page as a file.
/// Fails for no an outcome.
pub fn render(outcome: &DiffOutcome) -> Result<Vec<u8>> {
    let DiffOutcome {
        a, b, method, rate, tolerance, compared, labels, relations, metrics, left_aside, not_shared, ..
    } = outcome;
    let any = labels.len() + relations.len() + metrics.len() > 0;
    let how = match method {
        Method::PairedByBlock => "the same sentences, pairwise by blocks",
        Method::ByIntervals => "by their intervals",
    };
    let numbers = match compared.numbers {
        0 => "No number could be compared.".to_owned(),
        numbers => format!(
            "Compared {} of heads and {} {} on relations, {how}: changed where q is at most {rate}, corrected for all {numbers} of \
             them, and farther apart than {tolerance}.",
            counted(compared.metrics, "metric"),
            compared.relations,
            plural(&compared.relations, "accuracy", "accuracies")
        ),
    };
    let firm = match compared.labels {
        0 => "No label that is firm on either side could be compared.".to_owned(),
        labels => format!(
            "Compared {} {} firm on either side: changed where out of reach on the other.",
            counted(labels, "label"),
            plural(&labels, "that is", "that are")
        ),
    };
    let columns = ["number", "head", "a", "b", "difference", "q"].as_slice();
    let facts = not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    let page = DiffPage {
        title: "What changed between two analyses",
        facts: vec![("a", side(a)), ("b", side(b))],
        verdict: match (outcome.changed, any) {
            (false, _) => "Nothing changed beyond chance",
            (true, false) => "The models do not have the same heads",
            (true, true) => "Something changed beyond chance",
        },
        how: format!("{numbers} {firm} Intervals are of 95 %."),
        parts: vec![
            DiffTable {
                title: format!("Labels: {} changed", labels.len()),
                columns: &["head", "label", "", "a", "b", "number", "q"],
                rows: labels.iter().map(label).collect(),
            },
            DiffTable {
                title: format!("Accuracies on relations: {} of {} changed", relations.len(), compared.relations),
                columns,
                rows: relations.iter().map(change).collect(),
            },
            DiffTable {
                title: format!("Metrics of heads: {} of {} changed", metrics.len(), compared.metrics),
                columns,
                rows: metrics.iter().map(change).collect(),
            },
            DiffTable {
                title: "Not compared".to_owned(),
                columns: &["why", "how many", "of"],
                rows: left_aside.iter().map(aside).collect(),
            },
            DiffTable {
                title: "Not shared, and no change".to_owned(),
                columns: &["fact", "a", "b"],
                rows: facts.collect(),
            },
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
    let ends = |ci95: Interval| format!(" [{}, {}]", decimal(ci95.low(), 4), decimal(ci95.high(), 4));
    format!("{}{}", decimal(value, 4), ci95.map_or_else(String::new, ends))
}

fn label(LabelChange { place, label, a, b, number: of, q }: &LabelChange) -> Vec<String> {
    let named = a.number != b.number;
    let standing = |Standing { number: of, score, ci95, threshold, .. }: &Standing| {
        let name = if named { format!("{of} ") } else { String::new() };
        format!("{name}{} of {threshold:.3}", number(*score, *ci95))
    };
    let gone = if a.firm { "lost" } else { "gained" }.to_owned();
    vec![place.to_string(), label.clone(), gone, standing(a), standing(b), of.clone(), significance(*q)]
}

fn change(Change { place, number: of, a, b, difference, q, .. }: &Change) -> Vec<String> {
    let valued = |Valued { value, ci95 }: &Valued| number(*value, *ci95);
    vec![of.clone(), place.to_string(), valued(a), valued(b), format!("{difference:+.4}"), significance(*q)]
}

fn aside(LeftAside { why, count, of }: &LeftAside) -> Vec<String> {
    vec![why.clone(), count.to_string(), of.join(", ")]
}
