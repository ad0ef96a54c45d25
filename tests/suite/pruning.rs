//! The study `pruning`, as a user runs it.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run, tiny_bert};
use serde_json::{Value, json};

#[test]
fn heads_are_removed_one_by_one() {
    let corpus = fixture("corpus/gold.conllu");
    let others = "attention,trees,dependency,links,words,classes,frequency,explained-variance";
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "pruning", "--sample", "30", "--without", others];
    let report = |threads| run(&[&common[..], &["--no-run-info", "--threads", threads, "-o", "-"]].concat()).unwrap();
    let one = report("1");
    assert_eq!(report("2"), one);
    let actual: Value = serde_json::from_str(&one).unwrap();
    // The study needs effects and gradients, so these are measured, too.
    assert_eq!(actual["settings"]["studies"], json!(["effect", "gradient", "pruning"]));
    let (pruning, effect) = (&actual["pruning"], &actual["effect"]);
    let by: Vec<&Value> = pruning["orders"].as_array().unwrap().iter().map(|curve| &curve["by"]).collect();
    assert_eq!(by, ["effect", "gradient", "random:0", "random:1", "random:2"]);
    // The study reads half of the sample. Without any head, every order ends at one loss.
    assert!(pruning["sentences"].as_u64().unwrap() < effect["sentences"].as_u64().unwrap());
    for curve in pruning["orders"].as_array().unwrap() {
        assert_eq!(curve["heads"].as_array().unwrap().len(), 16);
        assert_eq!(curve["loss"][15], pruning["orders"][0]["loss"][15]);
        assert!(curve["loss"][15].as_f64() > pruning["loss"].as_f64());
    }
}

/// Compares the section `pruning` of a run with the golden for this kind of removal. Returns the section.
fn check(removal: &str) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let others = "attention,trees,dependency,words,frequency,explained-variance";
    let arguments =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "pruning", "--sample", "64", "--without", others];
    let more = ["--removal", removal, "--words", "spaced", "--no-run-info", "-o", "-"];
    let actual: Value = serde_json::from_str(&run(&[&arguments[..], &more].concat()).unwrap()).unwrap();
    let golden = fs::read_to_string(fixture(&format!("goldens/small-effect-{removal}.json"))).unwrap();
    let expected = &serde_json::from_str::<Value>(&golden).unwrap()["pruning"];
    let curve = &actual["pruning"]["orders"][0];
    assert_eq!((&curve["by"], &actual["pruning"]["removal"]), (&json!("effect"), &json!(removal)));
    let name = |head: &Value| format!("L{}H{}", head["layer"], head["head"]);
    let heads: Vec<String> = curve["heads"].as_array().unwrap().iter().map(name).collect();
    assert_eq!(json!(heads), expected["heads"]);
    for point in 0..16 {
        let [actual, expected] = [curve, expected].map(|curve| curve["loss"][point].as_f64().unwrap());
        assert!((actual - expected).abs() < 1e-5, "{actual} {expected}");
    }
    assert_eq!(curve["can_go"], expected["can_go"]);
    actual["pruning"].clone()
}

#[test]
fn prunable_heads_match_the_reference() {
    let by_mean = check("mean");
    assert!(by_mean.get("constants").is_none());
    // One vector per head, as wide as the values of the head.
    let by_constant: Vec<Vec<f32>> = serde_json::from_value(check("constant")["constants"].clone()).unwrap();
    assert_eq!(by_constant.iter().map(Vec::len).collect::<Vec<_>>(), [32; 16]);
}

#[test]
fn pruning_needs_the_study_effect() {
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let mut answers = Answers::new();
    for arguments in [
        &["box:small", "--with", "pruning", "--without", "effect"][..],
        // The error names the requested study, not a study that it needs.
        &[path(&model), "-c", path(&corpus), "--with", "pruning"],
        &[path(&model), "-c", path(&corpus), "--with", "cluster-effect"],
    ] {
        answers.refused(&arguments.join(" "), &run(&[&["analyze"], arguments].concat()).unwrap_err());
    }
    answers.held("pruning-refused");
}
