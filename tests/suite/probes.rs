//! The study `probes`, compared with `fixtures/reference_probes.py` and run as a user runs it.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run};
use serde_json::{Value, json};

/// Studies with their own tests.
const OTHERS: &str = "attention,trees,dependency,words,frequency,explained-variance,coreference";

fn analyze(more: &[&str]) -> String {
    let corpus = fixture("corpus/gold.conllu");
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "probes", "--without", OTHERS, "--no-run-info"];
    run(&[&common[..], more].concat()).unwrap()
}

fn report(more: &[&str]) -> Value {
    serde_json::from_str(&analyze(&[&["-o", "-"], more].concat())).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Compares an accuracy with the reference's number of right words. Words with tied classes widen the tolerance.
fn check_accuracy(at: &str, accuracy: &Value, words: f64, expected: &Value) {
    let Some([hits, ties]) = expected.as_array().map(|both| [number(&both[0]), number(&both[1])]) else {
        return assert_eq!(*accuracy, Value::Null, "{at}");
    };
    let actual = number(accuracy) * words;
    assert!(
        (actual - hits).abs() < ties + 1e-6,
        "{at}: {actual} words are right, {hits} of the reference, {ties} ties"
    );
}

#[test]
fn probes_match_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/small-probes.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&golden).unwrap();
    let actual = report(&["--words", "spaced", "--probe", "misc.SpaceAfter"]);
    assert_eq!(actual["settings"]["probes"], json!(["misc.SpaceAfter"]));
    let actual = actual["probes"].as_array().unwrap();
    assert_eq!(actual.len(), expected.len());
    for (task, expected) in actual.iter().zip(&expected) {
        for key in ["task", "words", "classes"] {
            assert_eq!(task[key], expected[key]);
        }
        let words = number(&expected["words"]);
        for key in ["majority", "form"] {
            check_accuracy(key, &task[key]["accuracy"], words, &json!([expected[key], 0]));
        }
        for key in ["embedding", "neighbours"] {
            check_accuracy(key, &task[key]["accuracy"], words, &expected[key]);
        }
        // The gain of both neighbours, and the gain of each head over both neighbours.
        let accuracy = |key: &str| task[key]["accuracy"].as_f64();
        let differs = |actual: &Value, from: Option<f64>, less: Option<f64>| match from.zip(less) {
            Some((from, less)) => assert!((number(actual) - (from - less)).abs() < 1e-9, "{actual}"),
            None => assert_eq!(*actual, Value::Null),
        };
        differs(&task["neighbours_gain"], accuracy("neighbours"), accuracy("embedding"));
        for head in task["heads"].as_array().unwrap() {
            differs(&head["over_neighbours"], head["together"].as_f64(), accuracy("neighbours"));
        }
        for (layer, expected) in task["layers"].as_array().unwrap().iter().zip(expected["inputs"].as_array().unwrap()) {
            check_accuracy("input", &layer["input"]["accuracy"], words, expected);
        }
        let heads = expected["heads"].as_array().unwrap();
        assert_eq!(task["heads"].as_array().unwrap().len(), heads.len());
        for (head, expected) in task["heads"].as_array().unwrap().iter().zip(heads) {
            let at = format!("{} {}", task["task"], head["name"]);
            for key in ["accuracy", "together", "control"] {
                check_accuracy(&format!("{at} {key}"), &head[key], words, &expected[key]);
            }
            let near = |key: &str, tolerance: f64| match expected.get(key).and_then(Value::as_f64) {
                Some(value) => assert!((number(&head[key]) - value).abs() < tolerance, "{at} {key} is not {value}"),
                None => assert_eq!(head[key], Value::Null),
            };
            // A tie that falls to the other side changes these values slightly.
            near("standard_error", 1e-4);
            near("q", 0.05);
        }
    }
}

