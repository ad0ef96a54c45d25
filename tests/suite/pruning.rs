//! The study `pruning`, as a user runs it.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run, tiny_bert};
use serde_json::{Value, json};

#[test]
fn heads_go_one_after_the_other() {
    let corpus = fixture("corpus/gold.conllu");
    let others = "attention,trees,dependency,links,words,classes,frequency,explained-variance";
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "pruning", "--sample", "30", "--without", others];
    let report = |threads| run(&[&common[..], &["--no-run-info", "--threads", threads, "-o", "-"]].concat()).unwrap();
    let one = report("1");
    assert_eq!(report("2"), one);
    let found: Value = serde_json::from_str(&one).unwrap();
    // It asks about effects and gradients, so these are measured, too.
    assert_eq!(found["settings"]["studies"], json!(["effect", "gradient", "pruning"]));
    let (pruning, effect) = (&found["pruning"], &found["effect"]);
    let by: Vec<&Value> = pruning["orders"].as_array().unwrap().iter().map(|curve| &curve["by"]).collect();
    assert_eq!(by, ["effect", "gradient", "random:0", "random:1", "random:2"]);
    // Half of the sample, and without any head every order ends at the same loss.
    assert!(pruning["sentences"].as_u64().unwrap() < effect["sentences"].as_u64().unwrap());
    for curve in pruning["orders"].as_array().unwrap() {
        assert_eq!(curve["heads"].as_array().unwrap().len(), 16);
        assert_eq!(curve["loss"][15], pruning["orders"][0]["loss"][15]);
        assert!(curve["loss"][15].as_f64() > pruning["loss"].as_f64());
    }
}

/// The section `pruning` of a run, held against the golden of this kind of removal.
fn check(removal: &str) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let others = "attention,trees,dependency,words,frequency,explained-variance";
    let arguments =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "pruning", "--sample", "64", "--without", others];
    let more = ["--removal", removal, "--words", "spaced", "--no-run-info", "-o", "-"];
    let found: Value = serde_json::from_str(&run(&[&arguments[..], &more].concat()).unwrap()).unwrap();
    let golden = fs::read_to_string(fixture(&format!("goldens/small-effect-{removal}.json"))).unwrap();
    let expected = &serde_json::from_str::<Value>(&golden).unwrap()["pruning"];
    let curve = &found["pruning"]["orders"][0];
    assert_eq!((&curve["by"], &found["pruning"]["removal"]), (&json!("effect"), &json!(removal)));
    let name = |head: &Value| format!("L{}H{}", head["layer"], head["head"]);
    let heads: Vec<String> = curve["heads"].as_array().unwrap().iter().map(name).collect();
    assert_eq!(json!(heads), expected["heads"]);
    for point in 0..16 {
        let [found, expected] = [curve, expected].map(|curve| curve["loss"][point].as_f64().unwrap());
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
    assert_eq!(curve["can_go"], expected["can_go"]);
    found["pruning"].clone()
}

#[test]
fn what_can_go_is_that_of_the_reference() {
    let by_mean = check("mean");
    assert!(by_mean.get("constants").is_none());
    // A vector for each head, as wide as its values.
    let by_constant: Vec<Vec<f32>> = serde_json::from_value(check("constant")["constants"].clone()).unwrap();
    assert_eq!(by_constant.iter().map(Vec::len).collect::<Vec<_>>(), [32; 16]);
}

#[test]
fn it_asks_about_effects() {
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let mut answers = Answers::new();
    for arguments in [
        &["box:small", "--with", "pruning", "--without", "effect"][..],
        // What was asked for is named, not what it needs.
        &[path(&model), "-c", path(&corpus), "--with", "pruning"],
        &[path(&model), "-c", path(&corpus), "--with", "cluster-effect"],
    ] {
        answers.refused(&arguments.join(" "), &run(&[&["analyze"], arguments].concat()).unwrap_err());
    }
    answers.held("pruning-refused");
}
