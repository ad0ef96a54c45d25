//! Text of a comparison: a few sentences, then agreement, families of labels, and every label that was not kept.

use std::fmt::{self, Write};

use itertools::Itertools as _;

use super::outcome::{
    CompareOutcome, Doubt, Fate, HeadComparison, LabelComparison, LabelEvidence, MatchedHeads, OutcomeCounts,
    UntoldCounts,
};
use crate::commands::saved::sides::description::{Valued, list_limit, write_differing_facts, write_sides};
use crate::commands::saved::sides::head_state::{self, LabelStanding};
use crate::model::grid::HeadPlace;
use crate::stats::agreement::{CategoryAgreement, ShareByChance};
use crate::stats::interval::Interval;
use crate::study::labels::evidence::Reach;
use crate::study::show::summary::Summary;
use crate::study::show::wording::{aligned_table, decimal, plus_minus, significance_text, whole_percent};
use crate::system::counts::{format_count, plural};
use crate::system::printable::one_line;

/// Maximum number of listed labels without `--full`.
const MAX_LABELS: usize = 30;

/// Maximum number of labels named in a sentence without `--full`.
const MAX_NAMES: usize = 12;

/// Renders a comparison as text. With `full` it lists every label, including kept ones.
pub fn render(outcome: &CompareOutcome, full: bool) -> Summary {
    Summary::from_writer(|out| {
        writeln!(out, "{}.", outcome.verdict())?;
        let findings = outcome.findings(list_limit(MAX_NAMES, full));
        findings.iter().try_for_each(|finding| writeln!(out, "{}", one_line(finding)))?;
        write_sides(out, [&outcome.a, &outcome.b])?;
        write_agreement(out, outcome)?;
        write_families(out, outcome)?;
        write_labels(out, outcome, full)?;
        write_differing_facts(out, &outcome.not_shared, full)
    })
}

pub fn agreement_share(agreement: &CategoryAgreement) -> String {
    let Some(share) = agreement.share else { return "-".to_owned() };
    whole_percent(share) + &agreement.share_ci95.map_or_else(String::new, percent_range)
}

/// Formats the share of heads that agree when the heads of `b` are shuffled within layers, with its 95 % range.
pub fn chance_share_text(share: ShareByChance) -> String {
    whole_percent(share.mean) + &percent_range(share.range95)
}

/// Formats an interval of shares as whole percentages, such as ` [12, 31]`.
fn percent_range(shares: Interval) -> String {
    let [low, high] = [shares.low(), shares.high()].map(|end| decimal(100.0 * end, 0));
    format!(" [{low}, {high}]")
}

/// Cohen's kappa of an agreement with its interval; `-` if kappa is not defined.
pub fn kappa_text(agreement: &CategoryAgreement) -> String {
    let valued = agreement.kappa.map(|value| Valued { value, ci95: agreement.kappa_ci95 }.in_words(2));
    valued.unwrap_or_else(|| "-".to_owned())
}

/// Agreement on each kind of label, with the name of that kind.
pub fn named_agreements(outcome: &CompareOutcome) -> Vec<(&'static str, CategoryAgreement)> {
    let agreement = &outcome.agreement;
    let of_labels = [("first label", agreement.first_label), ("all firm labels", agreement.firm_labels)];
    of_labels.into_iter().chain(agreement.choice.map(|choice| ("how the head chooses", choice))).collect()
}

fn write_agreement(out: &mut Summary, outcome: &CompareOutcome) -> fmt::Result {
    let rows = named_agreements(outcome)
        .into_iter()
        .map(|(name, agreement)| [name.to_owned(), agreement_share(&agreement), kappa_text(&agreement)]);
    out.add_table(aligned_table(["agreement on", "heads", "Cohen's kappa"], rows, 0..0));
    writeln!(out, "{INTERVALS_NOTE}")
}

/// Note on the meaning of the intervals of agreement.
pub const INTERVALS_NOTE: &str =
    "The 95 % intervals treat heads as independent draws, and leave out how labels vary with the sentences.";

pub const FAMILY_COLUMNS: [&str; 8] =
    ["family", "heads a", "b", "labels kept", "gained", "lost", "could not tell", "kappa of heads"];

