//! Heads of two models that attend alike: `headscope match`, and `headscope compare --match`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compare::compared;
use crate::support::{changed_small, fixture, path, run};
use candle_core::{Device, Tensor};
use serde_json::{Value, json};

/// The order of heads in every layer of the permuted model: head `i` of it is this head of the small one.
const ORDER: [u32; 4] = [2, 0, 3, 1];

/// The width of a head.
const WIDTH: u32 = 32;

/// The small model with its heads in another order within layers: the same function.
fn permuted(folder: &Path) -> PathBuf {
    let to = folder.join("permuted");
    let rows: Vec<u32> = ORDER.iter().flat_map(|head| head * WIDTH..(head + 1) * WIDTH).collect();
    let rows = Tensor::new(rows, &Device::Cpu).unwrap();
    changed_small(&to, |name, tensor| {
        if name.contains("attention.self.") {
            tensor.index_select(&rows, 0).unwrap()
        } else if name.contains("attention.output.dense.weight") {
            tensor.index_select(&rows, 1).unwrap()
        } else {
            tensor
        }
    });
    to
}

/// Every other sentence of the gold corpus, from this one on.
fn half(folder: &Path, first: usize) -> PathBuf {
    let text = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let file = folder.join(format!("half-{first}.conllu"));
    fs::write(&file, text.split_inclusive("\n\n").skip(first).step_by(2).collect::<String>()).unwrap();
    file
}

fn analyzed(folder: &Path, model: &str, name: &str, corpus: &Path) -> PathBuf {
    let report = folder.join(name);
    run(&["analyze", model, "-c", path(corpus), "--no-run-info", "-q", "-o", path(&report)]).unwrap();
    report
}

#[test]
fn a_model_with_permuted_heads_keeps_all_labels_after_matching() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let other = permuted(folder);
    // Partners are found over one half of the corpus, and labels compared over the other.
    let [matched_on, labelled_on] = [0, 1].map(|first| half(folder, first));
    let a = analyzed(folder, "box:small", "a.json", &labelled_on);
    let b = analyzed(folder, path(&other), "b.json", &labelled_on);
    let file = folder.join("match.json");
    let arguments = ["match", "box:small", path(&other), "-c", path(&matched_on), "-o", path(&file)];
    let printed = run(&arguments).unwrap();
    assert!(printed.starts_with("16 of 16 heads of a have their partner at another place in b."), "{printed}");
    let matching: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let schema: Value = serde_json::from_str(&run(&["schema", "match"]).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&matching));
    for head in matching["heads"].as_array().unwrap() {
        let number = |side: &str| usize::try_from(head[side]["head"].as_u64().unwrap()).unwrap();
        assert_eq!((ORDER[number("b")] as usize, &head["halves_agree"]), (number("a"), &json!(true)), "{head}");
        assert!(
            head["distance"].as_f64().unwrap() < 1e-3 && head["distance_in_place"].as_f64().unwrap() > 0.05,
            "{head}"
        );
    }
    // By place labels are lost and gained, and it is said why.
    let (status, by_place) = compared(&a, &b, &[]);
    assert!(status == 1 && by_place["labels_by_outcome"]["lost"].as_u64().unwrap() > 2, "{by_place:#}");
    assert!(by_place["lineage"].as_str().unwrap().contains("`headscope match`"), "{by_place:#}");
    assert_eq!(compared(&a, &b, &["--matched"]).1["lineage"], Value::Null);
    // After matching what became of labels is what a report comes to beside itself.
    let (status, found) = compared(&a, &b, &["--match", path(&file)]);
    let (_, itself) = compared(&a, &a, &[]);
    assert_eq!((status, &found["labels_by_outcome"]), (0, &itself["labels_by_outcome"]));
    assert_eq!((&found["lineage"], &found["matched"]["moved"]), (&Value::Null, &json!(16)));
    assert_eq!(found["agreement"]["firm_labels"]["share"], 1.0);
    let chance = &found["matched"]["firm_labels"];
    assert!(chance["mean"].as_f64().unwrap() < 0.8 && chance["range95"][1].as_f64().unwrap() < 1.0, "{chance}");
    assert_eq!(found["heads"][0]["partner"]["name"], "L0H1");
    // Sides in the other order are other models, and a report matches nothing.
    let compare =
        |a: &Path, b: &Path, file: &Path| run(&["compare", path(a), path(b), "--match", path(file)]).unwrap_err();
    let (status, error) = compare(&b, &a, &file);
    assert!(status == 3 && error.contains("is of other weights"), "{status} {error}");
    let (status, error) = compare(&a, &b, &a);
    assert!(status == 3 && error.contains("does not match heads"), "{status} {error}");
}

/// Partners are found over one part of a corpus of 700 sentences, and labels compared over another.
#[test]
fn heads_are_matched_over_a_shard() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (other, corpus, file) = (permuted(folder), fixture("corpus/gold.conllu"), folder.join("match.json"));
    let arguments =
        ["match", "box:small", path(&other), "-c", path(&corpus), "--limit", "300", "-q", "-o", path(&file)];
    run(&[&arguments[..], &["--shard", "3/3"]].concat()).unwrap();
    let matching: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    // Two shards have 256 sentences, and the last one what is left.
    assert_eq!((&matching["sentences"], &matching["halves_agree"]), (&json!(700 - 2 * 256), &json!(16)));
    let sides = [("a", "box:small"), ("b", path(&other))].map(|(name, model)| {
        let part = folder.join(format!("{name}.headscope"));
        let shard = ["analyze", model, "-c", path(&corpus), "--shard", "1/3", "--without", "choice", "-q", "-o"];
        run(&[&shard[..], &[path(&part)]].concat()).unwrap();
        part
    });
    let (status, found) = compared(&sides[0], &sides[1], &["--match", path(&file)]);
    assert_eq!((status, &found["agreement"]["firm_labels"]["share"]), (0, &json!(1.0)));
    let (status, error) =
        run(&["match", "box:small", "box:small", "--shard", "1/2", "--text", "It rains."]).unwrap_err();
    assert!(status == 2 && error.contains("--shard"), "{error}");
}

#[test]
fn models_with_other_heads_or_tokens_are_not_matched() {
    let small = fixture("models/tiny-bert");
    let (status, error) = run(&["match", "box:small", path(&small), "--text", "It rains."]).unwrap_err();
    assert!(status == 3 && error.contains("do not have the same heads"), "{status} {error}");
}
