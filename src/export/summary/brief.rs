//! The summary that a run prints: what fits on one screen.

use std::fmt::{self, Write};

use super::{controls, grids, of_presets};
use crate::evaluation::presets::Preset;
use crate::model::grid::HeadPlace;
use crate::report::firm::is_role;
use crate::report::in_brief::by_evidence;
use crate::report::{CorpusInfo, HeadReport, Report};
use crate::study::labels::{BORDERLINE, Label};
use crate::study::show::summary::Summary;
use crate::study::show::wording::{decimal, plain_table, plus_minus};
use crate::system::printable::one_line;

const NAMED: usize = 5;

/// The labels that a decoder's heads are known for, which stand before relations: copying in context, and the sink
/// (Olsson et al. 2022, Xiao et al. 2024).
const OF_DECODERS: [&str; 4] = ["induction", "duplicate-token", "previous-token", "first-token"];

/// The sentences of a report, its grid, the labels with the strongest evidence, and what to type next.
pub(super) fn write(out: &mut Summary, report: &Report, presets: &[&Preset], width: Option<usize>) -> fmt::Result {
    super::in_brief(out, report)?;
    out.blank();
    grids::labels_alone(out, report, width)?;
    let labels = of_labels(report);
    strongest(out, &labels)?;
    controls::write(out, report)?;
    super::blocks(out, of_presets(presets, &report.heads).into())?;
    if !is_read_whole(&report.corpus) {
        out.blank();
        super::skipped(out, report)?;
    }
    remarks(out, report)?;
    next(out, labels.first().map(|(_, label)| *label))
}

/// All that was found on a task, where no study is of a corpus: there are no labels.
pub(super) fn of_task(out: &mut Summary, report: &Report) -> fmt::Result {
    super::in_brief(out, report)?;
    report.views().try_for_each(|(_, view)| super::blocks(out, view.summary))?;
    remarks(out, report)?;
    writeln!(
        out,
        "More: -c FILE labels the heads over a corpus of yours, -o report.html makes a page, `headscope explain task` tells what is \
         measured."
    )
}

/// Remarks on model and corpus before the labels, on a line each: unknown tokens, copies, families.
fn remarks(out: &mut Summary, report: &Report) -> fmt::Result {
    let of_both = ["model", "corpus"].into_iter().zip(report.remarks()).filter(|(_, remarks)| !remarks.is_empty());
    out.blank();
    for (of, remarks) in of_both {
        writeln!(out, "The {of}: {}.", one_line(&remarks.join("; ")))?;
    }
    Ok(())
}

/// Whether everything in a corpus was read as it stands.
fn is_read_whole(corpus: &CorpusInfo) -> bool {
    let left_out = corpus.skipped.values().chain(corpus.words_left_out.values());
    let changed = [corpus.truncated, corpus.partly_annotated().unwrap_or(0), corpus.passed_over];
    left_out.chain(&changed).all(|count| *count == 0) && corpus.repeated.is_empty()
}

/// A row for each of the labels with the strongest evidence, with the head that has it most clearly.
fn strongest(out: &mut Summary, labels: &[(HeadPlace, &Label)]) -> fmt::Result {
    if labels.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nThe labels that are surest to beat offset or chance, each with its clearest head:")?;
    let mut table = plain_table();
    table.set_header(["label", "head", "score", "beside"]);
    for (place, label) in labels {
        let spread = plus_minus(label.ci95, 3);
        let mark = if label.borderline { BORDERLINE } else { "" };
        table.add_row([
            format!("{}{mark}", one_line(&label.label)),
            place.to_string(),
            format!("{}{spread}", decimal(label.score, 3)),
            beside(label),
        ]);
    }
    out.table(table);
    Ok(())
}

/// The reference of a label's score.
fn beside(label: &Label) -> String {
    let offset = label.versus_offset.as_ref().map(|versus| ("best offset", label.score - versus.difference));
    let tags = label.versus_tags.as_ref().map(|versus| ("word classes", label.score - versus.difference));
    let chance = label.baseline.filter(|_| offset.is_none()).map(|baseline| (label.baseline_name(), baseline));
    let numbers = [chance, offset, tags].into_iter().flatten();
    numbers.map(|(what, number)| format!("{what} {}", decimal(number, 3))).collect::<Vec<_>>().join(", ")
}

/// Each label once, with the head that has it most clearly: of a decoder what it copies first, then relations, then others.
fn of_labels<'a>(report: &'a Report) -> Vec<(HeadPlace, &'a Label)> {
    let is_decoder = report.model.visibility.are_causal();
    let rank = |label: &Label| {
        let known = OF_DECODERS.iter().position(|name| is_decoder && label.label == *name);
        known.unwrap_or(OF_DECODERS.len() + usize::from(label.versus_offset.is_none()))
    };
    let of_head = |head: &'a HeadReport| head.labels.iter().map(|label| (head.place, label));
    let mut labels: Vec<_> = report.at_work().flat_map(of_head).filter(|(_, label)| is_role(label)).collect();
    labels
        .sort_by(|(_, a), (_, b)| a.borderline.cmp(&b.borderline).then(rank(a).cmp(&rank(b))).then(by_evidence(b, a)));
    // The clearest head of a relation has the smallest q, as in the sentence above; of other labels it has the largest margin.
    let is_clearer = |label: &Label, than: &Label| {
        label.versus_offset.is_none() && label.borderline == than.borderline && label.margin > than.margin
    };
    let mut named: Vec<(HeadPlace, &Label)> = Vec::new();
    for (place, label) in labels {
        let has_room = named.len() < NAMED;
        match named.iter_mut().find(|(_, other)| other.label == label.label) {
            Some(known) if is_clearer(label, known.1) => *known = (place, label),
            None if has_room => named.push((place, label)),
            _ => {}
        }
    }
    named
}

/// The commands to type for more, of a report whose strongest label is `first`.
fn next(out: &mut Summary, first: Option<&Label>) -> fmt::Result {
    let explained =
        first.map_or("broad", |label| label.label.split_once(':').map_or(&*label.label, |(family, _)| family));
    writeln!(
        out,
        "More: --summary full prints what each study found, -o report.html makes a page, \
         `headscope explain {}` tells what a label means.",
        one_line(explained)
    )
}
