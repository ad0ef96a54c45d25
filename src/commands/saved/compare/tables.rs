//! The tables of a comparison, as CSV has them.

use serde::Serialize;

use super::outcome::{CompareOutcome, Fate, HeadComparison, LabelComparison};
use crate::model::grid::HeadPlace;
use crate::study::show::table::Table;

/// A table of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedTable {
    /// A row for each head.
    Heads,
    /// A row for each label that a head has on either side.
    Labels,
    /// A row for each family of labels.
    Families,
}

impl ComparedTable {
    /// The table of an outcome.
    pub fn of(self, outcome: &CompareOutcome) -> Table {
        match self {
            Self::Heads => Table::of("heads", outcome.heads.iter().map(head)),
            Self::Labels => Table::of("labels", outcome.heads.iter().flat_map(labels)),
            Self::Families => Table::of("families", &outcome.families),
        }
    }
}

/// The row of a head.
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

fn head(head: &HeadComparison) -> HeadOutcomeRow<'_> {
    let HeadComparison { place, partner, outcome, primary_a, primary_b, labels, choice } = head;
    let of = |fate: Fate| labels.iter().filter(|label| label.outcome == fate).map(|label| &*label.label).collect();
    let choice = choice.as_ref();
    HeadOutcomeRow {
        place: *place,
        partner: partner.to_string(),
        outcome: *outcome,
        primary_a,
        primary_b,
        kept: of(Fate::Kept),
        gained: of(Fate::Gained),
        lost: of(Fate::Lost),
        could_not_tell: of(Fate::CouldNotTell),
        choice_outcome: choice.map(|choice| choice.outcome),
        choice_a: choice.and_then(|choice| choice.a.as_deref()),
        choice_b: choice.and_then(|choice| choice.b.as_deref()),
    }
}

/// The row of a label of a head.
#[derive(Serialize)]
struct LabelOutcomeRow<'a> {
    #[serde(flatten)]
    place: HeadPlace,
    #[serde(flatten)]
    label: &'a LabelComparison,
}

fn labels(head: &HeadComparison) -> impl Iterator<Item = LabelOutcomeRow<'_>> {
    head.all_labels().map(|label| LabelOutcomeRow { place: head.place, label })
}
