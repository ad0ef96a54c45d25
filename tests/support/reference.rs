//! Reports compared with `fixtures/reference_metrics.py`, which computes every metric and label independently of the
//! program.

use std::collections::BTreeSet;

use headscope::studies::registry::find_study;
use headscope::study::labels::UNLABELLED;
use serde_json::Value;

use crate::support::fixture;

/// Program and reference start from float32 attention and sum it in different orders.
const TOLERANCE: f64 = 1e-5;

/// The reference's figures for a model over the corpus of `fixtures/`.
pub fn reference(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture(&format!("goldens/{name}-metrics.json")));
    serde_json::from_str(&text.expect("python fixtures/reference_metrics.py makes the golden")).unwrap()
}

/// Asserts that `actual` contains every value of `expected`. Returns the largest difference between numbers.
fn largest_difference(at: &str, actual: &Value, expected: &Value) -> f64 {
    match expected {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| largest_difference(&format!("{at}.{key}"), &actual[key], value))
            .fold(0.0, f64::max),
        Value::Array(items) => {
            assert_eq!(actual.as_array().map(Vec::len), Some(items.len()), "{at}");
            let pairs = actual.as_array().unwrap().iter().zip(items);
            pairs.map(|(actual, item)| largest_difference(at, actual, item)).fold(0.0, f64::max)
        }
        Value::Null => {
            assert_eq!(*actual, Value::Null, "{at}");
            0.0
        }
        _ => {
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}"));
            let difference = (number(actual) - number(expected)).abs();
            assert!(difference <= TOLERANCE, "{at} is {actual}, the reference {expected}");
            difference
        }
    }
}

/// Compares metrics and chance levels; prints the largest difference.
pub fn check_metrics(report: &Value, reference: &Value) {
    for key in ["sentences", "tokens", "words"] {
        assert_eq!(report["corpus"][key], reference[key], "{key}");
    }
    assert_eq!(report["heads"].as_array().unwrap().len(), reference["heads"].as_array().unwrap().len());
    let mut worst = largest_difference("chance", &report["chance"], &reference["chance"]);
    let counted = largest_difference("denominators", &report["denominators"], &reference["denominators"]);
    assert!(counted < 1e-9, "denominators");
    for (head, expected) in report["heads"].as_array().unwrap().iter().zip(reference["heads"].as_array().unwrap()) {
        let name = head["name"].as_str().unwrap();
        worst = worst.max(largest_difference(name, &head["metrics"], &expected["metrics"]));
        worst = worst.max(largest_difference(name, &head["ci95"], &expected["ci95"]));
    }
    worst = worst.max(largest_difference("chain", &report["chance_ci95"]["uuas"], &reference["chain_uuas_ci95"]));
    println!("largest difference: {worst:e}");
    assert_eq!(report["chance"]["uuas"], reference["chain_uuas"]);
}

/// Whether the reference covers the study that gives `label`.
fn is_checked(label: &str) -> bool {
    let detectors = ["attention", "dependency"].into_iter().flat_map(|study| find_study(study).unwrap().card().labels);
    detectors.into_iter().any(|detector| detector.gives_label(label))
}

/// Compares every head's labels from the studies `attention` and `dependency`, and how far the syntactic labels reach.
/// Returns the number of labels.
pub fn check_labels(report: &Value, reference: &Value) -> usize {
    let mut labels = 0;
    for (head, expected) in report["heads"].as_array().unwrap().iter().zip(reference["heads"].as_array().unwrap()) {
        let names = head["labels"].as_array().unwrap().iter().map(|label| label["label"].as_str().unwrap());
        let mut actual: BTreeSet<&str> = names.filter(|label| is_checked(label)).collect();
        labels += actual.len();
        if actual.is_empty() {
            actual.insert(UNLABELLED);
        }
        let named: BTreeSet<&str> =
            expected["labels"].as_array().unwrap().iter().map(|label| label.as_str().unwrap()).collect();
        assert_eq!(actual, named, "{}", head["name"]);
        let unsure: Vec<&Value> = expected["borderline"].as_array().unwrap().iter().collect();
        for label in head["labels"].as_array().unwrap() {
            let name = label["label"].as_str().unwrap();
            if !is_checked(name) {
                continue;
            }
            assert_eq!(label["beyond"], expected["beyond"][name], "{} {name}", head["name"]);
            assert_eq!(label["borderline"], unsure.contains(&&label["label"]), "{} {name}", head["name"]);
        }
    }
    labels
}

