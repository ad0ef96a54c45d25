//! `specific` of heads and relations, compared with `fixtures/reference_specific.py`.

use std::fs;

use crate::support::{fixture, path, run};
use serde_json::Value;

#[test]
fn comparison_with_other_arcs_matches_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/small-specific.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let corpus = fixture("corpus/gold.conllu");
    let others = "attention,trees,words,frequency,explained-variance,coreference,choice";
    let arguments = ["analyze", "box:small", "-c", path(&corpus), "--words", "spaced", "--without", others];
    let arguments = [&arguments[..], &["--no-run-info", "-o", "-"]].concat();
    let actual: Value = serde_json::from_str(&run(&arguments).unwrap()).unwrap();
    for relation in actual["relations"].as_array().unwrap() {
        let name = relation["relation"].as_str().unwrap();
        let Some(expected) = expected.get(name) else {
            assert!(name == "all" && relation["by_head"][0]["specific"]["dep->head"].is_null(), "{name}");
            continue;
        };
        assert_eq!(relation["with_others"]["count"], expected["words"], "{name}");
        for (place, head) in relation["by_head"].as_array().unwrap().iter().enumerate() {
            for (direction, direction_name) in ["dep->head", "head->dep"].into_iter().enumerate() {
                let [own, other] =
                    [&head["specific"][direction_name]["difference"], &expected["differences"][place][direction]]
                        .map(|number| number.as_f64().unwrap());
                assert!(
                    (own - other).abs() < 1e-8,
                    "{name} {} {direction_name}: {own}, {other} of the reference",
                    head["name"]
                );
            }
        }
    }
}
