//! The study `repeats`, compared with `fixtures/reference_repeats.py` and run as a user runs it.

use std::fs;

use crate::families::esm_with_vocabulary;
use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run};
use serde_json::Value;

/// The program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

fn report(model: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments =
        ["analyze", model, "-c", path(&corpus), "--limit", "1", "--with", "repeats", "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], more].concat()).unwrap()).unwrap()
}

/// Asserts that `actual` contains every number of `expected`.
fn near(at: &str, actual: &Value, expected: &Value) {
    if let Value::Object(fields) = expected {
        fields.iter().for_each(|(key, value)| near(&format!("{at}.{key}"), &actual[key], value));
    } else if let Value::Array(items) = expected {
        items.iter().enumerate().for_each(|(place, value)| near(at, &actual[place], value));
    } else {
        let [a, b] = [actual, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {actual}")));
        assert!((a - b).abs() < TOLERANCE, "{at} is {a}, the reference {b}");
    }
}

#[test]
fn metrics_match_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/tiny-bert-repeats.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let report = report(path(&fixture("models/tiny-bert")), &[]);
    near("chance", &report["chance"], &expected["chance"]);
    for (kind, queries) in expected["denominators"].as_object().unwrap() {
        assert_eq!(&report["denominators"][kind]["score"]["count"], queries, "{kind}");
        assert_eq!(report["denominators"][kind]["score"]["blocks"], 64, "{kind}");
    }
    let heads = report["heads"].as_array().unwrap();
    assert_eq!(heads.len(), expected["heads"].as_array().unwrap().len());
    for (head, expected) in heads.iter().zip(expected["heads"].as_array().unwrap()) {
        let name = head["name"].as_str().unwrap();
        for section in ["metrics", "ci95", "standard_errors"] {
            near(&format!("{name} {section}"), &head[section], &expected[section]);
        }
    }
}

/// In the box's decoder, exactly the induction heads raise the logits of the tokens that they look at.
#[test]
fn copying_heads_match_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/causal-copying.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let report = report("box:causal", &[]);
    assert!(report["chance"]["copy_scored"].is_null() && report["chance"]["copy_rank"] == 0.5);
    for (head, expected) in report["heads"].as_array().unwrap().iter().zip(expected.as_array().unwrap()) {
        for metric in ["copy_logit", "copy_rank", "copy_scored"] {
            if expected[metric]["value"].is_null() {
                assert!(head["metrics"][metric].is_null(), "{head}");
                continue;
            }
            near(metric, &head["metrics"][metric], &expected[metric]["value"]);
            near(metric, &head["standard_errors"][metric], &expected[metric]["error"]);
        }
        // Each head is scored on the queries whose largest weight is on another token.
        let count = |known: &Value| known["count"].as_f64();
        let all = count(&report["denominators"]["copy_scored"]).unwrap();
        let own = count(&head["denominators"]["copy_rank"]).unwrap_or(all);
        near("queries", &(own / all).into(), &head["metrics"]["copy_scored"]);
        let labels = head["labels"].as_array().unwrap();
        let has = |name: &str| labels.iter().any(|label| label["label"] == name && label["borderline"] == false);
        assert_eq!(has("copies"), has("induction"), "{head}");
        // Later heads read hidden states, so their weights alone give no copying score.
        assert_eq!(head["metrics"]["copying"].is_null(), head["layer"] != 0, "{head}");
    }
}