/// Compares counts, baselines and the accuracy of every head on every relation. For the best head, also compares
/// intervals and significance.
pub fn check_relations(report: &Value, reference: &Value) {
    let relations = report["relations"].as_array().unwrap();
    let expected = reference["relations"].as_array().unwrap();
    assert_eq!(relations.len(), expected.len());
    assert_eq!(report["tests"]["count"], reference["tests"]);
    for expected in expected {
        let name = &expected["relation"];
        let relation = relations.iter().find(|relation| relation["relation"] == *name).expect("the relation");
        assert_eq!(relation["count"], expected["count"]);
        largest_difference("effective blocks", &relation["effective_blocks"], &expected["effective_blocks"]);
        for key in ["sentences", "blocks", "baseline", "tag_baseline"] {
            assert_eq!(relation[key], expected[key], "{name}: {key}");
        }
        // A near tie may fall to either side in float32. Among at least 100 words, one word may differ, and with it the
        // best head.
        let count = expected["count"].as_f64().unwrap();
        let word = if count < 100.0 { 0.0 } else { 1.0 / count + 1e-9 };
        let close = |a: &Value, b: &Value| a == b || (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= word;
        assert!(close(&relation["accuracy"], &expected["accuracy"]), "{name}");
        if relation["accuracy"] == expected["accuracy"] {
            for key in ["layer", "head", "direction", "heldout_accuracy"] {
                assert_eq!(relation[key], expected[key], "{name}: {key}");
            }
            largest_difference("ci95", &relation["ci95"], &expected["ci95"]);
            check_comparison(&relation["versus_offset"], &expected["versus_offset"], "offset_only");
            check_comparison(&relation["versus_tags"], &expected["versus_tags"], "tags_only");
            assert_eq!(relation["by_distance"], expected["by_distance"], "{name}");
        }
        for (head, expected) in
            relation["by_head"].as_array().unwrap().iter().zip(expected["by_head"].as_array().unwrap())
        {
            assert_eq!((&head["layer"], &head["head"]), (&expected["layer"], &expected["head"]));
            for direction in ["dep->head", "head->dep"] {
                assert!(close(&head[direction], &expected[direction]), "{name} {head} {expected}");
                let [wrong, reference_wrong] = [head, expected].map(|entry| &entry["where_offset_wrong"][direction]);
                // These words are fewer, so one word weighs more.
                let (wrong, reference_wrong) = (wrong.as_f64(), reference_wrong.as_f64());
                let near = |(a, b): (f64, f64)| (a - b).abs() <= word * 10.0;
                assert!(
                    wrong == reference_wrong || wrong.zip(reference_wrong).is_some_and(near),
                    "{name} {head} {expected}"
                );
            }
        }
    }
}

/// Compares a head's lead over a baseline with the reference: counts, intervals, and p and q by scipy.
fn check_comparison(comparison: &Value, expected: &Value, baseline_only: &str) {
    if expected.is_null() {
        assert!(comparison.is_null());
        return;
    }
    largest_difference(baseline_only, &comparison["ci95"], &expected["ci95"]);
    let number = |value: &Value| value.as_f64().unwrap();
    assert!((number(&comparison["difference"]) - number(&expected["difference"])).abs() < 1e-12);
    for key in ["head_only", baseline_only] {
        assert_eq!(comparison[key], expected[key], "{key}");
    }
    let near = |key: &str, tolerance: f64| match expected.get(key).and_then(Value::as_f64) {
        Some(0.0) => assert_eq!(number(&comparison[key]), 0.0, "{key}: {comparison} {expected}"),
        Some(value) => {
            let ratio = number(&comparison[key]) / value;
            assert!((ratio - 1.0).abs() < tolerance, "{key}: {comparison} {expected}");
        }
        None => assert!(comparison[key].is_null(), "{key}: {comparison} {expected}"),
    };
    near("p", 1e-6);
    near("mcnemar_p", 1e-9);
    near("standard_error", 1e-9);
    // A near tie of another head may change its p-value and, slightly, the ranks of all other heads.
    near("q", 0.05);
}
