//! `headscope show`: a saved report, or a part of it, as a person sees it.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{fixture, headscope, path, run};
use serde_json::Value;

/// A report over the gold corpus, in a folder of its own.
fn saved() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", "box:small", "-c", path(&corpus), "--with", "edges,effect", "--sample", "32"];
    run(&[&arguments[..], &["--no-run-info", "-q", "-o", path(&report)]].concat()).unwrap();
    let report = report.to_str().unwrap().to_owned();
    (folder, report)
}

#[test]
fn a_report_is_shown_again() {
    let (folder, report) = saved();
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", "box:small", "-c", path(&corpus), "--with", "edges,effect", "--sample", "32"];
    assert_eq!(run(&["show", &report]).unwrap(), run(&arguments).unwrap());

    let short = run(&["show", &report, "--summary", "short"]).unwrap();
    assert!(short.contains("Primary label of each head") && !short.contains("Best head of each relation"), "{short}");
    assert!(
        short.contains("Left out of this summary: what dependency, ") && short.contains("--summary full"),
        "{short}"
    );
    let whole = run(&["show", &report]).unwrap();
    for columns in [40, 60, 80, 120] {
        let shown = headscope(&["show", &report]).env("COLUMNS", columns.to_string()).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        let wide: Vec<&str> = text.lines().filter(|line| line.trim_end().chars().count() > columns).collect();
        assert!(wide.is_empty(), "{wide:?}");
        assert_eq!(text.contains("(no room for: "), columns < 120, "{text}");
        // No word is broken: each is one of the summary at its full width.
        let bare = |word: &'_ str| word.trim_matches(['(', ')', ',']).to_owned();
        let words: BTreeSet<String> = whole.split_whitespace().map(bare).collect();
        let broken: Vec<String> = text.split_whitespace().map(bare).filter(|word| !words.contains(word)).collect();
        assert!(broken.iter().all(|word| ["no", "room", "for:"].contains(&&**word)), "{broken:?}");
    }
    // The whole report again.
    assert_eq!(run(&["show", &report, "--json"]).unwrap(), fs::read_to_string(&report).unwrap());
    assert!(run(&["show", &report, "--color", "always"]).unwrap().contains("\u{1b}["));
    assert!(!run(&["show", &report, "--color", "never"]).unwrap().contains("\u{1b}["));
    drop(folder);
}

#[test]
fn a_head_has_a_card() {
    let (_folder, report) = saved();
    let card = run(&["show", &report, "L2H3"]).unwrap();
    let has = |words: &str| assert!(card.contains(words), "{words}: {card}");
    has("L2H3 of box:small, over gold.conllu");
    has("syntactic:case");
    has("beyond word classes");
    has("dependency: the best head of case (dep->head)");
    has("effect: without it (by mean) the loss is");
    has("edges: what shifts it most beyond expectation is L");
    has("entropy");
    has("Source: ");

    let data: Value = serde_json::from_str(&run(&["show", &report, "L2H3", "--json"]).unwrap()).unwrap();
    let whole: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!(data["metrics"], whole["heads"][11]["metrics"]);
    assert_eq!(data["labels"], whole["heads"][11]["labels"]);
    assert!(data["studies"]["effect"][0].as_str().unwrap().starts_with("without it (by mean)"));
    // A head without a label has what is nearest.
    assert!(run(&["show", &report, "L2H0"]).unwrap().contains("No label. The nearest:"));
}

#[test]
fn a_head_without_a_label_for_lack_of_sentences_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let summary = run(&["analyze", "box:small", "--limit", "3", "--no-run-info", "-o", path(&report)]).unwrap();
    let why = "Too little for a label of attention, dependency, words, frequency: 3 sentences, where a label asks for 30 (`min_sentences`).\n";
    assert!(summary.contains(why), "{summary}");
    let card = run(&["show", path(&report), "L0H0"]).unwrap();
    assert!(card.contains(&format!("\n\nNo label.\n{why}")), "{card}");
    // Numbers that round to zero have no sign.
    assert!(!card.contains("-0.000"), "{card}");
}

#[test]
fn heads_of_a_relation_and_of_a_label() {
    let (_folder, report) = saved();
    let shown = run(&["show", &report, "--relation", "case", "--top", "3"]).unwrap();
    assert_eq!(shown.lines().filter(|line| line.trim_start().starts_with('L')).count(), 3, "{shown}");
    let data: Value =
        serde_json::from_str(&run(&["show", &report, "--relation", "case", "--top", "3", "--json"]).unwrap()).unwrap();
    let whole: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let relations = whole["relations"].as_array().unwrap();
    let case = relations.iter().find(|relation| relation["relation"] == "case").unwrap();
    assert_eq!(data["heads"].as_array().unwrap().len(), 3);
    assert_eq!(data["heads"][0]["name"], "L2H3");
    assert_eq!(data["heads"][0]["accuracy"], case["accuracy"]);
    assert_eq!(data["offset_accuracy"], case["baseline"]["accuracy"]);

    for label in ["broad", "syntactic:case", "syntactic:<relation>"] {
        let shown = run(&["show", &report, "--label", label]).unwrap();
        let data: Value = serde_json::from_str(&run(&["show", &report, "--label", label, "--json"]).unwrap()).unwrap();
        for row in data.as_array().unwrap() {
            assert!(shown.contains(row["name"].as_str().unwrap()), "{shown}");
        }
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let (_folder, report) = saved();
    let refusal = |arguments: &[&str]| run(&[&["show", &report], arguments].concat()).unwrap_err().1;
    assert_eq!(
        refusal(&["L4H0"]),
        "error: there is no head L4H0: the model has 4 layers of 4 heads, both counted from 0\n"
    );
    assert!(
        refusal(&["--relation", "subject"]).starts_with("error: the report has no relation `subject`: it has all, ")
    );
    assert_eq!(refusal(&["--label", "brod"]), "error: there is no label `brod`; did you mean `broad`?\n");
    assert_eq!(refusal(&["--label", "induction"]), "error: no head has the label `induction` in this report\n");
    assert!(refusal(&["L2H3", "--label", "broad"]).contains("cannot be used with"));
    assert!(run(&["explain", "L2H3"]).unwrap_err().1.contains("`headscope show report.json L2H3`"));
}