pub fn family_rows(outcome: &CompareOutcome) -> impl Iterator<Item = [String; 8]> {
    outcome.families.iter().map(move |family| {
        let OutcomeCounts { kept, gained, lost, .. } = family.outcomes;
        let untold = UntoldCounts::from_labels(outcome.all_labels().filter(|label| label.family == family.family))
            .firm_label_count();
        let [a, b, kept, gained, lost, untold] =
            [family.heads_a, family.heads_b, kept, gained, lost, untold].map(|count| count.to_string());
        [one_line(&family.family), a, b, kept, gained, lost, untold, kappa_text(&family.agreement)]
    })
}

fn write_families(out: &mut Summary, outcome: &CompareOutcome) -> fmt::Result {
    if outcome.families.is_empty() {
        return Ok(());
    }
    let apart = outcome.choices_by_outcome.map_or("", |_| "; `chooses` is counted apart above");
    writeln!(
        out,
        "\nFirm labels by family: heads in a and in b, then what became of the labels (a head may have several{apart}); kappa: agreement on which heads have \
         one\n"
    )?;
    out.table_with_optional_columns(aligned_table(FAMILY_COLUMNS, family_rows(outcome), 1..7), &[7]);
    Ok(())
}

/// Lists every label of every head, with the head: lost, then gained, then undecided, then kept ones.
pub fn sorted_labels(outcome: &CompareOutcome) -> Vec<(HeadPlace, &LabelComparison)> {
    let of_head = outcome.heads.iter().flat_map(|head| head.all_labels().map(|label| (head.place, label)));
    let rank =
        |fate: Fate| [Fate::Lost, Fate::Gained, Fate::CouldNotTell].iter().position(|one| *one == fate).unwrap_or(3);
    let mut labels: Vec<_> = of_head.collect();
    labels.sort_by_key(|(_, label)| rank(label.outcome));
    labels
}

/// Cells of a label's row: head, label, outcome, and the evidence in the two analyses.
pub fn label_row((place, label): (HeadPlace, &LabelComparison)) -> [String; 5] {
    let LabelComparison { label, outcome, doubt, a, b, .. } = label;
    // Other reasons are seen in the evidence of the two analyses.
    let is_said = |doubt: &&Doubt| {
        matches!(doubt, Doubt::OtherThresholds | Doubt::NotMeasured | Doubt::TooLittle | Doubt::OtherCounts)
    };
    let outcome = match doubt.as_ref().filter(is_said) {
        Some(doubt) => format!("{}: {}", outcome.phrase(), doubt.phrase()),
        None => outcome.phrase().to_owned(),
    };
    let named = have_different_metrics(a.as_ref(), b.as_ref());
    let number = |side: &LabelEvidence| if named { format!("{} ", one_line(&side.number)) } else { String::new() };
    let in_words = |side: &LabelEvidence| number(side) + &side.in_words();
    let [a, b] = [a, b].map(|side| side.as_ref().map_or_else(|| "-".to_owned(), in_words));
    [place.to_string(), one_line(label), outcome, a, b]
}

/// Whether two analyses compare different metrics with the threshold, such as different directions of one relation.
fn have_different_metrics(a: Option<&LabelEvidence>, b: Option<&LabelEvidence>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.number != b.number)
}

/// As [`label_row`], but narrow enough for a terminal: thresholds have one column.
/// The strongest baseline that a label beats is only shown with `full`.
fn brief_label_row((place, label): (HeadPlace, &LabelComparison), full: bool) -> [String; 6] {
    let LabelComparison { label, outcome, a, b, .. } = label;
    let named = have_different_metrics(a.as_ref(), b.as_ref());
    // Equal scores can be firm in one report and borderline in the other: a q-value depends on all tests of a report.
    let standings = [a, b].map(|side| side.as_ref().map(|side| side.standing));
    let by_q = standings.iter().all(|one| matches!(one, Some(LabelStanding::Firm | LabelStanding::Borderline)));
    let by_q = by_q && standings[0] != standings[1];
    let side = |side: &LabelEvidence| {
        let number = if named { format!("{} ", one_line(&side.number)) } else { String::new() };
        let beyond = if full { side.beaten_baseline_text() } else { String::new() };
        let q = side.q.filter(|_| by_q).map_or_else(String::new, |q| format!(" (q {})", significance_text(q)));
        format!("{number}{}{} {}{q}{beyond}", decimal(side.score, 3), plus_minus(side.ci95, 3), side.standing.phrase())
    };
    let without = if *outcome == Fate::CouldNotTell { "not assessed" } else { "head removed or idle" };
    let sides = [a, b].map(|evidence| evidence.as_ref().map_or_else(|| without.to_owned(), side));
    let thresholds = [a, b].into_iter().flatten().map(|side| decimal(side.threshold, 3)).dedup().join(" | ");
    let [a, b] = sides;
    [place.to_string(), one_line(label), outcome.phrase().to_owned(), a, b, thresholds]
}

