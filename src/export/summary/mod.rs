//! The summary that a person sees on the terminal: the grid of labels, the relations, what was skipped.

mod answers;
mod controls;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::iter;
use std::ops::Range;

use anstyle::Style;
use comfy_table::Table;

use crate::evaluation::presets;
use crate::evaluation::presets::Preset;
use crate::passes::observation::Observation;
use crate::passes::observation::identity::ModelInfo;
use crate::report::roles::Roles;
use crate::report::{CorpusFileInfo, CorpusInfo, HeadReport, Report, lacking};
use crate::sequences::shard::Shard;
use crate::studies::registry;
use crate::study::labels::{BORDERLINE, Label, TIED, UNDECIDED_SHOWN, UNLABELLED, UNLABELLED_SHOWN};
use crate::study::metrics::metric::Values;
use crate::study::show::summary::{Summary, width_of};
use crate::study::show::wording::plain_table;
use crate::system::counted::{counted, plural};
use crate::system::printable::one_line;

/// How much a summary says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The labels alone.
    Short,
    /// The remarks of each study.
    Full,
}

/// The summary of a report, with terminal colours, which the printer strips where they do not belong.
///
/// The presets of its labels have their lines. `width` is in columns; without it tables have their full width.
pub fn render(report: &Report, presets: &[&Preset], detail: Detail, width: Option<usize>) -> String {
    let mut summary = Summary::default();
    write_summary(&mut summary, report, presets, (detail, width)).expect("writing to a string does not fail");
    summary.fit(width)
}

/// The summary of a shard before it is merged.
pub fn of_shard(shard: Shard, observation: &Observation) -> String {
    let tally = &observation.tally;
    if observation.stage.is_after() {
        return format!(
            "shard {shard} of {}: the second stage is done; its sentences are counted in the first\n",
            one_line(&observation.identity.corpus.name)
        );
    }
    let skipped: u64 = tally.skipped.values().sum();
    format!(
        "shard {shard} of {}: {}, {}, {} skipped\n",
        one_line(&observation.identity.corpus.name),
        counted(tally.sentences, "sentence"),
        counted(tally.read().0, "token"),
        counted(skipped, "sentence"),
    )
}

fn write_summary(
    out: &mut Summary,
    report: &Report,
    presets: &[&Preset],
    (detail, width): (Detail, Option<usize>),
) -> fmt::Result {
    let (model, corpus) = (&report.model, &report.corpus);
    writeln!(
        out,
        "model   {}: {}, {} x {}",
        one_line(&model.id),
        model.family,
        counted(model.layers, "layer"),
        counted(model.heads, "head")
    )?;
    let size = sizes(model, corpus.sentences, corpus.words, corpus.tokens);
    writeln!(out, "corpus  {}: {size}\n", one_line(&corpus.name))?;
    report.in_brief.iter().try_for_each(|line| writeln!(out, "- {}", one_line(line)))?;
    writeln!(out, "\nPrimary label of each head (layers down, heads across):\n")?;
    grids(out, report, width, label_cell);
    legend(out, &report.heads, first)?;
    roles(out, &report.heads)?;
    choices(out, report, width)?;
    tied(out, &report.heads)?;
    blocks(out, lacking::lines(report).into_iter().map(|line| line + "\n").collect::<String>().into())?;
    controls::write(out, report)?;
    blocks(out, of_presets(presets, &report.heads).into())?;
    if detail == Detail::Full {
        blocks(out, answers::of_studies(report).into())?;
        for (_, section) in &report.sections.0 {
            blocks(out, section.summary(&report.settings.policy))?;
        }
    }
    about(out, report)?;
    skipped(out, report)?;
    if detail == Detail::Short {
        let sections =
            report.sections.0.iter().filter(|(_, section)| !section.summary(&report.settings.policy).is_empty());
        let studies: Vec<&str> = sections.map(|(study, _)| study.card().name).collect();
        if !studies.is_empty() {
            writeln!(out, "Left out of this summary: what {} have to say (--summary full).", studies.join(", "))?;
        }
    }
    Ok(())
}

/// Facts on the run to know beside its labels.
fn about(out: &mut Summary, report: &Report) -> fmt::Result {
    let [of_model, of_corpus] = report.remarks();
    writeln!(out, "\nIntervals and tests are about more {} like these.", report.unit())?;
    files(out, report)?;
    remarks(out, "model", &of_model)?;
    remarks(out, "corpus", &[generators(&report.corpus), of_corpus].concat())
}

/// How much text there is.
fn sizes(model: &ModelInfo, sentences: u64, words: u64, tokens: u64) -> String {
    let [sentence, word] = model.text_units();
    [(sentences, sentence), (words, word), (tokens, "token")].map(|(number, what)| counted(number, what)).join(", ")
}

