//! The study `coreference`: against `fixtures/reference_coreference.py`, and on the command line.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run};
use serde_json::Value;

fn report(arguments: &[&str]) -> Value {
    let common = ["--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&["analyze"], arguments, &common].concat()).unwrap()).unwrap()
}

/// The number of items that a share of `count` items stands for.
fn count_of_share(share: &Value, count: u64) -> f64 {
    share.as_f64().unwrap_or_else(|| panic!("{share} is no share")) * count as f64
}

fn near(at: &str, found: f64, expected: &Value) {
    assert!((found - expected.as_f64().unwrap()).abs() < 1e-9, "{at} is {found}, the reference {expected}");
}

#[test]
fn counts_equal_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/tiny-bert-coreference.json")).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let model = fixture("models/tiny-bert");
    for (name, limit) in [("gold.conllu", "300"), ("entities.conllu", "9")] {
        let corpus = fixture(&format!("corpus/{name}"));
        let report = report(&[path(&model), "-c", path(&corpus), "--limit", limit, "--with", "coreference"]);
        let (coreference, expected) = (&report["coreference"], &golden[name]);
        for key in ["windows", "mentions", "unmatched", "unscored"] {
            assert_eq!(coreference[key], expected[key], "{name}: {key}");
        }
        let expected = expected["kinds"].as_object().unwrap();
        let kinds = coreference["kinds"].as_array().unwrap();
        assert_eq!(kinds.len(), expected.values().filter(|kind| kind["anaphors"] != 0).count());
        for kind in kinds {
            let of = kind["kind"].as_str().unwrap();
            let (expected, count) = (&expected[of], kind["count"].as_u64().unwrap());
            let at = |part: &str| format!("{name}: {part} of {of}");
            assert_eq!(kind["count"], expected["anaphors"], "{}", at("count"));
            near(&at("chance"), count_of_share(&kind["chance"], count), &expected["chance"]);
            let rules = kind["baselines"].as_object().unwrap();
            assert_eq!(rules.len(), 3);
            rules.iter().for_each(|(rule, share)| near(&at(rule), count_of_share(share, count), &expected[rule]));
            let best = rules.values().map(|share| count_of_share(share, count)).fold(0.0, f64::max);
            for (head, expected) in
                report["heads"].as_array().unwrap().iter().zip(expected["heads"].as_array().unwrap())
            {
                for (way, expected) in
                    ["anaphor->antecedent", "antecedent->anaphor"].iter().zip(expected.as_array().unwrap())
                {
                    let metric = |id: &str| count_of_share(&head["metrics"][id][format!("{of}:{way}")], count);
                    near(&at(way), metric("coreference_accuracy"), expected);
                    near(&at(way), metric("coreference_gain") + best, expected);
                }
            }
        }
    }
}

#[test]
fn parts_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.json");
    let common =
        ["analyze", "box:small", "-c", "box:gold", "--with", "coreference", "--without", "trees", "--no-run-info"];
    let control = ["--control", "random-init", "--control-seeds", "1"];
    run(&[&common[..], &control, &["--threads", "2", "-o", path(&whole)]].concat()).unwrap();
    let parts: Vec<_> = (1..=3).map(|part| folder.path().join(format!("{part}.headscope"))).collect();
    for (part, file) in (1..).zip(&parts) {
        run(&[&common[..], &control, &["--shard", &format!("{part}/3"), "-o", path(file)]].concat()).unwrap();
    }
    let merged = folder.path().join("merged.json");
    let parts: Vec<&str> = parts.iter().map(|part| path(part)).collect();
    run(&[&["merge"], &parts[..], &["--no-run-info", "-o", path(&merged)]].concat()).unwrap();
    assert_eq!(fs::read(&merged).unwrap(), fs::read(&whole).unwrap());
    // A saved report holds everything that its labels depend on.
    let again = folder.path().join("again.json");
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 100\n").unwrap();
    run(&["relabel", path(&merged), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let [merged, again]: [Value; 2] =
        [merged, again].map(|file| serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap());
    assert_eq!((&merged["heads"], &merged["coreference"]), (&again["heads"], &again["coreference"]));
}

#[test]
fn untrained_models_have_no_coreference_label() {
    let folder = tempfile::tempdir().unwrap();
    // The corpus in the box barely has the default `min_queries` of anaphors. With a lower value, labels of all kinds
    // are tested.
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 50\n").unwrap();
    let controls = ["--control", "random-init", "--control", "shuffled-words"];
    let report = report(&[&["--policy", path(&policy)][..], &controls].concat());
    let runs = report["controls"].as_array().unwrap();
    assert_eq!(runs.len(), 6);
    for run in runs {
        // The words are shuffled within sentences, and coreference is scored in windows, so this control has no such
        // count.
        let is_untrained = run["control"] == "random-init";
        let expected = if is_untrained { Value::from(0) } else { Value::Null };
        assert_eq!(run["label_counts"]["coreference:<kind>"], expected, "{}", run["control"]);
    }
}

#[test]
fn a_run_says_whether_the_corpus_has_entities() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain.txt");
    fs::write(&plain, "The dog slept.\nIt woke.\n").unwrap();
    let full = ["analyze", "--summary", "full"];
    let mut answers = Answers::new();
    let printed = run(&[&full[..], &["box:small", "-c", path(&plain), "--with", "coreference"]].concat()).unwrap();
    answers.said("no entities", printed.lines().find(|line| line.contains("coreference label")).unwrap());
    let report = report(&["box:small", "-c", path(&plain), "--with", "coreference"]);
    assert_eq!(report["coreference"]["mentions"], 0);
    assert_eq!(report["coreference"]["windows"], 1);
    assert_eq!(report["heads"][0]["metrics"]["coreference_accuracy"]["all:anaphor->antecedent"], Value::Null);
    let caveats = report["caveats"].as_array().unwrap();
    assert!(caveats.iter().any(|caveat| caveat["id"] == "no-entities"));

    // Without `-c`, the corpus in the box is read, which marks entities. With `min_queries = 1000` it has too few
    // anaphors.
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 1000\n").unwrap();
    for (title, more) in [("the box", &[][..]), ("the box, with min_queries = 1000", &["--policy", path(&policy)])] {
        let printed = run(&[&full[..], more].concat()).unwrap();
        let is_about_coreference = |line: &&str| line.starts_with("Coreference, ") || line.contains("none was tested");
        answers.said(title, &printed.lines().filter(is_about_coreference).collect::<Vec<_>>().join("\n"));
    }
    answers.held("coreference-entities");
    let printed = run(&[&full[..], &["--without", "coreference"]].concat()).unwrap();
    assert!(!printed.contains("mentions in"), "{printed}");
}
