//! A pretrained model: all-MiniLM-L6-v2. Its weights are not in the repository, so these tests are built with
//! the feature `real-model` and read the model's folder from `HEADSCOPE_REAL_MODEL`; `.ci/run` does both.

#[path = "support/golden.rs"]
mod golden;
mod support;

use std::path::PathBuf;

use golden::{Golden, check_parity, load};
use serde_json::Value;
use support::{fixture, path, run};

fn model() -> PathBuf {
    let folder = std::env::var_os("HEADSCOPE_REAL_MODEL");
    PathBuf::from(folder.expect("HEADSCOPE_REAL_MODEL is the folder of all-MiniLM-L6-v2: see .ci/run"))
}

#[test]
fn attention_and_hidden_states_are_those_of_pytorch() {
    check_parity(&load(&model()), &Golden::read(&fixture("goldens/all-minilm-l6-v2.safetensors")));
}

#[test]
fn known_heads_get_their_labels() {
    let (model, corpus) = (model(), fixture("corpus/gold.conllu"));
    let report = run(&["analyze", path(&model), "-c", path(&corpus), "-o", "-", "--no-run-info"]).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["corpus"]["skipped"]["too_many_tokens"], 0);
    let head = |name: &str| -> &Value {
        report["heads"].as_array().unwrap().iter().find(|head| head["name"] == name).unwrap()
    };
    // As on Universal Dependencies' EWT, where both were found with torch.
    assert_eq!(head("L0H2")["primary"], "previous-token");
    assert!(head("L0H2")["metrics"]["offset_mass"]["-1"].as_f64().unwrap() > 0.99);
    let labels = head("L1H8")["labels"].as_array().unwrap();
    assert!(labels.iter().any(|label| label["label"] == "next-token"), "{labels:?}");
}