/// The files of a corpus that has several.
fn files(out: &mut Summary, Report { model, corpus, .. }: &Report) -> fmt::Result {
    const SHOWN: usize = 12;
    if corpus.files.len() < 2 {
        return Ok(());
    }
    for file in corpus.files.iter().take(SHOWN) {
        let CorpusFileInfo { name, format, sentences, words, tokens, skipped, .. } = file;
        let name = one_line(name);
        write!(out, "        {name} ({format}): {}", sizes(model, *sentences, *words, *tokens))?;
        writeln!(out, "{}", if *skipped > 0 { format!(", {skipped} skipped") } else { String::new() })?;
    }
    match corpus.files.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "        and {}", counted(more, "more file")),
    }
}

/// By what the corpus says that it was generated.
fn generators(corpus: &CorpusInfo) -> Vec<String> {
    let mut generators: Vec<&str> = corpus.files.iter().filter_map(|file| file.generated.as_deref()).collect();
    generators.dedup();
    generators.iter().map(|by| format!("it is generated, by {}", one_line(by))).collect()
}

/// Facts on the model or on the corpus.
fn remarks(out: &mut Summary, of: &str, remarks: &[String]) -> fmt::Result {
    if !remarks.is_empty() {
        writeln!(out, "The {of}:")?;
    }
    remarks.iter().try_for_each(|remark| writeln!(out, "  {remark}"))
}

/// Lines of their own, after a blank one.
fn blocks(out: &mut Summary, said: Summary) -> fmt::Result {
    if !said.is_empty() {
        writeln!(out)?;
        out.append(said);
    }
    Ok(())
}

/// The paragraphs of the controls; none without any.
pub fn of_controls(report: &Report) -> String {
    let mut summary = Summary::default();
    controls::write(&mut summary, report).expect("writing to a string does not fail");
    summary.to_string().trim().to_owned()
}

/// The lines that presets add.
pub fn of_presets(presets: &[&Preset], heads: &[HeadReport]) -> String {
    let heads: Vec<(&[Label], &Values)> = heads.iter().map(|head| (&head.labels[..], &head.metrics)).collect();
    presets::summary(presets, &heads)
}

/// A label as the grid shows it, with its colour and its meaning for the legend.
struct Code {
    text: String,
    style: Style,
    meaning: String,
}

fn code(label: &str) -> Code {
    let Some(detector) = registry::detector_of(label) else { return plain([label; 2]) };
    let style = Style::new().fg_color(Some(detector.shown.colour.into()));
    Code { text: one_line(&detector.code(label)), style, meaning: detector.explanation.name.to_owned() }
}

/// A sign without a colour, and its meaning.
fn plain([text, meaning]: [&str; 2]) -> Code {
    Code { text: one_line(text), style: Style::new(), meaning: meaning.to_owned() }
}

/// The first label of a head.
fn first(head: &HeadReport) -> Code {
    match head.primary.as_str() {
        UNLABELLED if head.is_undecided() => plain(UNDECIDED_SHOWN),
        UNLABELLED => plain(UNLABELLED_SHOWN),
        label => code(label),
    }
}

/// How a head chooses.
fn choice(head: &HeadReport) -> Code {
    head.chooses.as_ref().map_or_else(|| plain(NO_CHOICE), |chooses| code(&chooses.label))
}

/// A head that has no label of how it chooses.
const NO_CHOICE: [&str; 2] = [UNLABELLED_SHOWN[0], "none of these"];

/// The grid, in parts with as many heads as fit.
fn grids(out: &mut Summary, report: &Report, width: Option<usize>, cell: impl Fn(&HeadReport) -> String) {
    let heads = report.model.heads;
    let fits = |shown: &usize| {
        let parts = (0..heads).step_by(*shown).map(|first| grid(report, first..heads.min(first + shown), &cell));
        width.is_none_or(|width| parts.map(|part| width_of(&part)).max().is_none_or(|widest| widest <= width))
    };
    let shown = (1..=heads).rev().find(fits).unwrap_or(1);
    for first in (0..heads).step_by(shown) {
        if first > 0 {
            out.blank();
        }
        out.table(grid(report, first..heads.min(first + shown), &cell));
    }
}

/// These heads of every layer.
fn grid(report: &Report, shown: Range<usize>, cell: impl Fn(&HeadReport) -> String) -> Table {
    let mut table = plain_table();
    let names = shown.clone().map(|head| format!("H{head}"));
    table.set_header(iter::once(String::new()).chain(names));
    for layer in report.heads.chunks(report.model.heads) {
        let mut row = vec![format!("L{}", layer[0].place.layer)];
        row.extend(layer[shown.clone()].iter().map(&cell));
        table.add_row(row);
    }
    table
}

