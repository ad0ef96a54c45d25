//! The study `direct`: against `fixtures/reference_direct.py`, and on the command line.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run};
use serde_json::Value;

/// The program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

/// Options that run `direct` on the task alone, without studies of a corpus.
const ALONE: [&str; 10] = [
    "--with",
    "direct",
    "--without",
    "task,attention,trees,dependency,links,words",
    "--without",
    "frequency,explained-variance,repeats,in-context",
    "--limit",
    "8",
    "--no-run-info",
    "-q",
];

fn report(model: &str, task: &str) -> Value {
    let (corpus, task) = (fixture("corpus/gold.conllu"), fixture(&format!("tasks/{task}.jsonl")));
    let arguments = ["analyze", model, "-c", path(&corpus), "--task", path(&task), "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], &ALONE].concat()).unwrap()).unwrap()
}

#[test]
fn parts_equal_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/causal-direct.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let report = report("box:causal", "copies");
    let actual = &report["direct"];
    assert_eq!([&actual["items"], &actual["units"]], [&expected["items"], &expected["items"]]);
    let near = |at: &str, actual: &Value, expected: &Value| {
        let [a, b] = [actual, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}")));
        assert!((a - b).abs() < TOLERANCE, "{at} is {a}, the reference {b}");
    };
    for part in ["score", "embeddings", "constants"] {
        near(part, &actual[part]["effect"], &expected[part]["effect"]);
    }
    near("the sum", &actual["sum"]["effect"], &expected["score"]["effect"]);
    for (number, layer) in actual["layers"].as_array().unwrap().iter().enumerate() {
        for part in ["feed_forward", "biases"] {
            let name = format!("{part} {number}");
            near(&name, &layer[part]["effect"], &expected[&name]["effect"]);
        }
    }
    for (place, head) in report["heads"].as_array().unwrap().iter().enumerate() {
        let name = head["name"].as_str().unwrap();
        near(name, &head["metrics"]["direct_effect"], &expected[name]["effect"]);
        near(name, &head["standard_errors"]["direct_effect"], &expected[name]["error"]);
        assert_eq!(actual["heads"][place]["effect"], head["metrics"]["direct_effect"]);
    }
}

#[test]
fn parts_of_a_run_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, task) = (fixture("corpus/gold.conllu"), fixture("tasks/copies.jsonl"));
    let common = ["analyze", "box:causal", "-c", path(&corpus), "--task", path(&task), "--sample", "60"];
    parts_add_up(&[&common[..], &ALONE].concat(), &folder.path().join("whole.json"));
}

#[test]
fn the_summary_names_the_parts() {
    let task = fixture("tasks/copies.jsonl");
    let arguments = ["analyze", "box:causal", "--task", path(&task), "--summary", "full"];
    let summary = run(&[&arguments[..], &ALONE[..6], &["--no-run-info"]].concat()).unwrap();
    let mut answers = Answers::new();
    answers.said("the score and its parts", summary.lines().find(|line| line.starts_with("Logit of")).unwrap());
    answers.held("direct-parts");
}

#[test]
fn models_and_tasks_without_direct_effects_are_refused() {
    let mut answers = Answers::new();
    for (model, task) in [("box:small", "cloze"), ("box:causal", "pairs")] {
        let (corpus, task) = (fixture("corpus/gold.conllu"), fixture(&format!("tasks/{task}.jsonl")));
        let arguments = ["analyze", model, "-c", path(&corpus), "--task", path(&task)];
        let refused = run(&[&arguments[..], &ALONE].concat()).unwrap_err();
        answers.refused(&format!("{model} and {}", path(&task)), &refused);
    }
    answers.refused("no task", &run(&["analyze", "box:causal", "--with", "direct"]).unwrap_err());
    answers.held("direct-refusals");
}
