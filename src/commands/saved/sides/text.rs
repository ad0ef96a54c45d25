//! What the texts of `diff` and `compare` have in common: which two analyses, what was not compared, what is not shared.

use std::fmt::{self, Write};

use serde_json::Value;

use super::described::{Described, Fact, LeftAside};
use crate::system::printable::one_line;

/// The longest lists that are shown unless all is asked for.
const FACTS: usize = 6;
const NAMES: usize = 6;

/// The characters of a value that are shown: digests and lists of files are longer.
const VALUE: usize = 40;

/// The two analyses, each on a line.
pub fn sides(out: &mut impl Write, [a, b]: [&Described; 2]) -> fmt::Result {
    writeln!(out, "\na  {}\nb  {}\n", one_line(&a.in_words()), one_line(&b.in_words()))
}

/// What was not compared, and why; with `full` every name.
pub fn left_aside(out: &mut impl Write, all: &[LeftAside], full: bool) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot compared:")?;
    for aside in all {
        let names: Vec<String> = aside.of.iter().take(most(NAMES, full)).map(|name| one_line(name)).collect();
        let more = if aside.of.len() > names.len() { ", ..." } else { "" };
        let names = if names.is_empty() { String::new() } else { format!(" ({}{more})", names.join(", ")) };
        writeln!(out, "  {} {}{names}", aside.count, aside.why)?;
    }
    Ok(())
}

/// The facts that the two do not share; with `full` all of them, each whole.
pub fn not_shared(out: &mut impl Write, facts: &[Fact], full: bool) -> fmt::Result {
    if facts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot shared (a | b), and no change:")?;
    for fact in facts.iter().take(most(FACTS, full)) {
        writeln!(out, "  {}: {} | {}", one_line(&fact.key), value(&fact.a, full), value(&fact.b, full))?;
    }
    match facts.len().saturating_sub(most(FACTS, full)) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more: --full"),
    }
}

fn value(value: &Value, full: bool) -> String {
    let text = one_line(&value.to_string());
    match text.char_indices().nth(most(VALUE, full)) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The length of a list of `usual` length.
pub fn most(usual: usize, full: bool) -> usize {
    if full { usize::MAX } else { usual }
}
