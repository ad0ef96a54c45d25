//! The study `knockout`, as a user runs it.

use std::fs;

use crate::support::{fixture, path, run};
use serde_json::Value;

/// The program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

#[test]
fn every_syntactic_label_has_a_knockout_test() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, policy) = (fixture("corpus/gold.conllu"), folder.path().join("policy.toml"));
    // The policy accepts more labels, from fewer words, so that a small corpus has something to test.
    fs::write(&policy, "syntactic_margin = 0.0\nmin_queries = 5\n").unwrap();
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "knockout", "--policy", path(&policy), "--no-run-info"];
    let others =
        ["--words", "spaced", "--sample", "100", "--without", "attention,trees,words,frequency,explained-variance"];
    let report = |threads| run(&[&common[..], &others, &["--threads", threads, "-o", "-"]].concat()).unwrap();
    let one = report("1");
    assert_eq!(report("2"), one);
    let actual: Value = serde_json::from_str(&one).unwrap();

    let labels = |actual: &Value| -> Vec<(Value, Value, Value)> {
        let head_labels = |head: &Value| -> Vec<_> {
            let labels = head["labels"].as_array().unwrap().iter();
            let syntactic = labels.filter(|label| label["label"].as_str().unwrap().starts_with("syntactic:"));
            syntactic.map(|label| (head["name"].clone(), label["label"].clone(), label["knockout"].clone())).collect()
        };
        actual["heads"].as_array().unwrap().iter().flat_map(head_labels).collect()
    };
    let (tests, tested_labels) = (actual["knockout"].as_array().unwrap(), labels(&actual));
    assert!(!tests.is_empty());
    assert_eq!(tests.len(), tested_labels.len(), "every syntactic label has its test");
    for (name, label, test) in &tested_labels {
        let listed = tests.iter().find(|listed| (name, label) == (&listed["name"], &listed["label"]));
        assert_eq!(test["loss_effect"], listed.unwrap()["loss_effect"], "{name} {label}");
    }
    assert!(tests.iter().any(|test| test["used"].is_boolean()), "some have enough arcs");

    // Compared with `fixtures/reference_knockout.py`, which computes in float64.
    let golden = fs::read_to_string(fixture("goldens/small-knockout.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&golden).unwrap();
    assert_eq!(tests.len(), expected.len());
    for (test, expected) in tests.iter().zip(&expected) {
        for key in ["layer", "head", "label", "direction", "arcs"] {
            assert_eq!(test[key], expected[key], "{expected}");
        }
        for key in ["loss_effect", "standard_error"] {
            let [actual, expected] = [test, expected].map(|test| test[key].as_f64());
            assert_eq!(actual.is_some(), expected.is_some(), "{test}");
            let near = actual.zip(expected).is_none_or(|(actual, expected)| (actual - expected).abs() < TOLERANCE);
            assert!(near, "{key} of {test} is not {expected:?}");
        }
    }

    // A report is read again whole. Under another policy, the same tests have another outcome.
    let (whole, again) = (folder.path().join("whole.json"), folder.path().join("again.json"));
    fs::write(&whole, &one).unwrap();
    fs::write(&policy, "syntactic_margin = 0.0\nmin_queries = 100000\n").unwrap();
    run(&["relabel", path(&whole), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let again: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    assert!(again["knockout"].as_array().unwrap().iter().all(|test| test["used"].is_null()));
}
