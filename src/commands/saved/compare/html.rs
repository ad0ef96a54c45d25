//! The page of a comparison: the same as on the terminal, whole, and sortable.

use anyhow::Result;

use super::outcome::{CompareOutcome, Fate, HeadComparison, LabelComparison, LabelEvidence};
use super::text;
use crate::commands::saved::sides::page::{ComparisonPage, PageTable};
use crate::commands::saved::sides::standing::LabelStanding;

/// The page as a file.
/// Fails for no an outcome.
pub fn render(outcome: &CompareOutcome) -> Result<Vec<u8>> {
    let agreements = text::agreements(outcome);
    let facts = outcome.not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    let page = ComparisonPage {
        title: "Are the labels of heads stable?",
        facts: vec![("a", outcome.a.in_words()), ("b", outcome.b.in_words())],
        verdict: format!("{} {}", outcome.verdict(), outcome.labels_in_words()),
        how: format!("{} {}", outcome.choices_in_words().unwrap_or_default(), text::INTERVALS),
        parts: vec![
            labels("Labels that were lost or gained", outcome, |fate| matches!(fate, Fate::Lost | Fate::Gained)),
            labels("Labels of which it cannot be told", outcome, |fate| fate == Fate::CouldNotTell),
            PageTable {
                title: "Families of labels".to_owned(),
                columns: text::FAMILY_COLUMNS.to_vec(),
                rows: text::family_rows(outcome).map(Vec::from).collect(),
            },
            PageTable {
                title: "Agreement".to_owned(),
                columns: vec!["on", "heads that agree", "expected by chance", "Cohen's kappa"],
                rows: agreements
                    .iter()
                    .map(|(name, of)| {
                        let expected =
                            of.expected.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
                        vec![(*name).to_owned(), text::share(of), expected, text::kappa(of)]
                    })
                    .collect(),
            },
            heads(outcome),
            labels("Labels that were kept", outcome, |fate| fate == Fate::Kept),
            PageTable { title: "Not shared".to_owned(), columns: vec!["fact", "a", "b"], rows: facts.collect() },
        ],
        footer: "Layers and heads are counted from 0. ? marks a borderline label.",
    };
    page.render()
}

/// The labels that came to this, with the evidence of both sides.
fn labels(title: &str, outcome: &CompareOutcome, of: fn(Fate) -> bool) -> PageTable {
    let rows: Vec<_> = text::by_fate(outcome).into_iter().filter(|(_, label)| of(label.outcome)).collect();
    PageTable {
        title: format!("{title}: {}", rows.len()),
        columns: vec!["head", "label", "outcome", "a", "b"],
        rows: rows.into_iter().map(|row| text::label_row(row).to_vec()).collect(),
    }
}

/// Every head, with how it chooses where some side says that.
fn heads(outcome: &CompareOutcome) -> PageTable {
    let mut columns = vec!["head", "its labels", "first in a", "first in b"];
    let chooses = outcome.choices_by_outcome.is_some();
    if chooses {
        columns.extend(["how it chooses", "in a", "in b"]);
    }
    PageTable {
        title: "Heads".to_owned(),
        rows: outcome.heads.iter().map(|of| head(of).into_iter().take(columns.len()).collect()).collect(),
        columns,
    }
}

fn head(head: &HeadComparison) -> Vec<String> {
    let HeadComparison { place, outcome, primary_a, primary_b, choice, labels } = head;
    let none = || "-".to_owned();
    let borderline = |first: &str, side: fn(&LabelComparison) -> &Option<LabelEvidence>| {
        let evidence = labels.iter().find(|label| label.label == first).and_then(|label| side(label).as_ref());
        evidence.is_some_and(|evidence| evidence.standing == LabelStanding::Borderline)
    };
    let marked = |first: &str, is_borderline: bool| format!("{first}{}", if is_borderline { "?" } else { "" });
    let choice = choice.as_ref();
    vec![
        place.to_string(),
        outcome.words().to_owned(),
        marked(primary_a, borderline(primary_a, |label| &label.a)),
        marked(primary_b, borderline(primary_b, |label| &label.b)),
        choice.map_or_else(none, |choice| choice.outcome.words().to_owned()),
        choice.and_then(|choice| choice.a.clone()).unwrap_or_else(none),
        choice.and_then(|choice| choice.b.clone()).unwrap_or_else(none),
    ]
}
