//! `headscope show`: a saved report, or a part of it, in readable form.

use std::collections::BTreeSet;
use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, path, run};
use serde_json::Value;

/// A report over the gold corpus, in its own folder.
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
fn saved_report_is_shown_as_after_its_run() {
    let (folder, report) = saved();
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", "box:small", "-c", path(&corpus), "--with", "edges,effect", "--sample", "32"];
    assert_eq!(run(&["show", &report]).unwrap(), run(&arguments).unwrap());

    let whole = run(&["show", &report, "--summary", "full"]).unwrap();
    for columns in [40, 60, 80, 120] {
        let shown =
            headscope(&["show", &report, "--summary", "full"]).env("COLUMNS", columns.to_string()).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        let wide: Vec<&str> = text.lines().filter(|line| line.trim_end().chars().count() > columns).collect();
        assert!(wide.is_empty(), "{wide:?}");
        assert_eq!(text.contains("(no room for: "), columns < 120, "{text}");
        // No word is broken: each word occurs in the summary at full width.
        let bare = |word: &'_ str| word.trim_matches(['(', ')', ',']).to_owned();
        let words: BTreeSet<String> = whole.split_whitespace().map(bare).collect();
        let broken: Vec<String> = text.split_whitespace().map(bare).filter(|word| !words.contains(word)).collect();
        assert!(broken.iter().all(|word| ["no", "room", "for:"].contains(&&**word)), "{broken:?}");
    }
    // `--json` prints the whole report.
    assert_eq!(run(&["show", &report, "--json"]).unwrap(), fs::read_to_string(&report).unwrap());
    assert!(run(&["show", &report, "--color", "always"]).unwrap().contains("\u{1b}["));
    assert!(!run(&["show", &report, "--color", "never"]).unwrap().contains("\u{1b}["));
    drop(folder);
}

/// The first output that a user sees fits on one screen.
#[test]
fn default_run_prints_at_most_25_lines() {
    let summary = run(&["analyze"]).unwrap();
    assert!(summary.lines().count() <= 25, "{summary}");
    let mut answers = Answers::new();
    answers.said("a run without arguments", &summary);
    answers.held("show-first-screen");
    // For a decoder, `induction` comes first.
    let summary = run(&["analyze", "box:causal"]).unwrap();
    let table = summary.split("baselines").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).take(3).collect();
    assert_eq!(rows, ["induction", "previous-token", "first-token"], "{summary}");
    assert!(summary.lines().count() <= 25, "{summary}");
}

#[test]
fn summary_opens_with_the_brief_lines() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("report.json");
    let options = ["--with", "effect,repeats,norms", "--sample", "32", "--no-run-info", "--control", "random-init"];
    let arguments =
        [&["analyze", "-o", path(&saved), "--control-seeds", "1", "--summary", "full"], &options[..]].concat();
    let summary = run(&arguments).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let brief: Vec<&str> = report["in_brief"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let opening = brief.iter().fold(String::new(), |all, line| all + &format!("- {line}\n"));
    assert_eq!(summary.split("\n\n").nth(1), Some(opening.trim_end()), "{summary}");
    assert_eq!(brief.len(), 5, "{brief:?}");
    let mut answers = Answers::within(folder.path());
    answers.said("what can be repeated", &opening);
    answers.held("show-opening");

    // The shares follow from the labels in the report.
    let firm = |label: &Value| label["borderline"] == false;
    let has_role =
        |head: &&Value| head["labels"].as_array().unwrap().iter().any(|label| firm(label) && label["label"] != "broad");
    let heads = report["heads"].as_array().unwrap();
    let roles = heads.iter().filter(has_role).count();
    let share = format!(" {roles} of 16 heads ({:.0} %) ", 100.0 * roles as f64 / 16.0);
    assert!(brief[0].contains(&share), "{brief:?}");
    // How heads choose is counted separately, by category.
    let by_position =
        heads.iter().filter(|head| head["chooses"]["label"] == "chooses:position" && firm(&head["chooses"]));
    let by_position: Vec<&str> = by_position.map(|head| head["name"].as_str().unwrap()).collect();
    assert!(brief[2].contains(&format!("{} by position ({})", by_position.len(), by_position.join(", "))), "{brief:?}");
    let control = &report["controls"][0];
    assert!(brief[0].ends_with(&format!(" {}.", control["firm_roles"])), "{brief:?}");
    // The head whose removal costs most.
    let effects = report["effect"]["heads"].as_array().unwrap();
    let most = effects.iter().max_by(|a, b| a["effect"].as_f64().partial_cmp(&b["effect"].as_f64()).unwrap()).unwrap();
    assert!(brief[3].contains(most["name"].as_str().unwrap()), "{brief:?}");

    // Every study that gives labels lists the heads that have them.
    let answers = summary.split("Heads by study and label").nth(1).unwrap();
    for study in ["attention", "dependency", "words", "frequency", "norms", "repeats", "coreference", "trees"] {
        assert!(answers.contains(&format!("\n  {study}: ")), "{study}: {summary}");
    }
    // The opening is made from the report, so a report of an older version has it, too.
    let mut older = report.clone();
    older.as_object_mut().unwrap().remove("in_brief");
    fs::write(&saved, older.to_string()).unwrap();
    assert!(run(&["show", path(&saved)]).unwrap().contains(&opening));
}

