//! `headscope gate`: noise passes, a dead head fails, and a gate that cannot judge does not pass.

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{changed_small, fixture, path, run};

/// The width of a head of the small model.
const WIDTH: usize = 32;

/// The deviation of the noise, as a share of the deviation of a tensor's weights.
const NOISE: f32 = 0.02;

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

/// Head and name of the first firm syntactic label of a report.
fn firm_syntactic(report: &Path) -> ((usize, usize), String) {
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let number = |head: &Value, key: &str| usize::try_from(head[key].as_u64().unwrap()).unwrap();
    let of_head = |head: &Value| {
        let place = (number(head, "layer"), number(head, "head"));
        let is_it =
            |label: &&Value| label["label"].as_str().unwrap().starts_with("syntactic:") && label["borderline"] == false;
        let label = head["labels"].as_array().unwrap().iter().find(is_it)?;
        Some((place, label["label"].as_str().unwrap().to_owned()))
    };
    report["heads"].as_array().unwrap().iter().find_map(of_head).expect("a firm syntactic label")
}

#[test]
fn noise_passes() {
    let (folder, before) = before();
    let model = folder.path().join("noise");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    changed_small(&model, |_, tensor| {
        let values: Vec<f32> = tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / values.len() as f32).sqrt();
        // Even noise of this half width has the deviation `NOISE * deviation`.
        let width = 3_f32.sqrt() * NOISE * deviation;
        let noisy: Vec<f32> = values.iter().map(|value| value + width * random.random_range(-1.0..1.0)).collect();
        Tensor::from_vec(noisy, tensor.shape(), tensor.device()).unwrap()
    });
    let after = analyzed(folder.path(), path(&model), "after.json", &[]);
    for family in [&[][..], &["--family", "syntactic"]] {
        let printed = run(&[&["gate", path(&before), path(&after)], family].concat()).unwrap();
        assert!(printed.starts_with("pass: no firm ") && printed.lines().count() == 1, "{printed}");
    }
    assert_eq!(run(&["gate", path(&before), path(&after), "-q"]).unwrap(), "");
}

#[test]
fn a_head_without_queries_fails_though_it_is_broad_afterwards() {
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
    assert!(printed.starts_with("fail: ") && printed.contains(&format!("L{layer}H{head} {label} ")), "{printed}");
    assert_eq!(printed.lines().count(), 1);
}

#[test]
fn a_gate_that_cannot_judge_does_not_pass() {
    let (folder, before) = before();
    let refused =
        |after: &Path, more: &[&str]| run(&[&["gate", path(&before), path(after)], more].concat()).unwrap_err();
    let other_text = analyzed(folder.path(), "box:small", "limited.json", &["--limit", "350"]);
    let (status, message) = refused(&other_text, &[]);
    assert_eq!(status, 3, "{message}");
    assert!(message.contains("The corpora differ in size") && message.contains("over the same text"), "{message}");
    let unmeasured = analyzed(folder.path(), "box:small", "unmeasured.json", &["--without", "dependency"]);
    let (status, message) = refused(&unmeasured, &["--family", "syntactic"]);
    assert_eq!(status, 3, "{message}");
    assert!(message.contains("the study did not run on one side"), "{message}");
    let (status, message) = refused(&before, &["--family", "coreference"]);
    assert_eq!(status, 3, "{message}");
    assert!(message.contains("has no firm coreference label"), "{message}");
    let (status, message) = refused(&before, &["--family", "sytactic"]);
    assert_eq!(status, 2, "{message}");
    assert!(message.contains("a similar value exists: 'syntactic'"), "{message}");
}
