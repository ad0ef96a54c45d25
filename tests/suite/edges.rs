//! The studies `edges` and `output-shift`, held against `fixtures/reference_edges.py`, and as a user runs them.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{self, changed_small, fixture, opened, parts_add_up, path, run, tiny_bert, weight_files};
use candle_core::{Device, Tensor};
use headscope::model::controls::rotated::rotate_outputs;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use serde_json::{Value, json};

/// The other studies have tests of their own.
const OTHERS: [&str; 6] = ["attention", "trees", "dependency", "words", "frequency", "explained-variance"];

/// The two studies and no other.
fn alone() -> Vec<&'static str> {
    let others = OTHERS.iter().flat_map(|study| ["--without", study]);
    ["--with", "edges", "--with", "output-shift"].into_iter().chain(others).collect()
}

fn report(model: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", model, "-c", path(&corpus), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], &alone(), more].concat()).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn near(at: &str, found: &Value, expected: &Value, tolerance: f64) {
    let (a, b) = (number(found), number(expected));
    assert!((a - b).abs() < tolerance, "{at} is {a}, the reference {b}");
}

fn check(removal: &str, sample: &str) {
    let golden = fs::read_to_string(fixture(&format!("goldens/small-edges-{removal}.json"))).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let found = report("box:small", &["--removal", removal, "--sample", sample]);
    for section in ["edges", "output_shift"] {
        for key in ["tokens", "sentences"] {
            assert_eq!(found[section][key], expected[key], "{section} {key}");
        }
        assert_eq!(found[section]["removal"], removal);
    }
    // The weights of the untrained model are the program's own; what is made of them is not.
    let percentile = &found["edges"]["untrained"]["percentile"];
    near("the percentile", percentile, &expected["margin"], 1e-5);
    let mut edges = expected["edges"].as_array().unwrap().iter();
    for pair in found["edges"]["layers"].as_array().unwrap() {
        for (cell, edge) in (0..16).zip(edges.by_ref()) {
            let (source, target) = (cell / 4, cell % 4);
            let name = format!("L{}H{source} -> L{}H{target}", pair["source"], pair["target"]);
            let ends = [&edge["source"], &edge["target"]].map(|end| end.as_str().unwrap());
            assert_eq!(name, ends.join(" -> "));
            let of = |key: &str| &pair[key][source][target];
            near(&name, of("shift"), &edge["shift"], 1e-5);
            near(&name, of("direct"), &edge["direct"], 1e-6);
            near(&name, of("excess"), &edge["excess"], 1e-4);
            match edge.get("q") {
                Some(q) => near(&name, of("q"), q, 1e-3),
                None => assert_eq!(*of("q"), Value::Null),
            }
        }
    }
    assert!(edges.next().is_none());
    for edge in found["edges"]["strongest"].as_array().unwrap() {
        let mut known = expected["edges"].as_array().unwrap().iter();
        let known =
            known.find(|known| ["source", "target"].iter().all(|&end| known[end] == edge[end]["name"])).unwrap();
        match known.get("ratio") {
            Some(ratio) => near("ratio", &edge["ratio"], ratio, 1e-3),
            None => assert_eq!(edge["ratio"], Value::Null),
        }
        assert_eq!(edge["ratio_ci95"].is_array(), known.get("ratio_error").is_some(), "{edge}");
    }
    for metric in ["output_shift", "pooled_shift"] {
        let (bare, heads) = expected[metric].as_array().unwrap().split_last().unwrap();
        near("all heads", &found["output_shift"]["without_heads"][metric], bare, 1e-5);
        for (place, shift) in heads.iter().enumerate() {
            let head = &found["heads"][place];
            near(metric, &head["metrics"][metric], shift, 1e-5);
            match expected.get(format!("{metric}_errors")) {
                Some(errors) => near(metric, &head["standard_errors"][metric], &errors[place], 1e-6),
                None => assert_eq!(head["standard_errors"][metric], Value::Null),
            }
        }
    }
}

#[test]
fn shifts_and_drifts_by_the_mean_are_those_of_the_reference() {
    check("mean", "40");
}

#[test]
fn shifts_and_drifts_by_zero_are_those_of_the_reference() {
    check("zero", "8");
}

