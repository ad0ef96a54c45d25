//! Checkpoints that transformers 4 saved with pruned heads. Results equal the full model's results when it runs without
//! these heads, and no output reports anything else for them.

use std::fs;
use std::path::PathBuf;

use crate::families::with_tokenizer;
use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run};
use serde_json::{Value, json};

const ABSENT: [&str; 3] = ["L0H1", "L1H0", "L1H2"];

fn pruned() -> PathBuf {
    fixture("models/pruned/tiny-bert-pickle")
}

fn report(model: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", model, "-c", path(&corpus), "--limit", "120", "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments, more].concat()).unwrap()).unwrap()
}

fn is_absent(head: &Value) -> bool {
    ABSENT.contains(&head["name"].as_str().unwrap())
}

/// Counts the numbers in a value.
fn numbers(value: &Value) -> usize {
    match value {
        Value::Number(_) => 1,
        Value::Array(values) => values.iter().map(numbers).sum(),
        Value::Object(values) => values.values().map(numbers).sum(),
        _ => 0,
    }
}

#[test]
fn a_pruned_model_equals_the_full_model_without_these_heads() {
    let studies = ["--with", "effect,repeats,segments", "--removal", "zero", "--sample", "40"];
    let actual = report(path(&pruned()), &studies);
    let full_model = with_tokenizer("tiny-bert-pickle");
    let expected = report(path(full_model.path()), &[&studies[..], &["--remove", &ABSENT.join(",")]].concat());
    assert_eq!(actual["model"]["absent"], json!(ABSENT));
    for (head, expected_head) in actual["heads"].as_array().unwrap().iter().zip(expected["heads"].as_array().unwrap()) {
        let keys = ["metrics", "ci95", "standard_errors"];
        if is_absent(head) {
            assert_eq!(
                (&head["primary"], &head["labels"], &head["nearest"]),
                (&json!("absent"), &json!([]), &json!([]))
            );
            assert_eq!(keys.map(|key| numbers(&head[key])), [0; 3], "{head}");
        } else {
            assert_eq!(keys.map(|key| &head[key]), keys.map(|key| &expected_head[key]), "{}", head["name"]);
            assert!(numbers(&head["metrics"]) > 100);
        }
    }
    for key in ["loss", "loss_without_heads", "masked_tokens"] {
        assert_eq!(actual["effect"][key], expected["effect"][key], "{key}");
    }
    assert_eq!(actual["effect"]["absent_heads"], 3);
    assert!(expected["effect"].get("absent_heads").is_none());
    // Pruned heads are neither removed, nor tested, nor counted.
    let verdicts = actual["effect"]["verdicts"].as_object().unwrap();
    assert_eq!(verdicts.values().filter_map(Value::as_u64).sum::<u64>(), 3, "{verdicts:?}");
    for head in actual["effect"]["heads"].as_array().unwrap().iter().filter(|head| is_absent(head)) {
        assert_eq!(["effect", "p", "q", "verdict"].map(|key| &head[key]), [&Value::Null; 4]);
    }
    for relation in actual["relations"].as_array().unwrap() {
        assert!(!ABSENT.contains(&relation["name"].as_str().unwrap()));
        let absent_heads = relation["by_head"].as_array().unwrap().iter().filter(|head| is_absent(head));
        assert!(
            absent_heads.clone().count() == 3
                && absent_heads.clone().all(|head| head["accuracy"]["dep->head"].is_null())
        );
    }
}

/// Without `--effect-of`, all heads that are present are removed.
#[test]
fn the_summary_says_whether_heads_were_chosen() {
    let (model, corpus) = (pruned(), fixture("corpus/gold.conllu"));
    let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "60", "--sample", "40", "--with", "effect"];
    let mut answers = Answers::new();
    // Absent heads have no effect, as heads that were not chosen. Only a choice is reported as one.
    for choice in [&[][..], &["--effect-of", "top:1"], &["--effect-of", "bottom:1"]] {
        let summary = run(&[&common[..], &["--summary", "full"], choice].concat()).unwrap();
        let line = summary.lines().find(|line| line.starts_with("Heads removed one at a time")).unwrap();
        answers.said(&format!("effects, {choice:?}"), line);
    }
    answers.held("absent-heads-chosen");
}

#[test]
fn weights_that_contradict_pruned_heads_are_refused() {
    let folder = with_tokenizer("pruned/tiny-bert-pickle");
    let config = folder.path().join("config.json");
    let mut answers = Answers::within(folder.path());
    let mut keys: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    for (pruned, [stored, implied]) in
        [(json!({"0": [1]}), [8, 24]), (json!({}), [16, 24]), (json!({"0": [0, 1]}), [16, 8])]
    {
        let title = pruned.to_string();
        keys["pruned_heads"] = pruned;
        fs::write(&config, keys.to_string()).unwrap();
        let refused = run(&["analyze", path(folder.path()), "-c", "box:gold", "-q"]).unwrap_err();
        let shapes = [stored, implied].map(|rows| format!("[{rows}, 24]"));
        assert!(shapes.iter().all(|shape| refused.1.contains(shape)), "{refused:?}");
        answers.refused(&title, &refused);
    }
    answers.held("absent-weights");
}

