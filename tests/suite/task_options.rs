//! Options of tasks as a user gives them: classes with foils, and heads that the derivative selects.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, path, run, tiny_bert};
use crate::tasks::{alone, classifier, report};
use serde_json::Value;

/// The derivative of the task's loss on even units selects heads. Their removal is measured on the items of the other
/// units.
#[test]
fn derivative_selects_the_heads_of_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 50\n").unwrap();
    let choice = ["--effect-of", "top:2,bottom:1,random:1", "--removal", "zero", "--policy", path(&policy)];
    let [all, some] = [&choice[2..], &choice].map(|more| report("box:causal", "copies", more));
    let heads = |report: &Value| report["task"]["heads"].as_array().unwrap().clone();
    let selected: Vec<usize> = (0..8).filter(|&place| !heads(&some)[place]["effect"].is_null()).collect();
    assert_eq!(selected.len(), 4);
    // Each item is a unit, so the effects rest on half of the 120 items.
    assert_eq!((&all["task"]["items"], &some["task"]["items"]), (&120.into(), &60.into()));
    for (place, head) in heads(&some).iter().enumerate().filter(|(place, _)| !selected.contains(place)) {
        assert!(["effect", "ci95", "q", "verdict", "right_effect"].iter().all(|key| head[key].is_null()), "{head}");
        assert!(some["heads"][place]["metrics"]["task_effect"].is_null());
        assert!(some["task"]["groups"][0]["effects"][place].is_null());
    }
    // At least two of the three heads with the largest effects are selected.
    let mut order: Vec<(usize, f64)> =
        heads(&all).iter().map(|head| head["effect"].as_f64().unwrap()).enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert!(order[..3].iter().filter(|(place, _)| selected.contains(place)).count() >= 2, "{selected:?} of {order:?}");
    let verdicts = &some["task"]["verdicts"];
    let sum = ["helpful", "harmful", "negligible", "undecided"].iter().filter_map(|verdict| verdicts[verdict].as_u64());
    assert_eq!(sum.sum::<u64>(), 4);

    let copies = fixture("tasks/copies.jsonl");
    let arguments = ["analyze", "box:causal", "--task", path(&copies), "--summary", "full"];
    let printed = run(&[&arguments[..], &choice, &alone()].concat()).unwrap();
    let lines: Vec<&str> =
        printed.lines().filter(|line| line.contains(" of 4 heads ") || line.contains(" 4 of 8 ")).collect();
    let mut answers = Answers::new();
    answers.said("four heads of eight", &lines.join("\n"));
    let mut refused = |model: &str, task: &str, more: &[&str]| {
        let items = fixture(&format!("tasks/{task}.jsonl"));
        let refused = run(&[&["analyze", model, "--task", path(&items)], &choice[..2], more].concat());
        answers.refused(task, &refused.unwrap_err());
    };
    refused(path(&tiny_bert()), "triples", &[]);
    refused("box:causal", "copies", &["--with", "pruning"]);
    answers.held("task-options-chosen-heads");
}

/// With a foil, the score is the difference of two logits, and its derivative covers both logits.
#[test]
fn scores_of_classes_and_tags_subtract_foils() {
    let folder = tempfile::tempdir().unwrap();
    let items = folder.path().join("items.jsonl");
    let analyzed = |model: &Path, text: &str| -> Value {
        fs::write(&items, text).unwrap();
        let arguments =
            ["analyze", path(model), "--limit", "8", "--task", path(&items), "--with", "gradient", "-o", "-"];
        serde_json::from_str(&run(&[&arguments[..], &alone()].concat()).unwrap()).unwrap()
    };
    let loss = |report: &Value, section: &str| report[section]["loss"].as_f64().unwrap();
    let check_foil = |name: &str, item: &str, [label, foil]: [&str; 2]| {
        let at = tempfile::tempdir().unwrap();
        let model = classifier(at.path(), name);
        let with = |keys: &str| analyzed(&model, &format!("{{{item}, {keys}}}\n"));
        // ln p(label) - ln p(foil): two runs without a foil against one run with it.
        let key = if name.ends_with("tagger") { ["labels", "foils"] } else { ["label", "foil"] };
        let [label_loss, foil_loss] =
            [label, foil].map(|class| loss(&with(&format!("\"{}\": {class}", key[0])), "task"));
        let both = with(&format!("\"{}\": {label}, \"{}\": {foil}", key[0], key[1]));
        for section in ["task", "gradient"] {
            assert!((loss(&both, section) - (label_loss - foil_loss)).abs() < 1e-5, "{name} {section}");
        }
        let reversed = with(&format!("\"{}\": {foil}, \"{}\": {label}", key[0], key[1]));
        let effects = |report: &Value| -> Vec<f64> {
            report["task"]["heads"].as_array().unwrap().iter().map(|head| head["effect"].as_f64().unwrap()).collect()
        };
        assert!(effects(&both).iter().zip(effects(&reversed)).all(|(a, b)| (a + b).abs() < 1e-5), "{name}");
    };
    check_foil("tiny-bert-classifier", "\"text\": \"Seals are large\"", ["\"past\"", "2"]);
    check_foil("tiny-bert-tagger", "\"words\": [\"Seals\", \"are\"]", ["[\"past\", null]", "[2, null]"]);
    check_foil("tiny-bert-tagger", "\"words\": [\"Seals\", \"are\"]", ["[\"past\", 1]", "[2, 0]"]);
}

