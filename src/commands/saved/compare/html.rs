//! The page of a comparison: the same as on the terminal, whole, and sortable.

use anyhow::Result;

use super::outcome::{CompareOutcome, HeadComparison};
use super::text;
use crate::commands::saved::sides::page::{ComparisonPage, PageTable};

/// The page as a file.
/// Fails for no an outcome.
pub fn render(outcome: &CompareOutcome) -> Result<Vec<u8>> {
    let agreements = text::agreements(outcome);
    let facts = outcome.not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    let page = ComparisonPage {
        title: "Are the labels of heads stable?",
        facts: vec![("a", outcome.a.in_words()), ("b", outcome.b.in_words())],
        verdict: outcome.verdict(),
        how: format!("{} {}", outcome.choices_in_words().unwrap_or_default(), text::INTERVALS),
        parts: vec![
            PageTable {
                title: "Agreement".to_owned(),
                columns: &["on", "heads that agree", "expected by chance", "Cohen's kappa"],
                rows: agreements
                    .iter()
                    .map(|(name, of)| {
                        let expected =
                            of.expected.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
                        vec![(*name).to_owned(), text::share(of), expected, text::kappa(of)]
                    })
                    .collect(),
            },
            PageTable {
                title: "Families of labels".to_owned(),
                columns: &text::FAMILY_COLUMNS,
                rows: text::family_rows(outcome).map(Vec::from).collect(),
            },
            PageTable {
                title: "Heads".to_owned(),
                columns: &["head", "labels", "first in a", "first in b", "how it chooses", "in a", "in b"],
                rows: outcome.heads.iter().map(head).collect(),
            },
            PageTable {
                title: "Labels".to_owned(),
                columns: &["head", "label", "outcome", "a", "b"],
                rows: text::by_fate(outcome).into_iter().map(|row| text::label_row(row).to_vec()).collect(),
            },
            PageTable { title: "Not shared".to_owned(), columns: &["fact", "a", "b"], rows: facts.collect() },
        ],
        footer: "Layers and heads are counted from 0.",
    };
    page.render()
}

fn head(HeadComparison { place, outcome, primary_a, primary_b, choice, .. }: &HeadComparison) -> Vec<String> {
    let none = || "-".to_owned();
    let choice = choice.as_ref();
    vec![
        place.to_string(),
        outcome.words().to_owned(),
        primary_a.clone(),
        primary_b.clone(),
        choice.map_or_else(none, |choice| choice.outcome.words().to_owned()),
        choice.and_then(|choice| choice.a.clone()).unwrap_or_else(none),
        choice.and_then(|choice| choice.b.clone()).unwrap_or_else(none),
    ]
}
