//! The one-screen summary that a run prints; and the paragraphs on controls and on each study.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use itertools::Itertools;

use super::grids;
use super::paragraphs::{append_block, presets_text, write_brief_sentences, write_corpus_exclusions};
use crate::evaluation::presets::Preset;
use crate::export::heads::metric_mark;
use crate::model::grid::HeadPlace;
use crate::passes::control::ControlKind;
use crate::report::firm::is_role;
use crate::report::in_brief::compare_evidence;
use crate::report::{ControlReport, CorpusInfo, HeadReport, Report};
use crate::studies::registry;
use crate::study::labels::{BORDERLINE_MARK, Detector, Label};
use crate::study::metrics::metric::MetricKeys;
use crate::study::section::View;
use crate::study::show::figure::Mark;
use crate::study::show::summary::Summary;
use crate::study::show::wording::{aligned_table, decimal, plus_minus};
use crate::study::{AnyStudy, columns};
use crate::system::counts::format_count;
use crate::system::printable::one_line;

/// Maximum number of labels in the table of the strongest evidence.
const MAX_LABELS: usize = 5;

/// Labels typical of a decoder's heads, shown before labels of relations: three for copying from context (Olsson et al.
/// 2022), then the attention sink (Xiao et al. 2024).
const DECODER_LABELS: [&str; 4] = ["induction", "duplicate-token", "previous-token", "first-token"];

/// Writes the brief sentences of a report, its grid, the labels with the strongest evidence, and commands to run next.
pub(super) fn write_brief(
    out: &mut Summary,
    report: &Report,
    presets: &[&Preset],
    width: Option<usize>,
) -> fmt::Result {
    write_brief_sentences(out, report)?;
    out.add_blank_line();
    grids::write_brief_label_grid(out, report, width)?;
    let labels = strongest_labels(report);
    write_strongest_labels(out, &labels)?;
    write_controls(out, report)?;
    append_block(out, presets_text(presets, &report.heads).into())?;
    if !is_corpus_read_whole(&report.corpus) {
        out.add_blank_line();
        write_corpus_exclusions(out, report)?;
    }
    write_remarks(out, report)?;
    write_next_commands(out, labels.first().map(|(_, label)| *label))
}

/// Writes the summary of a run on a task alone, which has no labels.
pub(super) fn write_task_summary(out: &mut Summary, report: &Report) -> fmt::Result {
    write_brief_sentences(out, report)?;
    report.section_views().try_for_each(|(_, view)| append_block(out, view.summary))?;
    write_remarks(out, report)?;
    writeln!(
        out,
        "More: -c FILE labels the heads over a corpus of yours, -o report.html makes a page, `headscope explain task` tells what is \
         measured."
    )
}

/// Writes remarks on the model and the corpus, a line each: unknown tokens, copied sentences, groups of sentences.
fn write_remarks(out: &mut Summary, report: &Report) -> fmt::Result {
    let of_both = ["model", "corpus"].into_iter().zip(report.remarks()).filter(|(_, remarks)| !remarks.is_empty());
    out.add_blank_line();
    for (of, remarks) in of_both {
        writeln!(out, "The {of}: {}.", one_line(&remarks.join("; ")))?;
    }
    Ok(())
}

/// Whether nothing in a corpus was skipped, left out, cut or repeated.
fn is_corpus_read_whole(corpus: &CorpusInfo) -> bool {
    let left_out = corpus.skipped.values().chain(corpus.words_left_out.values());
    let changed = [corpus.truncated, corpus.partly_annotated_sentences().unwrap_or(0), corpus.passed_over];
    left_out.chain(&changed).all(|count| *count == 0) && corpus.repeated.is_empty()
}

/// Writes a table of the labels with the strongest evidence, each at its clearest head.
fn write_strongest_labels(out: &mut Summary, labels: &[(HeadPlace, &Label)]) -> fmt::Result {
    if labels.is_empty() {
        return Ok(());
    }
    let has_tags = labels.iter().any(|(_, label)| label.versus_tags.is_some());
    let tags = if has_tags { " (word classes for comparison)" } else { "" };
    writeln!(out, "\nThe labels with the strongest evidence against their baseline, each at its clearest head{tags}:")?;
    let row = |(place, label): &(HeadPlace, &Label)| {
        let mark = if label.borderline { BORDERLINE_MARK } else { "" };
        [
            one_line(&label.label) + mark,
            place.to_string(),
            decimal(label.score, 3) + &plus_minus(label.ci95, 3),
            baselines_in_words(label),
        ]
    };
    out.add_table(aligned_table(["label", "head", "score", "baselines"], labels.iter().map(row), ..0));
    Ok(())
}