#[test]
fn parts_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let common = ["analyze", "box:small", "-c", path(&corpus), "--sample", "80", "--no-run-info", "-q"];
    let common = [&common[..], &alone()].concat();
    parts_add_up(&common, &whole);
    let found: Value = serde_json::from_slice(&fs::read(&whole).unwrap()).unwrap();
    assert!(number(&found["edges"]["above"]) > 0.0);
    assert_ne!(found["edges"]["chains"], json!([]));
    // A report is read back whole, and what is above chance follows the policy.
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 100000\n").unwrap();
    let again = folder.path().join("again.json");
    run(&["relabel", path(&whole), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let again: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    assert_eq!((&again["edges"]["above"], &again["edges"]["chains"]), (&json!(0), &json!([])));
    assert_eq!(again["edges"]["strongest"][0]["above"], false);
    assert_eq!(again["edges"]["layers"], found["edges"]["layers"]);
    assert_eq!(again["output_shift"], found["output_shift"]);
}

#[test]
fn a_head_that_is_gone_for_good_moves_nothing() {
    let found = report("box:small", &["--sample", "6", "--remove", "L0H0"]);
    let pair = &found["edges"]["layers"][0];
    assert_eq!(
        (&pair["shift"][0], &pair["excess"][0]),
        (&json!([0.0, 0.0, 0.0, 0.0]), &json!([null, null, null, null]))
    );
    assert_eq!(found["edges"]["without_shift"], 12);
    assert_eq!(
        found["edges"]["heads"][0],
        json!({ "layer": 0, "head": 0, "name": "L0H0", "upstream": null, "downstream": null })
    );
    let shift = |place: usize| number(&found["heads"][place]["metrics"]["output_shift"]);
    assert!(shift(0) == 0.0 && shift(1) > 0.0);
}

/// A head whose output is turned writes nothing that a later head was trained to read: fewer pairs are above a model that attends as
/// sharply.
#[test]
fn turned_outputs_leave_fewer_pairs_above_chance() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, source) = (fixture("corpus/gold.conllu"), fixture("models/small"));
    let architecture = support::architecture(&source);
    let checkpoint = Checkpoint::open(opened(&weight_files(&source)), architecture.family).unwrap();
    let above = |model: &str| {
        let common = ["analyze", model, "-c", path(&corpus), "--sample", "300", "--no-run-info", "-o", "-"];
        let found: Value = serde_json::from_str(&run(&[&common[..], &alone()].concat()).unwrap()).unwrap();
        assert_eq!(found["edges"]["pairs"], 96);
        found["edges"]["above"].as_u64().unwrap()
    };
    let trained = above("box:small");
    let mut turned_above = 0;
    for seed in 0..3 {
        let mut parameters = Parameters::load(&checkpoint, &architecture).unwrap();
        rotate_outputs(&mut parameters, seed);
        let turned = folder.path().join(seed.to_string());
        changed_small(&turned, |name, tensor| {
            let layer = name
                .strip_prefix("bert.encoder.layer.")
                .and_then(|rest| rest.strip_suffix(".attention.output.dense.weight"));
            let Some(layer) = layer.and_then(|layer| layer.parse::<usize>().ok()) else { return tensor };
            Tensor::from_slice(&parameters.layers[layer].attention_output.weight, tensor.shape(), &Device::Cpu).unwrap()
        });
        let found = above(path(&turned));
        println!("{trained} of the trained model, {found} with outputs turned by seed {seed}");
        assert!(found < trained, "{found} of {trained}");
        turned_above += found;
    }
    // Directions differ in what they do to which head, whoever reads them: some pairs stay.
    assert!(2 * turned_above <= 3 * trained, "{turned_above} in three models, {trained} in the trained one");
}

/// No masked-LM head is needed, and few sentences are too few to call anything.
#[test]
fn any_model_will_do() {
    let corpus = fixture("corpus/gold.conllu");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let model = tiny_bert();
    let arguments =
        ["analyze", "--summary", "full", path(&model), "-c", path(&corpus), "--sample", "7", "-o", path(&file)];
    let summary = run(&[&arguments[..], &alone()].concat()).unwrap();
    let is_of_shifts = |line: &&str| line.starts_with("Heads removed one at a time");
    let mut answers = Answers::new();
    answers.said("the summary", &summary.lines().filter(is_of_shifts).collect::<Vec<_>>().join("\n"));
    answers.held("edges-few-sentences");
    let found: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(found["edges"]["chains"], json!([]));
    let caveats = found["caveats"].as_array().unwrap();
    for id in ["output-shift-no-worth", "edges-total"] {
        assert!(caveats.iter().any(|caveat| caveat["id"] == id), "{id}");
    }
}
