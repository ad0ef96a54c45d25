//! Options of tasks as a user gives them: classes beside foils, and heads that the derivative chooses.

use std::fs;
use std::path::Path;

use crate::support::{fixture, headscope, outcome, path, run, tiny_bert};
use crate::tasks::{alone, classifier, report};
use serde_json::Value;

/// Heads are chosen by the derivative of the task's loss on the units of even number, and removed from the items of the others.
#[test]
fn heads_of_a_task_are_taken_where_the_derivative_says_they_matter() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 50\n").unwrap();
    let choice = ["--effect-of", "top:2,bottom:1,random:1", "--removal", "zero", "--policy", path(&policy)];
    let [all, some] = [&choice[2..], &choice].map(|more| report("box:causal", "copies", more));
    let heads = |report: &Value| report["task"]["heads"].as_array().unwrap().clone();
    let taken: Vec<usize> = (0..8).filter(|&place| !heads(&some)[place]["effect"].is_null()).collect();
    assert_eq!(taken.len(), 4);
    // Each item is a unit: half of the 120.
    assert_eq!((&all["task"]["items"], &some["task"]["items"]), (&120.into(), &60.into()));
    for (place, head) in heads(&some).iter().enumerate().filter(|(place, _)| !taken.contains(place)) {
        assert!(["effect", "ci95", "q", "verdict", "right_effect"].iter().all(|key| head[key].is_null()), "{head}");
        assert!(some["heads"][place]["metrics"]["task_effect"].is_null());
        assert!(some["task"]["groups"][0]["effects"][place].is_null());
    }
    // The two heads that matter most, of its three induction heads.
    let mut order: Vec<(usize, f64)> =
        heads(&all).iter().map(|head| head["effect"].as_f64().unwrap()).enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert!(order[..3].iter().filter(|(place, _)| taken.contains(place)).count() >= 2, "{taken:?} of {order:?}");
    let verdicts = &some["task"]["verdicts"];
    let sum = ["helpful", "harmful", "negligible", "undecided"].iter().filter_map(|verdict| verdicts[verdict].as_u64());
    assert_eq!(sum.sum::<u64>(), 4);

    let copies = fixture("tasks/copies.jsonl");
    let arguments = ["analyze", "box:causal", "--task", path(&copies), "--summary", "full"];
    let said = run(&[&arguments[..], &choice, &alone()].concat()).unwrap();
    assert!(said.contains("Removed by itself: 4 of 8 heads, chosen by the derivative on the even blocks"), "{said}");
    assert!(said.contains(" of 4 heads "), "{said}");
    let refused = |model: &str, task: &str, more: &[&str]| {
        let task = fixture(&format!("tasks/{task}.jsonl"));
        run(&[&["analyze", model, "--task", path(&task)], &choice[..2], more].concat()).unwrap_err()
    };
    let (status, error) = refused(path(&tiny_bert()), "triples", &[]);
    assert!(status == 2 && error.contains("items of kind triple has none: leave it out"), "{error}");
    let (status, error) = refused("box:causal", "copies", &["--with", "pruning"]);
    assert!(status == 2 && error.contains("the study pruning asks about the effect of every head"), "{error}");
}