#[test]
fn head_detector_scores_match_transformer_lens() {
    let golden = fs::read_to_string(fixture("goldens/causal-head-detector.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let actual = report("box:causal", &[]);
    for (name, scores) in expected.as_object().unwrap() {
        for (head, score) in actual["heads"].as_array().unwrap().iter().zip(scores.as_array().unwrap()) {
            near(name, &head["metrics"]["head_detector"][name], score);
        }
        assert!(actual["chance"]["head_detector"][name].as_f64().unwrap() < 0.1, "{name}");
    }
    let encoder = report(path(&fixture("models/tiny-bert")), &[]);
    assert_eq!(encoder["heads"][0]["metrics"]["head_detector"]["induction_head"], Value::Null);
}

/// On a decoder, both studies run by default. Without the induction heads, the second copy is as hard as the first.
#[test]
fn decoder_cannot_copy_without_its_induction_heads() {
    let options = ["analyze", "box:causal", "--limit", "20", "--no-run-info", "-o", "-"];
    let run_on = |more: &[&str]| -> Value { serde_json::from_str(&run(&[&options, more].concat()).unwrap()).unwrap() };
    let plain = run_on(&[]);
    assert_eq!(plain["label_counts"]["induction"], 3);
    let mean = |report: &Value, key: &str| report["in_context"][key]["mean"].as_f64().unwrap();
    let [first, second, gain] = ["first", "second", "gain"].map(|key| mean(&plain, key));
    assert!(first > 10.0 && second < 0.1 && (first - second - gain).abs() < 1e-9, "{}", plain["in_context"]);
    for key in ["first", "second", "gain"] {
        let [low, high] = [0, 1].map(|end| plain["in_context"][key]["ci95"][end].as_f64().unwrap());
        assert!(low < mean(&plain, key) && mean(&plain, key) < high, "{key}");
    }
    let neither = run_on(&["--without", "repeats", "--without", "in-context"]);
    assert!(neither["repeats"].is_null() && neither["in_context"].is_null());
    let without = run_on(&["--remove", "L1H1,L1H2,L1H3"]);
    assert!(mean(&without, "second") > 9.0, "{}", without["in_context"]);
    // L1H0 is the only other head of the second layer. L0H2 is the head of the first layer that is needed least.
    let others = run_on(&["--remove", "L0H2,L1H0"]);
    assert!(mean(&others, "second") < 1.0, "{}", others["in_context"]);
    let by_head = run_on(&["--with", "in-context-effect"]);
    assert_eq!(by_head["in_context"], plain["in_context"]);
    let heads = by_head["in_context_effect"]["heads"].as_array().unwrap();
    for (head, metrics) in heads.iter().zip(by_head["heads"].as_array().unwrap()) {
        assert_eq!(head["effect"], metrics["metrics"]["in_context_effect"]);
        let lost = gain - head["without"]["gain"].as_f64().unwrap();
        assert!((lost - head["effect"].as_f64().unwrap()).abs() < 1e-9, "{head}");
    }
    let mut answers = Answers::new();
    for study in ["in-context", "in-context-effect"] {
        answers.refused(study, &run(&["analyze", "box:small", "--with", study, "-o", "-"]).unwrap_err());
    }
    answers.held("repeats-no-decoder");
}

/// A decoder that was saved without its prediction head is analysed. Studies that need this head are left out by name,
/// or refused on request.
#[test]
fn decoder_without_its_prediction_head_is_analysed() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &str, name: &str| fs::copy(fixture(from).join(name), folder.path().join(name)).unwrap();
    copy("models/planted-causal", "tokenizer.json");
    copy("models/planted-causal", "model.safetensors");
    let config = fs::read_to_string(fixture("models/planted-causal/config.json")).unwrap();
    fs::write(
        folder.path().join("config.json"),
        config.replace("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"),
    )
    .unwrap();
    let analyze =
        |more: &[&str]| run(&[&["analyze", "--summary", "full", path(folder.path()), "--limit", "5"], more].concat());
    let summary = analyze(&[]).unwrap();
    assert!(!summary.contains("In-context"), "{summary}");
    let mut answers = Answers::within(folder.path());
    for (title, summary) in
        [("by itself", summary), ("without the study", analyze(&["--without", "in-context"]).unwrap())]
    {
        let left_out: Vec<&str> = summary.lines().filter(|line| line.contains("its checkpoint")).collect();
        answers.said(title, &left_out.join("\n"));
    }
    for study in ["in-context", "in-context-effect"] {
        answers.refused(study, &analyze(&["--with", study]).unwrap_err());
    }
    answers.held("repeats-without-head");
}

/// A decoder was not trained to read masks, whatever its tokenizer calls a mask.
#[test]
fn decoder_gets_no_masked_repeats() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture("models/causal")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    fs::write(folder.path().join("tokenizer_config.json"), r#"{"mask_token": "\u0120the"}"#).unwrap();
    let report = report(path(folder.path()), &[]);
    assert_eq!((&report["repeats"]["plain"], &report["repeats"]["masked"]), (&64.into(), &0.into()));
}

#[test]
fn decoder_shards_merge_to_the_report_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let studies = ["--with", "in-context-effect,effect,norms", "--sample", "40"];
    let common = ["analyze", "box:causal", "-c", path(&corpus), "--limit", "300", "--no-run-info"];
    parts_add_up(&[&common[..], &studies].concat(), &whole);
}

#[test]
fn shards_merge_to_the_report_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let model = fixture("models/tiny-bert");
    let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "300", "--with", "repeats", "--no-run-info"];
    let control = ["--control", "random-init"];
    parts_add_up(&[&common[..], &control].concat(), &whole);
}

#[test]
fn model_with_too_few_positions_has_null_scores() {
    // The model has 64 positions, but the longest sequence has 74 tokens.
    let report = report("box:planted", &[]);
    assert_eq!(report["repeats"]["plain"], 0);
    assert_eq!(report["heads"][0]["metrics"]["repeat_same"]["score"], Value::Null);
    assert_eq!(report["label_counts"]["duplicate-token"], 0);
}

#[test]
fn shuffled_words_control_has_no_induction_counts() {
    let controls = ["--control", "shuffled-words", "--control", "random-init", "--control-seeds", "1"];
    let report = report(path(&fixture("models/tiny-bert")), &controls);
    let counted = |run: &Value| run["label_counts"].as_object().unwrap().contains_key("induction");
    for run in report["controls"].as_array().unwrap() {
        assert_eq!(counted(run), run["control"] == "random-init", "{}", run["control"]);
    }
}

#[test]
fn residues_are_drawn_with_repetition() {
    let model = esm_with_vocabulary();
    let config = model.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    // Rotary positions have no weights, so the config can allow more positions.
    fs::write(&config, text.replace("\"max_position_embeddings\": 40", "\"max_position_embeddings\": 128")).unwrap();
    let corpus = model.path().join("a.fasta");
    fs::write(&corpus, ">p1\nMKTAYIAKQRQISFVKSHFSRQ\n").unwrap();
    let arguments = ["analyze", path(model.path()), "-c", path(&corpus), "--with", "repeats", "-q", "--no-run-info"];
    let report: Value = serde_json::from_str(&run(&[&arguments[..], &["-o", "-"]].concat()).unwrap()).unwrap();
    assert_eq!(report["repeats"], serde_json::json!({"plain": 64, "masked": 512}));
    // Every token of both copies has its twin, which is far enough from some other tokens.
    let same = &report["denominators"]["repeat_same"]["score"];
    assert!(same["count"].as_u64() >= Some(64 * 2 * 16) && same["blocks"] == 64, "{same}");
    let head = &report["heads"][0]["metrics"]["repeat_same"];
    assert!(head["null"].as_f64().is_some_and(|null| null > 0.0), "{head}");
}