#[test]
fn every_output_marks_absent_heads() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (model, saved, page, table) = (pruned(), at("report.json"), at("report.html"), at("heads.csv"));
    let corpus = fixture("corpus/gold.conllu");
    let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "120", "--no-run-info"];
    let summary = run(&[&common[..], &["--summary", "full", "-o", path(&saved), "-o", path(&page)]].concat()).unwrap();
    let mut answers = Answers::within(folder.path());
    let count_lines = summary.lines().filter(|line| line.starts_with("    3  absent"));
    answers.said("how many there are", &count_lines.collect::<Vec<_>>().join("\n"));
    let rows: Vec<Vec<&str>> = summary.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = rows.iter().find(|row| row.first() == Some(&"L1")).unwrap();
    assert_eq!((row[1], row[3]), ("-", "-"), "{summary}");
    let head_counts = summary.lines().filter(|line| line.contains("a firm role"));
    assert!(head_counts.clone().count() > 0 && head_counts.clone().all(|line| line.contains("of 3 ")));

    let card = run(&["show", path(&saved), "L0H1", "--all"]).unwrap();
    assert!(fs::read_to_string(&page).unwrap().contains(card.lines().last().unwrap()), "{card}");
    answers.said("the card", &card);
    run(&["export", path(&saved), "--table", "heads", "-o", path(&table)]).unwrap();
    let table = fs::read_to_string(table).unwrap();
    assert!(table.lines().any(|line| line.starts_with("0,1,L0H1,absent,,")), "{table}");
    answers.said("explained", &run(&["explain", "absent"]).unwrap());
    answers.held("absent-words");
    run(&["explain", "-"]).unwrap();
    // A relabelled report keeps the label, and a comparison leaves out heads that both sides lack.
    let again = at("again.json");
    let policy = at("policy.toml");
    fs::write(&policy, "entropy_ratio = 0.1\n").unwrap();
    run(&["relabel", path(&saved), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let again: Value = serde_json::from_str(&fs::read_to_string(&again).unwrap()).unwrap();
    let absent = again["heads"].as_array().unwrap().iter().filter(|head| head["primary"] == "absent").count();
    assert_eq!(absent, 3);
    let compared: Value =
        serde_json::from_str(&run(&["compare", path(&saved), path(&saved), "--json"]).unwrap()).unwrap();
    assert_eq!(compared["heads"].as_array().unwrap().len(), 3);
}

#[test]
fn no_output_shows_attention_of_an_absent_head() {
    let folder = tempfile::tempdir().unwrap();
    let (model, maps) = (pruned(), folder.path().join("maps.safetensors"));
    let read = |more: &[&str], name: &str| -> Vec<Vec<f32>> {
        let arguments = ["maps", path(&model), "--text", "the cat sat", "-o", path(&maps)];
        run(&[&arguments, more].concat()).unwrap();
        let tensors = candle_core::safetensors::load(&maps, &candle_core::Device::Cpu).unwrap();
        tensors[name].flatten(0, tensors[name].rank() - 2).unwrap().to_vec2().unwrap()
    };
    let rows = read(&[], "attentions.0");
    let tokens = rows[0].len();
    for (place, head) in rows.chunks(tokens).enumerate() {
        let sum = if [1, 3, 5].contains(&place) { 0.0 } else { 1.0 };
        assert!(head.iter().all(|row| (row.iter().sum::<f32>() - sum).abs() < 1e-5), "{place}");
    }
    // The mean over a layer is taken over the heads that are present.
    assert!(read(&["--rollout"], "rollout.0").iter().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));

    let corpus = fixture("corpus/gold.conllu");
    let mut answers = Answers::within(folder.path());
    for arguments in [
        &["view", path(&model), "--text", "the cat sat", "--head", "L1H2"][..],
        &["analyze", path(&model), "-c", path(&corpus), "--with", "edges"],
        &["match", path(&model), path(&model), "-c", path(&corpus)],
    ] {
        answers.refused(&arguments.join(" "), &run(arguments).unwrap_err());
    }
    answers.held("absent-heads-refused");
}

#[test]
fn shards_of_a_pruned_model_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus) = (pruned(), fixture("corpus/gold.conllu"));
    let common =
        ["analyze", path(&model), "-c", path(&corpus), "--with", "effect", "--sample", "20", "--no-run-info", "-q"];
    parts_add_up(&common, &folder.path().join("whole.json"));
}
