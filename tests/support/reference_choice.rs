//! How heads choose, held against the goldens of `fixtures/reference_choice.py`.

use std::fs;

use crate::support::fixture;
use serde_json::Value;

/// The largest difference from float64: attention is float32 in the program.
pub const TOLERANCE: f64 = 1e-6;

/// Holds a report against `NAME-choice.json`.
pub fn check(found: &Value, name: &str) {
    let golden = fs::read_to_string(fixture("goldens").join(format!("{name}-choice.json"))).expect("a golden");
    let expected: Value = serde_json::from_str(&golden).expect("a golden");
    assert_eq!(found["choice"]["fitted_on"], expected["fitted_on"]);
    let mut largest = 0.0_f64;
    let mut near = |at: &str, found: &Value, expected: &Value| match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => {
            largest = largest.max((found - expected).abs());
            assert!((found - expected).abs() < TOLERANCE, "{at}: {found}, {expected} of the reference");
        }
        (found, expected) => assert_eq!((found, expected), (None, None), "{at}"),
    };
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let layers = list(&found["choice"]["layers"]);
    assert_eq!(layers.len(), list(&expected["layers"]).len());
    for (layer, expected) in layers.iter().zip(list(&expected["layers"])) {
        assert_eq!(layer["ridge"], expected["ridge"]);
        near("own_share", &layer["own_share"], &expected["own_share"]);
    }
    let heads = list(&found["heads"]);
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