/// Writes the labels that are firm in at least one analysis and were not kept; with `full`, every label.
fn write_labels(out: &mut Summary, outcome: &CompareOutcome, full: bool) -> fmt::Result {
    let mut rows = sorted_labels(outcome);
    if !full {
        // A label that is firm on neither side cannot be lost.
        rows.retain(|(_, label)| label.outcome != Fate::Kept && label.is_firm_by_side() != [false, false]);
    }
    if rows.is_empty() {
        return Ok(());
    }
    let title = if full { "All labels" } else { "Firm labels that were not kept" };
    writeln!(out, "\n{title}: score ± half of its 95 % interval\n")?;
    let shown = rows.iter().take(list_limit(MAX_LABELS, full)).map(|row| brief_label_row(*row, full));
    let header = ["head", "label", "", "a", "b", "threshold (a | b)"];
    out.table_with_optional_columns(aligned_table(header, shown, 0..0), &[5]);
    match rows.len().saturating_sub(list_limit(MAX_LABELS, full)) {
        0 => Ok(()),
        more => writeln!(out, " and {}: --full", format_count(more, "more label")),
    }
}

impl LabelEvidence {
    /// Formats score, interval, threshold and test result; for a firm label of a relation or of links, also the strongest
    /// beaten baseline.
    pub fn in_words(&self) -> String {
        let score = Valued { value: self.score, ci95: self.ci95 };
        let beyond = self.beaten_baseline_text();
        format!("{} of {}, {}{beyond}", score.in_words(3), decimal(self.threshold, 3), self.standing.phrase())
    }

    /// Formats the strongest baseline that a firm label of a relation or of links beats, after a comma; empty for other labels.
    /// A borderline label is not shown to beat a baseline.
    fn beaten_baseline_text(&self) -> String {
        let reach = self.beyond.filter(|_| self.standing == LabelStanding::Firm);
        reach.map_or_else(String::new, |reach| format!(", {}", reach.noun_phrase()))
    }
}

pub fn firm_count_text(count: usize) -> String {
    format!("{} firm in a or b (without `broad`)", format_count(count, "label"))
}

impl CompareOutcome {
    pub fn verdict(&self) -> String {
        if let Some(units) = &self.too_few_units {
            return format!("Could not tell: {units}");
        }
        let OutcomeCounts { kept, gained, lost, .. } = self.labels_by_outcome;
        let untold = self.untold.firm_label_count();
        format!("{}: {kept} kept, {lost} lost, {gained} gained, {untold} could not tell", self.firm_label_count_text())
    }

    /// Number of labels that are firm in at least one analysis, without `broad` and key-choice labels (`chooses:*`).
    /// `compare`, `compare --numbers` and `gate` print this count.
    pub fn firm_label_count(&self) -> usize {
        let OutcomeCounts { kept, gained, lost, .. } = self.labels_by_outcome;
        kept + lost + gained + self.untold.firm_label_count()
    }

    fn firm_label_count_text(&self) -> String {
        firm_count_text(self.firm_label_count())
    }

    /// Reason why a finding about lost labels is undecided; `None` if it is decided.
    /// Either no label is firm in the first analysis, or none was tested in the second.
    pub fn no_test_reason(&self) -> Option<String> {
        let firm: Vec<&LabelComparison> = self.all_labels().filter(|label| label.is_firm_by_side()[0]).collect();
        let is_tested =
            |label: &&LabelComparison| matches!(label.doubt, None | Some(Doubt::Borderline | Doubt::WithinReach));
        match firm.first() {
            None => Some(format!("`{}` has no firm label, so that none can be lost", self.a.file)),
            Some(first) if !firm.iter().any(is_tested) => {
                let why = first.doubt.map_or("", Doubt::phrase);
                Some(format!("`{}` says of no label whether it is lost: {why}", self.b.file))
            }
            Some(_) => None,
        }
    }

