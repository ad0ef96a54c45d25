//! Grids of the summary, with their legends: the first label of each head, and how each head chooses where to attend.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::iter;
use std::ops::Range;

use anstyle::Style;
use comfy_table::Table;
use itertools::Itertools;

use crate::report::{HeadReport, Report};
use crate::studies::registry;
use crate::study::labels::{BORDERLINE_MARK, CONSTANT_MARK, TIED_MARK, UNLABELLED_LEGEND_ENTRY};
use crate::study::show::summary::{Summary, table_width};
use crate::study::show::wording::aligned_table;
use crate::study::{AnyStudy, columns};
use crate::system::counts::format_count;
use crate::system::printable::one_line;

pub(super) fn write_label_grid(out: &mut Summary, report: &Report, width: Option<usize>) -> fmt::Result {
    writeln!(out, "\nPrimary label of each head (layers down, heads across):\n")?;
    write_grids(out, report, width, |head| label_cell(report, head));
    write_legend(out, &report.heads, first_label_code)
}

pub(super) fn write_brief_label_grid(out: &mut Summary, report: &Report, width: Option<usize>) -> fmt::Result {
    write_grids(out, report, width, |head| label_cell(report, head));
    let labels = || report.heads.iter().flat_map(|head| &head.labels);
    let marks = [
        (labels().any(|label| label.borderline), format!("label{BORDERLINE_MARK}: borderline")),
        (labels().any(|label| label.tied), format!("label{TIED_MARK}: nearly tied with another label")),
        (report.heads.iter().any(|head| report.writes_constant(head)), format!("{CONSTANT_MARK}: writes a constant")),
        (report.heads.iter().any(|head| head.labels.len() > 1), "label+n: n more labels".to_owned()),
    ];
    let marks = marks.into_iter().filter(|(is_there, _)| *is_there).map(|(_, meaning)| meaning);
    let mut codes = code_meanings(&report.heads, first_label_code);
    codes.retain(|(_, (_, codes, _))| !codes.is_empty());
    // Signs come after words.
    codes.sort_by_key(|(_, (_, codes, _))| !codes.iter().any(|code| code.starts_with(char::is_alphabetic)));
    let codes = codes.into_iter().map(|(meaning, (_, codes, _))| {
        let (meaning, _) = meaning.split_once(':').filter(|_| !meaning.contains(":<")).unwrap_or((&meaning, ""));
        format!("{}: {meaning}", codes.iter().join(", "))
    });
    let legend = codes.chain(marks).join("; ");
    if !legend.is_empty() {
        writeln!(out, "({legend})")?;
    }
    Ok(())
}

/// Code of a label in the grid of a summary, with its colour, and its meaning for the legend.
struct GridCode {
    text: String,
    style: Style,
    meaning: String,
}

fn label_code(label: &str) -> GridCode {
    let Some(detector) = registry::detector_of_label(label) else { return uncoloured_code([label; 2]) };
    let style = Style::new().fg_color(Some(detector.style.colour.into()));
    GridCode { text: one_line(&detector.code_of_label(label)), style, meaning: detector.explanation.name.to_owned() }
}

/// Grid entry without a colour, from `[sign, meaning]`.
fn uncoloured_code([text, meaning]: [&str; 2]) -> GridCode {
    GridCode { text: one_line(text), style: Style::new(), meaning: meaning.to_owned() }
}

fn first_label_code(head: &HeadReport) -> GridCode {
    head.unlabelled_legend_entry().map_or_else(|| label_code(&head.primary), uncoloured_code)
}

fn choice_code(head: &HeadReport) -> GridCode {
    head.chooses.as_ref().map_or_else(|| uncoloured_code(NO_CHOICE_SIGN), |chooses| label_code(&chooses.label))
}

/// Sign of a head without a label in the grid of how heads choose their keys, and its meaning.
const NO_CHOICE_SIGN: [&str; 2] = [UNLABELLED_LEGEND_ENTRY[0], "none of these"];

/// Writes a grid of heads. A grid that is too wide is written in parts, each with as many columns as fit.
fn write_grids(out: &mut Summary, report: &Report, width: Option<usize>, cell: impl Fn(&HeadReport) -> String) {
    let heads = report.model.heads;
    let fits = |shown: &usize| {
        let parts = (0..heads).step_by(*shown).map(|first| grid_table(report, first..heads.min(first + shown), &cell));
        width.is_none_or(|width| parts.map(|part| table_width(&part)).max().is_none_or(|widest| widest <= width))
    };
    let shown = (1..=heads).rev().find(fits).unwrap_or(1);
    for first in (0..heads).step_by(shown) {
        if first > 0 {
            out.add_blank_line();
        }
        out.add_table(grid_table(report, first..heads.min(first + shown), &cell));
    }
}

