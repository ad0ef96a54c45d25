//! The studies `edges` and `output-shift`: against `fixtures/reference_edges.py`, and on the command line.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{self, changed_small, fixture, opened, parts_add_up, path, run, tiny_bert, weight_files};
use candle_core::{Device, Tensor};
use headscope::model::controls::rotated_outputs::rotate_outputs;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use serde_json::{Value, json};

/// Studies that are switched off here: other tests cover them.
const OTHERS: [&str; 6] = ["attention", "trees", "dependency", "words", "frequency", "explained-variance"];

/// Options that run these two studies alone.
fn study_options() -> Vec<&'static str> {
    let others = OTHERS.iter().flat_map(|study| ["--without", study]);
    ["--with", "edges", "--with", "output-shift"].into_iter().chain(others).collect()
}

fn report(model: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", model, "-c", path(&corpus), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], &study_options(), more].concat()).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn near(at: &str, actual: &Value, expected: &Value, tolerance: f64) {
    let (a, b) = (number(actual), number(expected));
    assert!((a - b).abs() < tolerance, "{at} is {a}, the reference {b}");
}

fn check(removal: &str, sample: &str) {
    let golden = fs::read_to_string(fixture(&format!("goldens/small-edges-{removal}.json"))).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let actual = report("box:small", &["--removal", removal, "--sample", sample]);
    for section in ["edges", "output_shift"] {
        for key in ["tokens", "sentences"] {
            assert_eq!(actual[section][key], expected[key], "{section} {key}");
        }
        assert_eq!(actual[section]["removal"], removal);
    }
    // The reference takes this percentile from the program's report, since the untrained weights are the program's own.
    let percentile = &actual["edges"]["untrained"]["percentile"];
    near("the percentile", percentile, &expected["margin"], 1e-5);
    let mut edges = expected["edges"].as_array().unwrap().iter();
    for pair in actual["edges"]["layers"].as_array().unwrap() {
        for (cell, edge) in (0..16).zip(edges.by_ref()) {
            let (source, target) = (cell / 4, cell % 4);
            let name = format!("L{}H{source} -> L{}H{target}", pair["source"], pair["target"]);
            let ends = [&edge["source"], &edge["target"]].map(|end| end.as_str().unwrap());
            assert_eq!(name, ends.join(" -> "));
            let cell_value = |key: &str| &pair[key][source][target];
            near(&name, cell_value("shift"), &edge["shift"], 1e-5);
            near(&name, cell_value("direct"), &edge["direct"], 1e-6);
            near(&name, cell_value("excess"), &edge["excess"], 1e-4);
            match edge.get("q") {
                Some(q) => near(&name, cell_value("q"), q, 1e-3),
                None => assert_eq!(*cell_value("q"), Value::Null),
            }
        }
    }
    assert!(edges.next().is_none());
    for edge in actual["edges"]["strongest"].as_array().unwrap() {
        let mut reference = expected["edges"].as_array().unwrap().iter();
        let reference = reference
            .find(|reference| ["source", "target"].iter().all(|&end| reference[end] == edge[end]["name"]))
            .unwrap();
        match reference.get("ratio") {
            Some(ratio) => near("ratio", &edge["ratio"], ratio, 1e-3),
            None => assert_eq!(edge["ratio"], Value::Null),
        }
        assert_eq!(edge["ratio_ci95"].is_array(), reference.get("ratio_error").is_some(), "{edge}");
    }
    for metric in ["output_shift", "pooled_shift"] {
        let (bare, heads) = expected[metric].as_array().unwrap().split_last().unwrap();
        near("all heads", &actual["output_shift"]["without_heads"][metric], bare, 1e-5);
        for (place, shift) in heads.iter().enumerate() {
            let head = &actual["heads"][place];
            near(metric, &head["metrics"][metric], shift, 1e-5);
            match expected.get(format!("{metric}_errors")) {
                Some(errors) => near(metric, &head["standard_errors"][metric], &errors[place], 1e-6),
                None => assert_eq!(head["standard_errors"][metric], Value::Null),
            }
        }
    }
}

#[test]
fn shifts_by_the_mean_equal_the_reference() {
    check("mean", "40");
}

#[test]
fn shifts_by_zero_equal_the_reference() {
    check("zero", "8");
}

