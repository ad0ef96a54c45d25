//! The planted decoder, whose every label is known before it is measured.

use serde_json::Value;

use crate::golden::{self, Golden, check_parity};
use crate::support::{any_input, fixture, path, run};

/// The labels that `fixtures/models/make_planted_causal.py` plants: layers down, heads across.
const PLANTED: [[Option<&str>; 2]; 4] = [
    [Some("previous-token"), Some("duplicate-token")],
    [Some("first-token"), Some("broad")],
    [Some("syntactic:aux"), Some("self")],
    [None, Some("induction")],
];

fn report(more: &[&str]) -> Value {
    let (model, corpus) = (fixture("models/planted-causal"), fixture("corpus/gold.conllu"));
    // All words but auxiliaries are unknown.
    let policy = any_input();
    let options =
        ["analyze", path(&model), "-c", path(&corpus), "--policy", path(policy.path()), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&options, more].concat()).unwrap()).unwrap()
}

/// From the file of weights through forward pass, sums and metrics to labels.
#[test]
fn every_planted_head_of_a_decoder_is_found() {
    let report = report(&[]);
    assert_eq!(report["corpus"]["sentences"], 700);
    let heads = report["heads"].as_array().unwrap();
    assert_eq!(heads.len(), 8);
    for (head, planted) in heads.iter().zip(PLANTED.concat()) {
        let labels = head["labels"].as_array().unwrap();
        let found: Vec<&str> = labels.iter().map(|label| label["label"].as_str().unwrap()).collect();
        // The induction head copies what it finds.
        let copies = planted.filter(|label| *label == "induction").map(|_| "copies");
        assert_eq!(found, planted.into_iter().chain(copies).collect::<Vec<_>>(), "{}", head["name"]);
        assert!(labels.iter().all(|label| label["borderline"] == false), "{}", head["name"]);
        assert_eq!(head["primary"], planted.unwrap_or("unlabelled"), "{}", head["name"]);
    }
}

#[test]
fn planted_scores_of_a_decoder_are_what_the_weights_say() {
    let report = report(&[]);
    let metric = |place: usize, name: &str| &report["heads"][place]["metrics"][name];
    let near = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap();
        assert!((found - expected).abs() < 1e-3, "{found} is not {expected}");
    };
    near(&metric(0, "offset_mass")["-1"], 1.0);
    // Half on the twin, half on the token itself.
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

/// The induction head and the head before it that tells it the token before are the circuit; the others have no part in it.
#[test]
fn the_planted_circuit_is_what_copies() {
    let report = report(&["--limit", "5", "--with", "in-context-effect"]);
    let mean = |of: &str| report["in_context"][of]["mean"].as_f64().unwrap();
    assert!(mean("first") > 10.0 && mean("second") < 0.05, "{}", report["in_context"]);
    for head in report["in_context_effect"]["heads"].as_array().unwrap() {
        let lost = head["effect"].as_f64().unwrap();
        let expected = if ["L0H0", "L3H1"].contains(&head["name"].as_str().unwrap()) { mean("gain") } else { 0.0 };
        // What rests leaves e^-12 to all else.
        assert!((lost - expected).abs() < 1e-3, "{head}");
    }
}

#[test]
fn the_planted_decoder_attends_in_transformers_as_it_does_here() {
    let golden = Golden::read(&fixture("goldens/planted-causal.safetensors"));
    check_parity(&golden::load(&fixture("models/planted-causal")), &golden);
}