#[test]
fn shards_of_both_stages_merge_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (corpus, sample) = (fixture("corpus/gold.conllu"), ["--sample", "12", "--no-run-info", "-q"]);
    // All studies that read the corpus twice. `knockout` needs the labels of `dependency`.
    let with = [
        "--with",
        "probes,knockout,pruning",
        "--without",
        "attention,trees,words,frequency,explained-variance,coreference",
    ];
    let run_to = |output: &str, more: &[&str]| {
        let common = ["analyze", "box:small", "-c", path(&corpus), "-o", output];
        run(&[&common[..], &with, &sample, more].concat()).map(|_| fs::read(output).unwrap())
    };
    let merge = |parts: &[&str], output: &str| {
        run(&[&["merge", "--no-run-info", "-q", "-o", output], parts].concat()).map(|_| fs::read(output).unwrap())
    };
    let whole = run_to(&file("whole.json"), &["--threads", "2"]).unwrap();
    let [one, two] = ["1/2", "2/2"].map(|shard| {
        let part = file(&format!("first-{}.headscope", &shard[..1]));
        run_to(&part, &["--shard", shard]).unwrap();
        part
    });
    let (report, first) = (file("report.json"), file("first.headscope"));
    let mut answers = Answers::within(folder.path());
    answers.refused("no part of the second stage", &merge(&[&one, &two], &report).unwrap_err());
    assert!(!Path::new(&report).exists());
    let after_one = run_to(&file("after.headscope"), &["--shard", "1/2", "--after", &one]);
    answers.refused("after one shard of two", &after_one.unwrap_err());
    merge(&[&two, &one], &first).unwrap();
    let after = ["1/3", "2/3", "3/3"].map(|shard| {
        let part = file(&format!("after-{}.headscope", &shard[..1]));
        run_to(&part, &["--shard", shard, "--after", &first]).unwrap();
        part
    });
    let [a, b, c] = after.each_ref().map(String::as_str);
    assert!(merge(&[&first, c, a, b], &report).unwrap() == whole);
    assert!(merge(&[a, &one, b, &two, c], &report).unwrap() == whole);

    // Merging by another policy than the second stage used is refused, for its parts and for a partial of both stages.
    let both = file("both.headscope");
    merge(&[&first, a, b, c], &both).unwrap();
    assert!(merge(&[&both], &report).unwrap() == whole);
    for (title, parts) in [
        ("parts by another policy", &["--min-count", "100000", &first, a, b, c][..]),
        ("a partial by another policy", &["--min-count", "100000", &both]),
        // Incomplete sets of parts are refused.
        ("one shard is missing", &[&first, a, b]),
        ("the first stage is missing", &[a, b, c]),
    ] {
        answers.refused(title, &merge(parts, &file("refused.json")).unwrap_err());
    }
    for (title, more) in [
        ("after the second stage", &["--shard", "1/3", "--after", a][..]),
        ("after another run", &["--shard", "1/3", "--after", &first, "--limit", "300"]),
    ] {
        answers.refused(title, &run_to(&file("other.headscope"), more).unwrap_err());
    }
    answers.held("probes-in-shards");
}

#[test]
fn trained_heads_beat_untrained_ones() {
    let report = report(&["--control", "random-init", "--control-seeds", "1"]);
    let head = |task: usize, name: &str| {
        let heads = report["probes"][task]["heads"].as_array().unwrap();
        heads.iter().find(|head| head["name"] == name).unwrap().clone()
    };
    // The part of speech is in the words themselves, so no head adds to it. The relation is not in the words.
    let (upos, relation) = (head(0, "L1H3"), head(1, "L3H2"));
    assert!(number(&upos["accuracy"]) > number(&upos["untrained"]["accuracy"]) + 0.3, "{upos}");
    assert!(number(&relation["gain"]) > number(&relation["untrained"]["gain"]) + 0.03, "{relation}");
    assert!(number(&relation["accuracy"]) > number(&relation["untrained"]["accuracy"]) + 0.1, "{relation}");
    // The embeddings of both neighbours tell more about the relation than any head does.
    let task = &report["probes"][1];
    let best = task["heads"].as_array().unwrap().iter().map(|head| number(&head["gain"])).fold(0.0, f64::max);
    assert!(number(&task["neighbours_gain"]) > best, "{} {best}", task["neighbours_gain"]);
    assert!(number(&relation["over_neighbours_ci95"][1]) < 0.0, "{relation}");
}

#[test]
fn requested_probes_are_reported_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("corpus.jsonl");
    let line = |number: usize| {
        let tags = if number.is_multiple_of(2) { json!(["A", null, 3]) } else { json!(["B", "A", "B"]) };
        json!({ "words": [format!("a{number}"), "b", "c"], "ner": tags, "id": number }).to_string() + "\n"
    };
    fs::write(&corpus, (0..40).map(line).collect::<String>()).unwrap();
    let common =
        ["analyze", "--summary", "full", "box:small", "-c", path(&corpus), "--with", "probes", "--without", OTHERS];
    let summary = run(&[&common[..], &["--probe", "ner", "--probe", "id"]].concat()).unwrap();
    let parts = ["upos: ", "ner: ", "Too few words ", "id: "];
    let lines = summary.lines().filter(|line| parts.iter().any(|part| line.starts_with(part)));
    let mut answers = Answers::within(folder.path());
    answers.said("what is probed for", &lines.collect::<Vec<_>>().join("\n"));

    fs::write(&corpus, r#"{"words": ["a", "b"], "ner": ["A"]}"#).unwrap();
    answers.refused("one tag for two words", &run(&[&common[..], &["--probe", "ner"]].concat()).unwrap_err());
    for arguments in [
        &["--probe", "xpos"][..],
        &["--with", "probes", "--probe", "upos"],
        &["--with", "probes", "--probe=a", "--probe=b", "--probe=c", "--probe=d", "--probe=e"],
        &["-c", "box:gold", "--shard", "1/2", "--after", "x.headscope", "-o", "y.headscope"],
    ] {
        let refused = run(&[&["analyze", "box:small"], arguments].concat()).unwrap_err();
        answers.refused(&arguments.join(" "), &refused);
    }
    answers.held("probes-asked-for");
}