#[test]
fn parts_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let common = ["analyze", "box:small", "-c", path(&corpus), "--sample", "80", "--no-run-info", "-q"];
    let common = [&common[..], &study_options()].concat();
    parts_add_up(&common, &whole);
    let report: Value = serde_json::from_slice(&fs::read(&whole).unwrap()).unwrap();
    assert!(number(&report["edges"]["above"]) > 0.0);
    assert_ne!(report["edges"]["chains"], json!([]));
    // A report is read back whole, and the pairs above chance follow the policy.
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 100000\n").unwrap();
    let again = folder.path().join("again.json");
    run(&["relabel", path(&whole), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let again: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    assert_eq!((&again["edges"]["above"], &again["edges"]["chains"]), (&json!(0), &json!([])));
    assert_eq!(again["edges"]["strongest"][0]["above"], false);
    assert_eq!(again["edges"]["layers"], report["edges"]["layers"]);
    assert_eq!(again["output_shift"], report["output_shift"]);
}

#[test]
fn a_removed_head_moves_nothing() {
    let report = report("box:small", &["--sample", "6", "--remove", "L0H0"]);
    let pair = &report["edges"]["layers"][0];
    assert_eq!(
        (&pair["shift"][0], &pair["excess"][0]),
        (&json!([0.0, 0.0, 0.0, 0.0]), &json!([null, null, null, null]))
    );
    assert_eq!(report["edges"]["without_shift"], 12);
    assert_eq!(
        report["edges"]["heads"][0],
        json!({ "layer": 0, "head": 0, "name": "L0H0", "upstream": null, "downstream": null })
    );
    let shift = |place: usize| number(&report["heads"][place]["metrics"]["output_shift"]);
    assert!(shift(0) == 0.0 && shift(1) > 0.0);
}

/// No later head was trained to read a rotated output. So fewer pairs are above an untrained model that attends as
/// sharply.
#[test]
fn rotated_outputs_leave_fewer_pairs_above_chance() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, source) = (fixture("corpus/gold.conllu"), fixture("models/small"));
    let architecture = support::architecture(&source);
    let checkpoint = Checkpoint::open(opened(&weight_files(&source)), architecture.family).unwrap();
    let pairs_above = |model: &str| {
        let common = ["analyze", model, "-c", path(&corpus), "--sample", "300", "--no-run-info", "-o", "-"];
        let found: Value = serde_json::from_str(&run(&[&common[..], &study_options()].concat()).unwrap()).unwrap();
        assert_eq!(found["edges"]["pairs"], 96);
        found["edges"]["above"].as_u64().unwrap()
    };
    let trained = pairs_above("box:small");
    let mut turned_above = 0;
    for seed in 0..3 {
        let mut parameters = Parameters::load(&checkpoint, &architecture).unwrap();
        rotate_outputs(&mut parameters, seed);
        let rotated = folder.path().join(seed.to_string());
        changed_small(&rotated, |name, tensor| {
            let layer = name
                .strip_prefix("bert.encoder.layer.")
                .and_then(|rest| rest.strip_suffix(".attention.output.dense.weight"));
            let Some(layer) = layer.and_then(|layer| layer.parse::<usize>().ok()) else { return tensor };
            Tensor::from_slice(&parameters.layers[layer].attention_output.weight, tensor.shape(), &Device::Cpu).unwrap()
        });
        let found = pairs_above(path(&rotated));
        println!("{trained} of the trained model, {found} with outputs turned by seed {seed}");
        assert!(found < trained, "{found} of {trained}");
        turned_above += found;
    }
    // Some pairs stay above chance, since any direction moves some heads more than others.
    assert!(2 * turned_above <= 3 * trained, "{turned_above} in three models, {trained} in the trained one");
}

/// These studies need no masked-LM head. A few sentences are too few for any chain.
#[test]
fn models_without_a_prediction_head_are_analysed() {
    let corpus = fixture("corpus/gold.conllu");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let model = tiny_bert();
    let arguments =
        ["analyze", "--summary", "full", path(&model), "-c", path(&corpus), "--sample", "7", "-o", path(&file)];
    let summary = run(&[&arguments[..], &study_options()].concat()).unwrap();
    let is_shift_line = |line: &&str| line.starts_with("Heads removed one at a time");
    let mut answers = Answers::new();
    answers.said("the summary", &summary.lines().filter(is_shift_line).collect::<Vec<_>>().join("\n"));
    answers.held("edges-few-sentences");
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["edges"]["chains"], json!([]));
    let caveats = report["caveats"].as_array().unwrap();
    for id in ["output-shift-no-worth", "edges-total"] {
        assert!(caveats.iter().any(|caveat| caveat["id"] == id), "{id}");
    }
}
