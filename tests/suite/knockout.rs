//! The study `knockout`, as a user runs it.

use std::fs;

use crate::support::{fixture, path, run};
use serde_json::Value;

/// Ours is float32, the reference float64.
const TOLERANCE: f64 = 1e-5;

#[test]
fn labels_are_tested_once_they_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, policy) = (fixture("corpus/gold.conllu"), folder.path().join("policy.toml"));
    // More labels than the model has firmly, with fewer words: there is something to test in a small corpus.
    fs::write(&policy, "syntactic_margin = 0.0\nmin_queries = 5\n").unwrap();
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "knockout", "--policy", path(&policy), "--no-run-info"];
    let others =
        ["--words", "spaced", "--sample", "100", "--without", "attention,trees,words,frequency,explained-variance"];
    let report = |threads| run(&[&common[..], &others, &["--threads", threads, "-o", "-"]].concat()).unwrap();
    let one = report("1");
    assert_eq!(report("2"), one);
    let found: Value = serde_json::from_str(&one).unwrap();

    let labels = |found: &Value| -> Vec<(Value, Value, Value)> {
        let of_head = |head: &Value| -> Vec<_> {
            let labels = head["labels"].as_array().unwrap().iter();
            let syntactic = labels.filter(|label| label["label"].as_str().unwrap().starts_with("syntactic:"));
            syntactic.map(|label| (head["name"].clone(), label["label"].clone(), label["knockout"].clone())).collect()
        };
        found["heads"].as_array().unwrap().iter().flat_map(of_head).collect()
    };
    let (tests, labels_found) = (found["knockout"].as_array().unwrap(), labels(&found));
    assert!(!tests.is_empty());
    assert_eq!(tests.len(), labels_found.len(), "every syntactic label has its test");
    for (name, label, test) in &labels_found {
        let listed = tests.iter().find(|listed| (name, label) == (&listed["name"], &listed["label"]));
        assert_eq!(test["loss_effect"], listed.unwrap()["loss_effect"], "{name} {label}");
    }
    assert!(tests.iter().any(|test| test["used"].is_boolean()), "some have enough arcs");

    // As `fixtures/reference_knockout.py` has it, in float64.
    let golden = fs::read_to_string(fixture("goldens/small-knockout.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&golden).unwrap();
    assert_eq!(tests.len(), expected.len());
    for (test, expected) in tests.iter().zip(&expected) {
        for key in ["layer", "head", "label", "direction", "arcs"] {
            assert_eq!(test[key], expected[key], "{expected}");
        }
        for key in ["loss_effect", "standard_error"] {
            let [found, expected] = [test, expected].map(|test| test[key].as_f64());
            assert_eq!(found.is_some(), expected.is_some(), "{test}");
            let near = found.zip(expected).is_none_or(|(found, expected)| (found - expected).abs() < TOLERANCE);
            assert!(near, "{key} of {test} is not {expected:?}");
        }
    }

    // A report is read again whole; another policy tells what the same tests come to.
    let (whole, again) = (folder.path().join("whole.json"), folder.path().join("again.json"));
    fs::write(&whole, &one).unwrap();
    fs::write(&policy, "syntactic_margin = 0.0\nmin_queries = 100000\n").unwrap();
    run(&["relabel", path(&whole), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let again: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    assert!(again["knockout"].as_array().unwrap().iter().all(|test| test["used"].is_null()));
}
