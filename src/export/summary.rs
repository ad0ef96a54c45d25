//! What a person sees on the terminal: the grid of labels, the relations, what was skipped.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, Table, presets};

use crate::model::grid::head_name;
use crate::passes::control::ControlKind;
use crate::passes::observation::Observation;
use crate::report::{ControlReport, CorpusFileInfo, CorpusInfo, HeadReport, Report};
use crate::sequences::shard::Shard;
use crate::stats::bootstrap::Interval;
use crate::studies::clark2019::ClarkLabel;
use crate::studies::labels::{UNLABELLED, find};
use crate::studies::metrics::{RelationMetrics, Tests};
use crate::system::terminal::printable;

/// The summary of a report, with terminal colours; whoever prints it strips them where they do not belong.
///
/// With `by_voita2019` its labels are by the policy of that preset, and that has a line.
#[must_use]
pub fn render(report: &Report, by_voita2019: bool) -> String {
    let mut text = String::new();
    write_summary(&mut text, report, by_voita2019).expect("writing to a string does not fail");
    text
}

/// What a shard has to say before it is merged.
#[must_use]
pub fn of_shard(shard: Shard, observation: &Observation) -> String {
    let tally = &observation.tally;
    let skipped: u64 = tally.skipped.values().sum();
    format!(
        "shard {shard} of {}: {} sentences, {} tokens, {skipped} sentences skipped\n",
        printable(&observation.identity.corpus.name),
        tally.sentences,
        tally.tokens,
    )
}

fn write_summary(out: &mut String, report: &Report, by_voita2019: bool) -> fmt::Result {
    let (model, corpus) = (&report.model, &report.corpus);
    writeln!(
        out,
        "model   {}: {}, {} layers x {} heads",
        printable(&model.id),
        model.family,
        model.layers,
        model.heads
    )?;
    writeln!(
        out,
        "corpus  {}: {} sentences, {} words, {} tokens",
        printable(&corpus.name),
        corpus.sentences,
        corpus.words,
        corpus.tokens,
    )?;
    files(out, corpus)?;
    writeln!(out, "\nPrimary label of each head (layers down, heads across):\n")?;
    writeln!(out, "{}", grid(report))?;
    legend(out, &report.heads)?;
    borderline(out, &report.heads)?;
    controls(out, report)?;
    clark2019(out, report)?;
    if by_voita2019 {
        write!(out, "\n{}", voita2019(&report.heads))?;
    }
    relations(out, report)?;
    skipped(out, report)
}

/// The files of a corpus that has several.
fn files(out: &mut String, corpus: &CorpusInfo) -> fmt::Result {
    const SHOWN: usize = 12;
    if corpus.files.len() < 2 {
        return Ok(());
    }
    for file in corpus.files.iter().take(SHOWN) {
        let CorpusFileInfo { name, format, sentences, words, tokens, skipped, .. } = file;
        let name = printable(name);
        write!(out, "        {name} ({format}): {sentences} sentences, {words} words, {tokens} tokens")?;
        writeln!(out, "{}", if *skipped > 0 { format!(", {skipped} skipped") } else { String::new() })?;
    }
    match corpus.files.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "        and {more} more files"),
    }
}

/// The family of labels that controls are for: it is named even where they have none.
const SYNTACTIC: &str = "syntactic:<relation>";

/// A label as the grid shows it, with its colour and its meaning for the legend.
struct Code {
    text: String,
    style: Style,
    meaning: String,
}

fn code(label: &str) -> Code {
    let (text, colour, meaning) = match label {
        "previous-token" => ("prev", Some(AnsiColor::Blue), label),
        "next-token" => ("next", Some(AnsiColor::Cyan), label),
        "separator" => ("sep", Some(AnsiColor::Yellow), label),
        "first-special" => ("first", Some(AnsiColor::Yellow), label),
        "punctuation" => ("punctuation", Some(AnsiColor::Yellow), label),
        "broad" => ("broad", Some(AnsiColor::Magenta), label),
        UNLABELLED => (".", None, "no label"),
        _ => match label.split_once(':') {
            Some(("syntactic", relation)) => (relation, Some(AnsiColor::Green), SYNTACTIC),
            Some(("offset", offset)) => (offset, Some(AnsiColor::Blue), "offset:k"),
            _ => (label, Some(AnsiColor::Blue), label),
        },
    };
    let style = Style::new().fg_color(colour.map(Into::into));
    Code { text: printable(text), style, meaning: meaning.to_owned() }
}

fn grid(report: &Report) -> Table {
    let mut table = plain_table();
    table.set_header((0..report.model.heads).fold(vec![String::new()], |mut row, head| {
        row.push(format!("H{head}"));
        row
    }));
    for layer in report.heads.chunks(report.model.heads) {
        let mut row = vec![format!("L{}", layer[0].layer)];
        row.extend(layer.iter().map(|head| {
            let Code { text, style, .. } = code(&head.primary);
            let mark = if head.labels.first().is_some_and(|primary| primary.borderline) { BORDERLINE } else { "" };
            format!("{style}{text}{mark}{style:#}")
        }));
        table.add_row(row);
    }
    table
}

