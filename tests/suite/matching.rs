//! Heads of two models that attend alike: `headscope match`, and `headscope compare --match`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compare::compared;
use crate::support::answers::Answers;
use crate::support::{changed_small, fixture, path, run};
use candle_core::{Device, Tensor};
use serde_json::{Value, json};

/// The order of heads in every layer of the permuted model: head `i` is head `ORDER[i]` of the small model.
const ORDER: [u32; 4] = [2, 0, 3, 1];

/// The width of a head.
const WIDTH: u32 = 32;

/// The small model with the heads of each layer in another order. It computes the same function.
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

/// Every second sentence of the gold corpus, from sentence `first` on.
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
fn permuted_model_keeps_all_labels_after_matching() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let other = permuted(folder);
    // One half of the corpus matches the heads, and the other half compares their labels.
    let [matched_on, labelled_on] = [0, 1].map(|first| half(folder, first));
    let a = analyzed(folder, "box:small", "a.json", &labelled_on);
    let b = analyzed(folder, path(&other), "b.json", &labelled_on);
    let file = folder.join("match.json");
    let arguments = ["match", "box:small", path(&other), "-c", path(&matched_on), "-o", path(&file)];
    let mut answers = Answers::within(folder);
    answers.said("the first line that is printed", run(&arguments).unwrap().lines().next().unwrap());
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
    // Compared by place, labels are lost and gained, and the report gives the reason.
    let (status, by_place) = compared(&a, &b, &[]);
    assert!(status == 1 && by_place["labels_by_outcome"]["lost"].as_u64().unwrap() > 2, "{by_place:#}");
    answers.said("the lineage, by place", by_place["lineage"].as_str().unwrap());
    assert_eq!(compared(&a, &b, &["--matched"]).1["lineage"], Value::Null);
    // After matching, labels have the outcome of a comparison of a report with itself.
    let (status, comparison) = compared(&a, &b, &["--match", path(&file)]);
    let (_, itself) = compared(&a, &a, &[]);
    assert_eq!((status, &comparison["labels_by_outcome"]), (0, &itself["labels_by_outcome"]));
    assert_eq!((&comparison["lineage"], &comparison["matched"]["moved"]), (&Value::Null, &json!(16)));
    assert_eq!(comparison["agreement"]["firm_labels"]["share"], 1.0);
    let chance = &comparison["matched"]["firm_labels"];
    assert!(chance["mean"].as_f64().unwrap() < 0.8 && chance["range95"][1].as_f64().unwrap() < 1.0, "{chance}");
    assert_eq!(comparison["heads"][0]["partner"]["name"], "L0H1");
    // Swapped sides are other models. A report is no file of matched heads.
    let compare =
        |a: &Path, b: &Path, file: &Path| run(&["compare", path(a), path(b), "--match", path(file)]).unwrap_err();
    answers.refused("sides in the other order", &compare(&b, &a, &file));
    let (status, error) = compare(&a, &b, &a);
    let before_the_line = error.split(" at line ").next().unwrap().to_owned();
    answers.refused("a report for matched heads", &(status, before_the_line));
    answers.held("matching-permuted");
}

/// One shard of a corpus of 700 sentences matches the heads, and another shard compares their labels.
#[test]
fn shard_matches_heads() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (other, corpus, file) = (permuted(folder), fixture("corpus/gold.conllu"), folder.join("match.json"));
    let arguments =
        ["match", "box:small", path(&other), "-c", path(&corpus), "--limit", "300", "-q", "-o", path(&file)];
    run(&[&arguments[..], &["--shard", "3/3"]].concat()).unwrap();
    let matching: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    // Two shards have 256 sentences each; the last shard has the rest.
    assert_eq!((&matching["sentences"], &matching["halves_agree"]), (&json!(700 - 2 * 256), &json!(16)));
    let sides = [("a", "box:small"), ("b", path(&other))].map(|(name, model)| {
        let part = folder.join(format!("{name}.headscope"));
        let shard = ["analyze", model, "-c", path(&corpus), "--shard", "1/3", "--without", "choice", "-q", "-o"];
        run(&[&shard[..], &[path(&part)]].concat()).unwrap();
        part
    });
    let (status, comparison) = compared(&sides[0], &sides[1], &["--match", path(&file)]);
    assert_eq!((status, &comparison["agreement"]["firm_labels"]["share"]), (0, &json!(1.0)));
}