#[test]
fn labels_are_found_by_code_and_category() {
    let (folder, report) = saved();
    let shown = |name: &str| run(&["show", &report, "--label", name]).unwrap();
    assert_eq!(shown("prev"), shown("previous-token"));
    assert_eq!(shown("case"), shown("syntactic:case"));
    assert_eq!(shown("syntactic"), shown("syntactic:<relation>"));
    let mut answers = Answers::within(folder.path());
    for (why, label) in [("there is none", "xyzzy"), ("what gives it was not run", "sink")] {
        answers.refused(&format!("{label}: {why}"), &run(&["show", &report, "--label", label]).unwrap_err());
    }
    for name in ["position", "sink"] {
        let text = run(&["explain", name]).unwrap();
        let labels: Vec<&str> = text.lines().filter(|line| line.contains("label")).collect();
        answers.said(&format!("explain {name}: the labels"), &labels.join("\n"));
    }

    let sums = folder.path().join("sums.headscope");
    let part = ["analyze", "--without", "choice", "--limit", "40", "--shard", "1/1", "-o", path(&sums)];
    run(&part).unwrap();
    answers.refused("a partial", &run(&["show", path(&sums)]).unwrap_err());
    answers.held("show-labels-by-name");
}

#[test]
fn table_without_rows_is_refused_with_the_reason() {
    let (folder, report) = saved();
    let csv = folder.path().join("table.csv");
    let mut answers = Answers::within(folder.path());
    for table in ["controls", "pruning"] {
        answers.refused(table, &run(&["export", &report, "--table", table, "-o", path(&csv)]).unwrap_err());
    }
    answers.held("show-tables-without-rows");
    assert!(!csv.exists());
}

#[test]
fn card_shows_labels_metrics_and_studies_of_a_head() {
    let (folder, report) = saved();
    let card = run(&["show", &report, "L2H3", "--all"]).unwrap();
    assert!(card.contains("entropy"), "{card}");
    let mut answers = Answers::within(folder.path());
    let sentences: Vec<&str> = card.lines().filter(|line| !line.starts_with(' ')).collect();
    answers.said("all on a head, without tables", &sentences.join("\n"));

    let data: Value = serde_json::from_str(&run(&["show", &report, "L2H3", "--json"]).unwrap()).unwrap();
    let whole: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!(data["metrics"], whole["heads"][11]["metrics"]);
    assert_eq!(data["labels"], whole["heads"][11]["labels"]);
    assert!(card.contains(data["studies"]["effect"][0].as_str().unwrap()), "{card}");
    // By default, the card has one sentence and one table.
    let short = run(&["show", &report, "L2H3"]).unwrap();
    let paragraphs: Vec<&str> = short.split("\n\n").collect();
    assert_eq!(paragraphs.len(), 4, "{short}");
    assert!(card.starts_with(&paragraphs[..3].join("\n\n")), "{short}");
    assert_eq!(paragraphs[1], whole["heads"][11]["description"].as_str().unwrap());
    // Each syntactic label states how far it reaches.
    for label in whole["heads"][11]["labels"].as_array().unwrap() {
        let row = paragraphs[2].lines().find(|row| row.contains(label["label"].as_str().unwrap())).unwrap();
        // A borderline label states no reach.
        answers.said(&format!("borderline: {}, beyond: {}", label["borderline"], label["beyond"]), row);
    }
    answers.held("show-card");
    assert_eq!(run(&["show", &report, "L2H3", "--all", "--json"]), run(&["show", &report, "L2H3", "--json"]));
    // A head without a label shows its nearest label.
    let nearest = whole["heads"][8]["nearest"][0]["label"].as_str().unwrap();
    let unlabelled = run(&["show", &report, "L2H0"]).unwrap();
    assert!(unlabelled.lines().any(|line| line.trim_start().starts_with(nearest)), "{unlabelled}");
}

#[test]
fn card_says_if_sentences_are_too_few_for_labels() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let summary =
        run(&["analyze", "--summary", "full", "box:small", "--limit", "3", "--no-run-info", "-o", path(&report)])
            .unwrap();
    let card = run(&["show", path(&report), "L0H0"]).unwrap();
    let mut answers = Answers::within(folder.path());
    answers.said("the card of a head", &card);
    // Nothing was tested, so the grid does not claim that a head has no role.
    let is_remark = |line: &&str| line.to_lowercase().contains("too little") || line.contains("undecided");
    let remarks: Vec<&str> = summary.lines().filter(is_remark).collect();
    answers.said("the same in the summary", &remarks.join("\n"));
    answers.held("show-too-few-sentences");
    assert!(!summary.contains("no role found"), "{summary}");
    // Numbers that round to zero have no sign.
    assert!(!card.contains("-0.000"), "{card}");
}

#[test]
fn heads_are_listed_by_relation_and_by_label() {
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
fn absent_names_are_refused() {
    let (folder, report) = saved();
    let mut answers = Answers::within(folder.path());
    for arguments in [
        &["show", &report, "L4H0"][..],
        &["show", &report, "--relation", "subject"],
        &["show", &report, "--label", "brod"],
        &["show", &report, "--label", "induction"],
        &["show", &report, "L2H3", "--label", "broad"],
        &["explain", "L2H3"],
    ] {
        answers.refused(&arguments.join(" "), &run(arguments).unwrap_err());
    }
    answers.held("show-refusals");
}