/// A note names a misspelt label with its line and lists the known labels. The other items are scored.
#[test]
fn unknown_labels_are_named_with_their_lines() {
    let at = tempfile::tempdir().unwrap();
    let (folder, items) = (at.path().join("model"), at.path().join("items.jsonl"));
    fs::create_dir(&folder).unwrap();
    let mut answers = Answers::within(at.path());
    for (name, good, bad) in [
        ("tiny-bert-classifier", r#"{"text": "the house", "label": "past"}"#, r#"{"text": "a", "label": "never"}"#),
        (
            "tiny-bert-tagger",
            r#"{"words": ["the", "house"], "labels": ["past", 1]}"#,
            r#"{"words": ["a", "b"], "labels": ["past", "never"]}"#,
        ),
    ] {
        let model = classifier(&folder, name);
        fs::write(&items, format!("{good}\n\n{bad}\n{good}\n{bad}\n")).unwrap();
        let arguments = ["analyze", path(&model), "--task", path(&items)];
        let output = headscope(&arguments).output().unwrap();
        let (printed, notes) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{notes}");
        let note = notes.lines().find(|line| line.contains("--task: ")).unwrap();
        answers.said(&format!("{name}, note"), note);
        answers.said(name, printed.lines().find(|line| line.starts_with("- ")).unwrap());
        fs::write(&items, format!("{bad}\n")).unwrap();
        answers.refused(&format!("{name}, no other item"), &run(&arguments).unwrap_err());
    }
    answers.held("task-options-unknown-labels");
}

/// Without a corpus, the task runs alone, and the output does not mention the boxed corpus.
#[test]
fn task_without_a_corpus_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (saved, page, copies) = (at("report.json"), at("report.html"), fixture("tasks/copies.jsonl"));
    let common = ["analyze", "box:causal", "--task", path(&copies), "--no-run-info"];
    let printed = run(&[&common[..], &["-o", path(&saved), "-o", path(&page)]].concat()).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    let mut answers = Answers::new();
    answers.said("a task alone", &lines[..4].join("\n"));
    assert!(lines.iter().any(|line| line.contains("L1H1") && line.contains("helpful")), "{printed}");
    for absent in ["gold", "corpus  ", "firm role", "syntactic", "H0  H1", "700"] {
        assert!(!printed.contains(absent), "{absent}: {printed}");
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(report["settings"]["studies"], serde_json::json!(["task"]));
    assert_eq!(report["in_brief"].as_array().unwrap().len(), 1, "{}", report["in_brief"]);
    let page = fs::read_to_string(&page).unwrap();
    let task = lines[1].split_once(' ').unwrap().1.trim();
    assert!(page.contains(task) && !page.contains("box:gold"), "the page tells of the corpus");

    // A study beside the task may read a corpus, which the output then names.
    let printed = run(&[&common[..], &["--with", "attention"]].concat()).unwrap();
    answers.said("a study of a corpus beside it", printed.lines().find(|line| line.starts_with("corpus ")).unwrap());
    answers.held("task-options-without-a-corpus");
    // A model that cannot read the boxed corpus gets no message about it.
    let triples = fixture("tasks/triples.jsonl");
    let printed = run(&["analyze", path(&tiny_bert()), "--task", path(&triples), "--strict"]).unwrap();
    assert!(!printed.contains("could not read"), "{printed}");
}