/// One command matches heads on one half of the families and labels them on the other half, in both directions.
#[test]
fn labels_of_matched_heads_agree_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (other, corpus, file) = (permuted(folder), fixture("corpus/gold.conllu"), folder.join("match.json"));
    let arguments = ["match", "box:small", path(&other), "-c", path(&corpus), "--labels", "-o", path(&file)];
    let printed = run(&arguments).unwrap();
    let matching: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let schema: Value = serde_json::from_str(&run(&["schema", "match"]).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&matching));
    let ways = matching["labels"].as_array().unwrap();
    let column = |key: &str| ways.iter().map(|way| &way[key]).collect::<Vec<_>>();
    assert_eq!((column("matched_over"), column("moved")), (vec![&json!("even"), &json!("odd")], vec![&json!(16); 2]));
    let count = |key: &str| ways.iter().map(|way| way[key].as_u64().unwrap()).sum::<u64>();
    // All sentences are labelled once; the first 200 sentences match the heads.
    assert_eq!((count("labelled_sentences"), count("matched_sentences")), (700, 200));
    for way in ways {
        // The permuted model computes the same function.
        assert_eq!((&way["labels"]["lost"], &way["labels"]["gained"]), (&json!(0), &json!(0)), "{way}");
        assert!(way["labels"]["kept"].as_u64().unwrap() > 5 && way["too_few_units"].is_null(), "{way}");
        assert!(way["labels_in_place"]["lost"].as_u64().unwrap() > 1, "{way}");
        for label in ["first_label", "firm_labels"] {
            let [matched, in_place, permuted] =
                ["matched/share", "in_place/share", "permuted/mean"].map(|key| way.pointer(&format!("/{label}/{key}")));
            assert_eq!(matched, Some(&json!(1.0)), "{way}");
            let [in_place, permuted] = [in_place, permuted].map(|share| share.unwrap().as_f64().unwrap());
            assert!(in_place < 0.8 && permuted < 0.8, "{label} {in_place} {permuted}");
        }
    }
    let sentences: Vec<&str> = printed.lines().filter(|line| line.starts_with("Matched over")).collect();
    let mut answers = Answers::new();
    answers.said("both ways", &sentences.join("\n"));
    answers.held("matching-labels-both-ways");
    // The labels of a half are the labels of a corpus that consists of this half alone.
    let text = fs::read_to_string(&corpus).unwrap();
    let mut families: Vec<String> = Vec::new();
    let mut is_odd = |block: &&str| {
        let family = block.lines().find(|line| line.starts_with("# family = ")).unwrap();
        let number = families.iter().position(|known| known == family).unwrap_or_else(|| {
            families.push(family.to_owned());
            families.len() - 1
        });
        number % 2 == 1
    };
    let odd: String = text.split_inclusive("\n\n").filter(|block| is_odd(block)).collect();
    let half = folder.join("odd.conllu");
    fs::write(&half, &odd).unwrap();
    let reports =
        [("a.json", "box:small"), ("b.json", path(&other))].map(|(name, model)| analyzed(folder, model, name, &half));
    let (_, by_place) = compared(&reports[0], &reports[1], &["--matched"]);
    assert_eq!(by_place["labels_by_outcome"], ways[0]["labels_in_place"]);
    // The file also contains the matched heads, as it does without --labels.
    let (_, comparison) = compared(&reports[0], &reports[1], &["--match", path(&file)]);
    assert_eq!(comparison["matched"]["moved"], 16);
}

/// `--labels` needs a corpus with two halves. Matching needs two models with equal numbers of layers and heads.
#[test]
fn impossible_matchings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [single, few] = ["single.txt", "few.txt"].map(|name| folder.path().join(name));
    fs::write(&single, "It rains.\n").unwrap();
    let mut answers = Answers::within(folder.path());
    for arguments in [
        &["box:small", "--labels", "--text", "It rains."][..],
        &["box:small", "--labels", "--shard", "1/2"],
        &["box:small", "--labels", "--sentence", "3"],
        &["box:small", "--labels", "-c", path(&single)],
        &["box:small", "--threads", "2"],
        &["box:small", "--shard", "1/2", "--text", "It rains."],
        &[path(&fixture("models/tiny-bert")), "--text", "It rains."],
    ] {
        let refused = run(&[&["match", "box:small"], arguments].concat()).unwrap_err();
        answers.refused(&arguments.join(" "), &refused);
    }
    // Nine documents per half are too few for a label.
    let document = |number| format!("The {number} dogs ran home.\nIt rains on {number}.");
    let documents = (0..18).map(document).collect::<Vec<_>>().join("\n\n") + "\n";
    fs::write(&few, documents).unwrap();
    let printed = run(&["match", "box:small", "box:small", "-c", path(&few), "--labels"]).unwrap();
    let sentences: Vec<&str> = printed.lines().filter(|line| line.starts_with("Matched over")).collect();
    answers.said("nine documents a half", &sentences.join("\n"));
    answers.held("matching-refusals");
}
