//! The study `effect`: against `fixtures/reference_effect.py`, and on the command line.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run, tiny_bert};
use serde_json::{Value, json};

/// The program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

fn report(model: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", model, "-c", path(&corpus), "--with", "effect", "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], &other_studies_off(), more].concat()).unwrap()).unwrap()
}

/// Studies that are switched off here: other tests cover them.
const OTHERS: [&str; 6] = ["attention", "trees", "dependency", "words", "frequency", "explained-variance"];

/// Options that switch the other studies off.
fn other_studies_off() -> Vec<&'static str> {
    OTHERS.iter().flat_map(|study| ["--without", study]).collect()
}

fn near(at: &str, actual: &Value, expected: &Value) {
    let [a, b] = [actual, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}")));
    assert!((a - b).abs() < TOLERANCE, "{at} is {a}, the reference {b}");
}

fn check(model: &str, golden: &str, removal: &str, phases: &str, sample: &str) -> Value {
    let golden = fs::read_to_string(fixture(&format!("goldens/{golden}.json"))).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    // The reference reads words one by one.
    let options = ["--removal", removal, "--phases", phases, "--sample", sample, "--words", "spaced"];
    let found = report(model, &options);
    let effect = &found["effect"];
    for key in ["masked_tokens", "sentences"] {
        assert_eq!(effect[key], expected[key], "{key}");
    }
    assert_eq!(effect["removal"], removal);
    near("loss", &effect["loss"], &expected["loss"]);
    near("loss without heads", &effect["loss_without_heads"], &expected["loss_without_heads"]);
    near("band", &effect["band"], &expected["band"]);
    let heads = expected["heads"].as_array().unwrap();
    assert_eq!(effect["heads"].as_array().unwrap().len(), heads.len());
    for (place, expected) in heads.iter().enumerate() {
        let (head, found) = (&found["heads"][place], &effect["heads"][place]);
        let name = head["name"].as_str().unwrap();
        near(name, &found["effect"], &expected["effect"]);
        assert_eq!(found["effect"], head["metrics"]["loss_effect"]);
        near(name, &head["metrics"]["loss_effect_by_class"]["NOUN"], &expected["NOUN"]);
        if expected["standard_error"].is_null() {
            assert_eq!(head["standard_errors"]["loss_effect"], Value::Null);
        } else {
            near(name, &head["standard_errors"]["loss_effect"], &expected["standard_error"]);
        }
        for test in ["p", "q", "p_negligible", "q_negligible"] {
            let (found, expected) = (&found[test], &expected[test]);
            // The error of a p-value is that of `t`, the effect in standard errors.
            let near = found.as_f64().zip(expected.as_f64()).is_some_and(|(a, b)| (a - b).abs() < 1e-3 * b + 1e-9);
            assert!(
                near || found.is_null() && expected.is_null(),
                "{test} of {name} is {found}, the reference {expected}"
            );
        }
    }
    let relations = effect["relations"].as_array().unwrap();
    assert_eq!(relations.len(), expected["relations"].as_object().unwrap().len());
    for found in relations {
        let name = found["relation"].as_str().unwrap();
        let expected = &expected["relations"][name];
        assert_eq!(found["masked_tokens"], expected["masked_tokens"], "{name}");
        near(name, &found["loss"], &expected["loss"]);
        near(name, &found["effects"][0], &expected["first"]);
    }
    found
}

#[test]
fn effects_by_the_mean_equal_the_reference() {
    check("box:small", "small-effect-mean", "mean", "1", "64");
}

#[test]
fn effects_by_a_constant_equal_the_reference() {
    check("box:small", "small-effect-constant", "constant", "1", "64");
}

#[test]
fn effects_by_zero_in_all_phases_equal_the_reference() {
    check("box:small", "small-effect-zero", "zero", "7", "8");
}

#[test]
fn effects_on_a_decoder_equal_the_reference() {
    let report = check(path(&fixture("models/causal")), "causal-effect-mean", "mean", "1", "64");
    assert_eq!(report["model"]["objective"], "next_tokens");
}

#[test]
fn effects_on_a_discriminator_equal_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture("models/tiny-electra-discriminator")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(tiny_bert().join(file), folder.path().join(file)).unwrap();
    }
    let actual = check(path(folder.path()), "electra-effect", "mean", "1", "64");
    assert_eq!(actual["model"]["objective"], "replaced_tokens");
    assert_eq!(actual["model"]["masked_lm_head"], false);
    // `gradient` and `pruning` use this loss too.
    let actual = report(path(folder.path()), &["--with", "gradient,pruning", "--sample", "8"]);
    for study in ["effect", "gradient", "pruning"] {
        assert_eq!(actual[study]["objective"], "replaced_tokens", "{study}");
        assert!(actual[study]["loss"].as_f64().is_some_and(|loss| loss > 0.0), "{study}");
    }
    near("loss", &actual["gradient"]["loss"], &actual["effect"]["loss"]);
}

