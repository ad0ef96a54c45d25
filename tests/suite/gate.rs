//! `headscope gate` passes on noise, fails on a dead head, and does not pass if it cannot judge.

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::answers::Answers;
use crate::support::{changed_small, fixture, path, run};

/// The dimension of a head of the small model.
const WIDTH: usize = 32;

/// The standard deviation of the noise, relative to that of a tensor's weights.
const NOISE: f32 = 0.02;

/// The studies that run by default.
const DEFAULT_STUDIES: &str = "attention,trees,dependency,links,words,classes,frequency,explained-variance";

/// A report of a model over the gold corpus.
fn analyzed(folder: &Path, model: &str, name: &str, more: &[&str]) -> PathBuf {
    let (report, corpus) = (folder.join(name), fixture("corpus/gold.conllu"));
    let arguments = ["analyze", model, "-c", path(&corpus), "-q", "-o", path(&report)];
    run(&[&arguments, more].concat()).unwrap();
    report
}

fn before() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "before.json", &[]);
    (folder, report)
}

/// Layer, head and name of the first firm syntactic label in a report.
fn firm_syntactic(report: &Path) -> ((usize, usize), String) {
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let number = |head: &Value, key: &str| usize::try_from(head[key].as_u64().unwrap()).unwrap();
    let head_label = |head: &Value| {
        let place = (number(head, "layer"), number(head, "head"));
        let is_firm_syntactic =
            |label: &&Value| label["label"].as_str().unwrap().starts_with("syntactic:") && label["borderline"] == false;
        let label = head["labels"].as_array().unwrap().iter().find(is_firm_syntactic)?;
        Some((place, label["label"].as_str().unwrap().to_owned()))
    };
    report["heads"].as_array().unwrap().iter().find_map(head_label).expect("a firm syntactic label")
}

#[test]
fn noise_passes_the_gate() {
    let (folder, before) = before();
    let model = folder.path().join("noise");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    changed_small(&model, |_, tensor| {
        let values: Vec<f32> = tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / values.len() as f32).sqrt();
        // Uniform noise of this half-width has the standard deviation `NOISE * deviation`.
        let width = 3_f32.sqrt() * NOISE * deviation;
        let noisy: Vec<f32> = values.iter().map(|value| value + width * random.random_range(-1.0..1.0)).collect();
        Tensor::from_vec(noisy, tensor.shape(), tensor.device()).unwrap()
    });
    let after = analyzed(folder.path(), path(&model), "after.json", &[]);
    let mut answers = Answers::within(folder.path());
    for family in [&[][..], &["--family", "syntactic"]] {
        let printed = run(&[&["gate", path(&before), path(&after)], family].concat()).unwrap();
        assert_eq!(printed.lines().count(), 1, "{printed}");
        answers.said(&format!("noise {}", family.join(" ")), printed.split('(').next().unwrap());
    }
    answers.held("gate-passes");
    assert_eq!(run(&["gate", path(&before), path(&after), "-q"]).unwrap(), "");
}