/// Baselines of a label's score in words: its chance level or the best offset, and the word classes.
fn baselines_in_words(label: &Label) -> String {
    let offset = label.versus_offset.as_ref().map(|versus| ("best offset", label.score - versus.difference));
    let tags = label.versus_tags.as_ref().map(|versus| ("word classes", label.score - versus.difference));
    let chance = label.baseline.filter(|_| offset.is_none()).map(|baseline| (label.baseline_name(), baseline));
    let numbers = [chance, offset, tags].into_iter().flatten();
    numbers.map(|(what, number)| format!("{what} {}", decimal(number, 3))).join(", ")
}

/// At most [`MAX_LABELS`] labels, each once with the head that shows it most clearly.
/// Firm labels come before borderline labels. In each group, a decoder's [`DECODER_LABELS`] come first, then labels of
/// relations, then others.
fn strongest_labels<'a>(report: &'a Report) -> Vec<(HeadPlace, &'a Label)> {
    let is_decoder = report.model.visibility.are_causal();
    let rank = |label: &Label| {
        let known = DECODER_LABELS.iter().position(|name| is_decoder && label.label == *name);
        known.unwrap_or(DECODER_LABELS.len() + usize::from(label.versus_offset.is_none()))
    };
    let of_head = |head: &'a HeadReport| head.labels.iter().map(|label| (head.place, label));
    let mut labels: Vec<_> =
        report.non_constant_heads().flat_map(of_head).filter(|(_, label)| is_role(label)).collect();
    labels.sort_by(|(_, a), (_, b)| {
        a.borderline.cmp(&b.borderline).then(rank(a).cmp(&rank(b))).then(compare_evidence(b, a))
    });
    // The clearest head of a relation has the smallest q, as in the sentence above; for other labels it has the largest margin.
    let is_clearer = |label: &Label, than: &Label| {
        label.versus_offset.is_none() && label.borderline == than.borderline && label.margin > than.margin
    };
    let mut named: Vec<(HeadPlace, &Label)> = Vec::new();
    for (place, label) in labels {
        let has_room = named.len() < MAX_LABELS;
        match named.iter_mut().find(|(_, other)| other.label == label.label) {
            Some(known) if is_clearer(label, known.1) => *known = (place, label),
            None if has_room => named.push((place, label)),
            _ => {}
        }
    }
    named
}

/// Writes which commands show more; `first` is the label with the strongest evidence.
fn write_next_commands(out: &mut Summary, first: Option<&Label>) -> fmt::Result {
    let explained =
        first.map_or("broad", |label| label.label.split_once(':').map_or(&*label.label, |(family, _)| family));
    writeln!(
        out,
        "More: --summary full prints what each study found, -o report.html makes a page, \
         `headscope explain {}` tells what a label means.",
        one_line(explained)
    )
}

/// Maximum number of heads listed with the labels that they keep; the report has all.
const MAX_KEPT_HEADS: usize = 12;

/// Writes a paragraph for each kind of control run, with mean counts by label family.
/// A control on the trained model counts the heads that keep their label, one with random weights all labels found.
pub(super) fn write_controls(out: &mut Summary, report: &Report) -> fmt::Result {
    for (kind, runs) in report.controls_by_kind() {
        write!(out, "\nControl {kind}, mean of {}: ", format_count(runs.len(), "seed"))?;
        let (meaning, is_trained) = match kind {
            ControlKind::RandomInit => ("nothing was learned, so its labels are the false positives.", false),
            ControlKind::RandomSharp => (
                "nothing was learned but how sharply each layer attends, so its labels are the false positives.",
                false,
            ),
            ControlKind::Rotated => ("the labels that their heads keep do not rest on what earlier heads write.", true),
            // The number of labels found says nothing: shuffling removes the fixed offsets that syntactic labels have to beat.
            ControlKind::ShuffledWords => ("the labels that their heads keep do not rest on the order of words.", true),
        };
        writeln!(out, "{meaning}")?;
        if is_trained {
            writeln!(out, "  kept: {}", family_counts(report, &runs, |run| &run.kept_counts))?;
            write_kept_labels(out, report, &runs)?;
        } else {
            writeln!(out, "  found: {}", family_counts(report, &runs, |run| &run.label_counts))?;
        }
    }
    Ok(())
}

