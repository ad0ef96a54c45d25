//! `headscope confirm`: the firm labels of one report over other corpora.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run};
use serde_json::Value;

/// Every `step`-th sentence of the gold corpus from sentence `first` on.
fn part(first: usize, step: usize) -> String {
    let text = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    text.split_inclusive("\n\n").skip(first).step_by(step).collect()
}

fn analyzed(folder: &Path, name: &str, text: &str) -> String {
    let (corpus, report) = (folder.join(format!("{name}.conllu")), folder.join(format!("{name}.json")));
    fs::write(&corpus, text).unwrap();
    let studies = ["--without", "words,frequency,explained-variance,coreference,choice,trees"];
    let arguments = ["analyze", "box:small", "-c", path(&corpus), "-q", "-o", path(&report)];
    run(&[&arguments[..], &studies].concat()).unwrap();
    path(&report).to_owned()
}

#[test]
fn labels_of_one_corpus_are_tested_in_others() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [0, 1].map(|first| analyzed(folder.path(), &format!("half-{first}"), &part(first, 2)));
    let outcome: Value = serde_json::from_str(&run(&["confirm", &a, &b, "--json"]).unwrap()).unwrap();
    let schema: Value = serde_json::from_str(&run(&["schema", "confirm"]).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&outcome));
    // The tested labels are the firm roles of the first report.
    let first: Value = serde_json::from_str(&fs::read_to_string(&a).unwrap()).unwrap();
    let firm = first["heads"].as_array().unwrap().iter().flat_map(|head| head["labels"].as_array().unwrap());
    let firm = firm.filter(|label| label["borderline"] == false && label["label"] != "broad").count();
    let labels = outcome["labels"].as_array().unwrap();
    assert!(labels.len() == firm && firm > 2, "{outcome:#}");
    let next = labels.iter().find(|label| label["label"] == "next-token").unwrap();
    assert_eq!((&next["name"], &next["confirmed_in"], &next["prediction"]), (&"L0H0".into(), &1.into(), &Value::Null));
    // The p-value equals that of the second report, where it has the label.
    let second: Value = serde_json::from_str(&fs::read_to_string(&b).unwrap()).unwrap();
    let own_label =
        second["heads"][0]["labels"].as_array().unwrap().iter().find(|label| label["label"] == "next-token").unwrap();
    assert_eq!(next["corpora"][0]["p"], own_label["test"]["p"]);
    let fixed_by = |key: &str| outcome["fixed_by"][key].as_str().unwrap();
    let mut answers = Answers::within(folder.path())
        .hiding(fixed_by("started_at"), "TIME")
        .hiding(&fixed_by("policy_sha256")[..12], "POLICY");
    let summary = run(&["confirm", &a, &b]).unwrap();
    answers.said("one corpus in another", summary.split("\n\n").next().unwrap());
    let table = folder.path().join("labels.csv");
    run(&["confirm", &a, &b, "-q", "-o", path(&table)]).unwrap();
    assert!(fs::read_to_string(&table).unwrap().lines().count() == firm + 1);
    // Confirmed labels come first. One line after the table names the labels that no corpus could test.
    let [half, bare] = ["half-1.conllu", "bare.json"].map(|name| folder.path().join(name));
    run(&["analyze", "box:small", "-c", path(&half), "--without", "dependency", "-q", "-o", path(&bare)]).unwrap();
    let [brief, full] = [&["confirm", &a, path(&bare)][..], &["confirm", &a, path(&bare), "--full"]]
        .map(|command| run(command).unwrap());
    let syntactic = labels.iter().filter(|one| one["label"].as_str().unwrap().starts_with("syntactic:")).count();
    assert!(syntactic > 1, "{brief}");
    for text in [&brief, &full] {
        let untested = text.lines().last().unwrap();
        assert!(untested.contains(&format!(" {syntactic} ")), "{text}");
        answers.said("labels that were not tested", untested);
    }
    assert!(
        !full.contains(" of 0 tested")
            && brief.rfind("1 of 1 tested") < brief.find("0 of 1 tested").or(Some(usize::MAX)),
        "{brief}"
    );
    // `confirm` writes no page, so its help promises none.
    assert!(!run(&["confirm", "--help"]).unwrap().contains(".html"));
    // Identical texts confirm nothing, and a single report cannot be confirmed.
    answers.refused("the same text", &run(&["confirm", &a, &a]).unwrap_err());
    answers.refused("one report", &run(&["confirm", &a]).unwrap_err());
    answers.held("confirm-one-corpus");
}

#[test]
fn five_other_corpora_give_a_robust_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let reports: Vec<String> =
        (0..6).map(|first| analyzed(folder.path(), &format!("part-{first}"), &part(first, 6))).collect();
    let reports: Vec<&str> = reports.iter().map(String::as_str).collect();
    let outcome: Value = serde_json::from_str(&run(&[&["confirm", "--json"], &reports[..]].concat()).unwrap()).unwrap();
    let next = outcome["labels"].as_array().unwrap().iter().find(|label| label["label"] == "next-token").unwrap();
    assert_eq!(next["prediction"]["is_robust"], true, "{next:#}");
    let summary = run(&[&["confirm"], &reports[..]].concat()).unwrap();
    let mut answers = Answers::new();
    answers.said("five corpora", &summary.lines().next().unwrap().replace(|c: char| c.is_ascii_digit(), "#"));
    answers.held("confirm-five-corpora");
}

/// Results on random tokens do not depend on the corpus, so they are not counted as confirmed.
#[test]
fn labels_from_random_tokens_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let report = |name: &str, text: &str| {
        let (corpus, report) = (folder.path().join(format!("{name}.txt")), folder.path().join(format!("{name}.json")));
        fs::write(&corpus, text).unwrap();
        run(&["analyze", "box:causal", "-c", path(&corpus), "-q", "-o", path(&report)]).unwrap();
        path(&report).to_owned()
    };
    let plain = |from: usize| -> String {
        let sentence = |block: &str| {
            let words = block.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split('\t').nth(1));
            words.collect::<Vec<_>>().join(" ") + "\n"
        };
        part(from, 2).trim_end().split("\n\n").map(sentence).collect()
    };
    let [a, b] = [0, 1].map(|from| report(&format!("half-{from}"), &plain(from)));
    let random = |label: &Value| {
        let name = label["label"].as_str().unwrap();
        name.starts_with("induction") || ["copies", "duplicate-token"].contains(&name)
    };
    let first: Value = serde_json::from_str(&fs::read_to_string(&a).unwrap()).unwrap();
    let labels = first["heads"].as_array().unwrap().iter().flat_map(|head| head["labels"].as_array().unwrap());
    let count = labels.filter(|label| random(label) && label["borderline"] == false).count();
    assert!(count >= 3, "box:causal has induction heads");
    let outcome: Value = serde_json::from_str(&run(&["confirm", &a, &b, "--json"]).unwrap()).unwrap();
    assert_eq!(outcome["of_random_tokens"], count);
    assert!(outcome["labels"].as_array().unwrap().iter().all(|label| !random(label)), "{outcome:#}");
    let summary = run(&["confirm", &a, &b]).unwrap();
    let left_out = summary.lines().find(|line| line.starts_with(&format!("{count} more "))).unwrap();
    let mut answers = Answers::new();
    answers.said("labels from random tokens", left_out);
    answers.held("confirm-random-tokens");
}
