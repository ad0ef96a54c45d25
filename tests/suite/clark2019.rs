//! Tests of `--preset clark2019`.

use crate::clark;
use crate::support::answers::Answers;
use crate::support::{analyze, fixture, path, run, tiny_bert};
use serde_json::{Value, json};

#[test]
fn every_number_equals_the_released_formulas() {
    clark::check(&tiny_bert(), "tiny-bert");
}

#[test]
fn the_preset_adds_a_section_and_changes_no_metric() {
    let arguments = ["--limit", clark::LIMIT];
    // The preset implies `--words spaced`, as in the paper.
    let alone = analyze(&fixture("corpus/gold.conllu"), &[&arguments[..], &["--words", "spaced"]].concat());
    let preset = analyze(&fixture("corpus/gold.conllu"), &[&arguments[..], &["--preset", "clark2019"]].concat());
    assert_eq!(alone["heads"], preset["heads"]);
    assert_eq!(alone.get("clark2019"), None);
    assert!(preset["settings"]["studies"].as_array().unwrap().contains(&json!("clark2019")));
    assert_eq!(preset["clark2019"]["heads"].as_array().unwrap().len(), 12);
    let schema: Value = serde_json::from_str(&run(&["schema"]).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&preset));
}

#[test]
fn shards_carry_the_preset() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let analyze = |more: &[&str]| {
        let arguments = ["analyze", path(&model), "-c", path(&corpus), "--preset", "clark2019", "--no-run-info"];
        run(&[&arguments[..], more].concat()).unwrap()
    };
    let whole = analyze(&["-o", "-", "--threads", "2"]);
    let parts = ["1/2", "2/2"].map(|shard| {
        let file = path(&folder.path().join(format!("{}.headscope", &shard[..1]))).to_owned();
        analyze(&["--shard", shard, "-q", "-o", &file, "--threads", "1"]);
        file
    });
    assert!(run(&["merge", &parts[0], &parts[1], "--no-run-info", "-o", "-"]).unwrap() == whole);
}

#[test]
fn the_summary_has_a_line_for_the_preset() {
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let arguments =
        ["analyze", "--summary", "full", path(&model), "-c", path(&corpus), "--limit", "50", "--preset", "clark2019"];
    let summary = run(&arguments).unwrap();
    let mut answers = Answers::new();
    answers.said("the summary", summary.lines().find(|line| line.starts_with("Preset clark2019")).unwrap());
    answers.held("clark2019-summary");
}
