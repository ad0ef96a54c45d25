//! The study `segments`, compared with `fixtures/reference_segments.py` and run as a user runs it.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run, tiny_bert};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

fn analyze(model: &str, corpus: &str, more: &[&str]) -> Value {
    let arguments = ["analyze", model, "-c", corpus, "--with", "segments", "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], more].concat()).unwrap()).unwrap()
}

/// The tiny RoBERTa with the words of the tiny BERT. Its sentence pairs have RoBERTa's form.
fn roberta() -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(fixture("models/tiny-roberta").join(name), folder.path().join(name)).unwrap();
    }
    let tokenizer = fs::read_to_string(tiny_bert().join("tokenizer.json")).unwrap();
    let mut tokenizer: Value = serde_json::from_str(&tokenizer).unwrap();
    tokenizer["post_processor"] = json!({
        "type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2], "trim_offsets": false,
        "add_prefix_space": false,
    });
    fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    folder
}

fn check(model: &str, golden: &str) {
    let golden = fs::read_to_string(fixture("goldens").join(golden)).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let actual = analyze(model, path(&fixture("corpus/documents.txt")), &[]);
    for key in ["pairs", "sentences_left_out"] {
        assert_eq!(actual["segments"][key], expected[key], "{key}");
    }
    for (name, count) in expected["denominators"].as_object().unwrap() {
        assert_eq!(&actual["denominators"][name]["count"], count, "{name}");
    }
    let near = |at: &str, actual: &Value, expected: &Value| {
        for (name, expected) in expected.as_object().unwrap() {
            let [a, b] = [&actual[name], expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at}.{name}")));
            assert!((a - b).abs() < TOLERANCE, "{at}.{name} is {a}, the reference {b}");
        }
    };
    near("chance", &actual["chance"], &expected["chance"]);
    let [actual, expected] = [&actual, &expected].map(|report| report["heads"].as_array().unwrap());
    assert_eq!(actual.len(), expected.len());
    for (head, expected) in actual.iter().zip(expected) {
        let name = head["name"].as_str().unwrap();
        near(name, &head["metrics"], &expected["metrics"]);
        near(name, &head["standard_errors"], &expected["standard_errors"]);
        for (metric, interval) in expected["ci95"].as_object().unwrap() {
            for end in [0, 1] {
                let [a, b] = [&head["ci95"][metric][end], &interval[end]].map(|end| end.as_f64().unwrap());
                assert!((a - b).abs() < TOLERANCE, "{name}.{metric} has {a}, the reference {b}");
            }
        }
    }
}

#[test]
fn metrics_match_the_reference() {
    check(path(&tiny_bert()), "tiny-bert-segments.json");
}

#[test]
fn roberta_metrics_match_the_reference() {
    check(path(roberta().path()), "tiny-roberta-segments.json");
}

#[test]
fn plain_text_documents_end_at_blank_lines() {
    let folder = TempDir::new().unwrap();
    let pairs = |text: &str, more: &[&str]| {
        let corpus = folder.path().join("corpus.txt");
        fs::write(&corpus, text).unwrap();
        let segments = &analyze(path(&tiny_bert()), path(&corpus), more)["segments"];
        [&segments["pairs"], &segments["sentences_left_out"]].map(|count| count.as_u64().unwrap())
    };
    let five = "the cat\nthe dog\nthe bird\nthe fish\nthe mouse\n";
    assert_eq!(pairs(five, &[]), [2, 1]);
    assert_eq!(pairs(&five.replace("bird\n", "bird\n\n"), &[]), [2, 1]);
    assert_eq!(pairs(&five.replace('\n', "\n\n"), &[]), [0, 5]);
    assert_eq!(pairs("the cat\n", &[]), [0, 1]);
    // The pair has seven tokens. The second sentence has four tokens by itself.
    assert_eq!(pairs("the cat\nthe dog\n", &["--max-tokens", "7"]), [1, 0]);
    assert_eq!(pairs("the cat\nthe dog\n", &["--max-tokens", "6"]), [0, 2]);
    // Without pairs there are no numbers and no label, and the summary says so.
    let corpus = path(&folder.path().join("corpus.txt")).to_owned();
    let none = analyze(path(&tiny_bert()), &corpus, &["--max-tokens", "6"]);
    assert_eq!(none["heads"][0]["metrics"]["segment_r2"], Value::Null);
    let summary = run(&[
        "analyze",
        "--summary",
        "full",
        path(&tiny_bert()),
        "-c",
        &corpus,
        "--preset",
        "kovaleva2019",
        "--max-tokens",
        "6",
    ])
    .unwrap();
    let is_segments_line =
        |line: &&str| ["Pairs of", "Preset", "Too little"].iter().any(|start| line.starts_with(start));
    let mut answers = Answers::new();
    answers.said("no pairs", &summary.lines().filter(is_segments_line).collect::<Vec<_>>().join("\n"));
    answers.held("segments-no-pairs");
}

