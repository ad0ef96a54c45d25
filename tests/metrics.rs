//! The whole report against a reference that shares no code with the program, and against a count by hand.

#[path = "support/reference.rs"]
mod reference;
mod support;

use reference::{check_labels, check_metrics, check_relations, reference};
use serde_json::Value;
use support::{analyze, fixture};

#[test]
fn every_number_is_that_of_the_reference() {
    let (report, reference) = (analyze(&fixture("corpus/gold.conllu"), &[]), reference("tiny-bert"));
    check_metrics(&report, &reference);
    check_relations(&report, &reference);
    // A random model has no labels under the default policy, which is worth knowing by itself.
    assert_eq!(check_labels(&report, &reference), 0);
}

/// The baselines need no model: a person can count them off the corpus.
#[test]
fn baselines_of_a_corpus_by_hand() {
    let line = |id: u32, form: &str, head: u32, relation: &str| {
        format!("{id}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n")
    };
    // The dog saw a cat . / The cat , it slept .
    let first = [
        ("The", 2, "det"),
        ("dog", 3, "nsubj"),
        ("saw", 0, "root"),
        ("a", 5, "det"),
        ("cat", 3, "obj"),
        (".", 3, "punct"),
    ];
    let second = [
        ("The", 2, "det"),
        ("cat", 5, "dislocated"),
        (",", 2, "punct"),
        ("it", 5, "nsubj"),
        ("slept", 0, "root"),
        (".", 5, "punct"),
    ];
    let sentence = |words: &[(&str, u32, &str)]| -> String {
        (1..).zip(words).map(|(id, (form, head, relation))| line(id, form, *head, relation)).collect::<String>() + "\n"
    };
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("two.conllu");
    std::fs::write(&corpus, sentence(&first) + &sentence(&second)).unwrap();
    let report = analyze(&corpus, &[]);
    let baseline = |name: &str| {
        let relations = report["relations"].as_array().unwrap();
        let relation = relations.iter().find(|relation| relation["relation"] == name).unwrap();
        (relation["count"].as_u64().unwrap(), relation["baseline"].clone())
    };
    // det: three times the next word; one fold's choice holds for the other.
    assert_eq!(baseline("det"), (3, serde_json::json!({"offset": 1, "accuracy": 1.0, "heldout_accuracy": 1.0})));
    // all: det +1 x3, nsubj +1 x2, obj -2, dislocated +3: 5 of 7.
    let (count, all) = baseline("all");
    assert_eq!((count, &all["offset"], all["accuracy"].as_f64().unwrap()), (7, &Value::from(1), 5.0 / 7.0));
    // punct: -3, -1, -1.
    assert_eq!(baseline("punct").1["offset"], -1);
    // Only the first sentence has an obj, so nothing can be held out.
    assert_eq!(baseline("obj"), (1, serde_json::json!({"offset": -2, "accuracy": 1.0, "heldout_accuracy": null})));
    // Gold edges without punctuation: 4 and 3. Adjacent: The-dog, dog-saw, a-cat; The-cat, it-slept.
    assert_eq!(report["chance"]["uuas"].as_f64().unwrap(), 5.0 / 7.0);
}
