//! The study `task`, held against `fixtures/reference_tasks.py`, and as a user runs it.

use std::fs;

use crate::support::{fixture, parts_add_up, path, run, tiny_bert};
use serde_json::Value;

/// Ours is float32, the reference float64.
const TOLERANCE: f64 = 1e-5;

/// The other studies have tests of their own.
const OTHERS: [&str; 7] =
    ["attention", "trees", "dependency", "words", "frequency", "explained-variance", "repeats,in-context"];

fn alone() -> Vec<&'static str> {
    OTHERS.iter().flat_map(|studies| ["--without", studies]).collect()
}

fn report(model: &str, task: &str, more: &[&str]) -> Value {
    let (corpus, task) = (fixture("corpus/gold.conllu"), fixture(&format!("tasks/{task}.jsonl")));
    let arguments =
        ["analyze", model, "-c", path(&corpus), "--limit", "8", "--task", path(&task), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], &alone(), more].concat()).unwrap()).unwrap()
}

fn near(at: &str, found: &Value, expected: &Value) {
    let [a, b] = [found, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}")));
    assert!((a - b).abs() < TOLERANCE, "{at} is {a}, the reference {b}");
}

fn check(model: &str, task: &str, golden: &str, removal: &str) -> Value {
    let golden = fs::read_to_string(fixture(&format!("goldens/{golden}.json"))).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let report = report(model, task, &["--removal", removal]);
    let found = &report["task"];
    assert_eq!([&found["items"], &found["units"]], [&expected["items"], &expected["units"]]);
    for key in ["loss", "loss_without_heads", "right_without_heads", "band", "p_above_baseline"] {
        near(key, &found[key], &expected[key]);
    }
    near("right", &found["right"]["share"], &expected["right"]);
    near("the interval", &found["right"]["ci95"][0], &expected["right_ci95"][0]);
    let heads = expected["heads"].as_array().unwrap();
    assert_eq!(found["heads"].as_array().unwrap().len(), heads.len());
    for (place, expected) in heads.iter().enumerate() {
        let (head, found) = (&report["heads"][place], &found["heads"][place]);
        let name = head["name"].as_str().unwrap();
        near(name, &found["effect"], &expected["effect"]);
        near(name, &found["right_effect"], &expected["right_effect"]);
        near(name, &head["standard_errors"]["task_effect"], &expected["standard_error"]);
        assert_eq!(found["effect"], head["metrics"]["task_effect"]);
        for group in report["task"]["groups"].as_array().unwrap() {
            near(name, &group["effects"][place], &expected["groups"][group["group"].as_str().unwrap()]);
        }
    }
    report
}

#[test]
fn masked_words_are_those_of_the_reference() {
    let found = check("box:small", "cloze", "small-cloze", "mean");
    assert_eq!([&found["settings"]["task"]["kind"], &found["task"]["kind"]], ["cloze", "cloze"]);
}

#[test]
fn pairs_of_masked_texts_are_those_of_the_reference() {
    check("box:small", "pairs", "small-pairs", "zero");
}

#[test]
fn continued_prompts_are_those_of_the_reference_and_need_induction_heads() {
    let found = check("box:causal", "copies", "causal-copies", "mean");
    // Its three induction heads.
    for place in [4, 5, 7] {
        assert_eq!(found["task"]["heads"][place]["verdict"], "helpful", "{place}");
    }
}

#[test]
fn pairs_of_a_decoder_are_those_of_the_reference() {
    check("box:causal", "pairs", "causal-pairs", "zero");
}

#[test]
fn parts_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, task, whole) =
        (fixture("corpus/gold.conllu"), fixture("tasks/cloze.jsonl"), folder.path().join("whole.json"));
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--task", path(&task), "--sample", "60", "--no-run-info", "-q"];
    parts_add_up(&[&common[..], &alone()].concat(), &whole);
}

#[test]
fn the_summary_opens_with_the_task() {
    let task = fixture("tasks/copies.jsonl");
    let said = run(&["analyze", "box:causal", "--task", path(&task), "--no-run-info", "--sample", "30"]).unwrap();
    let first = said.lines().find(|line| line.starts_with("- ")).unwrap();
    assert!(
        first.starts_with("- The model is right on ") && first.contains(" of 30 items of the task (baseline 50 %)"),
        "{first}"
    );
    assert!(said.lines().count() <= 25, "{said}");
}

#[test]
fn what_cannot_be_scored_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = |model: &str, task: &str, more: &[&str]| {
        let file = folder.path().join("items.jsonl");
        fs::write(&file, task).unwrap();
        let corpus = fixture("corpus/gold.conllu");
        let arguments = ["analyze", model, "-c", path(&corpus), "--limit", "8", "--task", path(&file), "-q"];
        let (status, message) = run(&[&arguments[..], &alone(), more].concat()).expect_err("an error");
        (status, message.replace(path(folder.path()), "DIR"))
    };
    let cloze =
        |text: &str, answer: &str| format!(r#"{{"text": "{text}", "answer": "{answer}", "foil": "the"}}"#) + "\n";
    let good = cloze("the [MASK] was old .", "house");
    let pair = "{\"good\": \"the house\", \"bad\": \"house the\"}\n";
    let long = "the ".repeat(200);
    let prompt = |prompt: &str| format!(r#"{{"prompt": "{prompt}", "answer": " was", "foil": " the"}}"#);
    for (model, task, more, expected) in [
        ("box:small", String::new(), vec![], "the task `DIR/items.jsonl` has no item"),
        (
            "box:small",
            format!("{good}{pair}"),
            vec![],
            "DIR/items.jsonl:2: an item of kind pair, and that of line 1 is of kind cloze",
        ),
        (
            "box:small",
            cloze("the house was old .", "house"),
            vec![],
            "DIR/items.jsonl:1: no item of the task can be scored: 1 item without exactly one mask: give `text` with [MASK]",
        ),
        ("box:small", cloze("the [MASK] was [MASK] .", "house"), vec![], "1 item without exactly one mask"),
        (
            "box:small",
            cloze("the [MASK] was old .", "house that was old"),
            vec![],
            "1 item with an answer or foil that is not exactly one token",
        ),
        ("box:small", cloze("the [MASK] was old .", "the"), vec![], "1 item whose two sides are the same tokens"),
        ("box:small", cloze(&format!("{long}[MASK]"), "house"), vec![], "1 item with more tokens than the limit"),
        ("box:small", prompt("the house"), vec![], "1 item with a prompt, where the model fills in a mask"),
        ("box:causal", good.clone(), vec![], "1 item with a mask, where the model continues a prompt"),
        (
            "box:causal",
            prompt("the house").replace("\" was", "\"was"),
            vec![],
            "1 item with an answer or foil that continues the last word of the prompt",
        ),
        (
            "box:small",
            format!("{good}{}", cloze("no mask", "house")),
            vec!["--strict"],
            "DIR/items.jsonl:2: an item without exactly one mask would be skipped, and --strict skips none",
        ),
    ] {
        let (status, message) = error(model, &task, &more);
        assert!(message.contains(expected), "{status} {message}\nexpected {expected}");
    }
    let (status, message) = run(&["analyze", "box:small", "--with", "task"]).expect_err("an error");
    assert!(status == 2 && message.contains("--with task: there is no task: give --task FILE"), "{message}");
    let missing = folder.path().join("none.jsonl");
    let (status, message) = run(&["analyze", path(&tiny_bert()), "--task", path(&missing)]).expect_err("an error");
    assert!(status == 3 && message.contains("cannot read the task"), "{status} {message}");
}
