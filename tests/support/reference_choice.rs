//! The study `choice`, compared with the goldens of `fixtures/reference_choice.py`.

use std::fs;

use crate::support::fixture;
use serde_json::Value;

/// Tolerance for the difference from float64: attention is float32 in the program.
pub const TOLERANCE: f64 = 1e-6;

/// Compares a report with `NAME-choice.json`.
pub fn check(actual: &Value, name: &str) {
    let golden = fs::read_to_string(fixture("goldens").join(format!("{name}-choice.json"))).expect("a golden");
    let expected: Value = serde_json::from_str(&golden).expect("a golden");
    assert_eq!(actual["choice"]["fitted_on"], expected["fitted_on"]);
    let mut largest = 0.0_f64;
    let mut near = |at: &str, actual: &Value, expected: &Value| match (actual.as_f64(), expected.as_f64()) {
        (Some(actual), Some(expected)) => {
            largest = largest.max((actual - expected).abs());
            assert!((actual - expected).abs() < TOLERANCE, "{at}: {actual}, {expected} of the reference");
        }
        (actual, expected) => assert_eq!((actual, expected), (None, None), "{at}"),
    };
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let layers = list(&actual["choice"]["layers"]);
    assert_eq!(layers.len(), list(&expected["layers"]).len());
    for (layer, expected) in layers.iter().zip(list(&expected["layers"])) {
        assert_eq!(layer["ridge"], expected["ridge"]);
        near("own_share", &layer["own_share"], &expected["own_share"]);
    }
    let heads = list(&actual["heads"]);
    assert_eq!(heads.len(), list(&expected["heads"]).len());
    for (head, expected) in heads.iter().zip(list(&expected["heads"])) {
        assert_eq!(head["name"], expected["name"]);
        let metrics = &head["metrics"];
        near("distance_from_even", &metrics["distance_from_even"], &expected["distance_from_even"]);
        for (variant, expected) in expected["rebuilt"].as_object().expect("variants") {
            near(&format!("{} {variant}", head["name"]), &metrics["rebuilt"][variant], expected);
        }
    }
    println!("largest difference: {largest:e}");
}
