//! The studies `similarity`, `cluster-effect` and `cluster-shift`, compared with `fixtures/reference_similarity.py` and
//! run as a user runs them.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run, tiny_bert};
use serde_json::{Value, json};

/// Studies with their own tests.
const OTHERS: [&str; 6] = ["attention", "trees", "dependency", "words", "frequency", "explained-variance"];

fn alone<'a>(with: &[&'a str]) -> Vec<&'a str> {
    let with = with.iter().flat_map(|study| ["--with", study]);
    with.chain(OTHERS.iter().flat_map(|study| ["--without", study])).collect()
}

fn report(model: &str, with: &[&str], more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", model, "-c", path(&corpus), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], &alone(with), more].concat()).unwrap()).unwrap()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn near(at: &str, actual: &Value, expected: &Value, tolerance: f64) {
    let (a, b) = (number(actual), number(expected));
    assert!((a - b).abs() < tolerance, "{at} is {a}, the reference {b}");
}

/// Compares the numbers in nested lists.
fn all_near(at: &str, actual: &Value, expected: &Value, tolerance: f64) {
    let (actual, expected) = (list(actual), list(expected));
    assert_eq!(actual.len(), expected.len(), "{at}");
    for (place, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let at = format!("{at}[{place}]");
        if expected.is_array() {
            all_near(&at, actual, expected, tolerance);
        } else {
            near(&at, actual, expected, tolerance);
        }
    }
}

/// The index of a head in the small model, which has four heads in each layer.
fn place(head: &Value) -> u64 {
    4 * head["layer"].as_u64().unwrap() + head["head"].as_u64().unwrap()
}

#[test]
fn similarity_matches_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/small-similarity.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let whole = report("box:small", &["similarity", "repeats"], &["--words", "spaced", "--limit", "120"]);
    let actual = &whole["similarity"];
    for key in ["tokens", "batches", "batched_tokens"] {
        assert_eq!(actual[key], expected[key], "{key}");
    }
    all_near("distance", &actual["distance"], &expected["distance"], 1e-6);
    all_near("from_even", &actual["from_even"], &expected["from_even"], 1e-6);
    all_near("cka", &actual["cka"], &expected["cka"], 1e-6);
    all_near("map", &actual["map"]["points"], &expected["map"], 1e-5);
    let places = |cluster: &Value| list(&cluster["heads"]).iter().map(place).collect::<Vec<_>>();
    let clusters: Vec<Vec<u64>> = list(&actual["clusters"]).iter().map(places).collect();
    assert_eq!(json!(clusters), expected["clusters"]);
    for (layer, expected) in list(&actual["disagreement"]).iter().zip(list(&expected["disagreement"])) {
        for (key, expected) in ["subspace", "position", "output"].iter().zip(list(expected)) {
            near(key, &layer[key], expected, 1e-6);
        }
    }
    for (layer, expected) in list(&actual["weights"]["spectra"]).iter().zip(list(&expected["spectra"])) {
        let (together, heads) = list(expected).split_last().unwrap();
        assert_eq!((&layer["heads"], &layer["concatenated"]), (&json!(heads), together));
    }
    for kind in ["queries", "keys", "values"] {
        let (scores, expected) = (&actual["weights"]["composition"][kind], &expected["composition"][kind]);
        near(kind, &scores["mean_above_random"], &expected["mean"], 1e-6);
        for (edge, largest) in list(&scores["strongest"]).iter().zip(list(&expected["largest"])) {
            near(kind, &edge["above_random"], largest, 1e-6);
        }
    }
    for (head, copying) in list(&whole["heads"]).iter().zip(list(&expected["copying"])) {
        near("copying", &head["metrics"]["copying"], copying, 1e-6);
        assert_eq!(head["ci95"]["copying"], Value::Null);
    }
}

#[test]
fn shards_merge_to_the_report_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let common = ["analyze", "box:small", "-c", path(&corpus), "--limit", "600", "--no-run-info", "-q"];
    let common = [&common[..], &alone(&["similarity"])].concat();
    parts_add_up(&common, &whole);
    let again = folder.path().join("again.json");
    run(&["relabel", path(&whole), "--preset", "voita2019", "-o", path(&again)]).unwrap();
    let read = |file| -> Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    assert_eq!(read(&again)["similarity"], read(&whole)["similarity"]);
}