    /// Sentences that follow the verdict of a comparison, with at most `most` labels named in each.
    pub fn findings(&self, most: usize) -> Vec<String> {
        let UntoldCounts { firm_in_a, firm_in_b, firm_in_neither, firm_in_both } = self.untold;
        let sentence = |title: String, holds: &dyn Fn(&LabelComparison) -> bool| {
            self.label_names(most, holds).map(|names| format!("{title}: {names}."))
        };
        let of_fate = |title: &str, fate: Fate| sentence(title.to_owned(), &|label| label.outcome == fate);
        let one_sided = |count: usize, [has, lacks]: [&str; 2], firm: [bool; 2]| {
            let labels = format_count(count, "label");
            let title = format!(
                "Could not tell: {labels} firm in {has}; in {lacks} they are borderline, not significantly below the threshold, or not tested"
            );
            sentence(title, &|label| label.outcome == Fate::CouldNotTell && label.is_firm_by_side() == firm)
        };
        let labels_are = |count: usize, predicate: &str| {
            (count > 0)
                .then(|| format!("{} {} {predicate}.", format_count(count, "label"), plural(&count, "is", "are")))
        };
        let beyond_one = |has: &str, is_beyond: [bool; 2]| {
            sentence(format!("Kept, but shown to be beyond word classes only in {has}"), &|label| {
                let reach = label.beaten_baseline_by_side();
                let is_known = reach.iter().all(Option::is_some) && label.outcome == Fate::Kept;
                is_known && reach.map(|reach| reach == Some(Reach::Tags)) == is_beyond
            })
        };
        let all = [
            self.unread.clone(),
            self.corpora.clone(),
            self.lineage.clone(),
            self.matching_sentence(),
            head_state::idle_heads_sentence(&self.idle, most),
            of_fate("Lost", Fate::Lost),
            of_fate("Gained", Fate::Gained),
            beyond_one("a", [true, false]),
            beyond_one("b", [false, true]),
            one_sided(firm_in_a, ["a", "b"], [true, false]),
            one_sided(firm_in_b, ["b", "a"], [false, true]),
            labels_are(firm_in_both, "firm in both, under other thresholds or counts of words"),
            labels_are(firm_in_neither, "firm in neither, but borderline in one or both"),
            Some(self.head_outcomes_sentence()),
            self.key_choices_sentence(),
        ];
        all.into_iter().flatten().collect()
    }

    fn matching_sentence(&self) -> Option<String> {
        let MatchedHeads { moved, halves_agree, first_label, firm_labels } = self.matched?;
        Some(format!(
            "Heads are matched: {moved} of {} have their partner at another place, and {halves_agree} the same one by both halves of \
             the text. In random order within layers {} agree on the first label, {} on all firm ones.",
            self.heads.len(),
            chance_share_text(first_label),
            chance_share_text(firm_labels),
        ))
    }

    fn head_outcomes_sentence(&self) -> String {
        let OutcomeCounts { kept, gained, lost, changed, could_not_tell, none } = self.heads_by_outcome;
        let have = |count: usize| plural(&count, "has", "have");
        let parts = [
            (kept, "kept firm labels, and lost or gained none".to_owned()),
            (changed, format!("lost or gained a firm label, but {} firm labels in both a and b", have(changed))),
            (lost, "lost every firm label".to_owned()),
            (gained, "gained a first firm label".to_owned()),
            (
                could_not_tell + none,
                format!("{} no firm label, or only labels that could not be told", have(could_not_tell + none)),
            ),
        ];
        let clauses = parts.iter().filter(|(count, _)| *count > 0);
        format!("Heads: {}.", clauses.map(|(count, words)| format!("{count} {words}")).join("; "))
    }

    /// Sentence that compares the key-choice labels (`chooses:*`) of two analyses; `None` if neither analysis has any.
    fn key_choices_sentence(&self) -> Option<String> {
        let OutcomeCounts { kept, gained, lost, changed, could_not_tell, none } = self.choices_by_outcome?;
        Some(format!(
            "How heads choose: {kept} kept, {lost} lost, {gained} gained, {changed} changed, {could_not_tell} could not tell, \
             {none} without such a label in either.",
        ))
    }

    /// Names of at most `most` labels for which `holds` returns true, in one text; `None` if there are none.
    fn label_names(&self, most: usize, holds: impl Fn(&LabelComparison) -> bool) -> Option<String> {
        let of_head = |head: &HeadComparison| -> Vec<String> {
            let labels = head.labels.iter().filter(|label| holds(label));
            labels.map(|label| format!("{} {}", head.place, one_line(&label.label))).collect()
        };
        let names: Vec<String> = self.heads.iter().flat_map(of_head).collect();
        let more = names.len().saturating_sub(most);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{}{more}", names[..names.len().min(most)].join(", ")))
    }
}
