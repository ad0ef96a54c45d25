//! The page of a comparison: the same as on the terminal, whole, and sortable.

use anyhow::Result;
use serde::Serialize;

use super::outcome::{Change, Described, DiffOutcome, HeadChanges, LabelChange, LargestChange, LeftAside};
use crate::export::page;
use crate::study::show::wording::significance;
use crate::system::counted::counted;

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
    let DiffOutcome { a, b, compared, labels, heads, relations, metrics, left_aside, not_shared, .. } = outcome;
    let columns = ["number", "head", "a", "b", "difference", "q"].as_slice();
    let facts = not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    let page = DiffPage {
        title: "What changed between two analyses",
        facts: vec![("a", side(a)), ("b", side(b))],
        verdict: outcome.without_changes().unwrap_or("Something changed beyond chance"),
        how: format!(
            "{} {} Intervals are of 95 %. {}",
            outcome.numbers_in_words("q is at most"),
            outcome.labels_in_words(),
            outcome.pairing.as_deref().unwrap_or_default()
        ),
        parts: vec![
            DiffTable {
                title: format!("Labels: {} changed", labels.len()),
                columns: &["head", "label", "", "a", "b", "number", "q"],
                rows: labels.iter().map(label).collect(),
            },
            DiffTable {
                title: format!("By head: {} changed", heads.len()),
                columns: &["head", "numbers changed", "of", "most", "difference", "q"],
                rows: heads.iter().map(of_head).collect(),
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

/// The digits of numbers.
const DIGITS: usize = 4;

fn label(change: &LabelChange) -> Vec<String> {
    let LabelChange { place, label, a, b, number, q } = change;
    let [a, b] = [a, b].map(|side| side.in_words(change.has_several_numbers(), DIGITS));
    vec![place.to_string(), label.clone(), change.fate().to_owned(), a, b, number.clone(), significance(*q)]
}

fn of_head(HeadChanges { place, changed, compared, largest }: &HeadChanges) -> Vec<String> {
    let LargestChange { number, difference, q, .. } = largest;
    let counts = [changed, compared].map(ToString::to_string);
    let [changed, compared] = counts;
    vec![place.to_string(), changed, compared, number.clone(), format!("{difference:+.4}"), significance(*q)]
}

fn change(Change { place, number, a, b, difference, q, .. }: &Change) -> Vec<String> {
    let [a, b] = [a, b].map(|side| side.in_words(DIGITS));
    vec![number.clone(), place.to_string(), a, b, format!("{difference:+.4}"), significance(*q)]
}

fn aside(LeftAside { why, count, of }: &LeftAside) -> Vec<String> {
    vec![why.clone(), count.to_string(), of.join(", ")]
}