/// Lists label families with two numbers of heads, as `separator 1.5 (model 3)`: the mean over the seeds of a control, and the
/// number in the report.
fn family_counts(
    report: &Report,
    runs: &[&ControlReport],
    counts: fn(&ControlReport) -> &BTreeMap<String, u64>,
) -> String {
    // Label families that the control is run to test are named even if no head has such a label.
    let is_tested = |family: &str| {
        registry::detectors().any(|known| known.explanation.name == family && known.style.is_named_in_controls)
    };
    let mut shown = report.label_counts.iter().filter_map(|(family, here)| {
        let there: Vec<u64> = runs.iter().map(|run| counts(run).get(family).copied()).collect::<Option<_>>()?;
        let total: u64 = there.iter().sum();
        let mean = total as f64 / runs.len() as f64;
        (total > 0 || *here > 0 || is_tested(family)).then(|| format!("{family} {mean:.1} (model {here})"))
    });
    shown.join(", ")
}

/// Writes the heads that keep a label with every seed of a control. Only labels named in the text on controls count.
fn write_kept_labels(out: &mut Summary, report: &Report, runs: &[&ControlReport]) -> fmt::Result {
    let kept = |head: &HeadReport| {
        let mut labels = head.labels_in_all_controls(runs).filter_map(|label| {
            let detector = registry::detector_of_label(label)?;
            detector.style.is_named_in_controls.then(|| one_line(&detector.code_of_label(label)))
        });
        let labels = labels.join(", ");
        (!labels.is_empty()).then(|| format!("{} {labels}", head.place))
    };
    let heads: Vec<String> = report.heads.iter().filter_map(kept).collect();
    if heads.is_empty() {
        return Ok(());
    }
    write!(out, "  with every seed: {}", heads[..heads.len().min(MAX_KEPT_HEADS)].join("; "))?;
    match heads.len().saturating_sub(MAX_KEPT_HEADS) {
        0 => writeln!(out),
        more => writeln!(out, "; and {}", format_count(more, "more head")),
    }
}

/// Maximum number of heads named for each label in the line of a study.
const MAX_NAMED_HEADS: usize = 6;

/// One line per study: the heads that have its labels.
/// For a study with neither labels nor a summary, the line names the head with the largest value of its first metric.
pub(super) fn study_lines(report: &Report, views: &[(&'static dyn AnyStudy, View<'_>)]) -> String {
    let policy = &report.settings.policy;
    let line = |(study, view): &(&'static dyn AnyStudy, View<'_>)| {
        let labels = study.card().labels;
        let says = if labels.iter().any(|detector| detector.is_on(policy)) {
            Some(labelled_heads(report, labels))
        } else if study.card().all_labels().next().is_none() && view.summary.is_empty() {
            largest_metric(report, *study)
        } else {
            None
        };
        says.map(|says| format!("  {}: {says}\n", study.card().name))
    };
    let lines: String = views.iter().filter(|(_, view)| !view.lacks_subject).filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("Heads by study and label (first label or not):\n{lines}") }
}

/// Names of the heads that have each label of a study, label by label.
fn labelled_heads(report: &Report, labels: &[Detector]) -> String {
    let with = |detector: &Detector| {
        let has = |head: &&HeadReport| head.labels.iter().any(|label| detector.gives_label(&label.label));
        let heads: Vec<&HeadReport> = report.heads.iter().filter(has).collect();
        let name = detector.explanation.name;
        let is_firm =
            |head: &HeadReport| head.labels.iter().any(|one| detector.gives_label(&one.label) && !one.borderline);
        let mut named = heads.iter().take(MAX_NAMED_HEADS).map(|head| {
            let mark = if is_firm(head) { "" } else { BORDERLINE_MARK };
            format!("{}{mark}", head.place)
        });
        let more = heads.len().saturating_sub(MAX_NAMED_HEADS);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        (!heads.is_empty()).then(|| format!("{name} {}{more}", named.join(" ")))
    };
    let found = labels.iter().filter_map(with).join(", ");
    if found.is_empty() { "no head has one of its labels".to_owned() } else { found }
}

/// Head with the largest value of a study's first metric, with its chance level.
fn largest_metric(report: &Report, study: &dyn AnyStudy) -> Option<String> {
    let column = columns(study).into_iter().find(|column| matches!(column.keys, MetricKeys::Single))?;
    let marks = report.heads.iter().filter_map(|head| Some((head.place, metric_mark(head, column.id, None)?)));
    let (place, Mark { value, ci95 }) = marks.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))?;
    let spread = plus_minus(ci95, 3);
    let chance = report.chance.get(column.id, None).copied().flatten();
    let chance = chance.map_or_else(String::new, |chance| format!(" (chance {})", decimal(chance, 3)));
    Some(format!("{place} has the largest `{}`, {}{spread}{chance}", column.id, decimal(value, 3)))
}
