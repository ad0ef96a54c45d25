//! Text and page of a comparison of numbers: the verdict, then labels, then numbers, largest differences first.

use std::fmt::{self, Write};

use super::outcome::{Change, HeadChanges, LabelChange, LargestChange, NumbersOutcome, OneSidedLabel};
use crate::commands::saved::sides::description::{
    LeftAside, PageTable, list_limit, render_comparison_page, write_differing_facts, write_not_compared, write_sides,
};
use crate::study::show::wording::{plain_table, significance_text};
use crate::system::counts::format_count;
use crate::system::printable::write_to_string;
use crate::system::printable::{escape_controls, one_line};
use anyhow::Result;
use itertools::Itertools as _;

/// Maximum number of listed labels without `--full`. With [`MAX_ROWS`] per table the text has about sixty lines.
const MAX_LABELS: usize = 16;
/// Maximum number of rows of a table without `--full`.
const MAX_ROWS: usize = 10;
const TEXT_DIGITS: usize = 3;

/// Renders a comparison of numbers as text. With `full` it lists every change.
pub fn render(outcome: &NumbersOutcome, full: bool) -> String {
    escape_controls(&write_to_string(|out| NumbersText { outcome, full }.write(out)))
}

struct NumbersText<'a> {
    outcome: &'a NumbersOutcome,
    full: bool,
}

impl NumbersText<'_> {
    fn write(&self, out: &mut String) -> fmt::Result {
        self.write_verdict(out)?;
        self.write_labels(out)?;
        self.write_one_sided_labels(out)?;
        self.write_heads(out)?;
        let NumbersOutcome { relations, metrics, compared, .. } = self.outcome;
        self.write_numbers(out, "Accuracies on relations", relations, compared.relations)?;
        self.write_numbers(out, "Metrics of heads", metrics, compared.metrics)?;
        write_not_compared(out, &self.outcome.left_aside, self.full)?;
        write_differing_facts(out, &self.outcome.not_shared, self.full)
    }

    fn write_verdict(&self, out: &mut String) -> fmt::Result {
        let NumbersOutcome { a, b, .. } = self.outcome;
        writeln!(out, "{}.", self.outcome.verdict())?;
        let NumbersOutcome { unread, corpora, .. } = self.outcome;
        let idle = self.outcome.idle_heads_sentence(list_limit(MAX_ROWS, self.full));
        unread.iter().chain(corpora).chain(&idle).try_for_each(|fact| writeln!(out, "{}", one_line(fact)))?;
        write_sides(out, [a, b])?;
        for (side, found) in ["a", "b"].iter().zip(self.outcome.task.iter().flatten()) {
            writeln!(out, "Task in {side}: {}", one_line(found))?;
        }
        writeln!(out, "{}", self.outcome.numbers_sentence("q <="))?;
        writeln!(out, "{}", self.outcome.labels_sentence())?;
        self.outcome.pairing.as_ref().map_or(Ok(()), |pairing| writeln!(out, "{pairing}"))
    }

    fn write_labels(&self, out: &mut String) -> fmt::Result {
        let row = |change: &LabelChange| {
            let LabelChange { place, label, a, b, number, q } = change;
            let is_named = change.has_several_numbers();
            let of_number = if is_named { format!(" of {}", one_line(number)) } else { String::new() };
            let q = format!("q {}{of_number}", significance_text(*q));
            let [a, b] = [a, b].map(|side| side.in_words(is_named, TEXT_DIGITS));
            [place.to_string(), one_line(label), change.change_direction().to_owned(), a, "->".to_owned(), b, q]
        };
        let changes = &self.outcome.labels;
        self.write_table(out, &format!("Labels: {} changed", changes.len()), changes, MAX_LABELS, row)
    }

    /// Writes the labels that are firm in one analysis only and are not shown to have changed.
    fn write_one_sided_labels(&self, out: &mut String) -> fmt::Result {
        let Some(words) = self.outcome.one_sided_labels_sentence() else { return Ok(()) };
        writeln!(out, "\n{words}")?;
        let labels = &self.outcome.one_sided;
        let shown =
            labels.iter().take(list_limit(MAX_LABELS, self.full)).map(OneSidedLabel::in_words).collect::<Vec<_>>();
        let more = if labels.len() > shown.len() { ", ..." } else { "" };
        writeln!(out, "  {}{more}", shown.join(", "))
    }

    /// Writes a table with a row per changed head, the head with most changed numbers first.
    fn write_heads(&self, out: &mut String) -> fmt::Result {
        let row = |HeadChanges { place, changed, compared, largest }: &HeadChanges| {
            let LargestChange { number, difference, q, .. } = largest;
            let counts = format!("{changed} of {compared} numbers");
            let most = format!("most {}", one_line(number));
            [place.to_string(), counts, most, format!("{difference:+.3}"), format!("q {}", significance_text(*q))]
        };
        let heads = &self.outcome.heads;
        self.write_table(out, &format!("Heads: {} changed", heads.len()), heads, MAX_ROWS, row)
    }

    /// Writes a table with a row for each changed metric or accuracy, with the head that changed most.
    /// With `full`, each such head has a row.
    fn write_numbers(&self, out: &mut String, title: &str, changes: &[Change], compared: usize) -> fmt::Result {
        let counts = changes.iter().counts_by(|change| &*change.number);
        let mut shown: Vec<&Change> = changes.iter().collect();
        if !self.full {
            // The changes are sorted by size, so the first of each number is the largest.
            shown = shown.into_iter().unique_by(|change| &change.number).collect();
        }
        let row = |Change { place, number, a, b, q, .. }: &&Change| {
            let heads = match counts[number.as_str()] {
                count if count > 1 && !self.full => format!("{count} heads, most {place}"),
                _ => place.to_string(),
            };
            let q = format!("q {}", significance_text(*q));
            let [a, b] = [a, b].map(|side| side.in_words(TEXT_DIGITS));
            [one_line(number), heads, a, "->".to_owned(), b, q]
        };
        self.write_table(out, &format!("{title}: {} of {compared} changed", changes.len()), &shown, MAX_ROWS, row)
    }

    /// Writes a title and a row per item, at most `usual` rows without `full`; nothing without items.
    fn write_table<T, const COLUMNS: usize>(
        &self,
        out: &mut String,
        title: &str,
        items: &[T],
        usual: usize,
        row: impl Fn(&T) -> [String; COLUMNS],
    ) -> fmt::Result {
        if items.is_empty() {
            return Ok(());
        }
        let mut table = plain_table();
        table.add_rows(items.iter().take(list_limit(usual, self.full)).map(row));
        writeln!(out, "\n{title}\n\n{table}")?;
        match items.len().saturating_sub(list_limit(usual, self.full)) {
            0 => Ok(()),
            more => writeln!(out, " and {}: --full", format_count(more, "more row")),
        }
    }
}

