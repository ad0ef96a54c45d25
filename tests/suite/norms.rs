//! The study `norms`: planted sinks, a reference that shares no code with the program, and heads that must have no sink
//! type.

use crate::support::{any_input, fixture, path, run, tiny_bert};
use serde_json::Value;

/// Program and reference start from the same weights, in float32 and in float64.
const TOLERANCE: f64 = 1e-4;

fn analyze(model: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", model, "--corpus", path(&corpus), "--with", "norms", "-o", "-", "--no-run-info"];
    serde_json::from_str(&run(&[&arguments, more].concat()).unwrap()).unwrap()
}

fn heads(report: &Value) -> &Vec<Value> {
    report["heads"].as_array().unwrap()
}

fn labels(head: &Value) -> Vec<&str> {
    head["labels"].as_array().unwrap().iter().map(|label| label["label"].as_str().unwrap()).collect()
}

/// The labels that `fixtures/models/make_sinks.py` plants, head by head.
const PLANTED: [&[&str]; 9] = [
    &["first-special", "sink:no-op"],
    &["first-special", "sink:parked"],
    &["first-special", "sink:constant"],
    &["separator", "sink:broadcast"],
    &["separator", "sink:used"],
    &["first-special", "sink:parked"],
    &["broad"],
    &["first-special", "sink:constant"],
    &["punctuation", "sink:constant"],
];

#[test]
fn planted_sinks_have_exactly_their_type() {
    let model = fixture("models/sinks");
    // All words of this model are one token, and all punctuation is alike, so studies of words have nothing to measure.
    let report = analyze(path(&model), &["--without", "words"]);
    for (head, planted) in heads(&report).iter().zip(PLANTED) {
        assert_eq!(labels(head), planted, "{}", head["name"]);
        assert_eq!(head["primary"], planted[0], "{}", head["name"]);
    }
    let caveats = report["caveats"].as_array().unwrap();
    assert!(caveats.iter().any(|caveat| caveat["id"] == "sink-types"));
    // Without the study that finds sinks, no head gets a sink type.
    let alone = analyze(path(&model), &["--without", "words", "--without", "attention"]);
    assert!(heads(&alone).iter().all(|head| head["labels"].as_array().unwrap().is_empty()));
    assert_eq!(alone["heads"][0]["metrics"]["sink_part"], report["heads"][0]["metrics"]["sink_part"]);
}

/// The largest difference between numbers under equal keys; null must be null.
fn largest_difference(at: &str, actual: &Value, expected: &Value) -> f64 {
    match expected {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| largest_difference(&format!("{at}.{key}"), &actual[key], value))
            .fold(0.0, f64::max),
        Value::Array(items) => {
            let ends = items.iter().enumerate();
            ends.map(|(place, value)| largest_difference(at, &actual[place], value)).fold(0.0, f64::max)
        }
        Value::Number(number) => {
            let actual = actual.as_f64().unwrap_or_else(|| panic!("{at} is {actual}"));
            let difference = (actual - number.as_f64().unwrap()).abs();
            assert!(difference <= TOLERANCE, "{at} is {actual}, the reference {number}");
            difference
        }
        _ => {
            assert_eq!(actual, expected, "{at}");
            0.0
        }
    }
}

#[test]
fn every_number_matches_the_reference() {
    for (model, name) in [(tiny_bert(), "tiny-bert"), (fixture("models/sinks"), "sinks")] {
        let golden = std::fs::read_to_string(fixture(&format!("goldens/{name}-norms.json")));
        let golden: Value =
            serde_json::from_str(&golden.expect("python fixtures/reference_norms.py makes it")).unwrap();
        // The vocabulary of `sinks` has no words.
        let policy = any_input();
        let report = analyze(path(&model), &["--words", "spaced", "--limit", "300", "--policy", path(policy.path())]);
        assert_eq!(report["corpus"]["sentences"], golden["sentences"]);
        assert_eq!(report["denominators"]["norm_window_mass"]["count"], golden["queries"]);
        let mut worst = 0.0_f64;
        for (head, expected) in heads(&report).iter().zip(golden["heads"].as_array().unwrap()) {
            let at = format!("{name} {}", head["name"]);
            for key in ["metrics", "ci95", "standard_errors", "chance"] {
                worst = worst.max(largest_difference(&format!("{at} {key}"), &head[key], &expected[key]));
            }
            let labels_in_report = head["labels"].as_array().unwrap().iter();
            let mut firm = labels_in_report
                .filter(|label| label["borderline"] == false)
                .filter_map(|label| label["label"].as_str());
            let actual = firm.find(|label| label.starts_with("sink:"));
            assert_eq!(actual, expected["sink"].as_str(), "{at}");
        }
        println!("{name}: largest difference {worst:e}");
    }
}

