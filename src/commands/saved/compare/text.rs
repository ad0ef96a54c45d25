//! The text of a comparison, for people: what became of labels and heads, agreement, families, then every label that was not kept.

use std::fmt::{self, Write};

use comfy_table::{CellAlignment, Table};

use super::outcome::{
    CompareOutcome, Doubt, Fate, HeadComparison, LabelComparison, LabelEvidence, OutcomeCounts, UntoldCounts,
};
use crate::commands::saved::sides::described::Valued;
use crate::commands::saved::sides::standing::LabelStanding;
use crate::commands::saved::sides::text::{most, not_shared, sides};
use crate::model::grid::HeadPlace;
use crate::stats::agreement::CategoryAgreement;
use crate::stats::interval::Interval;
use crate::study::show::summary::Summary;
use crate::study::show::wording::{decimal, plain_table, plus_minus, significance};
use crate::system::counted::counted;
use crate::system::printable::one_line;

/// The longest list of labels that is shown unless all is asked for.
const LABELS: usize = 30;

/// The labels that a sentence names unless all are asked for.
const NAMES: usize = 12;

/// The text; with `full` every label, those that were kept among them.
pub fn render(outcome: &CompareOutcome, full: bool) -> Summary {
    Summary::written(|out| {
        writeln!(out, "{}.", outcome.verdict())?;
        outcome.findings(most(NAMES, full)).iter().try_for_each(|finding| writeln!(out, "{}", one_line(finding)))?;
        sides(out, [&outcome.a, &outcome.b])?;
        agreement(out, outcome)?;
        families(out, outcome)?;
        labels(out, outcome, full)?;
        not_shared(out, &outcome.not_shared, full)
    })
}

/// A share in per cent with its interval.
pub fn share(of: &CategoryAgreement) -> String {
    let percent = |share: f64| decimal(100.0 * share, 0);
    let Some(share) = of.share else { return "-".to_owned() };
    let ends = |ci95: Interval| format!(" [{}, {}]", percent(ci95.low()), percent(ci95.high()));
    format!("{} %{}", percent(share), of.share_ci95.map_or_else(String::new, ends))
}

pub fn kappa(of: &CategoryAgreement) -> String {
    let valued = of.kappa.map(|value| Valued { value, ci95: of.kappa_ci95 }.in_words(2));
    valued.unwrap_or_else(|| "-".to_owned())
}

/// The things agreed on, with the agreement.
pub fn agreements(outcome: &CompareOutcome) -> Vec<(&'static str, CategoryAgreement)> {
    let of = &outcome.agreement;
    let always = [("first label", of.first_label), ("all firm labels", of.firm_labels)];
    always.into_iter().chain(of.choice.map(|choice| ("how the head chooses", choice))).collect()
}

fn agreement(out: &mut Summary, outcome: &CompareOutcome) -> fmt::Result {
    let mut table = plain_table();
    table.set_header(["agreement on", "heads", "Cohen's kappa"]);
    for (name, of) in agreements(outcome) {
        table.add_row([name.to_owned(), share(&of), kappa(&of)]);
    }
    out.table(table);
    writeln!(out, "{INTERVALS}")
}

/// The meaning of the intervals of agreement.
pub const INTERVALS: &str =
    "The 95 % intervals treat heads as independent draws, and leave out how labels vary with the sentences.";

pub const FAMILY_COLUMNS: [&str; 8] =
    ["family", "heads a", "b", "labels kept", "gained", "lost", "could not tell", "kappa of heads"];

pub fn family_rows(outcome: &CompareOutcome) -> impl Iterator<Item = [String; 8]> {
    outcome.families.iter().map(move |family| {
        let OutcomeCounts { kept, gained, lost, .. } = family.outcomes;
        let own =
            outcome.heads.iter().flat_map(HeadComparison::all_labels).filter(|label| label.family == family.family);
        let untold = UntoldCounts::of(own).firm();
        let [a, b, kept, gained, lost, untold] =
            [family.heads_a, family.heads_b, kept, gained, lost, untold].map(|count| count.to_string());
        [one_line(&family.family), a, b, kept, gained, lost, untold, kappa(&family.agreement)]
    })
}

fn families(out: &mut Summary, outcome: &CompareOutcome) -> fmt::Result {
    if outcome.families.is_empty() {
        return Ok(());
    }
    let apart = outcome.choices_by_outcome.map_or("", |_| "; `chooses` is counted apart above");
    writeln!(
        out,
        "\nFirm labels by family: heads in a and in b, then what became of the labels (a head may have several{apart})\n"
    )?;
    let mut table = plain_table();
    table.set_header(FAMILY_COLUMNS);
    table.add_rows(family_rows(outcome));
    align_numbers(&mut table, 1..7);
    out.table_without(table, &[7]);
    Ok(())
}

