//! The text of a comparison, for people: the verdict, labels before numbers, the largest first.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use comfy_table::Table;
use serde_json::Value;

use super::outcome::{Change, Described, DiffOutcome, HeadChanges, LabelChange, LargestChange};
use crate::study::metrics::number::Part;
use crate::study::show::wording::{plain_table, significance};
use crate::system::counted::{counted, plural};
use crate::system::printable::{one_line, printable};

/// The longest lists of a page: together with the lines around them they are about sixty lines.
const LABELS: usize = 16;
const ROWS: usize = 10;
const FACTS: usize = 6;
const NAMES: usize = 6;

/// The digits of numbers.
const DIGITS: usize = 3;

/// The characters of a value that a page shows: digests and lists of files are longer.
const VALUE: usize = 40;

/// The page; with `full` all that changed.
pub fn render(outcome: &DiffOutcome, full: bool) -> String {
    let mut text = String::new();
    DiffText { outcome, full }.write(&mut text).expect("writing to a string does not fail");
    printable(&text)
}

struct DiffText<'a> {
    outcome: &'a DiffOutcome,
    full: bool,
}

impl DiffText<'_> {
    fn write(&self, out: &mut String) -> fmt::Result {
        self.verdict(out)?;
        self.labels(out)?;
        self.heads(out)?;
        self.numbers(out, Part::Relations, "Accuracies on relations", &self.outcome.relations)?;
        self.numbers(out, Part::Metrics, "Metrics of heads", &self.outcome.metrics)?;
        self.left_aside(out)?;
        self.not_shared(out)
    }

    fn most(&self, most: usize) -> usize {
        if self.full { usize::MAX } else { most }
    }

    fn verdict(&self, out: &mut String) -> fmt::Result {
        let DiffOutcome { labels, relations, metrics, a, b, only, .. } = self.outcome;
        let count = |part: Part, count: usize, [one, many]: [&str; 2]| {
            (only.is_empty() || only.contains(&part)).then(|| format!("{count} {}", plural(&count, one, many)))
        };
        let counts: Vec<String> = [
            count(Part::Labels, labels.len(), ["label", "labels"]),
            count(Part::Relations, relations.len(), ["accuracy on relations", "accuracies on relations"]),
            count(Part::Metrics, metrics.len(), ["metric of heads", "metrics of heads"]),
        ]
        .into_iter()
        .flatten()
        .collect();
        match self.outcome.without_changes() {
            Some(verdict) => writeln!(out, "{verdict}.")?,
            None => writeln!(out, "Changed beyond chance: {}.", counts.join(", "))?,
        }
        writeln!(out, "\na  {}\nb  {}\n", SideLine(a), SideLine(b))?;
        writeln!(out, "{}", self.outcome.numbers_in_words("q <="))?;
        writeln!(out, "{}", self.outcome.labels_in_words())?;
        self.outcome.pairing.as_ref().map_or(Ok(()), |pairing| writeln!(out, "{pairing}"))
    }

    fn labels(&self, out: &mut String) -> fmt::Result {
        let changes = &self.outcome.labels;
        if changes.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nLabels: {} changed\n", changes.len())?;
        let mut table = plain_table();
        for change in changes.iter().take(self.most(LABELS)) {
            let LabelChange { place, label, a, b, number, q } = change;
            let (label, mut q) = (one_line(label), format!("q {}", significance(*q)));
            let named = change.has_several_numbers();
            if named {
                write!(q, " of {}", one_line(number))?;
            }
            let [a, b] = [a, b].map(|side| side.in_words(named, DIGITS));
            table.add_row([place.to_string(), label, change.fate().to_owned(), a, "->".to_owned(), b, q]);
        }
        self.table(out, &table, changes.len(), LABELS)
    }

    /// One row for each head, the one of which most numbers changed first.
    fn heads(&self, out: &mut String) -> fmt::Result {
        let heads = &self.outcome.heads;
        if heads.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nHeads: {} changed\n", heads.len())?;
        let mut table = plain_table();
        for HeadChanges { place, changed, compared, largest } in heads.iter().take(self.most(ROWS)) {
            let LargestChange { number, difference, q, .. } = largest;
            let (of, q) = (format!("{changed} of {compared} numbers"), format!("q {}", significance(*q)));
            table.add_row([
                place.to_string(),
                of,
                format!("most {}", one_line(number)),
                format!("{difference:+.3}"),
                q,
            ]);
        }
        self.table(out, &table, heads.len(), ROWS)
    }

    /// One row for each number, with the head where it changed most; all of them with `full`.
    fn numbers(&self, out: &mut String, part: Part, title: &str, changes: &[Change]) -> fmt::Result {
        if changes.is_empty() {
            return Ok(());
        }
        let compared = match part {
            Part::Relations => self.outcome.compared.relations,
            _ => self.outcome.compared.metrics,
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        changes.iter().for_each(|change| *counts.entry(&change.number).or_default() += 1);
        let mut largest: Vec<&Change> = Vec::new();
        for change in changes {
            if self.full || !largest.iter().any(|known| known.number == change.number) {
                largest.push(change);
            }
        }
        writeln!(out, "\n{title}: {} of {compared} changed\n", changes.len())?;
        let mut table = plain_table();
        for change in largest.iter().take(self.most(ROWS)) {
            let Change { place, number, a, b, q, .. } = change;
            let heads = match counts[number.as_str()] {
                count if count > 1 && !self.full => format!("{count} heads, most {place}"),
                _ => place.to_string(),
            };
            let q = format!("q {}", significance(*q));
            let [a, b] = [a, b].map(|side| side.in_words(DIGITS));
            table.add_row([one_line(number), heads, a, "->".to_owned(), b, q]);
        }
        self.table(out, &table, largest.len(), ROWS)
    }

    fn table(&self, out: &mut String, table: &Table, count: usize, most: usize) -> fmt::Result {
        writeln!(out, "{table}")?;
        match count.saturating_sub(self.most(most)) {
            0 => Ok(()),
            more => writeln!(out, " and {}: --full", counted(more, "more row")),
        }
    }

    fn left_aside(&self, out: &mut String) -> fmt::Result {
        if self.outcome.left_aside.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nNot compared:")?;
        for aside in &self.outcome.left_aside {
            let names: Vec<String> = aside.of.iter().take(self.most(NAMES)).map(|name| one_line(name)).collect();
            let more = if aside.of.len() > names.len() { ", ..." } else { "" };
            let names = if names.is_empty() { String::new() } else { format!(" ({}{more})", names.join(", ")) };
            writeln!(out, "  {} {}{names}", aside.count, aside.why)?;
        }
        Ok(())
    }

    fn not_shared(&self, out: &mut String) -> fmt::Result {
        let facts = &self.outcome.not_shared;
        if facts.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nNot shared (a | b), and no change:")?;
        for fact in facts.iter().take(self.most(FACTS)) {
            writeln!(out, "  {}: {} | {}", one_line(&fact.key), self.value(&fact.a), self.value(&fact.b))?;
        }
        match facts.len().saturating_sub(self.most(FACTS)) {
            0 => Ok(()),
            more => writeln!(out, "  and {more} more: --full"),
        }
    }

    fn value(&self, value: &Value) -> String {
        let text = one_line(&value.to_string());
        match text.char_indices().nth(self.most(VALUE)) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    }
}

/// A side on one line.
struct SideLine<'a>(&'a Described);

impl fmt::Display for SideLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described { file, shard, model, corpus, sentences } = self.0;
        let [file, model, corpus] = [file, model, corpus].map(|name| one_line(name));
        let shard = shard.as_ref().map_or(String::new(), |shard| format!(" (shard {shard})"));
        write!(f, "{file}{shard}: {model} over {corpus}, {}", counted(*sentences, "sentence"))
    }
}
