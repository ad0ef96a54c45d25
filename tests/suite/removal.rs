//! `--remove` removes heads from a model.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{headscope, path, run};
use safetensors::SafeTensors;
use serde_json::{Value, json};

fn report(more: &[&str]) -> Value {
    let arguments = ["analyze", "box:planted", "--limit", "40", "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], more].concat()).unwrap()).unwrap()
}

/// The metrics of all heads, layer by layer.
fn layers(report: &Value) -> Vec<Vec<&Value>> {
    let heads = report["heads"].as_array().unwrap();
    let layer_metrics =
        |layer: u64| heads.iter().filter(|head| head["layer"] == layer).map(|head| &head["metrics"]).collect();
    (0..report["model"]["layers"].as_u64().unwrap()).map(layer_metrics).collect()
}

#[test]
fn removal_changes_later_layers_only() {
    let whole =
        run(&["analyze", "--summary", "full", "box:small", "--limit", "40", "--no-run-info", "-o", "-"]).unwrap();
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let without = |heads: &str| -> Value {
        let arguments = ["analyze", "box:small", "--limit", "40", "--no-run-info", "-o", "-", "--remove", heads];
        serde_json::from_str(&run(&arguments).unwrap()).unwrap()
    };
    let removed = without("L1H3,L1H0,L1H3");
    assert_eq!(removed["settings"]["removed"], json!(["L1H0", "L1H3"]));
    assert!(whole["settings"].get("removed").is_none());
    let (before, after) = (layers(&whole), layers(&removed));
    // A head's own attention does not depend on its output. Neither does the attention in its layer or below.
    assert_eq!(before[..2], after[..2]);
    for layer in 2..4 {
        before[layer].iter().zip(&after[layer]).for_each(|(before, after)| assert_ne!(before, after));
    }
    // No layer reads the output of the last layer.
    let last = without("L3H1");
    assert_eq!((layers(&last), &last["relations"]), (before, &whole["relations"]));
}

#[test]
fn removal_of_a_head_that_writes_nothing_changes_nothing() {
    // All values of the planted model are 0.
    let (removed, whole) = (report(&["--remove", "L0H0,L1H1,L2H3"]), report(&[]));
    assert_eq!(layers(&removed), layers(&whole));
    assert_eq!(removed["relations"], whole["relations"]);
}

#[test]
fn removed_head_has_no_effect_and_no_verdict() {
    let common = ["analyze", "box:small", "--limit", "60", "--sample", "40", "--no-run-info", "-o", "-"];
    let report =
        |more: &[&str]| -> Value { serde_json::from_str(&run(&[&common[..], more].concat()).unwrap()).unwrap() };
    let with = ["--with", "effect,gradient", "--without", "coreference,choice"];
    let (whole, removed) = (report(&with), report(&[&with[..], &["--remove", "L1H3,L0H0"]].concat()));
    let verdicts = |report: &Value| -> u64 {
        let count = |name: &str| report["effect"]["verdicts"][name].as_u64().unwrap();
        ["helpful", "harmful", "negligible", "undecided"].map(count).iter().sum()
    };
    assert_eq!((verdicts(&whole), verdicts(&removed)), (16, 14));
    assert!(whole["effect"]["heads"].as_array().unwrap().iter().all(|head| head.get("removed").is_none()));
    for head in removed["effect"]["heads"].as_array().unwrap() {
        let is_removed = ["L0H0", "L1H3"].contains(&head["name"].as_str().unwrap());
        assert!(["p", "q", "verdict"].iter().all(|key| head[key].is_null() == is_removed), "{head}");
        assert_eq!((head["effect"] == 0.0, head.get("removed").is_some()), (is_removed, is_removed), "{head}");
    }
}

#[test]
fn removed_head_has_no_label_and_counts_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (before, after) = (at("before.json"), at("after.json"));
    run(&["analyze", "box:small", "-q", "--no-run-info", "-o", path(&before)]).unwrap();
    let common = ["analyze", "box:small", "--no-run-info", "--summary", "full", "-o", path(&after)];
    let summary = run(&[&common[..], &["--remove", "L1H3"]].concat()).unwrap();
    let mut answers = Answers::within(folder.path());
    let counts = summary.lines().filter(|line| line.contains(" of 15 heads ") || line.starts_with("    1  removed"));
    answers.said("counts of heads", &counts.collect::<Vec<_>>().join("\n"));
    let report: Value = serde_json::from_str(&fs::read_to_string(&after).unwrap()).unwrap();
    let head = report["heads"].as_array().unwrap().iter().find(|head| head["name"] == "L1H3").unwrap();
    let fields = ["primary", "labels", "nearest"].map(|key| &head[key]);
    assert_eq!(fields, [&json!("removed"), &json!([]), &json!([])]);
    assert!(head["metrics"]["mean_distance"].is_number(), "{head}");
    // The gate reports that the head's role is lost.
    let compared = |command: &[&str], more: &[&str]| {
        let output = headscope(&[command, &[path(&before), path(&after)], more].concat()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    answers.refused("gate", &compared(&["gate"], &[]));
    // So does `compare --numbers`, which compares no number of a removed head with a present head.
    let (status, labels) = compared(&["compare", "--numbers"], &["--only", "labels"]);
    let first = labels.lines().take(2).collect::<Vec<_>>().join("\n");
    answers.refused("compare --numbers --only labels", &(status, first));
    let (_, all) = compared(&["compare", "--numbers"], &["--json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    // How a head chooses is no role, so it is not listed.
    let firm_labels = ["previous-token"];
    assert_eq!(
        all["idle"],
        json!([{"layer": 1, "head": 3, "name": "L1H3", "side": "b", "why": "removed", "firm_labels": firm_labels}])
    );
    let changed = ["heads", "metrics", "relations"].map(|key| all[key].as_array().unwrap());
    assert!(changed.iter().all(|list| list.iter().all(|one| one["name"] != "L1H3")), "{changed:#?}");
    let shown = run(&["show", path(&after), "L1H3"]).unwrap();
    assert!(shown.contains(head["description"].as_str().unwrap()), "{shown}");
    answers.said("show", &shown);
    answers.held("removal-of-a-head");
}

#[test]
fn maps_show_the_model_without_the_removed_heads() {
    let folder = tempfile::tempdir().unwrap();
    let maps = |name: &str, more: &[&str]| -> Vec<u8> {
        let file = folder.path().join(name);
        let arguments = ["maps", "box:small", "--text", "The cat sat on the mat.", "-o", path(&file)];
        run(&[&arguments[..], more].concat()).unwrap();
        fs::read(file).unwrap()
    };
    let (whole, removed) = (maps("a.safetensors", &[]), maps("b.safetensors", &["--remove", "L0H0"]));
    let attention =
        |bytes: &[u8]| SafeTensors::deserialize(bytes).unwrap().tensor("attentions.0").unwrap().data().to_vec();
    let (whole_attention, removed_attention) = (attention(&whole), attention(&removed));
    let layer = whole_attention.len() / 4;
    assert_eq!(whole_attention[..layer], removed_attention[..layer]);
    assert_ne!(whole_attention[layer..2 * layer], removed_attention[layer..2 * layer]);
    let (_, metadata) = SafeTensors::read_metadata(&removed).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["removed"], r#"["L0H0"]"#);
}

#[test]
fn absent_heads_cannot_be_removed() {
    let mut answers = Answers::new();
    for heads in ["L4H0", "4,0"] {
        answers.refused(heads, &run(&["analyze", "box:small", "--remove", heads]).unwrap_err());
    }
    answers.held("removal-refused");
}
