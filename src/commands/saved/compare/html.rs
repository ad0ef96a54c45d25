//! The page of a comparison: the same as on the terminal, whole, and sortable.

use anyhow::Result;

use super::outcome::{CompareOutcome, Fate, HeadComparison, LabelComparison, LabelEvidence};
use super::text;
use crate::commands::saved::sides::page::{ComparisonPage, PageTable};
use crate::commands::saved::sides::standing::LabelStanding;
use crate::stats::agreement::CategoryAgreement;

/// The page as a file.
/// Fails for no an outcome.
pub fn render(outcome: &CompareOutcome) -> Result<Vec<u8>> {
    let agreements = text::agreements(outcome);
    let facts = outcome.not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    let page = ComparisonPage {
        title: "Are the labels of heads stable?",
        facts: vec![("a", outcome.a.in_words()), ("b", outcome.b.in_words())],
        verdict: outcome.verdict(),
        findings: outcome.findings(usize::MAX),
        how: text::INTERVALS.to_owned(),
        parts: vec![
            PageTable::new(
                "Agreement",
                &["on", "heads that agree", "expected by chance", "Cohen's kappa"],
                agreements.iter().map(agreement).collect(),
            ),
            PageTable::new(
                "Firm labels by family: heads in a and in b, and what became of the labels",
                &text::FAMILY_COLUMNS,
                text::family_rows(outcome).map(Vec::from).collect(),
            ),
            PageTable::new(
                "Labels: score with its 95 % interval, of the threshold",
                &["head", "label", "outcome", "a", "b"],
                text::by_fate(outcome).into_iter().map(|row| text::label_row(row).to_vec()).collect(),
            ),
            PageTable::new(
                "Heads: their labels by outcome, and the one with the largest margin",
                &HEAD_COLUMNS,
                outcome.heads.iter().map(head).collect(),
            ),
            PageTable::new("Not shared", &["fact", "a", "b"], facts.collect()),
        ],
        footer: "Layers and heads are counted from 0.",
    };
    page.render()
}

fn agreement((name, of): &(&'static str, CategoryAgreement)) -> Vec<String> {
    let expected = of.expected.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
    vec![(*name).to_owned(), text::share(of), expected, text::kappa(of)]
}

/// The columns of the table of heads.
const HEAD_COLUMNS: [&str; 11] = [
    "head",
    "outcome",
    "kept",
    "lost",
    "gained",
    "could not tell",
    "first in a",
    "first in b",
    "how it chooses",
    "chooses in a",
    "chooses in b",
];

fn head(head: &HeadComparison) -> Vec<String> {
    let HeadComparison { place, partner, outcome, primary_a, primary_b, labels, choice } = head;
    let none = || "-".to_owned();
    let name = if place == partner { place.to_string() } else { format!("{place} (in b {partner})") };
    let choice = choice.as_ref();
    let of = |fate: Fate| {
        let names: Vec<&str> =
            labels.iter().filter(|label| label.outcome == fate).map(|label| label.label.as_str()).collect();
        names.join(", ")
    };
    let first = |primary: &str, side: fn(&LabelComparison) -> Option<&LabelEvidence>| {
        let known = labels.iter().find(|label| label.label == primary).and_then(side);
        match known.map(|of| of.standing) {
            Some(LabelStanding::Borderline) => format!("{primary} (borderline)"),
            _ => primary.to_owned(),
        }
    };
    vec![
        name,
        outcome.words().to_owned(),
        of(Fate::Kept),
        of(Fate::Lost),
        of(Fate::Gained),
        of(Fate::CouldNotTell),
        first(primary_a, |label| label.a.as_ref()),
        first(primary_b, |label| label.b.as_ref()),
        choice.map_or_else(none, |choice| choice.outcome.words().to_owned()),
        choice.and_then(|choice| choice.a.clone()).unwrap_or_else(none),
        choice.and_then(|choice| choice.b.clone()).unwrap_or_else(none),
    ]
}
