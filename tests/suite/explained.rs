//! Words that the terminal prints: `explain` knows each of them.

use std::fs;

use crate::support::{fixture, path, run};

/// The headings of a table: the line that begins with `first`, with two spaces between columns.
fn headings<'a>(text: &'a str, first: &str) -> Vec<&'a str> {
    let is_heading = |line: &&str| line.trim_start().starts_with(first) && line.contains("  ");
    let line = text.lines().find(is_heading).unwrap_or_else(|| panic!("no table of {first}: {text}"));
    line.split("  ").map(str::trim).filter(|heading| !heading.is_empty()).collect()
}

#[test]
fn explain_knows_headings_and_terms() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let [a, b] = [0, 1].map(|half| {
        let (corpus, report) = (at(&format!("{half}.conllu")), at(&format!("{half}.json")));
        fs::write(&corpus, text.split_inclusive("\n\n").skip(half).step_by(2).collect::<String>()).unwrap();
        run(&["analyze", "box:small", "-c", path(&corpus), "-q", "-o", path(&report)]).unwrap();
        report
    });
    let task = fixture("tasks/copies.jsonl");
    let tables = [
        (run(&["show", path(&a), "L2H3"]).unwrap(), "label"),
        (run(&["show", path(&a), "--relation", "case"]).unwrap(), "head"),
        (run(&["compare", path(&a), path(&b), "--fail-on", "never"]).unwrap(), "family"),
        (run(&["confirm", path(&a), path(&b)]).unwrap(), "head"),
        (run(&["analyze", "box:causal", "--task", path(&task)]).unwrap(), "head"),
    ];
    let mut words: Vec<&str> = tables.iter().flat_map(|(text, first)| headings(text, first)).collect();
    // Words of cells and sentences.
    words.extend([
        "near tie",
        "tested",
        "confirmed",
        "firm",
        "lift",
        "borderline",
        "undecided",
        "no role found",
        "significantly below",
        "within_reach",
        "not assessed",
        "could not tell",
        "matched",
        "robust",
        "removed",
        "absent",
        "helpful",
        "negligible",
        "nats",
        "false-discovery rate",
        "beyond the offset",
        "beyond other arcs",
        "beyond word classes",
        "below word classes",
        "recall",
        "not judged",
        "verdict",
        "pooled shift",
        "one will do",
        "mixing ratio",
        "even attention",
        "sampling",
        "masks",
        "moved",
        "preset",
        "class rules",
        "same class",
        "to special",
        "word classes",
        "best offset",
        "budget",
        "baseline",
    ]);
    // The columns `a` and `b` stand for the two reports and need no explanation.
    words.retain(|word| !["a", "b"].contains(word));
    words.sort_unstable();
    words.dedup();
    let unknown: Vec<String> =
        words.iter().filter_map(|word| run(&["explain", word]).err()).map(|(_, error)| error).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}
