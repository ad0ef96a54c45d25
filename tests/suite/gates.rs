//! The study `gates`: against `fixtures/reference_gates.py`, and on the command line.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use candle_core::{Device, Tensor};
use headscope::model::forward::gates::Gates;
use headscope::passes::run::derivatives::fits::GatedHeads;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::support::answers::Answers;
use crate::support::{architecture, fixture, path, run, tiny_bert};

/// The relative tolerance of objectives: the reference has another optimiser.
const OBJECTIVE_TOLERANCE: f64 = 1e-3;

/// The program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

/// Options that run `gates` alone: other tests cover the default studies.
const ALONE: [&str; 6] = [
    "--with",
    "gates",
    "--without",
    "attention,trees,dependency,links,words,classes,frequency,explained-variance,repeats,in-context",
    "--no-run-info",
    "-q",
];

fn analyzed(model: &str, more: &[&str]) -> Result<String, (i32, String)> {
    let corpus = fixture("corpus/gold.conllu");
    run(&[&["analyze", model, "-c", path(&corpus)], &ALONE[..], more].concat())
}

fn summary(model: &str, more: &[&str]) -> String {
    let corpus = fixture("corpus/gold.conllu");
    run(&[&["analyze", model, "-c", path(&corpus), "--summary", "full"], &ALONE[..5], more].concat()).unwrap()
}

fn report(model: &str, more: &[&str]) -> Value {
    serde_json::from_str(&analyzed(model, &[more, &["-o", "-"]].concat()).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn names(heads: &Value) -> Vec<&str> {
    list(heads).iter().map(|head| head["name"].as_str().unwrap_or_else(|| head.as_str().unwrap())).collect()
}

#[test]
fn fits_equal_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/small-gates.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let found = report("box:small", &["--words", "spaced", "--removal", "constant", "--sample", "48"]);
    let gates = &found["gates"];
    assert_eq!(found["settings"]["studies"], json!(["effect", "gates"]));
    let near = |at: &str, found: &Value, expected: &Value, tolerance: f64| {
        let (found, expected) = (number(found), number(expected));
        assert!(
            (found - expected).abs() < tolerance * expected.abs().max(1.0),
            "{at} is {found}, the reference {expected}"
        );
    };
    for (fold, expected) in list(&gates["folds"]).iter().zip(list(&expected["folds"])) {
        assert_eq!(fold["masked_tokens"], expected["masked_tokens"]);
        for key in ["loss", "loss_without_heads", "price"] {
            near(key, &fold[key], &expected[key], TOLERANCE);
        }
        assert_eq!((list(&fold["fits"]).len(), names(&fold["set"])), (5, names(&expected["set"])));
        for (fit, expected) in list(&fold["fits"]).iter().zip(list(&expected["fits"])) {
            near("the objective", &fit["objective"], &expected["objective"], OBJECTIVE_TOLERANCE);
            assert_eq!(fit["converged"], true, "{fit}");
            for (gate, expected) in list(&fit["gates"]).iter().zip(list(&expected["gates"])) {
                // Gates of the reference keep a distance of .02 from the threshold .5.
                assert!((number(expected) - 0.5).abs() > 0.02, "{expected}");
                assert_eq!(number(gate) >= 0.5, number(expected) >= 0.5, "{gate} {expected}");
            }
        }
    }
    let alone = &gates["alone"];
    near("the rise", &alone["rise"], &expected["rise"], TOLERANCE);
    (0..2).for_each(|end| near("its interval", &alone["rise_ci95"][end], &expected["rise_ci95"][end], TOLERANCE));
    // The margin is relative to the loss over both halves.
    let loss = number(&gates["loss"]);
    assert!((number(&alone["margin"]) - 0.01 * loss).abs() < TOLERANCE && alone["of"] == "loss");
    assert!((loss - number(&found["effect"]["loss"])).abs() < TOLERANCE);
    let kept = |head: &Value| head["kept"].as_u64().unwrap();
    let fits_that_keep = |head: usize| {
        let fits = list(&gates["folds"]).iter().flat_map(|fold| list(&fold["fits"]));
        fits.filter(|fit| number(&fit["gates"][head]) >= 0.5).count() as u64
    };
    list(&gates["heads"])
        .iter()
        .enumerate()
        .for_each(|(place, head)| assert_eq!(kept(head), fits_that_keep(place), "{head}"));
}

#[test]
fn threads_change_no_byte_and_shards_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let to = |output: &str, more: &[&str]| {
        analyzed("box:small", &[&["--sample", "24", "-o", output], more].concat()).map(|_| fs::read(output).unwrap())
    };
    let merge = |parts: &[&str], output: &str| {
        run(&[&["merge", "--no-run-info", "-q", "-o", output], parts].concat()).unwrap();
        fs::read(output).unwrap()
    };
    let whole = to(&file("1.json"), &["--threads", "1"]).unwrap();
    assert!(to(&file("2.json"), &["--threads", "2"]).unwrap() == whole);
    // Each of three shards computes some of the fits.
    let shards = |name: &str, more: &[&str]| {
        [1, 2, 3].map(|shard| {
            let part = file(&format!("{name}-{shard}.headscope"));
            to(&part, &[&["--shard", &format!("{shard}/3")], more].concat()).unwrap();
            part
        })
    };
    let (first, report) = (file("first.headscope"), file("report.json"));
    let parts = shards("first", &[]);
    merge(&parts.each_ref().map(String::as_str), &first);
    let after = shards("after", &["--after", &first]);
    let [a, b, c] = after.each_ref().map(String::as_str);
    assert!(merge(&[&first, c, a, b], &report) == whole);
}