/// A class beside another one: the score is the difference of two logits, and its derivative that of both.
#[test]
fn classes_and_tags_are_held_against_foils() {
    let folder = tempfile::tempdir().unwrap();
    let items = folder.path().join("items.jsonl");
    let analyzed = |model: &Path, text: &str| -> Value {
        fs::write(&items, text).unwrap();
        let arguments =
            ["analyze", path(model), "--limit", "8", "--task", path(&items), "--with", "gradient", "-o", "-"];
        serde_json::from_str(&run(&[&arguments[..], &alone()].concat()).unwrap()).unwrap()
    };
    let loss = |report: &Value, section: &str| report[section]["loss"].as_f64().unwrap();
    let of_kind = |name: &str, item: &str, [label, foil]: [&str; 2]| {
        let at = tempfile::tempdir().unwrap();
        let model = classifier(at.path(), name);
        let with = |keys: &str| analyzed(&model, &format!("{{{item}, {keys}}}\n"));
        // ln p(label) - ln p(foil), of two runs without a foil and of one with it.
        let key = if name.ends_with("tagger") { ["labels", "foils"] } else { ["label", "foil"] };
        let [of_label, of_foil] = [label, foil].map(|class| loss(&with(&format!("\"{}\": {class}", key[0])), "task"));
        let both = with(&format!("\"{}\": {label}, \"{}\": {foil}", key[0], key[1]));
        for section in ["task", "gradient"] {
            assert!((loss(&both, section) - (of_label - of_foil)).abs() < 1e-5, "{name} {section}");
        }
        let reversed = with(&format!("\"{}\": {foil}, \"{}\": {label}", key[0], key[1]));
        let effects = |report: &Value| -> Vec<f64> {
            report["task"]["heads"].as_array().unwrap().iter().map(|head| head["effect"].as_f64().unwrap()).collect()
        };
        assert!(effects(&both).iter().zip(effects(&reversed)).all(|(a, b)| (a + b).abs() < 1e-5), "{name}");
    };
    of_kind("tiny-bert-classifier", "\"text\": \"Seals are large\"", ["\"past\"", "2"]);
    of_kind("tiny-bert-tagger", "\"words\": [\"Seals\", \"are\"]", ["[\"past\", null]", "[2, null]"]);
    of_kind("tiny-bert-tagger", "\"words\": [\"Seals\", \"are\"]", ["[\"past\", 1]", "[2, 0]"]);

    let at = tempfile::tempdir().unwrap();
    let model = classifier(at.path(), "tiny-bert-classifier");
    for (line, why) in [
        (r#"{"text": "a", "label": "past", "foil": "past"}"#, "whose two sides are the same tokens or one class"),
        (r#"{"text": "a", "label": "past", "foil": "gone"}"#, "with a label that the model does not have"),
    ] {
        fs::write(&items, line).unwrap();
        let (status, error) = run(&["analyze", path(&model), "--task", path(&items), "-q"]).unwrap_err();
        assert!(status == 3 && error.contains(why), "{status} {error}");
    }
}

/// A label with a typing error is told with its line beside the labels that there are; the other items are scored.
#[test]
fn unknown_labels_are_named_with_their_lines() {
    let at = tempfile::tempdir().unwrap();
    let (folder, items) = (at.path().join("model"), at.path().join("items.jsonl"));
    fs::create_dir(&folder).unwrap();
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
        let output = headscope(&["analyze", path(&model), "--task", path(&items)]).output().unwrap();
        let (said, note) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let expected = "note: --task: of 4 items 2 cannot be scored: 2 items with a label that the model does not have (lines 3 `never`, 5 \
            `never`); its labels are past, present, future\n";
        assert!(output.status.success() && note.contains(expected), "{name}: {note}");
        assert!(
            said.contains("of 2 items of the task") || said.contains("of the words of 2 items of the task"),
            "{said}"
        );
        fs::write(&items, format!("{bad}\n")).unwrap();
        let arguments = ["analyze", path(&model), "--task", path(&items)];
        let (status, error) = outcome(&headscope(&arguments).output().unwrap()).unwrap_err();
        let expected = "items.jsonl:1: no item of the task can be scored: 1 item with a label that the model does not have (line 1 \
            `never`): its labels are past, present, future\n";
        assert!(status == 3 && error.ends_with(expected), "{status} {error}");
    }
}

/// Without a corpus the task alone is asked about: nothing is said of the corpus in the box.
#[test]
fn a_task_without_a_corpus_is_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (saved, page, copies) = (at("report.json"), at("report.html"), fixture("tasks/copies.jsonl"));
    let common = ["analyze", "box:causal", "--task", path(&copies), "--no-run-info"];
    let said = run(&[&common[..], &["-o", path(&saved), "-o", path(&page)]].concat()).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("model   box:causal: ") && lines[1] == "task    copies.jsonl: 120 items", "{said}");
    assert!(lines[3].starts_with("- The model is right on 93.3 % [87.3, 96.6] of 120 items of the task"), "{said}");
    assert!(said.contains("L1H1") && said.contains("helpful"), "{said}");
    for absent in ["gold", "corpus  ", "firm role", "syntactic", "H0  H1", "700"] {
        assert!(!said.contains(absent), "{absent}: {said}");
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(report["settings"]["studies"], serde_json::json!(["task"]));
    assert_eq!(report["in_brief"].as_array().unwrap().len(), 1, "{}", report["in_brief"]);
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("copies.jsonl: 120 items") && !page.contains("box:gold"), "the page tells of the corpus");

    // What is asked beside the task may read a corpus, which is then named.
    let said = run(&[&common[..], &["--with", "attention"]].concat()).unwrap();
    assert!(said.contains("\ncorpus  box:gold: 700 sentences, ") && said.contains("-c takes yours"), "{said}");
    // A model that cannot read the corpus in the box is not told of it.
    let triples = fixture("tasks/triples.jsonl");
    let said = run(&["analyze", path(&tiny_bert()), "--task", path(&triples), "--strict"]).unwrap();
    assert!(!said.contains("could not read"), "{said}");
}
