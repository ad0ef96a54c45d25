//! The summary that a person sees on the terminal: the grid of labels, the relations, what was skipped.

mod brief;
mod grids;
mod paragraphs;

use std::fmt::{self, Write};

use itertools::Itertools;

use crate::evaluation::presets::Preset;
use crate::passes::observation::Observation;
use crate::passes::observation::identity::ModelInfo;
use crate::report::roles::{RoleCounts, shortage_lines};
use crate::report::{CorpusFileInfo, CorpusInfo, Report};
use crate::sequences::shard::Shard;
use crate::study::labels::BORDERLINE_MARK;
use crate::study::show::summary::Summary;
use crate::system::counts::format_count;
use crate::system::printable::one_line;
pub use paragraphs::presets_text;
use paragraphs::{append_block, unread_corpus_warning, write_brief_sentences, write_corpus_exclusions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Brief,
    Full,
}

/// Renders the summary of a report, with the lines of its presets.
/// The printer strips the terminal colours where they do not belong.
/// `width` is in columns; without it tables have their full width.
pub fn render(report: &Report, presets: &[&Preset], detail: Detail, width: Option<usize>) -> String {
    let mut summary = Summary::default();
    write_summary(&mut summary, report, presets, (detail, width)).expect("writing to a string does not fail");
    summary.fit(width)
}

/// Note that is printed after a shard of the first of two stages.
const FIRST_STAGE_NOTE: &str = "this is the first of two stages: `headscope merge` adds up its shards into one .headscope, and each \
    shard runs again with `--after` that file\n";

/// Line on a finished shard: its number, and what it read.
pub fn shard_summary(shard: Shard, observation: &Observation) -> String {
    let tally = &observation.tally;
    if observation.stage.is_second_stage() {
        return format!(
            "shard {shard} of {}: the second stage is done; its sentences are counted in the first\n",
            one_line(&observation.identity.corpus.name)
        );
    }
    let skipped: u64 = tally.skipped.values().sum();
    let stage = if observation.stage.is_complete() { "" } else { FIRST_STAGE_NOTE };
    format!(
        "shard {shard} of {}: {}, {}, {} skipped\n{stage}",
        one_line(&observation.identity.corpus.name),
        format_count(tally.sentences, "sentence"),
        format_count(tally.token_totals().0, "token"),
        format_count(skipped, "sentence"),
    )
}

fn write_summary(
    out: &mut Summary,
    report: &Report,
    presets: &[&Preset],
    (detail, width): (Detail, Option<usize>),
) -> fmt::Result {
    let (model, corpus) = (&report.model, &report.corpus);
    unread_corpus_warning(report).map_or(Ok(()), |unread| writeln!(out, "{}\n", one_line(&unread)))?;
    writeln!(
        out,
        "model   {}: {}, {} x {}",
        one_line(&model.id),
        model.family,
        format_count(model.layers, "layer"),
        format_count(model.heads, "head")
    )?;
    if let Some(task) = &report.settings.protocol.task {
        writeln!(out, "task    {}: {}", one_line(&task.name), format_count(task.items, "item"))?;
    }
    if report.analyses_corpus() {
        let size = corpus_size(model, corpus.sentences, corpus.words, corpus.tokens);
        let not_named = if report.uses_builtin_corpus_for_task() { " (none was named: -c takes yours)" } else { "" };
        writeln!(out, "corpus  {}: {size}{not_named}", one_line(&corpus.name))?;
    }
    out.add_blank_line();
    if !report.analyses_corpus() {
        return brief::write_task_summary(out, report);
    }
    if detail == Detail::Brief {
        return brief::write_brief(out, report, presets, width);
    }
    write_brief_sentences(out, report)?;
    grids::write_label_grid(out, report, width)?;
    write_roles(out, report)?;
    grids::write_choice_grid(out, report, width)?;
    grids::write_near_tie_legend(out, &report.heads)?;
    append_block(out, shortage_lines(report).into_iter().map(|line| line + "\n").collect::<String>().into())?;
    brief::write_controls(out, report)?;
    append_block(out, presets_text(presets, &report.heads).into())?;
    let views: Vec<_> = report.section_views().collect();
    append_block(out, brief::study_lines(report, &views).into())?;
    for (_, view) in views {
        append_block(out, view.summary)?;
    }
    write_run_facts(out, report)?;
    out.add_blank_line();
    write_corpus_exclusions(out, report)
}

/// Writes facts on the run that are needed to read its labels: unit of the intervals, files, remarks.
fn write_run_facts(out: &mut Summary, report: &Report) -> fmt::Result {
    let [of_model, of_corpus] = report.remarks();
    writeln!(out, "\nq: false-discovery rate.\nIntervals and tests: sampling over {}.", report.unit_in_words())?;
    write_files(out, report)?;
    write_remarks(out, "model", &of_model)?;
    write_remarks(out, "corpus", &[corpus_generator_remarks(&report.corpus), of_corpus].concat())
}

/// Numbers of sentences, words and tokens, with the model's own nouns for these units (such as residues).
pub(super) fn corpus_size(model: &ModelInfo, sentences: u64, words: u64, tokens: u64) -> String {
    let [sentence, word] = model.text_units();
    [(sentences, sentence), (words, word), (tokens, "token")]
        .map(|(number, what)| format_count(number, what))
        .join(", ")
}

fn write_files(out: &mut Summary, Report { model, corpus, .. }: &Report) -> fmt::Result {
    const MAX_LISTED_FILES: usize = 12;
    if corpus.files.len() < 2 {
        return Ok(());
    }
    writeln!(out, "The files:")?;
    for file in corpus.files.iter().take(MAX_LISTED_FILES) {
        let CorpusFileInfo { name, format, sentences, words, tokens, skipped, .. } = file;
        let name = one_line(name);
        write!(out, "  {name} ({format}): {}", corpus_size(model, *sentences, *words, *tokens))?;
        writeln!(out, "{}", if *skipped > 0 { format!(", {skipped} skipped") } else { String::new() })?;
    }
    match corpus.files.len().saturating_sub(MAX_LISTED_FILES) {
        0 => Ok(()),
        more => writeln!(out, "  and {}", format_count(more, "more file")),
    }
}

/// Remarks on the programs that generated the corpus, as its files state.
fn corpus_generator_remarks(corpus: &CorpusInfo) -> Vec<String> {
    let generators = corpus.files.iter().filter_map(|file| file.generated.as_deref()).dedup();
    generators.map(|by| format!("it is generated, by {}", one_line(by))).collect()
}

fn write_remarks(out: &mut Summary, of: &str, remarks: &[String]) -> fmt::Result {
    if !remarks.is_empty() {
        writeln!(out, "The {of}:")?;
    }
    remarks.iter().try_for_each(|remark| writeln!(out, "  {remark}"))
}

/// Paragraphs of the summary on control runs; empty without them.
pub fn controls_text(report: &Report) -> String {
    let mut summary = Summary::default();
    brief::write_controls(&mut summary, report).expect("writing to a string does not fail");
    summary.to_string().trim().to_owned()
}

fn write_roles(out: &mut Summary, report: &Report) -> fmt::Result {
    let roles = RoleCounts::new(report);
    writeln!(out, "\n{roles}")?;
    match roles.borderline_labels_sentence().as_str() {
        // If the corpus was not read, labels are borderline for another reason than significance.
        _ if !report.corpus.health.could_read_text() => Ok(()),
        "" => Ok(()),
        borderline => writeln!(out, "\n({BORDERLINE_MARK} after a label) {borderline}"),
    }
}
