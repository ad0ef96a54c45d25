//! Sums up a report in a few sentences for a first-time reader, and each head in one sentence.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use itertools::Itertools as _;

use super::firm::{has_firm_role, is_firm_role, is_role};
use super::roles::{RoleCounts, shortages};
use super::{HeadReport, Report, Sections};
use crate::model::grid::HeadPlace;
use crate::passes::control::ControlKind;
use crate::studies::registry::detector_of_label;
use crate::study::labels::content::{lead_reference_text, parse_lead_over_chance};
use crate::study::labels::evidence::{Direction, Reach};
use crate::study::labels::{Label, Near};
use crate::study::section::ViewContext;
use crate::study::show::in_brief::{InBrief, Shortage};
use crate::study::show::wording::{decimal, whole_percent, word_class_deficit_text};
use crate::system::counts::{format_count, join_with_and, plural};

/// Maximum number of kinds of labels that a sentence names, the most frequent first. The remaining kinds are
/// written as one sum.
const MAX_NAMED_KINDS: usize = 5;
/// Maximum number of heads that are named (`L3H1`) for one kind of label. If more heads have the label, they are
/// only counted.
const MAX_NAMED_PER_KIND: usize = 2;
/// Maximum number of heads that are named (`L3H1`) in the sentence on heads that write a constant.
const MAX_NAMED_CONSTANT_HEADS: usize = 16;

/// The opening sentences of a report. A topic on which the report found nothing gets no sentence.
pub(super) fn opening_sentences(report: &Report) -> Vec<String> {
    let policy = &report.settings.policy;
    let unread = report.unreadable_corpus_warning();
    let is_read = unread.is_none();
    let is_of_corpus = report.analyses_corpus();
    let untested = report.untested_labels_warning();
    let is_tested = untested.is_none();
    let results = || match untested {
        Some(why) => vec![why],
        None => [roles_sentence(report)].into_iter().chain(relation_sentence(report)).collect(),
    };
    let of_corpus = || unread.into_iter().chain(results()).collect();
    let mut lines: Vec<String> = if is_of_corpus { of_corpus() } else { Vec::new() };
    lines.extend(constant_heads_sentence(report));
    let mut shortages = shortages(report);
    let mut openings = 0;
    for (study, view) in report.section_views() {
        let InBrief { finding: found, shortage, has_priority: opens } = view.in_brief;
        if shortage.is_none() && study.card().choices.iter().any(|detector| detector.is_on(policy)) {
            lines.push(choices_sentence(report));
        }
        match found {
            Some(found) if opens => {
                lines.insert(openings, found);
                openings += 1;
            }
            found => lines.extend(found),
        }
        shortages.extend(shortage);
    }
    // More of a text that cannot be read would not help.
    if is_read && is_tested && is_of_corpus {
        lines.extend(Some(shortage_sentences(report, &shortages)).filter(|line| !line.is_empty()));
    }
    lines
}

/// A sentence on how many heads have a firm role, and which roles these are.
fn roles_sentence(report: &Report) -> String {
    let roles = RoleCounts::new(report);
    let first = |head: &HeadReport| Some(head.labels.iter().find(|label| is_firm_role(label))?.label.clone());
    let kinds =
        count_by_kind(report.non_constant_heads().filter_map(|head| Some((label_category(&first(head)?), head.place))));
    let kinds = if kinds.is_empty() { kinds } else { format!(": {kinds}") };
    format!(
        "{} a firm role, not counting `broad`{kinds}{}.",
        roles.at_least_clause(roles.firm_roles),
        control_clauses(report)
    )
}

/// A sentence on the heads that write a constant; `None` if there are none.
fn constant_heads_sentence(report: &Report) -> Option<String> {
    let heads = &report.model.constant_heads;
    let count = heads.len();
    let (writes, attends) = plural(&count, ("writes a constant", "it attends"), ("write a constant", "they attend"));
    let all = format_count(report.present_heads().count(), "head");
    let with_role =
        report.heads.iter().filter(|head| report.writes_constant(head) && has_firm_role(&head.labels)).count();
    let consequence = match with_role {
        0 if count == report.present_heads().count() => ", and roles say only where its heads look",
        0 => "",
        _ => ", so that its firm roles count in no number here",
    };
    let uses = format!("the model makes no use of that attention{consequence}");
    (count > 0).then(|| format!("{count} of {all} {writes}, whatever {attends} to ({}): {uses}.", name_heads(heads)))
}