fn grid_table(report: &Report, shown: Range<usize>, cell: impl Fn(&HeadReport) -> String) -> Table {
    let names = shown.clone().map(|head| format!("H{head}"));
    let rows = report
        .heads
        .chunks(report.model.heads)
        .map(|layer| iter::once(format!("L{}", layer[0].place.layer)).chain(layer[shown.clone()].iter().map(&cell)));
    aligned_table(iter::once(String::new()).chain(names), rows, ..0)
}

/// Grid entry of a head: code and marks of its first label, in colour.
fn label_cell(report: &Report, head: &HeadReport) -> String {
    let GridCode { text, style, .. } = first_label_code(head);
    format!("{style}{text}{}{style:#}", report.head_marks(head))
}

/// Writes the grid of how each head chooses where to attend; nothing if no study measured that.
pub(super) fn write_choice_grid(out: &mut Summary, report: &Report, width: Option<usize>) -> fmt::Result {
    let asks = |study: &dyn AnyStudy| study.card().choices.iter().any(|one| one.is_on(&report.settings.policy));
    let measured = |study: &dyn AnyStudy| {
        let ids: Vec<&str> = columns(study).into_iter().map(|column| column.id).collect();
        let is_own = |name: &str| ids.contains(&name.split_once('.').map_or(name, |(id, _)| id));
        let has = |head: &HeadReport| head.metrics.cells().any(|(name, value)| value.is_some() && is_own(&name));
        report.heads.iter().any(has)
    };
    // If there was too little text, the study says so.
    if !report.sections.0.iter().any(|(study, _)| asks(*study) && measured(*study)) {
        return Ok(());
    }
    writeln!(
        out,
        "\nHow each head chooses, with the share of its distance from even attention that follows from that, in per cent:\n"
    )?;
    write_grids(out, report, width, |head| {
        let GridCode { text, style, .. } = choice_code(head);
        let Some(chooses) = &head.chooses else { return text };
        let mark = if chooses.borderline { BORDERLINE_MARK } else { "" };
        format!("{style}{text} {:.0}{mark}{style:#}", 100.0 * chooses.score)
    });
    write_legend(out, &report.heads, choice_code)
}

/// Heads whose grid entries have one meaning, as (number of heads, codes of the entries, colour).
type CodeLegend = (usize, BTreeSet<String>, Style);

/// Meanings of the codes in a grid, each with its heads, the most frequent meaning first.
fn code_meanings(heads: &[HeadReport], of_head: impl Fn(&HeadReport) -> GridCode) -> Vec<(String, CodeLegend)> {
    let mut counts: BTreeMap<String, CodeLegend> = BTreeMap::new();
    for head in heads {
        let GridCode { text, style, meaning } = of_head(head);
        // Families with a placeholder in the name have a word as code, which needs no legend.
        let shown = Some(text).filter(|text| !meaning.contains('<') && *text != meaning);
        let (count, codes, _) = counts.entry(meaning).or_insert((0, BTreeSet::new(), style));
        *count += 1;
        codes.extend(shown);
    }
    let mut entries: Vec<_> = counts.into_iter().collect();
    entries.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    entries
}

fn write_legend(out: &mut Summary, heads: &[HeadReport], of_head: impl Fn(&HeadReport) -> GridCode) -> fmt::Result {
    writeln!(out)?;
    for (meaning, (count, codes, style)) in code_meanings(heads, of_head) {
        let codes = codes.iter().join(", ");
        let code = if codes.is_empty() { codes } else { format!(" ({codes})") };
        writeln!(out, "{count:>5}  {style}{meaning}{style:#}{code}")?;
    }
    Ok(())
}

/// Writes the legend of the mark [`TIED_MARK`] for near ties, if some head has it.
pub(super) fn write_near_tie_legend(out: &mut Summary, heads: &[HeadReport]) -> fmt::Result {
    let several = || heads.iter().filter(|head| head.labels.len() > 1);
    let open = several().filter(|head| head.labels.iter().any(|label| label.tied)).count();
    if open == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{TIED_MARK} near tie for the first label: {open} of {} with several labels (the intervals of the margins overlap).",
        format_count(several().count(), "head"),
    )
}
