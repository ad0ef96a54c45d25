//! The study `choice`: against `fixtures/reference_choice.py`, and on the command line.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run};
use serde_json::Value;

/// Studies that are switched off here: other tests cover them.
const OTHERS: &str = "attention,trees,dependency,words,frequency,explained-variance,coreference";

/// Heads of the trained model above layer 0 that choose by one component alone: L1H3 by position, L3H0 by token.
const LABELLED: u64 = 2;

fn analyze(model: &str, more: &[&str]) -> anyhow::Result<String> {
    let corpus = fixture("corpus/gold.conllu");
    let common = ["analyze", model, "-c", path(&corpus), "--with", "choice", "--without", OTHERS, "--no-run-info"];
    run(&[&common[..], more].concat()).map_err(|(_, error)| anyhow::anyhow!(error))
}

#[test]
fn choices_equal_the_reference() {
    let report: Value =
        serde_json::from_str(&analyze("box:small", &["--words", "spaced", "-o", "-"]).unwrap()).unwrap();
    crate::reference_choice::check(&report, "small");
    // Labels of `choice` stand in their own column.
    for head in report["heads"].as_array().unwrap() {
        assert_eq!((&head["primary"], &head["labels"]), (&"unlabelled".into(), &Value::Array(Vec::new())));
        let label = head["chooses"]["label"].as_str();
        assert!(label.is_none_or(|label| label.starts_with("chooses:")), "{label:?}");
    }
    let labelled = report["heads"].as_array().unwrap().iter().filter(|head| !head["chooses"].is_null()).count() as u64;
    let counts = report["label_counts"].as_object().unwrap();
    assert_eq!(counts.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), labelled);
    assert_eq!(labelled, LABELLED);
}

#[test]
fn summary_card_and_figure_show_how_heads_choose() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let summary = analyze("box:small", &["-o", path(&file), "--summary", "full"]).unwrap();
    let starts = ["No head of", "How ", "    1  chooses:"];
    let lines: Vec<&str> = summary.lines().filter(|line| starts.iter().any(|start| line.starts_with(start))).collect();
    let mut answers = Answers::new();
    answers.said("summary", &lines.join("\n"));
    let card = run(&["show", path(&file), "L1H3", "--all"]).unwrap();
    let lines: Vec<&str> =
        card.lines().filter(|line| line.starts_with("L1H3") || line.starts_with("choice: ")).collect();
    answers.said("card", &lines.join("\n"));
    let figure = folder.path().join("choice.svg");
    run(&["export", path(&file), "--figure", "choice", "-o", path(&figure)]).unwrap();
    let figure = fs::read_to_string(figure).unwrap();
    answers.said("figure", figure.lines().find(|line| line.contains("L0H0: ")).unwrap());
    answers.held("choice-of-heads");
    // Relabelling under another policy needs no model.
    let (policy, again) = (folder.path().join("policy.toml"), folder.path().join("again.json"));
    fs::write(&policy, "chooses_rebuilt = 1.0\n").unwrap();
    run(&["relabel", path(&file), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let again: Value = serde_json::from_str(&fs::read_to_string(again).unwrap()).unwrap();
    assert!(again["heads"].as_array().unwrap().iter().all(|head| head["chooses"].is_null()));
}

/// The heads of `fixtures/models/make_planted.py` choose by position, by kind of token, or by nothing.
#[test]
fn planted_heads_choose_by_their_planted_component() {
    let report: Value = serde_json::from_str(&analyze("box:planted", &["-o", "-"]).unwrap()).unwrap();
    let position_heads = ["L2H0", "L2H1", "L2H2"];
    for head in report["heads"].as_array().unwrap() {
        let name = head["name"].as_str().unwrap();
        let expected = match name {
            _ if position_heads.contains(&name) => "chooses:position",
            "L1H0" | "L1H1" | "L2H3" => "chooses:special",
            "L1H2" => "chooses:token",
            _ => {
                // L1H3, the unlabelled head of layer 1, attends evenly.
                assert!(head["chooses"].is_null(), "{name}");
                assert_eq!(head["metrics"]["context"].is_null(), name == "L1H3", "{name}");
                continue;
            }
        };
        assert_eq!(
            (head["chooses"]["label"].as_str(), &head["chooses"]["borderline"]),
            (Some(expected), &false.into()),
            "{name}"
        );
        let score = head["chooses"]["score"].as_f64().unwrap();
        // The position component of `[SEP]` is a mean over its positions, so a head that attends rightwards scores
        // lower there.
        assert!(score > 0.93, "{name}: {score}");
    }
}

#[test]
fn the_summary_calls_a_small_corpus_too_small() {
    let summary = analyze("box:small", &["--limit", "40", "--summary", "full"]).unwrap();
    let mut answers = Answers::new();
    answers.said("40 sentences", summary.lines().find(|line| line.starts_with("How heads choose")).unwrap());
    answers.held("choice-too-small");
}

#[test]
fn shards_of_both_stages_equal_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run_to = |output: &str, more: &[&str]| {
        analyze("box:small", &[&["-o", output, "-q"], more].concat()).unwrap();
        fs::read(output).unwrap()
    };
    let merge = |parts: &[String], output: &str| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        run(&[&["merge", "--no-run-info", "-q", "-o", output], &parts[..]].concat()).unwrap();
        fs::read(output).unwrap()
    };
    let whole = run_to(&file("whole.json"), &["--threads", "2"]);
    let shards = ["1/3", "2/3", "3/3"];
    let stage_shards = |stage: &str, more: &[&str]| {
        shards.map(|shard| {
            let part = file(&format!("{stage}-{}.headscope", &shard[..1]));
            run_to(&part, &[&["--shard", shard], more].concat());
            part
        })
    };
    let first = file("first.headscope");
    merge(&stage_shards("first", &[]), &first);
    let after = stage_shards("after", &["--after", &first]);
    assert!(merge(&[&[first][..], &after].concat(), &file("report.json")) == whole);
}

#[test]
fn the_first_token_of_a_decoder_is_left_out() {
    let report: Value = serde_json::from_str(&analyze("box:causal", &["-o", "-"]).unwrap()).unwrap();
    let layers = report["choice"]["layers"].as_array().unwrap();
    assert!(!layers.is_empty());
    let (rows, sentences) = (&report["denominators"]["context"]["count"], &report["corpus"]["sentences"]);
    // The first token of each sentence is left out.
    let tokens = report["corpus"]["tokens"].as_u64().unwrap();
    assert_eq!(rows.as_u64().unwrap(), tokens - sentences.as_u64().unwrap());
}