fn align_numbers(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in table.column_iter_mut().skip(columns.start).take(columns.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Every label of every head, with the head: those that changed first, then those that cannot be told, then those kept.
pub fn by_fate(outcome: &CompareOutcome) -> Vec<(HeadPlace, &LabelComparison)> {
    let of_head = outcome.heads.iter().flat_map(|head| head.all_labels().map(|label| (head.place, label)));
    let rank =
        |fate: Fate| [Fate::Lost, Fate::Gained, Fate::CouldNotTell].iter().position(|one| *one == fate).unwrap_or(3);
    let mut labels: Vec<_> = of_head.collect();
    labels.sort_by_key(|(_, label)| rank(label.outcome));
    labels
}

/// The row of a label of a head: the head, the label, what became of it, and the evidence of both sides.
pub fn label_row((place, label): (HeadPlace, &LabelComparison)) -> [String; 5] {
    let LabelComparison { label, outcome, doubt, a, b, .. } = label;
    // The standings say the other reasons.
    let is_said = |doubt: &&Doubt| {
        matches!(doubt, Doubt::OtherThresholds | Doubt::NotMeasured | Doubt::TooLittle | Doubt::OtherCounts)
    };
    let outcome = match doubt.as_ref().filter(is_said) {
        Some(doubt) => format!("{}: {}", outcome.words(), doubt.words()),
        None => outcome.words().to_owned(),
    };
    let named = differ(a.as_ref(), b.as_ref());
    let number = |side: &LabelEvidence| if named { format!("{} ", one_line(&side.number)) } else { String::new() };
    let in_words = |side: &LabelEvidence| number(side) + &side.in_words();
    let [a, b] = [a, b].map(|side| side.as_ref().map_or_else(|| "-".to_owned(), in_words));
    [place.to_string(), one_line(label), outcome, a, b]
}

/// Whether the rule is about another number on either side: a label of two directions may be best in one here and in the other there.
fn differ(a: Option<&LabelEvidence>, b: Option<&LabelEvidence>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.number != b.number)
}

/// As [`label_row`], as narrow as a terminal: with one column of thresholds, and with how far a label reaches only in full.
fn brief_row((place, label): (HeadPlace, &LabelComparison), full: bool) -> [String; 6] {
    let LabelComparison { label, outcome, a, b, .. } = label;
    let named = differ(a.as_ref(), b.as_ref());
    // Equal scores can differ in this: the q-value depends on all tests of a report.
    let standings = [a, b].map(|side| side.as_ref().map(|side| side.standing));
    let by_q = standings.iter().all(|one| matches!(one, Some(LabelStanding::Firm | LabelStanding::Borderline)));
    let by_q = by_q && standings[0] != standings[1];
    let side = |side: &LabelEvidence| {
        let number = if named { format!("{} ", one_line(&side.number)) } else { String::new() };
        let beyond = if full { side.beyond_in_words() } else { String::new() };
        let q = side.q.filter(|_| by_q).map_or_else(String::new, |q| format!(" (q {})", significance(q)));
        format!("{number}{}{} {}{q}{beyond}", decimal(side.score, 3), plus_minus(side.ci95, 3), side.standing.words())
    };
    let without = if *outcome == Fate::CouldNotTell { "not assessed" } else { "gone" };
    let sides = [a, b].map(|evidence| evidence.as_ref().map_or_else(|| without.to_owned(), side));
    let mut thresholds: Vec<String> = [a, b].into_iter().flatten().map(|side| decimal(side.threshold, 3)).collect();
    thresholds.dedup();
    let [a, b] = sides;
    [place.to_string(), one_line(label), outcome.words().to_owned(), a, b, thresholds.join(", ")]
}

fn labels(out: &mut Summary, outcome: &CompareOutcome, full: bool) -> fmt::Result {
    let mut rows = by_fate(outcome);
    if !full {
        // What is firm in neither has nothing to keep.
        rows.retain(|(_, label)| label.outcome != Fate::Kept && label.firm() != [false, false]);
    }
    if rows.is_empty() {
        return Ok(());
    }
    let title = if full { "All labels" } else { "Firm labels that were not kept" };
    writeln!(out, "\n{title}: score ± half of its 95 % interval\n")?;
    let mut table = plain_table();
    table.set_header(["head", "label", "", "a", "b", "threshold"]);
    table.add_rows(rows.iter().take(most(LABELS, full)).map(|row| brief_row(*row, full)));
    out.table_without(table, &[5]);
    match rows.len().saturating_sub(most(LABELS, full)) {
        0 => Ok(()),
        more => writeln!(out, " and {}: --full", counted(more, "more label")),
    }
}

impl LabelEvidence {
    /// The score with its interval and threshold, how the head stands, and how far a syntactic label reaches.
    pub fn in_words(&self) -> String {
        let score = Valued { value: self.score, ci95: self.ci95 };
        let beyond = self.beyond_in_words();
        format!("{} of {}, {}{beyond}", score.in_words(3), decimal(self.threshold, 3), self.standing.words())
    }

    /// How far a firm label of a relation reaches, after a comma. A borderline one is not shown to be beyond anything.
    fn beyond_in_words(&self) -> String {
        let reach = self.beyond.filter(|_| self.standing == LabelStanding::Firm);
        reach.map_or_else(String::new, |reach| format!(", {}", reach.words()))
    }
}
