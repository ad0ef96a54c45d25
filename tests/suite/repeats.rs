//! The study `repeats`, held against `fixtures/reference_repeats.py`, and as a user runs it.

use std::fs;

use crate::support::{fixture, parts_add_up, path, run};
use serde_json::Value;

/// Ours is float32, the reference float64.
const TOLERANCE: f64 = 1e-5;

fn report(model: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments =
        ["analyze", model, "-c", path(&corpus), "--limit", "1", "--with", "repeats", "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], more].concat()).unwrap()).unwrap()
}

/// Every number of `expected` is in `found`.
fn near(at: &str, found: &Value, expected: &Value) {
    if let Value::Object(fields) = expected {
        fields.iter().for_each(|(key, value)| near(&format!("{at}.{key}"), &found[key], value));
    } else if let Value::Array(items) = expected {
        items.iter().enumerate().for_each(|(place, value)| near(at, &found[place], value));
    } else {
        let [a, b] = [found, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {found}")));
        assert!((a - b).abs() < TOLERANCE, "{at} is {a}, the reference {b}");
    }
}

#[test]
fn metrics_are_those_of_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/tiny-bert-repeats.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let found = report(path(&fixture("models/tiny-bert")), &[]);
    near("chance", &found["chance"], &expected["chance"]);
    for (kind, queries) in expected["denominators"].as_object().unwrap() {
        assert_eq!(&found["denominators"][kind]["score"]["count"], queries, "{kind}");
        assert_eq!(found["denominators"][kind]["score"]["blocks"], 64, "{kind}");
    }
    let heads = found["heads"].as_array().unwrap();
    assert_eq!(heads.len(), expected["heads"].as_array().unwrap().len());
    for (head, expected) in heads.iter().zip(expected["heads"].as_array().unwrap()) {
        let name = head["name"].as_str().unwrap();
        for what in ["metrics", "ci95", "standard_errors"] {
            near(&format!("{name} {what}"), &head[what], &expected[what]);
        }
    }
}

#[test]
fn detected_heads_have_the_scores_of_transformer_lens() {
    let golden = fs::read_to_string(fixture("goldens/causal-head-detector.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let found = report("box:causal", &[]);
    for (name, scores) in expected.as_object().unwrap() {
        for (head, score) in found["heads"].as_array().unwrap().iter().zip(scores.as_array().unwrap()) {
            near(name, &head["metrics"]["head_detector"][name], score);
        }
        assert!(found["chance"]["head_detector"][name].as_f64().unwrap() < 0.1, "{name}");
    }
    let encoder = report(path(&fixture("models/tiny-bert")), &[]);
    assert_eq!(encoder["heads"][0]["metrics"]["head_detector"]["induction_head"], Value::Null);
}

/// Of a decoder the study is not asked for; without the induction heads the second copy is as hard as the first.
#[test]
fn what_a_decoder_copies_goes_with_its_induction_heads() {
    let run_on = |more: &[&str]| -> Value {
        let options = ["analyze", "box:causal", "--limit", "20", "--no-run-info", "-o", "-"];
        serde_json::from_str(&run(&[&options, more].concat()).unwrap()).unwrap()
    };
    let plain = run_on(&[]);
    assert_eq!(plain["label_counts"]["induction"], 3);
    assert!(run_on(&["--without", "repeats"])["repeats"].is_null());
    let second = |report: &Value| report["in_context"]["whole"]["second"].as_f64().unwrap();
    let whole = run_on(&["--with", "in-context"]);
    let gain = &whole["in_context"];
    assert!(gain["whole"]["first"].as_f64().unwrap() > 10.0 && second(&whole) < 0.1, "{gain}");
    let without = run_on(&["--with", "in-context", "--remove", "L1H1,L1H2,L1H3"]);
    assert!(second(&without) > 9.0, "{}", without["in_context"]);
    // All other heads of the second layer are one, and that of the first that is needed least.
    let others = run_on(&["--with", "in-context", "--remove", "L0H2,L1H0"]);
    assert!(second(&others) < 1.0, "{}", others["in_context"]);
    let effects: Vec<f64> =
        gain["heads"].as_array().unwrap().iter().map(|head| head["effect"].as_f64().unwrap()).collect();
    let metrics = whole["heads"].as_array().unwrap().iter();
    assert_eq!(effects, metrics.map(|head| head["metrics"]["in_context_effect"].as_f64().unwrap()).collect::<Vec<_>>());
    let (status, error) = run(&["analyze", "box:small", "--with", "in-context", "-o", "-"]).unwrap_err();
    assert!(status == 2 && error.contains("`box:small` is no decoder"), "{error}");
}

/// Whatever its tokenizer calls a mask, a decoder was not trained to read any.
#[test]
fn a_decoder_reads_no_masks() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture("models/causal")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    fs::write(folder.path().join("tokenizer_config.json"), r#"{"mask_token": "\u0120the"}"#).unwrap();
    let found = report(path(folder.path()), &[]);
    assert_eq!((&found["repeats"]["plain"], &found["repeats"]["masked"]), (&64.into(), &0.into()));
}

#[test]
fn parts_of_a_decoder_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let studies = ["--with", "in-context,effect,norms", "--sample", "40"];
    let common = ["analyze", "box:causal", "-c", path(&corpus), "--limit", "300", "--no-run-info"];
    parts_add_up(&[&common[..], &studies].concat(), &whole);
}

#[test]
fn parts_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let model = fixture("models/tiny-bert");
    let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "300", "--with", "repeats", "--no-run-info"];
    let control = ["--control", "random-init"];
    parts_add_up(&[&common[..], &control].concat(), &whole);
}

#[test]
fn a_model_without_room_or_words_has_nulls() {
    // 64 positions, where the longest sequence has 74 tokens.
    let found = report("box:planted", &[]);
    assert_eq!(found["repeats"]["plain"], 0);
    assert_eq!(found["heads"][0]["metrics"]["repeat_same"]["score"], Value::Null);
    assert_eq!(found["label_counts"]["duplicate-token"], 0);
}

#[test]
fn words_that_are_shuffled_take_nothing_from_random_tokens() {
    let controls = ["--control", "shuffled-words", "--control", "random-init", "--control-seeds", "1"];
    let found = report(path(&fixture("models/tiny-bert")), &controls);
    let counted = |run: &Value| run["label_counts"].as_object().unwrap().contains_key("induction");
    for run in found["controls"].as_array().unwrap() {
        assert_eq!(counted(run), run["control"] == "random-init", "{}", run["control"]);
    }
}
