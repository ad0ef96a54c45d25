//! The planted decoder, whose labels are all known in advance.

use serde_json::Value;

use crate::golden::{self, Golden, check_parity};
use crate::support::{any_input, fixture, path, run};

/// The labels that `fixtures/models/make_planted_causal.py` plants. Rows are layers, and columns are heads.
const PLANTED: [[Option<&str>; 2]; 4] = [
    [Some("previous-token"), Some("duplicate-token")],
    [Some("first-token"), Some("broad")],
    [Some("syntactic:aux"), Some("self")],
    [None, Some("induction")],
];

fn report(more: &[&str]) -> Value {
    let (model, corpus) = (fixture("models/planted-causal"), fixture("corpus/gold.conllu"));
    // The vocabulary knows no words but auxiliaries.
    let policy = any_input();
    let options =
        ["analyze", path(&model), "-c", path(&corpus), "--policy", path(policy.path()), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&options, more].concat()).unwrap()).unwrap()
}

/// Covers the whole path from the weight file through forward pass, sums and metrics to labels.
#[test]
fn planted_decoder_heads_get_exactly_their_labels() {
    let report = report(&[]);
    assert_eq!(report["corpus"]["sentences"], 700);
    let heads = report["heads"].as_array().unwrap();
    assert_eq!(heads.len(), 8);
    for (head, planted) in heads.iter().zip(PLANTED.concat()) {
        let labels = head["labels"].as_array().unwrap();
        let actual: Vec<&str> = labels.iter().map(|label| label["label"].as_str().unwrap()).collect();
        // The induction head also copies the token that it finds.
        let copies = planted.filter(|label| *label == "induction").map(|_| "copies");
        assert_eq!(actual, planted.into_iter().chain(copies).collect::<Vec<_>>(), "{}", head["name"]);
        assert!(labels.iter().all(|label| label["borderline"] == false), "{}", head["name"]);
        assert_eq!(head["primary"], planted.unwrap_or("unlabelled"), "{}", head["name"]);
    }
}

#[test]
fn planted_decoder_scores_follow_from_the_weights() {
    let report = report(&[]);
    let metric = |place: usize, name: &str| &report["heads"][place]["metrics"][name];
    let near = |actual: &Value, expected: f64| {
        let actual = actual.as_f64().unwrap();
        assert!((actual - expected).abs() < 1e-3, "{actual} is not {expected}");
    };
    near(&metric(0, "offset_mass")["-1"], 1.0);
    // Half of the attention is on the twin, half on the token itself.
    near(&metric(1, "repeat_same")["score"], 0.5);
    near(metric(2, "first_token_mass"), 1.0);
    near(metric(3, "entropy_ratio"), 1.0);
    near(&metric(5, "offset_mass")["0"], 1.0);
    // e^0.2 / (e^0.2 + 1) on the first token, the rest on the second.
    near(metric(6, "first_token_mass"), 0.5498);
    near(&metric(7, "repeat_next")["score"], 1.0);
    let auxiliaries = report["relations"].as_array().unwrap();
    let planted = auxiliaries.iter().find(|row| row["relation"] == "aux" && row["side"] == "right").unwrap();
    assert_eq!((&planted["name"], &planted["direction"]), (&"L2H0".into(), &"head->dep".into()));
}

/// The circuit is the induction head and the previous-token head that feeds it. No other head contributes.
#[test]
fn planted_circuit_carries_the_whole_copying_gain() {
    let report = report(&["--limit", "5", "--with", "in-context-effect"]);
    let mean = |copy: &str| report["in_context"][copy]["mean"].as_f64().unwrap();
    assert!(mean("first") > 10.0 && mean("second") < 0.05, "{}", report["in_context"]);
    for head in report["in_context_effect"]["heads"].as_array().unwrap() {
        let lost = head["effect"].as_f64().unwrap();
        let expected = if ["L0H0", "L3H1"].contains(&head["name"].as_str().unwrap()) { mean("gain") } else { 0.0 };
        // The softmax leaves e^-12 to each other token.
        assert!((lost - expected).abs() < 1e-3, "{head}");
    }
}

#[test]
fn planted_decoder_attention_matches_transformers() {
    let golden = Golden::read(&fixture("goldens/planted-causal.safetensors"));
    check_parity(&golden::load(&fixture("models/planted-causal")), &golden);
}
