//! The study `repeats`, held against `fixtures/reference_repeats.py`, and as a user runs it.

use std::fs;

use crate::support::{fixture, parts_add_up, path, run};
use serde_json::Value;

/// Ours is float32, the reference float64.
const TOLERANCE: f64 = 1e-5;

fn report(model: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments =
        ["analyze", model, "-c", path(&corpus), "--limit", "1", "--with", "repeats", "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], more].concat()).unwrap()).unwrap()
}

/// Every number of `expected` is in `found`.
fn near(at: &str, found: &Value, expected: &Value) {
    if let Value::Object(fields) = expected {
        fields.iter().for_each(|(key, value)| near(&format!("{at}.{key}"), &found[key], value));
    } else if let Value::Array(items) = expected {
        items.iter().enumerate().for_each(|(place, value)| near(at, &found[place], value));
    } else {
        let [a, b] = [found, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {found}")));
        assert!((a - b).abs() < TOLERANCE, "{at} is {a}, the reference {b}");
    }
}

#[test]
fn metrics_are_those_of_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/tiny-bert-repeats.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let found = report(path(&fixture("models/tiny-bert")), &[]);
    near("chance", &found["chance"], &expected["chance"]);
    for (kind, queries) in expected["denominators"].as_object().unwrap() {
        assert_eq!(&found["denominators"][kind]["score"]["count"], queries, "{kind}");
        assert_eq!(found["denominators"][kind]["score"]["blocks"], 64, "{kind}");
    }
    let heads = found["heads"].as_array().unwrap();
    assert_eq!(heads.len(), expected["heads"].as_array().unwrap().len());
    for (head, expected) in heads.iter().zip(expected["heads"].as_array().unwrap()) {
        let name = head["name"].as_str().unwrap();
        for what in ["metrics", "ci95", "standard_errors"] {
            near(&format!("{name} {what}"), &head[what], &expected[what]);
        }
    }
}

#[test]
fn parts_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let model = fixture("models/tiny-bert");
    let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "300", "--with", "repeats", "--no-run-info"];
    let control = ["--control", "random-init"];
    parts_add_up(&[&common[..], &control].concat(), &whole);
}

#[test]
fn a_model_without_room_or_words_has_nulls() {
    // 64 positions, where the longest sequence has 74 tokens.
    let found = report("box:planted", &[]);
    assert_eq!(found["repeats"]["plain"], 0);
    assert_eq!(found["heads"][0]["metrics"]["repeat_same"]["score"], Value::Null);
    assert_eq!(found["label_counts"]["duplicate-token"], 0);
}

#[test]
fn words_that_are_shuffled_take_nothing_from_random_tokens() {
    let controls = ["--control", "shuffled-words", "--control", "random-init", "--control-seeds", "1"];
    let found = report(path(&fixture("models/tiny-bert")), &controls);
    let counted = |run: &Value| run["label_counts"].as_object().unwrap().contains_key("induction");
    for run in found["controls"].as_array().unwrap() {
        assert_eq!(counted(run), run["control"] == "random-init", "{}", run["control"]);
    }
}