/// The first label of a head.
fn label_cell(head: &HeadReport) -> String {
    let Code { text, style, .. } = first(head);
    let borderline = head.labels.first().is_some_and(|primary| primary.borderline);
    let tied = head.labels.iter().any(|label| label.tied);
    let mark = [(borderline, BORDERLINE), (tied, TIED)].map(|(is, mark)| if is { mark } else { "" }).concat();
    let more = match head.labels.len() {
        0 | 1 => String::new(),
        labels => format!("+{}", labels - 1),
    };
    format!("{style}{text}{mark}{more}{style:#}")
}

/// How each head chooses, in a grid of its own; nothing where no study asked.
fn choices(out: &mut Summary, report: &Report, width: Option<usize>) -> fmt::Result {
    let choices = report.sections.0.iter().flat_map(|(study, _)| study.card().choices);
    if !choices.into_iter().any(|detector| detector.is_on(&report.settings.policy)) {
        return Ok(());
    }
    writeln!(out, "\nHow each head chooses, with the share of its attention that follows from that, in per cent:\n")?;
    grids(out, report, width, |head| {
        let Code { text, style, .. } = choice(head);
        let Some(chooses) = &head.chooses else { return text };
        let mark = if chooses.borderline { BORDERLINE } else { "" };
        format!("{style}{text} {:.0}{mark}{style:#}", 100.0 * chooses.score)
    });
    legend(out, &report.heads, choice)
}

/// The labels that the grid shows, with the number of heads.
fn legend(out: &mut Summary, heads: &[HeadReport], of_head: impl Fn(&HeadReport) -> Code) -> fmt::Result {
    let mut counts: BTreeMap<String, (usize, BTreeSet<String>, Style)> = BTreeMap::new();
    for head in heads {
        let Code { text, style, meaning } = of_head(head);
        // The code of a family with a word in its name is that word.
        let shown = Some(text).filter(|text| !meaning.contains('<') && *text != meaning);
        let (count, codes, _) = counts.entry(meaning).or_insert((0, BTreeSet::new(), style));
        *count += 1;
        codes.extend(shown);
    }
    let mut entries: Vec<_> = counts.into_iter().collect();
    entries.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    writeln!(out)?;
    for (meaning, (count, codes, style)) in entries {
        let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
        let code = if codes.is_empty() { codes } else { format!(" ({codes})") };
        writeln!(out, "{count:>5}  {style}{meaning}{style:#}{code}")?;
    }
    Ok(())
}

/// The legend of [`TIED`], where the grid has it.
fn tied(out: &mut Summary, heads: &[HeadReport]) -> fmt::Result {
    let several = || heads.iter().filter(|head| head.labels.len() > 1);
    let open = several().filter(|head| head.labels.iter().any(|label| label.tied)).count();
    if open == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{open} of {} with several labels might as well have another one first ({TIED}): the intervals of {} margins meet.",
        counted(several().count(), "head"),
        plural(&open, "its", "their"),
    )
}

fn roles(out: &mut Summary, heads: &[HeadReport]) -> fmt::Result {
    let roles = Roles::of(heads);
    writeln!(out, "\n{roles}")?;
    match roles.borderline().as_str() {
        "" => Ok(()),
        borderline => writeln!(out, "\n({BORDERLINE} after a label) {borderline}"),
    }
}

fn skipped(out: &mut Summary, report: &Report) -> fmt::Result {
    let reasons: Vec<String> = report
        .corpus
        .skipped
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{count} {}", reason.describe()))
        .collect();
    let reasons = if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") };
    let [sentence, _] = report.model.text_units();
    writeln!(out, "\nSkipped {sentence}s: {reasons}.")?;
    if report.corpus.truncated > 0 {
        writeln!(out, "Sentences cut to {} tokens: {}.", report.settings.protocol.max_tokens, report.corpus.truncated)?;
    }
    if report.corpus.unannotated > 0 {
        writeln!(out, "Sentences with words whose head is not annotated: {}.", report.corpus.unannotated)?;
    }
    for [first, again] in &report.corpus.repeated {
        let [first, again] = [first, again].map(|name| one_line(name));
        writeln!(
            out,
            "Files with the same contents, whose sentences count twice in every number: {first} and {again}."
        )?;
    }
    if report.corpus.passed_over > 0 {
        writeln!(out, "In the folders, files and folders that are no corpus files: {}.", report.corpus.passed_over)?;
    }
    Ok(())
}