#[test]
fn parts_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "effect", "--sample", "24", "--no-run-info", "-q"];
    let common = [&common[..], &other_studies_off()].concat();
    parts_add_up(&common, &whole);
    // A report is read back whole, and verdicts follow the policy.
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 100000\n").unwrap();
    let again = folder.path().join("again.json");
    run(&["relabel", path(&whole), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let again: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    let none = json!({ "helpful": 0, "harmful": 0, "negligible": 0, "undecided": 16, "also_negligible": 0 });
    assert_eq!(again["effect"]["verdicts"], none);
}

#[test]
fn effect_of_removes_heads_chosen_by_the_gradient() {
    let folder = tempfile::tempdir().unwrap();
    let sample = ["--sample", "16"];
    let choice = ["--sample", "16", "--effect-of", "top:2,bottom:1,random:1"];
    let (all, some) =
        (report("box:small", &[&sample[..], &["--with", "gradient"]].concat()), report("box:small", &choice));
    assert_eq!(some["settings"]["ablation"]["effect_of"], json!({ "top": 2, "bottom": 1, "random": 1 }));
    let heads = |report: &Value| report["effect"]["heads"].as_array().unwrap().clone();
    let taken: Vec<usize> = (0..16).filter(|&place| !heads(&some)[place]["effect"].is_null()).collect();
    assert_eq!(taken.len(), 4);
    // Heads are chosen on the even blocks and removed on the odd ones.
    let tokens = |report: &Value| report["effect"]["masked_tokens"].as_u64().unwrap();
    assert!(0 < tokens(&some) && tokens(&some) < tokens(&all));
    for (place, head) in heads(&some).iter().enumerate() {
        if taken.contains(&place) {
            assert!(head["effect"].is_number() && some["effect"]["relations"][0]["effects"][place].is_number());
        } else {
            assert!(["effect", "ci95", "q", "verdict"].iter().all(|key| head[key].is_null()), "{head}");
            assert!(some["heads"][place]["metrics"]["loss_effect"].is_null());
            assert!(some["effect"]["relations"][0]["effects"][place].is_null());
        }
    }
    // The two most important heads over all blocks are also chosen on the even ones.
    let importance = |place: usize| all["gradient"]["heads"][place]["importance"].as_f64().unwrap();
    let mut order: Vec<usize> = (0..16).collect();
    order.sort_by(|&a, &b| importance(b).total_cmp(&importance(a)));
    assert!([order[0], order[1]].iter().all(|place| taken.contains(place)), "{taken:?} of {order:?}");
    let verdicts = &some["effect"]["verdicts"];
    let sum = ["helpful", "harmful", "negligible", "undecided"].iter().filter_map(|verdict| verdicts[verdict].as_u64());
    assert_eq!(sum.sum::<u64>(), 4);

    // All shards choose these heads.
    let parts: Vec<_> = (1..=2).map(|part| folder.path().join(format!("{part}.headscope"))).collect();
    let corpus = fixture("corpus/gold.conllu");
    for (part, file) in (1..).zip(&parts) {
        let shard = format!("{part}/2");
        let common = ["analyze", "box:small", "-c", path(&corpus), "--with", "effect", "--no-run-info", "-q"];
        run(&[&common[..], &choice, &other_studies_off(), &["--shard", &shard, "-o", path(file)]].concat()).unwrap();
    }
    let merged = run(&["merge", path(&parts[0]), path(&parts[1]), "--no-run-info", "-o", "-"]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&merged).unwrap()["effect"], some["effect"]);
    let saved = folder.path().join("merged.json");
    fs::write(&saved, merged).unwrap();
    let summary = run(&["show", path(&saved), "--summary", "full"]).unwrap();
    let line = summary.lines().find(|line| line.starts_with("Heads removed one at a time")).unwrap();
    let mut answers = Answers::new();
    answers.said("four heads", line);
    for more in [
        &["--effect-of", "top:2"][..],
        &["--with", "effect", "--effect-of", "best:2"],
        &["--with", "pruning", "--effect-of", "top:2"],
    ] {
        answers.refused(&more.join(" "), &run(&[&["analyze", "box:small"], more].concat()).unwrap_err());
    }
    answers.held("effect-of-some");
}

#[test]
fn a_removed_head_has_no_effect() {
    let report = report("box:small", &["--sample", "6", "--remove", "L0H0"]);
    assert_eq!(report["effect"]["heads"][0]["effect"], 0.0);
    assert_ne!(report["effect"]["heads"][1]["effect"], 0.0);
    assert_eq!(report["settings"]["ablation"], json!({ "removal": "mean", "phases": 1, "sample": 6 }));
}

#[test]
fn unmeasurable_effects_are_refused() {
    let corpus = fixture("corpus/gold.conllu");
    let mut answers = Answers::new();
    for arguments in [
        &[path(&tiny_bert()), "-c", path(&corpus), "--with", "effect"][..],
        &["box:small", "-c", path(&corpus), "--sample", "9"],
        &["box:small", "-c", "-", "--format", "text", "--with", "effect"],
    ] {
        answers.refused(&arguments.join(" "), &run(&[&["analyze"], arguments].concat()).unwrap_err());
    }
    answers.held("effect-refused");
}