/// The labels that the grid shows, with the number of heads.
fn legend(out: &mut String, heads: &[HeadReport]) -> fmt::Result {
    let mut counts: BTreeMap<String, (usize, String, Style)> = BTreeMap::new();
    for head in heads {
        let Code { text, style, meaning } = code(&head.primary);
        let family = meaning.contains('<') || meaning.ends_with(":k");
        let shown = if family { String::new() } else { text };
        counts.entry(meaning).or_insert((0, shown, style)).0 += 1;
    }
    let mut entries: Vec<_> = counts.into_iter().collect();
    entries.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    out.push('\n');
    for (meaning, (count, shown, style)) in entries {
        let code = if shown.is_empty() || shown == meaning { String::new() } else { format!(" ({shown})") };
        writeln!(out, "{count:>5}  {style}{meaning}{style:#}{code}")?;
    }
    Ok(())
}

/// What follows a label in the grid whose interval crosses its threshold.
const BORDERLINE: &str = "?";

fn borderline(out: &mut String, heads: &[HeadReport]) -> fmt::Result {
    let labels = || heads.iter().flat_map(|head| &head.labels);
    let (all, borderline) = (labels().count(), labels().filter(|label| label.borderline).count());
    if borderline == 0 {
        return Ok(());
    }
    writeln!(out, "\n{borderline} of {all} labels are borderline ({BORDERLINE}): their intervals cross the threshold.")
}

/// One line for each control: the labels found there, as the mean over its seeds.
fn controls(out: &mut String, report: &Report) -> fmt::Result {
    for kind in ControlKind::ALL {
        let runs: Vec<&ControlReport> = report.controls.iter().filter(|run| run.control.kind == kind).collect();
        let found = report.label_counts.iter().filter_map(|(family, here)| {
            let total: u64 = runs.iter().map(|run| run.label_counts[family]).sum();
            let mean = total as f64 / runs.len() as f64;
            (total > 0 || family == SYNTACTIC).then(|| format!("{family} {mean:.1} (here {here})"))
        });
        if !runs.is_empty() {
            let found: Vec<String> = found.collect();
            writeln!(out, "\nControl {kind}, mean of {} seeds: {}", runs.len(), found.join(", "))?;
        }
    }
    Ok(())
}

/// One line for the preset `clark2019`: how many heads have which of its labels.
fn clark2019(out: &mut String, report: &Report) -> fmt::Result {
    let Some(found) = &report.clark2019 else { return Ok(()) };
    let mut counts: BTreeMap<ClarkLabel, usize> = BTreeMap::new();
    found.heads.iter().filter_map(|head| head.label).for_each(|label| *counts.entry(label).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(label, count)| format!("{label} {count}")).collect();
    let counts = if counts.is_empty() { "no labels".to_owned() } else { counts.join(", ") };
    writeln!(out, "\nPreset clark2019, heads over {} pairs of segments: {counts}", found.sequences)
}

/// The families of labels that Voita et al. 2019 call positional.
const POSITIONAL: [&str; 3] = ["previous-token", "next-token", "offset:k"];

/// One line for the preset `voita2019`: how many heads have its two roles, and how confident they are beside the others.
#[must_use]
pub fn voita2019(heads: &[HeadReport]) -> String {
    let has = |families: &'static [&'static str]| {
        move |head: &&HeadReport| {
            head.labels.iter().filter_map(|label| find(&label.label)).any(|family| families.contains(&family.name))
        }
    };
    let (positional, syntactic) = (has(&POSITIONAL), has(&[SYNTACTIC]));
    let (with_role, others): (Vec<_>, Vec<_>) = heads.iter().partition(|head| positional(head) || syntactic(head));
    format!(
        "Preset voita2019: positional heads {}, syntactic heads {}; mean confidence of them {}, of the others {}\n",
        heads.iter().filter(positional).count(),
        heads.iter().filter(syntactic).count(),
        mean_confidence(&with_role),
        mean_confidence(&others),
    )
}

fn mean_confidence(heads: &[&HeadReport]) -> String {
    let known: Vec<f64> = heads.iter().filter_map(|head| head.metrics.confidence).collect();
    if known.is_empty() {
        return "-".to_owned();
    }
    format!("{:.3}", known.iter().sum::<f64>() / known.len() as f64)
}

