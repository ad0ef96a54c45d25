//! A head in one sentence, made of its evidence: where it looks, and what the studies that were run found beside that.

use super::firm::is_role;
use super::{HeadReport, Sections};
use crate::studies::registry::detector_of;
use crate::study::labels::content::{lead_over, leading};
use crate::study::labels::policy::Policy;
use crate::study::labels::{Label, Near};
use crate::study::show::wording::{decimal, percent_of};
use crate::system::counted::counted;

/// A sentence on a head: "L2H8 attends from det words to their heads (syntactic:det 0.87 [0.84, 0.89], baseline 0.60)."
///
/// It says what its numbers say and no more: a label that no test shows is a "perhaps", and a head without a label has
/// the one that it comes nearest to.
pub(super) fn of_head(head: &HeadReport, sections: &Sections, policy: &Policy) -> String {
    if head.is_removed() {
        return format!("{} is removed (`--remove`).", head.place);
    }
    if head.is_absent() {
        return format!("{} is absent: the checkpoint was saved without it.", head.place);
    }
    let found = sections.0.iter().flat_map(|(_, section)| section.of_head(head.place, policy).clauses);
    let found: Vec<String> = head.chooses.iter().map(clause).chain(found).collect();
    let end = if found.is_empty() { ".".to_owned() } else { format!("; it {}.", listed(&found)) };
    format!("{} {}{end}", head.place, looks(head))
}

/// Where the head looks: the first label that is a role, and how many more there are.
fn looks(head: &HeadReport) -> String {
    let sureness = head.labels.first().map(|label| label.borderline);
    let alike: Vec<&Label> = head.labels.iter().filter(|label| Some(label.borderline) == sureness).collect();
    let alone = |label: &&&Label| label.rests_on.is_none();
    let role = alike.iter().filter(alone).find(|label| is_role(label)).or_else(|| alike.iter().find(alone));
    let Some(&role) = role else { return unlabelled(&head.nearest) };
    let mut sentence = clause_with(role, &share_by_chance(head, role).unwrap_or_default());
    if let Some(sink) = sink(head).filter(|_| lead_over(&role.number).is_some()) {
        sentence = format!("{sink}, and {sentence}");
    }
    let more = alike.iter().filter(|label| label.rests_on.as_ref() == Some(&role.label));
    let more: Vec<&&Label> = more.collect();
    more.iter().for_each(|label| sentence = format!("{sentence} and {}", clause(label)));
    let is_told = |label: &&Label| label.label == role.label || more.iter().any(|told| told.label == label.label);
    let others: Vec<&Label> = head.labels.iter().filter(|label| !is_told(label)).collect();
    match others[..] {
        [] => sentence,
        [other] => format!("{sentence}, and is {}labelled {} as well", perhaps(other), other.label),
        [..] => format!("{sentence}, and has {}", counted(others.len(), "more label")),
    }
}

/// The metrics of attention to tokens without content of their own, and these tokens.
const SINKS: [(&str, &str); 3] = [
    ("first_special_mass", "the first special token"),
    ("separator_mass", "separators"),
    ("first_token_mass", "the first token"),
];

/// The tokens without content that get more than half of the attention of a head, as a verb phrase.
fn sink(head: &HeadReport) -> Option<String> {
    let share = |metric: &str| head.metrics.get(metric, None).copied().flatten().filter(|share| *share > 0.5);
    SINKS
        .iter()
        .find_map(|(metric, tokens)| Some(format!("gives {tokens} {} of its attention", percent_of(share(metric)?))))
}

/// The share whose lead over chance a label of content is about, beside its chance, where that is above 0.
fn share_by_chance(head: &HeadReport, label: &Label) -> Option<String> {
    let (metric, key) = leading(&label.number)?;
    let share = head.metrics.get(metric, key).copied().flatten()?;
    let chance = share - label.score;
    (chance > 0.0).then(|| format!(": {} where chance is {}", percent_of(share), percent_of(chance)))
}

/// A label as a verb phrase with its evidence.
fn clause(label: &Label) -> String {
    clause_with(label, "")
}

/// The same, with more about a lead.
fn clause_with(label: &Label, of_lead: &str) -> String {
    let phrase = detector_of(&label.label).map_or_else(|| "has a label".to_owned(), |of| of.phrase_of(label));
    let perhaps = perhaps(label);
    let interval = label.ci95.map_or_else(String::new, |ci95| {
        let [low, high] = [ci95.low(), ci95.high()].map(|end| decimal(end, 2));
        format!(" [{low}, {high}]")
    });
    let beside = match (lead_over(&label.number), label.baseline) {
        (Some(level), _) => format!(" above {level}{of_lead}"),
        (None, Some(level)) => format!(", {} {}", label.baseline_name(), decimal(level, 2)),
        (None, None) => String::new(),
    };
    format!("{perhaps}{phrase} ({} {}{interval}{beside})", label.label, decimal(label.score, 2))
}

/// Said before what no test shows.
fn perhaps(label: &Label) -> &'static str {
    if label.borderline { "perhaps " } else { "" }
}

/// A head that has no label.
fn unlabelled(nearest: &[Near]) -> String {
    match nearest.first() {
        // What is not half as much as is asked is near nothing.
        Some(Near { score, threshold, .. }) if *score < threshold / 2.0 => {
            "has no label, and none is near (no score is half of its threshold)".to_owned()
        }
        Some(Near { label, score, threshold, .. }) => {
            let [score, threshold] = [score, threshold].map(|number| decimal(*number, 2));
            format!("has no label (nearest is {label}: {score}, where {threshold} is asked)")
        }
        None => "has no label: no rule could be tested".to_owned(),
    }
}

/// Clauses with commas and an "and" before the last.
fn listed(clauses: &[String]) -> String {
    match clauses {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => clauses.concat(),
    }
}
