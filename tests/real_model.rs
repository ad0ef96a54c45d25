//! A pretrained model, all-MiniLM-L6-v2. Its weights are not in the repository.
//!
//! `HEADSCOPE_REAL_MODEL` names the model's folder. The tests run only with `--test real_model`; `.ci/run` does so.

#[path = "support/clark.rs"]
mod clark;
#[path = "support/golden.rs"]
mod golden;
#[path = "support/reference.rs"]
mod reference;
#[path = "support/reference_choice.rs"]
mod reference_choice;
mod support;

use std::path::PathBuf;

use golden::{Golden, check_parity, load};
use reference::{check_labels, check_metrics, check_relations, reference};
use serde_json::Value;
use support::{fails_nothing, fixture, path, run};

fn model() -> PathBuf {
    let folder = std::env::var_os("HEADSCOPE_REAL_MODEL");
    PathBuf::from(folder.expect("HEADSCOPE_REAL_MODEL is the folder of all-MiniLM-L6-v2: see .ci/run"))
}

#[test]
fn attention_and_hidden_states_match_pytorch() {
    check_parity(&load(&model()), &Golden::read(&fixture("goldens/all-minilm-l6-v2.safetensors")));
}

#[test]
fn preset_matches_the_released_formulas() {
    println!("largest difference: {:e}", clark::check(&model(), "all-minilm-l6-v2"));
}

#[test]
fn full_run_matches_the_reference() {
    let (model, corpus) = (model(), fixture("corpus/gold.conllu"));
    let report =
        run(&["analyze", path(&model), "-c", path(&corpus), "--words", "spaced", "-o", "-", "--no-run-info"]).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let reference = reference("all-minilm-l6-v2");
    check_metrics(&report, &reference);
    check_relations(&report, &reference);
    assert!(check_labels(&report, &reference) > 30);
    assert!(fails_nothing(&report), "{}", report["corpus"]["health"]);
    // Measured beforehand on Universal Dependencies' EWT with PyTorch.
    let head = &report["heads"][2];
    assert_eq!((&head["name"], &head["primary"]), (&"L0H2".into(), &"previous-token".into()));
    assert!(head["metrics"]["offset_mass"]["-1"].as_f64().unwrap() > 0.99);
}

#[test]
fn heads_choose_as_in_the_reference() {
    let (model, corpus) = (model(), fixture("corpus/gold.conllu"));
    let args = [
        "analyze",
        path(&model),
        "-c",
        path(&corpus),
        "--with",
        "choice",
        "--words",
        "spaced",
        "-o",
        "-",
        "--no-run-info",
    ];
    let report: Value = serde_json::from_str(&run(&args).unwrap()).unwrap();
    reference_choice::check(&report, "all-minilm-l6-v2");
}

/// The vocabulary has the Greek letters but no Greek word: every letter is a token, and no token is unknown.
#[test]
fn greek_text_fails_the_health_checks() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("greek.txt");
    let words = ["η γάτα", "ο σκύλος", "κοιμάται", "τρέχει", "στο σπίτι", "με τα παιδιά", "και παίζει"];
    let line = |number: usize| [1, 7, 49].map(|place| words[number / place % 7]).join(" ") + "\n";
    std::fs::write(&corpus, (0..150).map(line).collect::<String>()).unwrap();
    let report = run(&["analyze", path(&model()), "-c", path(&corpus), "-o", "-", "--no-run-info"]).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["corpus"]["text"]["unknown_tokens"], 0);
    let failing = report["corpus"]["health"].as_array().unwrap().iter().filter(|check| check["fails"] == true);
    assert_eq!(failing.map(|check| &check["id"]).collect::<Vec<_>>(), ["foreign_script", "tokens_per_word"]);
    assert!(report["in_brief"][0].as_str().unwrap().contains("most of them Greek"), "{}", report["in_brief"]);
}
