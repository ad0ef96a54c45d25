//! The page of a comparison: the same as on the terminal, whole, and sortable.

use anyhow::Result;

use super::outcome::{Change, HeadChanges, LabelChange, LargestChange, NumbersOutcome, OneSidedLabel};
use crate::commands::saved::sides::described::LeftAside;
use crate::commands::saved::sides::page::{ComparisonPage, PageTable};
use crate::study::show::wording::significance;

/// The page as a file.
/// Fails for no an outcome.
pub fn render(outcome: &NumbersOutcome) -> Result<Vec<u8>> {
    let NumbersOutcome { a, b, compared, labels, one_sided, heads, relations, metrics, left_aside, not_shared, .. } =
        outcome;
    let columns = ["number", "head", "a", "b", "difference", "q"].as_slice();
    let facts = not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    let page = ComparisonPage {
        title: "What changed between two analyses",
        facts: vec![("a", a.in_words()), ("b", b.in_words())],
        verdict: outcome.verdict(),
        findings: {
            let idle = outcome.idle_in_words(usize::MAX);
            outcome.unread.iter().chain(&outcome.corpora).cloned().chain(idle).collect()
        },
        how: format!(
            "{} {} Intervals are of 95 %. {}",
            outcome.numbers_in_words("q is at most"),
            outcome.labels_in_words(),
            outcome.pairing.as_deref().unwrap_or_default()
        ),
        parts: vec![
            PageTable::new(
                format!("Labels lost or gained: {}", labels.len()),
                &["head", "label", "outcome", "a", "b", "number", "q"],
                labels.iter().map(label).collect(),
            ),
            PageTable::new(
                format!("Labels firm on one side only, and not shown to be lost or gained: {}", one_sided.len()),
                &["head", "label", "firm in", "a", "b"],
                one_sided.iter().map(of_one_side).collect(),
            ),
            PageTable::new(
                format!("By head: {} changed", heads.len()),
                &["head", "numbers changed", "of", "most", "difference", "q"],
                heads.iter().map(of_head).collect(),
            ),
            PageTable::new(
                format!("Accuracies on relations: {} of {} changed", relations.len(), compared.relations),
                columns,
                relations.iter().map(change).collect(),
            ),
            PageTable::new(
                format!("Metrics of heads: {} of {} changed", metrics.len(), compared.metrics),
                columns,
                metrics.iter().map(change).collect(),
            ),
            PageTable::new("Not compared", &["why", "how many", "of"], left_aside.iter().map(aside).collect()),
            PageTable::new("Not shared, and no change", &["fact", "a", "b"], facts.collect()),
        ],
        footer: "Layers and heads are counted from 0.",
    };
    page.render()
}

/// The digits of numbers.
const DIGITS: usize = 4;

fn label(change: &LabelChange) -> Vec<String> {
    let LabelChange { place, label, a, b, number, q } = change;
    let [a, b] = [a, b].map(|side| side.in_words(change.has_several_numbers(), DIGITS));
    vec![place.to_string(), label.clone(), change.fate().to_owned(), a, b, number.clone(), significance(*q)]
}

fn of_one_side(one_sided: &OneSidedLabel) -> Vec<String> {
    let OneSidedLabel { place, label, a, b } = one_sided;
    let [a, b] = [a, b].map(|side| side.in_words(a.number != b.number, DIGITS));
    vec![place.to_string(), label.clone(), one_sided.side().to_owned(), a, b]
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
