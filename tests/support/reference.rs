//! Reports held against `fixtures/reference_metrics.py`, which computes every metric and label apart from the program.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::fixture;

/// Both start from float32 attention, summed in different orders.
const TOLERANCE: f64 = 1e-5;

/// The reference's figures for a model over the corpus of `fixtures/`.
pub fn reference(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture(&format!("goldens/{name}-metrics.json")));
    serde_json::from_str(&text.expect("python fixtures/reference_metrics.py makes the golden")).unwrap()
}

/// Asserts that every value of `expected` is in `actual`; returns the largest difference between numbers.
fn largest_difference(at: &str, actual: &Value, expected: &Value) -> f64 {
    match expected {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| largest_difference(&format!("{at}.{key}"), &actual[key], value))
            .fold(0.0, f64::max),
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

/// Metrics and chance levels; prints the largest difference.
pub fn check_metrics(report: &Value, reference: &Value) {
    for key in ["sentences", "tokens", "words"] {
        assert_eq!(report["corpus"][key], reference[key], "{key}");
    }
    assert_eq!(report["heads"].as_array().unwrap().len(), reference["heads"].as_array().unwrap().len());
    let mut worst = largest_difference("chance", &report["chance"], &reference["chance"]);
    for (head, expected) in report["heads"].as_array().unwrap().iter().zip(reference["heads"].as_array().unwrap()) {
        let name = head["name"].as_str().unwrap();
        worst = worst.max(largest_difference(name, &head["metrics"], &expected["metrics"]));
    }
    println!("largest difference: {worst:e}");
    assert_eq!(report["chance"]["uuas"], reference["chain_uuas"]);
}

/// The labels of every head; returns how many there are.
pub fn check_labels(report: &Value, reference: &Value) -> usize {
    let mut labels = 0;
    for (head, expected) in report["heads"].as_array().unwrap().iter().zip(reference["heads"].as_array().unwrap()) {
        let mut found: BTreeSet<&str> =
            head["labels"].as_array().unwrap().iter().map(|label| label["label"].as_str().unwrap()).collect();
        labels += found.len();
        if found.is_empty() {
            found.insert(head["primary"].as_str().unwrap());
        }
        let expected: BTreeSet<&str> =
            expected["labels"].as_array().unwrap().iter().map(|label| label.as_str().unwrap()).collect();
        assert_eq!(found, expected, "{}", head["name"]);
    }
    labels
}

/// Counts, baselines and the accuracy of every head on every relation.
pub fn check_relations(report: &Value, reference: &Value) {
    let relations = report["relations"].as_array().unwrap();
    let expected = reference["relations"].as_array().unwrap();
    assert_eq!(relations.len(), expected.len());
    for expected in expected {
        let name = &expected["relation"];
        let relation = relations.iter().find(|relation| relation["relation"] == *name).expect("the relation");
        assert_eq!(relation["count"], expected["count"]);
        assert_eq!(relation["baseline"], expected["baseline"], "{name}");
        // A near tie may fall to either side in float32: among many words that may be one, and perhaps another winner.
        let count = expected["count"].as_f64().unwrap();
        let word = if count < 100.0 { 0.0 } else { 1.0 / count + 1e-9 };
        let close = |a: &Value, b: &Value| a == b || (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= word;
        assert!(close(&relation["accuracy"], &expected["accuracy"]), "{name}");
        if relation["accuracy"] == expected["accuracy"] {
            for key in ["layer", "head", "direction", "heldout_accuracy"] {
                assert_eq!(relation[key], expected[key], "{name}: {key}");
            }
        }
        for (head, expected) in
            relation["by_head"].as_array().unwrap().iter().zip(expected["by_head"].as_array().unwrap())
        {
            assert_eq!((&head["layer"], &head["head"]), (&expected["layer"], &expected["head"]));
            for direction in ["dep->head", "head->dep"] {
                assert!(close(&head[direction], &expected[direction]), "{name} {head} {expected}");
            }
        }
    }
}