fn name_heads(heads: &[HeadPlace]) -> String {
    let names = heads.iter().take(MAX_NAMED_CONSTANT_HEADS).join(", ");
    match heads.len().saturating_sub(MAX_NAMED_CONSTANT_HEADS) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// A sentence on the heads whose attention follows almost entirely from position alone, or from the attended token
/// alone.
fn choices_sentence(report: &Report) -> String {
    let firm = report.heads.iter().filter_map(|head| {
        let chooses = head.chooses.as_ref().filter(|chooses| !chooses.borderline)?;
        let code =
            detector_of_label(&chooses.label).map(|detector| detector.code_of_label(&chooses.label).into_owned());
        let code = code.unwrap_or_else(|| chooses.label.clone());
        let cue =
            if code == "token" { "by the identity of the attended token".to_owned() } else { format!("by {code}") };
        Some((cue, head.place))
    });
    let kinds = count_by_kind(firm);
    if kinds.is_empty() {
        return "No head above layer 0 is shown to have its attention mainly explained by position or by the identity of the attended token."
            .to_owned();
    }
    format!("Heads above layer 0 whose attention is mainly explained by one cue: {kinds}.")
}

/// Clauses on the number of heads with a firm role in each control, averaged over the control's seeds.
fn control_clauses(report: &Report) -> String {
    let controls = report.controls_by_kind();
    let clauses = controls.iter().filter_map(|(kind, runs)| {
        let counts: Vec<u64> = runs.iter().map(|run| run.firm_roles).collect::<Option<_>>()?;
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let digits = usize::from(mean.fract() != 0.0);
        let subject = match kind {
            ControlKind::RandomInit => "an untrained model has",
            ControlKind::RandomSharp => "an untrained model of the same sharpness has",
            ControlKind::Rotated => "with rotated outputs there are",
            ControlKind::ShuffledWords => "over shuffled words there are",
        };
        Some(format!("; {subject} {}", decimal(mean, digits)))
    });
    clauses.collect()
}

/// The category under which a label is counted. It is the part before the colon for rules such as
/// `syntactic:<relation>`, and the whole label for other rules.
fn label_category(label: &str) -> String {
    let rule = detector_of_label(label).map(|detector| detector.explanation.name).filter(|name| name.contains('<'));
    rule.map_or(label, |name| name.split_once(':').map_or(name, |(category, _)| category)).to_owned()
}

/// Lists the number of heads for each kind of label, the most frequent first. Heads are named for kinds that few
/// heads have.
fn count_by_kind(heads: impl Iterator<Item = (String, HeadPlace)>) -> String {
    let mut kinds: BTreeMap<String, Vec<HeadPlace>> = BTreeMap::new();
    heads.for_each(|(kind, place)| kinds.entry(kind).or_default().push(place));
    let kinds = kinds.into_iter().sorted_by_key(|(_, places)| Reverse(places.len())).collect_vec();
    // If only one kind is left, it is named as well.
    let named = if kinds.len() == MAX_NAMED_KINDS + 1 { kinds.len() } else { MAX_NAMED_KINDS };
    let mut shown = kinds.iter().take(named).map(|(kind, places)| match places.len() {
        count if count > MAX_NAMED_PER_KIND => format!("{count} {kind}"),
        count => format!("{count} {kind} ({})", places.iter().join(", ")),
    });
    let rarer: usize = kinds.iter().skip(named).map(|(_, places)| places.len()).sum();
    let rarer = if kinds.len() > named { format!(", {rarer} of rarer kinds") } else { String::new() };
    shown.join(", ") + &rarer
}

/// Orders labels by evidence: firm before borderline, then by smaller q-value, then by larger margin.
pub fn compare_evidence(a: &Label, b: &Label) -> Ordering {
    let q = |label: &Label| label.test.q.unwrap_or(1.0);
    b.borderline.cmp(&a.borderline).then(q(b).total_cmp(&q(a))).then(a.margin.total_cmp(&b.margin))
}

/// The syntactic label with the strongest evidence, and its head; `None` without such a label.
pub fn strongest_relation(report: &Report) -> Option<(HeadPlace, &Label)> {
    let labels = report.non_constant_heads().flat_map(|head| head.labels.iter().map(move |label| (head.place, label)));
    labels.filter(|(_, label)| label.versus_offset.is_some()).max_by(|(_, a), (_, b)| compare_evidence(a, b))
}

fn relation_sentence(report: &Report) -> Option<String> {
    let (place, label) = strongest_relation(report)?;
    let name = label.label.split_once(':').map_or(&*label.label, |(_, relation)| relation);
    let offset = label.versus_offset.as_ref().map_or(0.0, |versus| label.score - versus.difference);
    let start = if label.borderline {
        "No relation is followed firmly; perhaps"
    } else {
        "The relation with the strongest evidence is"
    };
    let [score, offset] = [label.score, offset].map(whole_percent);
    let words = if name == "all" { "words of all relations".to_owned() } else { format!("{name} words") };
    let found = match label.direction {
        Some(Direction::HeadToDependent) => format!("to {score} of {words} from their head"),
        _ => format!("from {score} of {words} to their head"),
    };
    let (tags, stands) = match &label.versus_tags {
        None => (String::new(), "the corpus has no word classes".to_owned()),
        Some(tags) => {
            let stands = match (label.beaten_baseline(), word_class_deficit_text(label)) {
                (Some(Reach::Tags), _) => "it is beyond word classes".to_owned(),
                (_, Some(below)) => format!("it is {below}"),
                _ => "it is not shown to be beyond word classes".to_owned(),
            };
            (format!(", rule by word classes {}", whole_percent(label.score - tags.difference)), stands)
        }
    };
    Some(format!("{start} {name}: attention of {place} leads {found} (best fixed offset {offset}{tags}); {stands}."))
}

/// Writes which findings lack evidence, and how much more text each needs. Then writes how many heads are undecided,
/// and how many labels are borderline. Empty if there is nothing to write.
fn shortage_sentences(report: &Report, shortages: &[Shortage]) -> String {
    let [sentence, _] = report.model.text_units();
    let read = report.corpus.sentences;
    let lack = |shortage: &Shortage| {
        let Shortage { missing_finding: of, count, required: asked, things: [_, things], .. } = shortage;
        let more = shortage.more_sentences(read);
        let more = more.map_or_else(String::new, |more| {
            let sentences = format_count(more, &format!("more {sentence}"));
            format!("; about {sentences} like these would do")
        });
        format!("{of} ({count} {things}, {asked} needed{more})")
    };
    let lacks = shortages.iter().map(lack).join(", ");
    let lacks = if lacks.is_empty() { lacks } else { format!("Too little text for {lacks}.") };
    let undecided = match report.heads.iter().filter(|head| head.is_undecided()).count() {
        0 => String::new(),
        count => {
            let are = plural(&count, "is", "are");
            format!(
                "{} {are} undecided (?): the text neither shows a label nor rules one out.",
                format_count(count, "head")
            )
        }
    };
    let sentences = [lacks, undecided, RoleCounts::new(report).borderline_labels_sentence()];
    sentences.iter().filter(|sentence| !sentence.is_empty()).join(" ")
}

/// Sentence on a head: "L2H8 attends from det words to their heads (syntactic:det 0.87 [0.84, 0.89], baseline 0.60)."
///
/// A borderline label follows the word "perhaps". For a head without a label, the nearest label is named.
pub(super) fn head_sentence(head: &HeadReport, sections: &Sections, known: ViewContext<'_>) -> String {
    if head.is_removed() {
        return format!("{} is removed (`--remove`).", head.place);
    }
    if head.is_absent() {
        return format!("{} is absent: the checkpoint was saved without it.", head.place);
    }
    let of_studies = sections.0.iter().flat_map(|(_, section)| section.head_card(head.place, known).clauses);
    let clauses: Vec<String> = head.chooses.iter().map(label_clause).chain(of_studies).collect();
    let end = if clauses.is_empty() { ".".to_owned() } else { format!("; it {}.", join_with_and(&clauses)) };
    format!("{} {}{end}", head.place, attention_clause(head))
}

/// A verb phrase for the head's first role or, without one, its first label, with the further labels or their number.
/// For a head without labels, the phrase names the nearest labels.
fn attention_clause(head: &HeadReport) -> String {
    let is_borderline = head.labels.first().map(|label| label.borderline);
    let alike: Vec<&Label> = head.labels.iter().filter(|label| Some(label.borderline) == is_borderline).collect();
    let is_independent = |label: &&&Label| label.rests_on.is_none();
    let mut independent = alike.iter().filter(is_independent);
    let role = independent.clone().find(|label| is_role(label)).or_else(|| independent.next());
    let Some(&role) = role else { return unlabelled_clause(&head.nearest) };
    let mut sentence = label_clause_with_note(role, &share_and_chance_text(head, role).unwrap_or_default());
    if let Some(sink) = sink_clause(head).filter(|_| lead_reference_text(&role.number).is_some()) {
        sentence = format!("{sink}, and {sentence}");
    }
    let dependent = alike.iter().filter(|label| label.rests_on.as_ref() == Some(&role.label));
    let dependent: Vec<&&Label> = dependent.collect();
    dependent.iter().for_each(|label| sentence = format!("{sentence} and {}", label_clause(label)));
    let is_told = |label: &&Label| label.label == role.label || dependent.iter().any(|told| told.label == label.label);
    let others: Vec<&Label> = head.labels.iter().filter(|label| !is_told(label)).collect();
    match others[..] {
        [] => sentence,
        [other] => format!("{sentence}, and is {}labelled {} as well", borderline_hedge(other), other.label),
        [..] => format!("{sentence}, and has {}", format_count(others.len(), "more label")),
    }
}

/// Metrics of the attention to tokens without content (sinks), each with the noun for those tokens.
const SINK_METRICS: [(&str, &str); 3] = [
    ("first_special_mass", "the first special token"),
    ("separator_mass", "separators"),
    ("first_token_mass", "the first token"),
];

/// A verb phrase for a head that gives more than half of its attention to a token without content; else `None`.
fn sink_clause(head: &HeadReport) -> Option<String> {
    let share = |metric: &str| head.metrics.get(metric, None).copied().flatten().filter(|share| *share > 0.5);
    SINK_METRICS
        .iter()
        .find_map(|(metric, tokens)| Some(format!("gives {tokens} {} of its attention", whole_percent(share(metric)?))))
}

/// The attention share and the chance level of a label whose score is their difference; `None` for other labels.
fn share_and_chance_text(head: &HeadReport, label: &Label) -> Option<String> {
    let (metric, key) = parse_lead_over_chance(&label.number)?;
    let share = head.metrics.get(metric, key).copied().flatten()?;
    let chance = share - label.score;
    (chance > 0.0).then(|| format!(": {} where chance is {}", whole_percent(share), whole_percent(chance)))
}

/// A verb phrase for a label, with its score, interval and baseline.
fn label_clause(label: &Label) -> String {
    label_clause_with_note(label, "")
}

/// As [`label_clause`]. If the score is a lead over a reference level such as chance, `level_note` follows that level.
fn label_clause_with_note(label: &Label, level_note: &str) -> String {
    let phrase = detector_of_label(&label.label).map_or_else(|| "has a label".to_owned(), |of| of.phrase_of(label));
    let perhaps = borderline_hedge(label);
    let interval = label.ci95.map_or_else(String::new, |ci95| {
        let [low, high] = [ci95.low(), ci95.high()].map(|end| decimal(end, 2));
        format!(" [{low}, {high}]")
    });
    let comparison = match (lead_reference_text(&label.number), label.baseline) {
        (Some(level), _) => format!(" above {level}{level_note}"),
        (None, Some(level)) => format!(", {} {}", label.baseline_name(), decimal(level, 2)),
        (None, None) => String::new(),
    };
    format!("{perhaps}{phrase} ({} {}{interval}{comparison})", label.label, decimal(label.score, 2))
}

/// The word "perhaps" for a borderline label, and an empty text for a firm one.
fn borderline_hedge(label: &Label) -> &'static str {
    if label.borderline { "perhaps " } else { "" }
}

