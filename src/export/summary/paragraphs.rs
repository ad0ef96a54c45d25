//! Paragraphs that the full and the one-screen summary share.

use std::fmt::{self, Write};

use itertools::Itertools;

use crate::evaluation::presets::{self, Preset};
use crate::report::{HeadReport, Report};
use crate::sequences::reading::Spacing;
use crate::study::labels::Label;
use crate::study::metrics::metric::Values;
use crate::study::show::summary::Summary;
use crate::system::counts::format_count;
use crate::system::printable::one_line;

/// Why the model could not read the corpus, as the first line of a summary; `None` if it could.
/// `None` also if the built-in corpus merely accompanies a task.
pub(super) fn unread_corpus_warning(report: &Report) -> Option<String> {
    report.unreadable_corpus_warning().filter(|_| !report.uses_builtin_corpus_for_task())
}

/// Writes the brief sentences of a report, without the warning that the model could not read the corpus.
pub(super) fn write_brief_sentences(out: &mut Summary, report: &Report) -> fmt::Result {
    let unread = unread_corpus_warning(report);
    let lines = report.in_brief.iter().filter(|line| Some(*line) != unread.as_ref());
    lines.into_iter().try_for_each(|line| writeln!(out, "- {}", one_line(line)))
}

/// Appends a paragraph after a blank line, unless it is empty.
pub(super) fn append_block(out: &mut Summary, said: Summary) -> fmt::Result {
    if !said.is_empty() {
        writeln!(out)?;
        out.append(said);
    }
    Ok(())
}

pub fn presets_text(presets: &[&Preset], heads: &[HeadReport]) -> String {
    let present = heads.iter().filter(|head| !head.is_absent());
    let heads: Vec<(&[Label], &Values)> = present.map(|head| (&head.labels[..], &head.metrics)).collect();
    presets::summary(presets, &heads)
}

fn write_words_left_out(out: &mut Summary, report: &Report) -> fmt::Result {
    let Report { corpus, settings, .. } = report;
    let left_out = corpus.words_left_out.iter().filter(|(_, count)| **count > 0);
    let left_out = left_out.map(|(reason, count)| format!("{count} {}", reason.describe())).join(", ");
    if !left_out.is_empty() {
        let heads = corpus.heads_left_out;
        writeln!(out, "Words left out: {left_out}; words whose head is one of these: {heads}.")?;
    }
    if settings.protocol.words == Spacing::Spaced {
        writeln!(out, "Words were read one by one, each with a space before it (--words spaced).")?;
    }
    Ok(())
}

/// Writes which parts of the corpus were skipped, left out, cut or repeated.
pub(super) fn write_corpus_exclusions(out: &mut Summary, report: &Report) -> fmt::Result {
    let Report { corpus, .. } = report;
    let reasons = corpus.skipped.iter().filter(|(_, count)| **count > 0);
    let reasons = reasons.map(|(reason, count)| format!("{count} {}", reason.describe())).join(", ");
    let reasons = if reasons.is_empty() { "none" } else { &reasons };
    let [sentence, _] = report.model.text_units();
    writeln!(out, "Skipped {sentence}s: {reasons}.")?;
    write_words_left_out(out, report)?;
    if report.corpus.truncated > 0 {
        let cut = format_count(report.corpus.truncated, sentence);
        writeln!(out, "Cut to {} tokens: {cut}.", report.settings.protocol.max_tokens)?;
    }
    if let Some(sentences) = report.corpus.partly_annotated_sentences() {
        writeln!(out, "Sentences with words whose head is not annotated: {sentences}.")?;
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