fn relations(out: &mut String, report: &Report) -> fmt::Result {
    if report.relations.is_empty() {
        return writeln!(out, "\nNo word of the corpus has an annotated head, so no syntactic label was tested.");
    }
    let least = report.settings.policy.syntactic_min_count;
    let mut shown: Vec<&RelationMetrics> = report.relations.iter().filter(|relation| relation.count >= least).collect();
    shown.sort_by_key(|relation| std::cmp::Reverse(relation.count));
    writeln!(
        out,
        "\nBest head of each relation with at least {least} words, in % of words, ± half of the 95 % interval:\n"
    )?;
    let mut table = plain_table();
    table.set_header([
        "relation",
        "words",
        "head",
        "direction",
        "accuracy",
        "held-out",
        "offset",
        "baseline",
        "held-out",
        "gain",
        "q",
    ]);
    for relation in &shown {
        let baseline = &relation.baseline;
        let (versus, ci95) = (&relation.versus_offset, &relation.ci95);
        table.add_row([
            printable(&relation.relation),
            relation.count.to_string(),
            head_name(relation.layer, relation.head),
            relation.direction.name().to_owned(),
            percent(Some(relation.accuracy)) + &plus_minus(ci95.accuracy),
            percent(relation.heldout_accuracy) + &plus_minus(ci95.heldout_accuracy),
            format!("{:+}", baseline.offset),
            percent(Some(baseline.accuracy)),
            percent(baseline.heldout_accuracy),
            format!("{:+.1}{}", versus.difference * 100.0, plus_minus(versus.ci95)),
            versus.q.map_or_else(|| "-".to_owned(), significance),
        ]);
    }
    for (column, number) in table.column_iter_mut().enumerate() {
        let text = [0, 2, 3].contains(&column);
        number.set_cell_alignment(if text { CellAlignment::Left } else { CellAlignment::Right });
    }
    writeln!(out, "{table}")?;
    let Tests { count, significant } = report.tests;
    match significant.zip(report.settings.policy.syntactic_q) {
        Some((significant, rate)) => {
            writeln!(
                out,
                "\n{significant} of {count} tests of a head against the offset are significant (q <= {rate})."
            )?;
        }
        None => writeln!(out, "\n{count} tests of a head against the offset; no significance is asked of a label.")?,
    }
    let rare = report.relations.len() - shown.len();
    if rare > 0 {
        writeln!(out, "{rare} rarer relations are in the report only, and are not tested.")?;
    }
    Ok(())
}

fn skipped(out: &mut String, report: &Report) -> fmt::Result {
    let reasons: Vec<String> = report
        .corpus
        .skipped
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{count} {}", reason.describe()))
        .collect();
    let reasons = if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") };
    writeln!(out, "\nSkipped sentences: {reasons}.")?;
    if report.corpus.truncated > 0 {
        writeln!(out, "Sentences cut to {} tokens: {}.", report.settings.protocol.max_tokens, report.corpus.truncated)?;
    }
    if report.corpus.unannotated > 0 && !report.relations.is_empty() {
        writeln!(out, "Sentences with words whose head is not annotated: {}.", report.corpus.unannotated)?;
    }
    if report.corpus.passed_over > 0 {
        writeln!(out, "In the folders, files and folders that are no corpus files: {}.", report.corpus.passed_over)?;
    }
    Ok(())
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0))
}

fn plus_minus(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |interval| format!(" ±{:.1}", interval.half_width() * 100.0))
}

/// A q-value, to one digit where it is small.
fn significance(q: f64) -> String {
    if q < 0.001 { format!("{q:.0e}") } else { format!("{q:.3}") }
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::labels::Label;
    use crate::studies::metrics::{HeadIntervals, HeadMetrics};

    fn head(labels: &[&str], confidence: Option<f64>) -> HeadReport {
        let label = |label: &&str| Label {
            label: (*label).to_owned(),
            score: 1.0,
            ci95: None,
            baseline: None,
            threshold: 0.9,
            margin: 1.0,
            rule: String::new(),
            borderline: true,
            direction: None,
            versus_offset: None,
        };
        HeadReport {
            layer: 0,
            head: 0,
            name: head_name(0, 0),
            primary: String::new(),
            labels: labels.iter().map(label).collect(),
            nearest: Vec::new(),
            metrics: HeadMetrics { confidence, ..HeadMetrics::default() },
            ci95: HeadIntervals::default(),
        }
    }

    #[test]
    fn the_line_of_voita2019_counts_heads_and_averages_their_confidence() {
        let heads = [
            head(&["previous-token", "offset:-2"], Some(0.75)),
            head(&["syntactic:obj", "syntactic:nsubj", "next-token"], Some(0.5)),
            head(&["syntactic:all"], Some(1.0)),
            head(&[], Some(0.25)),
            // A policy file may have switched the rule on.
            head(&["separator"], Some(0.5)),
            head(&[], None),
        ];
        assert_eq!(
            voita2019(&heads),
            "Preset voita2019: positional heads 2, syntactic heads 2; mean confidence of them 0.750, of the others 0.375\n"
        );
        let none =
            "Preset voita2019: positional heads 0, syntactic heads 0; mean confidence of them -, of the others 0.250\n";
        assert_eq!(voita2019(&heads[3..4]), none);
    }
}