#[test]
fn shards_merge_to_the_report_of_one_run_with_preset_labels() {
    let folder = TempDir::new().unwrap();
    let (corpus, model) = (fixture("corpus/gold.conllu"), tiny_bert());
    let at = |name: &str| folder.path().join(name);
    let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "300", "--no-run-info", "--quiet"];
    let more = ["--preset", "kovaleva2019", "--control", "random-init", "--control", "shuffled-words"];
    run(&[&common[..], &more, &["-o", path(&at("whole.json"))]].concat()).unwrap();
    let whole: Value = serde_json::from_slice(&fs::read(at("whole.json")).unwrap()).unwrap();
    for head in whole["heads"].as_array().unwrap() {
        let labels = head["labels"].as_array().unwrap();
        assert_eq!(labels.len(), 1, "{}: {labels:?}", head["name"]);
        assert!(labels[0]["label"].as_str().unwrap().starts_with("class:"));
    }
    // The order of words does not matter for pairs, so the shuffled-words control has no counts of them.
    for run in whole["controls"].as_array().unwrap() {
        let counted = run["label_counts"].as_object().unwrap().contains_key("segment-block");
        assert_eq!(counted, run["control"] == "random-init");
    }
    let schema: Value = serde_json::from_str(&run(&["schema"]).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&whole));
    let parts = [at("1.headscope"), at("2.headscope")];
    for (part, file) in ["1/2", "2/2"].iter().zip(&parts) {
        run(&[&common[..], &more, &["--shard", part, "-o", path(file)]].concat()).unwrap();
    }
    let merged = at("merged.json");
    let merge = ["merge", path(&parts[0]), path(&parts[1]), "--no-run-info", "-o", path(&merged)];
    run(&[&merge[..], &["--preset", "kovaleva2019"]].concat()).unwrap();
    assert_eq!(fs::read(&merged).unwrap(), fs::read(at("whole.json")).unwrap());
    // The default policy gives none of the classes. Relabelling brings them back.
    run(&merge).unwrap();
    let default: Value = serde_json::from_slice(&fs::read(&merged).unwrap()).unwrap();
    assert_eq!(default["label_counts"]["class:<pattern>"], 0);
    let again = at("again.json");
    let text = run(&["relabel", path(&merged), "--preset", "kovaleva2019", "-o", path(&again)]).unwrap();
    let mut answers = Answers::new();
    answers.said("relabelled", text.lines().find(|line| line.starts_with("Preset kovaleva2019")).unwrap());
    answers.held("segments-preset");
    let again: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    assert_eq!(again["heads"], whole["heads"]);
}

#[test]
fn preset_needs_the_study_segments() {
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let corpus = fixture("corpus/gold.conllu");
    run(&["analyze", path(&tiny_bert()), "-c", path(&corpus), "--limit", "40", "-o", path(&report), "--quiet"])
        .unwrap();
    let refused = run(&["relabel", path(&report), "--preset", "kovaleva2019", "-o", "-"]).unwrap_err();
    let mut answers = Answers::within(folder.path());
    answers.refused("without the study", &refused);
    answers.held("segments-not-run");
}