/// Plain text suffices, and so does a model without a masked-LM head. Plain text has no syntactic labels.
#[test]
fn plain_text_suffices() {
    let folder = tempfile::tempdir().unwrap();
    let (text, file) = (folder.path().join("text.txt"), folder.path().join("report.json"));
    fs::write(&text, "the cat sat on the mat\n\nthe dog ran to the house\n\n".repeat(8)).unwrap();
    let model = tiny_bert();
    let arguments = ["analyze", "--summary", "full", path(&model), "-c", path(&text), "-o", path(&file)];
    let summary = run(&[&arguments[..], &alone(&["similarity"])].concat()).unwrap();
    let mut answers = Answers::new();
    answers.said("the summary", summary.lines().find(|line| line.starts_with("Similar heads")).unwrap());
    answers.held("similarity-plain-text");
    let actual: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let caveats = list(&actual["caveats"]);
    for id in ["similarity-not-function", "composition-hints"] {
        assert!(caveats.iter().any(|caveat| caveat["id"] == id), "{id}");
    }
}

/// Studies keep their names of the previous version, on the command line alone.
#[test]
fn former_names_of_studies_are_understood() {
    let common = ["--limit", "5", "--sample", "2", "--with"];
    let report_with = |names: &'static str| report("box:small", &[], &[&common[..], &[names]].concat());
    let actual = report_with("likeness,drift,dependence");
    assert_eq!(actual, report_with("similarity,output-shift,edges"));
    assert!(list(&actual["settings"]["studies"]).contains(&json!("similarity")));
}

/// With five sentences, most blocks have no sentence, and some draws of blocks have none at all.
#[test]
fn few_sentences_suffice() {
    let report = report("box:small", &["similarity"], &["--limit", "5"]);
    let clusters = list(&report["similarity"]["clusters"]);
    assert!(!clusters.is_empty());
    clusters.iter().for_each(|cluster| assert!((0.0..=1.0).contains(&number(&cluster["together"])), "{cluster}"));
}

#[test]
fn clusters_are_removed_as_single_heads_are() {
    let actual = report("box:small", &["similarity", "effect", "output-shift"], &["--sample", "60"]);
    let kept: Vec<&Value> =
        list(&actual["similarity"]["clusters"]).iter().filter(|entry| entry["kept"] == true).collect();
    assert!(!kept.is_empty());
    for key in ["cluster_effect", "cluster_shift"] {
        let clusters = list(&actual[key]["clusters"]);
        let heads = |clusters: &[&Value]| clusters.iter().map(|entry| entry["heads"].clone()).collect::<Vec<_>>();
        assert_eq!(heads(&clusters.iter().collect::<Vec<_>>()), heads(&kept));
        for cluster in clusters {
            let values =
                |key: &str| list(&cluster[key]).iter().map(|entry| number(&entry["value"])).collect::<Vec<_>>();
            let (alone, rests) = (values("alone"), values("all_but"));
            let value = |key: &str| number(&cluster[key]["value"]);
            assert!((alone.iter().sum::<f64>() - value("sum")).abs() < 1e-9);
            assert!((rests.iter().sum::<f64>() / rests.len() as f64 - value("all_but_one")).abs() < 1e-9);
            assert!((value("together") - value("sum") - value("difference")).abs() < 1e-9);
            // A head of a cluster is removed by itself as the study of single heads removes it.
            let metric = if key == "cluster_effect" { "loss_effect" } else { "output_shift" };
            for (head, value) in list(&cluster["heads"]).iter().zip(&alone) {
                let place = usize::try_from(place(head)).unwrap();
                near(metric, &actual["heads"][place]["metrics"][metric], &json!(value), 1e-9);
            }
        }
    }
    // A cluster study runs only if both of its studies are requested and it is not switched off.
    let without =
        report("box:small", &["similarity", "output-shift"], &["--sample", "6", "--without", "cluster-shift"]);
    assert_eq!((without.get("cluster_effect"), without.get("cluster_shift")), (None, None));
}