/// A verb phrase for a head without a label, which names the nearest labels.
fn unlabelled_clause(nearest: &[Near]) -> String {
    match nearest.first() {
        // A score below half of its threshold is not near.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(of: &[(&str, usize)]) -> String {
        let heads = of.iter().flat_map(|&(kind, count)| {
            (0..count).map(move |head| (kind.to_owned(), HeadPlace { layer: kind.len(), head }))
        });
        count_by_kind(heads)
    }

    #[test]
    fn kinds_are_told_by_number_and_the_rare_ones_with_their_heads() {
        assert_eq!(told(&[]), "");
        assert_eq!(told(&[("a", 2), ("bc", 3)]), "3 bc, 2 a (L1H0, L1H1)");
        let six = [("a", 3), ("b", 3), ("c", 3), ("d", 3), ("e", 3), ("f", 1)];
        assert_eq!(told(&six), "3 a, 3 b, 3 c, 3 d, 3 e, 1 f (L1H0)");
        assert_eq!(told(&[&six[..], &[("g", 1)]].concat()), "3 a, 3 b, 3 c, 3 d, 3 e, 2 of rarer kinds");
    }

    #[test]
    fn families_with_many_members_are_one_kind() {
        let families = ["syntactic:obj", "tag:NOUN", "offset:-2", "sink:no-op", "broad", "new"].map(label_category);
        assert_eq!(families, ["syntactic", "tag", "offset:-2", "sink:no-op", "broad", "new"]);
    }
}
