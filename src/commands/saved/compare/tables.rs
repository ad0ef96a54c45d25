//! Tables of a comparison, for CSV files and for the page.

use anyhow::Result;
use itertools::Itertools as _;
use serde::Serialize;

use super::outcome::{CompareOutcome, Fate, HeadComparison, LabelComparison, LabelEvidence};
use super::text;
use crate::commands::saved::sides::description::{PageTable, render_comparison_page};
use crate::commands::saved::sides::head_state::LabelStanding;
use crate::model::grid::HeadPlace;
use crate::stats::agreement::CategoryAgreement;
use crate::study::show::table::Table;

/// Table of a comparison, with a row per head, label or label family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedTable {
    Heads,
    Labels,
    Families,
}

impl ComparedTable {
    pub fn build(self, outcome: &CompareOutcome) -> Table {
        match self {
            Self::Heads => Table::from_rows("heads", outcome.heads.iter().map(head_outcome_row)),
            Self::Labels => Table::from_rows("labels", outcome.heads.iter().flat_map(label_outcome_rows)),
            Self::Families => Table::from_rows("families", &outcome.families),
        }
    }
}

#[derive(Serialize)]
struct HeadOutcomeRow<'a> {
    #[serde(flatten)]
    place: HeadPlace,
    partner: String,
    outcome: Fate,
    primary_a: &'a str,
    primary_b: &'a str,
    kept: Vec<&'a str>,
    gained: Vec<&'a str>,
    lost: Vec<&'a str>,
    could_not_tell: Vec<&'a str>,
    choice_outcome: Option<Fate>,
    choice_a: Option<&'a str>,
    choice_b: Option<&'a str>,
}

/// Row of a head: its outcome, and the labels that were kept, gained or lost.
fn head_outcome_row(head: &HeadComparison) -> HeadOutcomeRow<'_> {
    let HeadComparison { place, partner, outcome, primary_a, primary_b, labels, choice } = head;
    let labels_with =
        |fate: Fate| labels.iter().filter(|label| label.outcome == fate).map(|label| &*label.label).collect();
    let choice = choice.as_ref();
    HeadOutcomeRow {
        place: *place,
        partner: partner.to_string(),
        outcome: *outcome,
        primary_a,
        primary_b,
        kept: labels_with(Fate::Kept),
        gained: labels_with(Fate::Gained),
        lost: labels_with(Fate::Lost),
        could_not_tell: labels_with(Fate::CouldNotTell),
        choice_outcome: choice.map(|choice| choice.outcome),
        choice_a: choice.and_then(|choice| choice.a.as_deref()),
        choice_b: choice.and_then(|choice| choice.b.as_deref()),
    }
}

#[derive(Serialize)]
struct LabelOutcomeRow<'a> {
    #[serde(flatten)]
    place: HeadPlace,
    #[serde(flatten)]
    label: &'a LabelComparison,
}

/// Rows of a head, one for each of its labels.
fn label_outcome_rows(head: &HeadComparison) -> impl Iterator<Item = LabelOutcomeRow<'_>> {
    head.all_labels().map(|label| LabelOutcomeRow { place: head.place, label })
}

pub fn render_page(outcome: &CompareOutcome) -> Result<Vec<u8>> {
    let agreements = text::named_agreements(outcome);
    let facts = outcome.not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    render_comparison_page(
        "Are the labels of heads stable?",
        [&outcome.a, &outcome.b],
        &outcome.verdict(),
        &outcome.findings(usize::MAX),
        text::INTERVALS_NOTE,
        &[
            PageTable::new(
                "Agreement",
                &["on", "heads that agree", "expected by chance", "Cohen's kappa"],
                agreements.iter().map(agreement_cells).collect(),
            ),
            PageTable::new(
                "Firm labels by family: heads in a and in b, and what became of the labels",
                &text::FAMILY_COLUMNS,
                text::family_rows(outcome).map(Vec::from).collect(),
            ),
            PageTable::new(
                "Labels: score with its 95 % interval, of the threshold",
                &["head", "label", "outcome", "a", "b"],
                text::sorted_labels(outcome).into_iter().map(|row| text::label_row(row).to_vec()).collect(),
            ),
            PageTable::new(
                "Heads: their labels by outcome, and the one with the largest margin",
                &HEAD_COLUMNS,
                outcome.heads.iter().map(head_page_row).collect(),
            ),
            PageTable::new("Not shared", &["fact", "a", "b"], facts.collect()),
        ],
    )
}

/// Cells of an agreement: its name, the share of heads that agree, the share expected by chance, and Cohen's kappa.
fn agreement_cells((name, agreement): &(&'static str, CategoryAgreement)) -> Vec<String> {
    let expected = agreement.expected.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
    vec![(*name).to_owned(), text::agreement_share(agreement), expected, text::kappa_text(agreement)]
}

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

/// Row of a head on the page, with the evidence for its labels as text.
fn head_page_row(head: &HeadComparison) -> Vec<String> {
    let HeadComparison { place, partner, outcome, primary_a, primary_b, labels, choice } = head;
    let none = || "-".to_owned();
    let name = if place == partner { place.to_string() } else { format!("{place} (in b {partner})") };
    let choice = choice.as_ref();
    let labels_with =
        |fate: Fate| labels.iter().filter(|label| label.outcome == fate).map(|label| &label.label).join(", ");
    let first = |primary: &str, side: fn(&LabelComparison) -> Option<&LabelEvidence>| {
        let evidence = labels.iter().find(|label| label.label == primary).and_then(side);
        match evidence.map(|evidence| evidence.standing) {
            Some(LabelStanding::Borderline) => format!("{primary} (borderline)"),
            _ => primary.to_owned(),
        }
    };
    vec![
        name,
        outcome.phrase().to_owned(),
        labels_with(Fate::Kept),
        labels_with(Fate::Lost),
        labels_with(Fate::Gained),
        labels_with(Fate::CouldNotTell),
        first(primary_a, |label| label.a.as_ref()),
        first(primary_b, |label| label.b.as_ref()),
        choice.map_or_else(none, |choice| choice.outcome.phrase().to_owned()),
        choice.and_then(|choice| choice.a.clone()).unwrap_or_else(none),
        choice.and_then(|choice| choice.b.clone()).unwrap_or_else(none),
    ]
}