pub fn render_html(outcome: &NumbersOutcome) -> Result<Vec<u8>> {
    let NumbersOutcome { a, b, compared, labels, one_sided, heads, relations, metrics, left_aside, not_shared, .. } =
        outcome;
    let left_aside_rows =
        left_aside.iter().map(|LeftAside { why, count, of }| vec![why.clone(), count.to_string(), of.join(", ")]);
    let columns = ["number", "head", "a", "b", "difference", "q"].as_slice();
    let facts = not_shared.iter().map(|fact| vec![fact.key.clone(), fact.a.to_string(), fact.b.to_string()]);
    let idle = outcome.idle_heads_sentence(usize::MAX);
    let findings: Vec<String> = outcome.unread.iter().chain(&outcome.corpora).cloned().chain(idle).collect();
    let how = format!(
        "{} {} Intervals are of 95 %. {}",
        outcome.numbers_sentence("q is at most"),
        outcome.labels_sentence(),
        outcome.pairing.as_deref().unwrap_or_default()
    );
    render_comparison_page(
        "What changed between two analyses",
        [a, b],
        &outcome.verdict(),
        &findings,
        &how,
        &[
            PageTable::new(
                format!("Labels lost or gained: {}", labels.len()),
                &["head", "label", "outcome", "a", "b", "number", "q"],
                labels.iter().map(label_cells).collect(),
            ),
            PageTable::new(
                format!("Labels firm on one side only, and not shown to be lost or gained: {}", one_sided.len()),
                &["head", "label", "firm in", "a", "b"],
                one_sided.iter().map(one_sided_cells).collect(),
            ),
            PageTable::new(
                format!("By head: {} changed", heads.len()),
                &["head", "numbers changed", "of", "most", "difference", "q"],
                heads.iter().map(head_cells).collect(),
            ),
            PageTable::new(
                format!("Accuracies on relations: {} of {} changed", relations.len(), compared.relations),
                columns,
                relations.iter().map(change_cells).collect(),
            ),
            PageTable::new(
                format!("Metrics of heads: {} of {} changed", metrics.len(), compared.metrics),
                columns,
                metrics.iter().map(change_cells).collect(),
            ),
            PageTable::new("Not compared", &["why", "how many", "of"], left_aside_rows.collect()),
            PageTable::new("Not shared, and no change", &["fact", "a", "b"], facts.collect()),
        ],
    )
}

const PAGE_DIGITS: usize = 4;

fn label_cells(change: &LabelChange) -> Vec<String> {
    let LabelChange { place, label, a, b, number, q } = change;
    let [a, b] = [a, b].map(|side| side.in_words(change.has_several_numbers(), PAGE_DIGITS));
    vec![
        place.to_string(),
        label.clone(),
        change.change_direction().to_owned(),
        a,
        b,
        number.clone(),
        significance_text(*q),
    ]
}

fn one_sided_cells(one_sided: &OneSidedLabel) -> Vec<String> {
    let OneSidedLabel { place, label, a, b } = one_sided;
    let [a, b] = [a, b].map(|side| side.in_words(a.number != b.number, PAGE_DIGITS));
    vec![place.to_string(), label.clone(), one_sided.firm_side_name().to_owned(), a, b]
}

fn head_cells(HeadChanges { place, changed, compared, largest }: &HeadChanges) -> Vec<String> {
    let LargestChange { number, difference, q, .. } = largest;
    let [changed, compared] = [changed, compared].map(ToString::to_string);
    vec![place.to_string(), changed, compared, number.clone(), format!("{difference:+.4}"), significance_text(*q)]
}

fn change_cells(Change { place, number, a, b, difference, q, .. }: &Change) -> Vec<String> {
    let [a, b] = [a, b].map(|side| side.in_words(PAGE_DIGITS));
    vec![number.clone(), place.to_string(), a, b, format!("{difference:+.4}"), significance_text(*q)]
}