/// Writes a copy of the trained decoder with random weights.
fn write_untrained(folder: &Path, seed: u64) {
    let from = fixture("models/causal");
    for name in ["config.json", "tokenizer.json"] {
        fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let tensors = candle_core::safetensors::load(from.join("model.safetensors"), &Device::Cpu).unwrap();
    let tensors: BTreeMap<String, Tensor> = tensors.into_iter().collect();
    let mut fresh = |tensor: &Tensor| {
        // Gains and biases stay. Weights are uniform with a standard deviation of .02.
        if tensor.rank() < 2 {
            return tensor.clone();
        }
        let values: Vec<f32> = (0..tensor.elem_count()).map(|_| 0.035 * random.random_range(-1.0..1.0)).collect();
        Tensor::from_vec(values, tensor.shape(), &Device::Cpu).unwrap()
    };
    let fresh: HashMap<String, Tensor> = tensors.iter().map(|(name, tensor)| (name.clone(), fresh(tensor))).collect();
    candle_core::safetensors::save(&fresh, folder.join("model.safetensors")).unwrap();
}

#[test]
fn untrained_decoders_do_no_task() {
    let task = fixture("tasks/copies.jsonl");
    for seed in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        write_untrained(folder.path(), seed);
        let arguments = ["--task", path(&task), "--limit", "8", "--sample", "120", "--removal", "zero"];
        let report = report(path(folder.path()), &arguments);
        let gates = &report["gates"];
        assert_eq!((&report["task"]["obstacle"], &gates["task"]), (&json!("not_above_baseline"), &json!("cloze")));
        assert_eq!((&gates["together"], &gates["alone"]), (&json!(false), &Value::Null));
        let obstacles = [json!("not_above_baseline"), json!("nothing_lost")];
        assert!(obstacles.contains(&gates["obstacle"]), "{}", gates["obstacle"]);
        assert!(list(&gates["folds"]).iter().all(|fold| fold["set"] == json!([])));
    }
}

#[test]
fn a_trained_decoder_copies_by_a_set_of_heads() {
    let task = fixture("tasks/copies.jsonl");
    let summary = summary("box:causal", &["--task", path(&task), "--limit", "8", "--sample", "64"]);
    let is_about_gates = |line: &&str| line.starts_with("Gates of all heads") || line.contains(" 10 of 10 ");
    // Processors may choose different heads, so these are cut off.
    let lines: Vec<&str> = summary.lines().filter(is_about_gates).filter_map(|line| line.split(':').next()).collect();
    let mut answers = Answers::new();
    answers.said("gates of a task", &lines.join("\n"));
    answers.held("gates-summary");
}

#[test]
fn heads_of_shared_layers_have_one_gate_and_absent_heads_none() {
    let gates = Gates::default();
    // Layers 0 and 2 share their weights, layers 1 and 3 do too, and two layers have their own.
    let albert = architecture(&fixture("models/tiny-albert"));
    let heads = albert.grid().heads;
    let shared = GatedHeads::new(&albert, &gates, &[1]);
    assert_eq!(shared.groups()[..2], [vec![0, 2 * heads], vec![2 * heads + 1]], "the first without a removed head");
    let pruned = report(path(&fixture("models/pruned/tiny-bert-pickle")), &["--sample", "64"]);
    for head in list(&pruned["gates"]["heads"]) {
        let is_absent = ["L0H1", "L1H0", "L1H2"].contains(&head["name"].as_str().unwrap());
        assert!(!is_absent || head["kept"].is_null(), "{head}");
    }
}

#[test]
fn runs_that_cannot_fit_gates_say_why() {
    let (headless, triples) = (tiny_bert(), fixture("tasks/triples.jsonl"));
    let mut answers = Answers::new();
    for (model, options) in [
        (path(&headless), &[][..]),
        ("box:small", &["--without", "effect"]),
        ("box:small", &["--effect-of", "top:2"]),
        ("box:small", &["--task", path(&triples)]),
    ] {
        let refused = analyzed(model, options).unwrap_err();
        answers.refused(&[&[model], options].concat().join(" "), &refused);
    }
    // One sentence leaves one half empty. Twelve are too few for a verdict.
    for (sample, obstacle) in [("1", "nothing_scored"), ("12", "too_few")] {
        let report = report("box:small", &["--sample", sample]);
        assert_eq!((&report["gates"]["obstacle"], &report["gates"]["together"]), (&json!(obstacle), &json!(false)));
        let summary = summary("box:small", &["--sample", sample]);
        let line = summary.lines().find(|line| line.contains("do the task together")).unwrap();
        answers.said(&format!("a sample of {sample}"), line.split(". ").next().unwrap());
    }
    answers.held("gates-not-fitted");
}