#[test]
fn untrained_and_empty_heads_have_no_sink_type() {
    let arguments = ["--limit", "100", "--control", "random-init", "--control-seeds", "2"];
    let report = analyze("box:small", &arguments);
    for control in report["controls"].as_array().unwrap() {
        let counts = control["label_counts"].as_object().unwrap();
        let types: Vec<_> = counts.iter().filter(|(label, _)| label.starts_with("sink:")).collect();
        assert_eq!(types.len(), 6);
        assert!(types.iter().all(|(_, count)| **count == 0), "{types:?}");
    }
    // All values of box:planted are 0, so heads write nothing and have no norms to report.
    let planted = analyze("box:planted", &["--limit", "100"]);
    for head in heads(&planted) {
        assert!(labels(head).iter().all(|label| !label.starts_with("sink:")), "{}", head["name"]);
        assert!(
            head["metrics"]["norm_first_special_mass"].is_null() && head["metrics"]["sink_part"]["separator"].is_null()
        );
        assert_eq!(head["metrics"]["output_ratio"], 0.0);
    }
}

/// The mixing ratio of every layer, for a post-norm model and a pre-norm model.
#[test]
fn mixing_ratios_match_the_reference() {
    for (model, name) in [("box:small", "small"), ("box:causal", "causal")] {
        let golden = std::fs::read_to_string(fixture(&format!("goldens/{name}-mixing.json")));
        let golden: Value =
            serde_json::from_str(&golden.expect("python fixtures/reference_mixing.py makes it")).unwrap();
        // The reference reads words one by one.
        let report = analyze(model, &["--limit", "100", "--context", "sentence", "--words", "spaced"]);
        assert_eq!(report["corpus"]["sentences"], golden["sentences"]);
        assert_eq!(report["denominators"]["norm_window_mass"]["count"], golden["queries"]);
        assert_eq!(report["mixing"].as_array().unwrap().len(), golden["mixing"].as_array().unwrap().len());
        let worst = largest_difference(&format!("{name} mixing"), &report["mixing"], &golden["mixing"]);
        println!("{name}: largest difference {worst:e}");
    }
}

/// A removed head keeps its values and its attention, so its norms are unchanged.
#[test]
fn removed_head_keeps_its_norms() {
    let model = fixture("models/sinks");
    let [whole, without] = [&[][..], &["--remove", "L0H2"]].map(|more| analyze(path(&model), more));
    assert_eq!(whole["heads"][2]["metrics"], without["heads"][2]["metrics"]);
}

#[test]
fn shards_merge_to_the_report_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus) = (fixture("models/sinks"), fixture("corpus/gold.conllu"));
    let parts = ["1/2", "2/2"].map(|shard| {
        let part = folder.path().join(format!("{}.headscope", &shard[..1]));
        run(&[
            "analyze",
            path(&model),
            "-c",
            path(&corpus),
            "--with",
            "norms",
            "--shard",
            shard,
            "-o",
            path(&part),
            "-q",
        ])
        .unwrap();
        part
    });
    let merged = run(&["merge", path(&parts[1]), path(&parts[0]), "-o", "-", "--no-run-info"]).unwrap();
    let merged: Value = serde_json::from_str(&merged).unwrap();
    let whole = analyze(path(&model), &[]);
    assert_eq!((&merged["heads"], &merged["mixing"]), (&whole["heads"], &whole["mixing"]));
}