#[test]
fn a_dead_head_fails_the_gate() {
    let (folder, before) = before();
    let ((layer, head), label) = firm_syntactic(&before);
    let model = folder.path().join("dead");
    changed_small(&model, |name, tensor| {
        if !name.contains(&format!("layer.{layer}.attention.self.query")) {
            return tensor;
        }
        let dead = tensor.narrow(0, head * WIDTH, WIDTH).unwrap().zeros_like().unwrap();
        tensor.slice_scatter(&dead, 0, head * WIDTH).unwrap()
    });
    let after = analyzed(folder.path(), path(&model), "after.json", &[]);
    let gate = ["gate", path(&before), path(&after), "--family", "syntactic"];
    let output = crate::support::headscope(&gate).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert_eq!(printed.lines().count(), 1);
    let mut answers = Answers::within(folder.path());
    answers.said(&format!("a dead head L{layer}H{head}, which was {label}"), &printed);
    // A known loss fails the gate, even if other roles were not measured.
    let partly = analyzed(folder.path(), path(&model), "partly.json", &["--without", "attention"]);
    let output = crate::support::headscope(&["gate", path(&before), path(&partly)]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    answers.said("with roles that were not measured", &String::from_utf8(output.stdout).unwrap());
    answers.held("gate-fails");
    let output = crate::support::headscope(&[&gate[..], &["--json"]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema: Value = serde_json::from_str(&run(&["explain", "--schema", "gate"]).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&outcome), "{outcome:#}");
    let list = |key: &str| outcome[key].as_array().unwrap();
    assert_eq!((&outcome["passed"], &outcome["families"]), (&json!(false), &json!(["syntactic"])));
    let counted = list("lost").len() as u64 + list("could_not_tell").len() as u64 + outcome["kept"].as_u64().unwrap();
    assert_eq!(outcome["firm"], counted);
    let is_of_dead_head =
        |one: &&Value| (&one["layer"], &one["head"], &one["label"]) == (&json!(layer), &json!(head), &json!(label));
    let lost = list("lost").iter().find(is_of_dead_head).unwrap_or_else(|| panic!("{outcome:#}"));
    assert_eq!((&lost["a"]["standing"], &lost["b"]["standing"]), (&json!("firm"), &json!("out_of_reach")));
}

#[test]
fn a_gate_that_cannot_judge_does_not_pass() {
    let (folder, before) = before();
    let other_text = analyzed(folder.path(), "box:small", "limited.json", &["--limit", "350"]);
    let unmeasured = analyzed(folder.path(), "box:small", "unmeasured.json", &["--without", "dependency"]);
    let mut answers = Answers::within(folder.path());
    for (after, family) in [
        (&other_text, &[][..]),
        (&unmeasured, &["--family", "syntactic"]),
        (&before, &["--family", "coreference"]),
        (&before, &["--family", "syntactic,offset"]),
        (&before, &["--family", "sytactic"]),
    ] {
        let arguments = [&["gate", path(&before), path(after)], family].concat();
        answers.refused(&arguments.join(" "), &run(&arguments).unwrap_err());
    }
    answers.held("gate-refusals");
}

/// Pruning by a constant keeps queries and keys, so heads attend as before. But the attention has no effect any more.
#[test]
fn a_head_that_writes_a_constant_has_lost_its_roles() {
    let (folder, before) = before();
    let at = |name: &str| folder.path().join(name);
    let (pruning, corpus, model) = (at("pruning.json"), fixture("corpus/gold.conllu"), at("pruned"));
    let analyze = ["analyze", "box:small", "-c", path(&corpus), "--with", "pruning", "--removal", "constant"];
    run(&[&analyze[..], &["--sample", "24", "--without", DEFAULT_STUDIES, "-q", "-o", path(&pruning)]].concat())
        .unwrap();
    // All heads but L0H0.
    let heads: Vec<String> = (1..16).map(|place| format!("L{}H{}", place / 4, place % 4)).collect();
    let prune = ["prune", "box:small", "--report", path(&pruning), "--heads", &heads.join(",")];
    run(&[&prune[..], &["-o", path(&model)]].concat()).unwrap();
    let after = analyzed(folder.path(), path(&model), "after.json", &[]);
    let saved = |report: &Path| -> Value { serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap() };
    let report = saved(&after);
    assert_eq!(report["model"]["constant_heads"], json!(heads));
    assert!(saved(&before)["model"].get("constant_heads").is_none());
    // The report still has labels for their attention.
    assert_ne!(report["heads"][7]["labels"], json!([]));
    let mut answers = Answers::within(folder.path());
    let mut brief = report["in_brief"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    answers.said("in brief", brief.find(|line| line.contains("constant")).unwrap());
    let shown = run(&["show", path(&after), "L1H3"]).unwrap();
    answers.said("a head", shown.lines().find(|line| line.contains("constant")).unwrap());
    let kept = run(&["show", path(&after), "L0H0"]).unwrap();
    assert!(!kept.contains("It writes a constant"), "{kept}");

    let failed = |arguments: &[&str]| {
        let output = crate::support::headscope(arguments).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?} {printed}");
        printed
    };
    let firm = |report: &Value, head: usize| {
        let labels = report["heads"][head]["labels"].as_array().unwrap();
        let is_firm = |label: &&Value| label["borderline"] == false && label["label"] != "broad";
        labels.iter().filter(is_firm).count()
    };
    let lost: usize = (1..16).map(|head| firm(&saved(&before), head)).sum();
    let kept = firm(&saved(&before), 0);
    for (arguments, counts) in [
        (&["gate", path(&before), path(&after)][..], format!(" {lost} of {} ", lost + kept)),
        (&["compare", path(&before), path(&after), "--matched"], format!(" {kept} kept, {lost} lost, ")),
        (&["compare", "--numbers", path(&before), path(&after), "--only", "labels"], format!(" {lost} ")),
    ] {
        let printed = failed(arguments);
        assert!(printed.lines().next().unwrap().contains(&counts), "{printed}");
        answers.said(&arguments.join(" "), printed.split("\n\n").next().unwrap());
    }
    // In the other direction, a model gains roles and loses none. Roles that both models lack are no change.
    for other in [&before, &after] {
        let arguments = ["gate", path(&after), path(other)];
        answers.said(&arguments.join(" "), &run(&arguments).unwrap());
    }
    answers.held("gate-constant-heads");
}

/// The values of a head are constant if its value weights are 0, whatever its output projection is.
#[test]
fn a_head_without_value_weights_writes_a_constant() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("dead");
    changed_small(&model, |name, tensor| {
        if !name.contains("layer.1.attention.self.value.weight") {
            return tensor;
        }
        let dead = tensor.narrow(0, 3 * WIDTH, WIDTH).unwrap().zeros_like().unwrap();
        tensor.slice_scatter(&dead, 0, 3 * WIDTH).unwrap()
    });
    let report = analyzed(folder.path(), path(&model), "report.json", &["--limit", "40"]);
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["model"]["constant_heads"], json!(["L1H3"]));
}

/// A report and a partial of one run cover the same text, although the report rounds its numbers.
#[test]
fn a_report_and_a_partial_of_one_run_can_be_compared() {
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join("run.headscope");
    let report = analyzed(folder.path(), "box:small", "run.json", &["--digits", "6", "--partial", path(&partial)]);
    let mut answers = Answers::within(folder.path());
    for sides in [[&report, &partial], [&partial, &report]] {
        let [a, b] = sides.map(|side| path(side));
        answers.said(&format!("gate {a} {b}"), &run(&["gate", a, b]).unwrap());
        for numbers in [&[][..], &["--numbers"]] {
            let outcome = run(&[&["compare", a, b, "--json"], numbers].concat()).unwrap();
            let outcome: Value = serde_json::from_str(&outcome).unwrap();
            assert_eq!((&outcome["corpora"], &outcome["not_shared"]), (&Value::Null, &json!([])));
            assert_eq!(outcome["changed"], false);
        }
    }
    answers.held("gate-report-and-partial");
}
