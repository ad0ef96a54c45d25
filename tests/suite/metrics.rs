//! The whole report, compared with a reference that shares no code with the program, and baselines counted by hand.

use crate::reference::{check_labels, check_metrics, check_relations, reference};
use crate::support::{analyze, fixture, path, run};
use serde_json::Value;

#[test]
fn every_number_matches_the_reference() {
    let (report, reference) = (analyze(&fixture("corpus/gold.conllu"), &["--words", "spaced"]), reference("tiny-bert"));
    check_metrics(&report, &reference);
    check_relations(&report, &reference);
    // A random model has no labels under the default policy.
    assert_eq!(check_labels(&report, &reference), 0);
}

/// The baselines need no model: a person can count them in the corpus.
#[test]
fn baselines_match_a_count_by_hand() {
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
    // det: three times the next word. The choice on one fold holds on the other fold.
    assert_eq!(baseline("det"), (3, serde_json::json!({"offset": 1, "accuracy": 1.0, "heldout_accuracy": 1.0})));
    // all: det +1 x3, nsubj +1 x2, obj -2, dislocated +3: 5 of 7.
    let (count, all) = baseline("all");
    assert_eq!((count, &all["offset"], all["accuracy"].as_f64().unwrap()), (7, &Value::from(1), 5.0 / 7.0));
    // punct: -3, -1, -1.
    assert_eq!(baseline("punct").1["offset"], -1);
    // Only the first sentence has an obj, so no accuracy is held out.
    assert_eq!(baseline("obj"), (1, serde_json::json!({"offset": -2, "accuracy": 1.0, "heldout_accuracy": null})));
    // No word has a UPOS.
    let relations = report["relations"].as_array().unwrap();
    assert!(relations.iter().all(|relation| relation["tag_baseline"].is_null() && relation["versus_tags"].is_null()));
    // Gold edges without punctuation: 4 and 3. Adjacent: The-dog, dog-saw, a-cat; The-cat, it-slept.
    assert_eq!(report["chance"]["uuas"].as_f64().unwrap(), 5.0 / 7.0);
}

/// The tag baseline needs no model either.
#[test]
fn tag_baselines_match_a_count_by_hand() {
    // The dog saw a cat / Cats she saw / A dog who slept saw me
    let sentences: [&[(&str, &str, u32, &str)]; 3] = [
        &[
            ("The", "DET", 2, "det"),
            ("dog", "NOUN", 3, "nsubj"),
            ("saw", "VERB", 0, "root"),
            ("a", "DET", 5, "det"),
            ("cat", "NOUN", 3, "obj"),
        ],
        &[("Cats", "NOUN", 3, "obj"), ("she", "PRON", 3, "nsubj"), ("saw", "VERB", 0, "root")],
        &[
            ("A", "DET", 2, "det"),
            ("dog", "NOUN", 5, "nsubj"),
            ("who", "PRON", 4, "nsubj"),
            ("slept", "VERB", 2, "acl"),
            ("saw", "VERB", 0, "root"),
            ("me", "PRON", 5, "obj"),
        ],
    ];
    let line = |(id, (form, upos, head, relation)): (usize, &(&str, &str, u32, &str))| {
        format!("{}\t{form}\t_\t{upos}\t_\t_\t{head}\t{relation}\t_\t_\n", id + 1)
    };
    let sentence = |words: &[(&str, &str, u32, &str)]| words.iter().enumerate().map(line).collect::<String>() + "\n";
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("three.conllu");
    std::fs::write(&corpus, sentences.map(sentence).concat()).unwrap();
    let report = analyze(&corpus, &[]);
    let relation = |name: &str| {
        let relations = report["relations"].as_array().unwrap();
        relations.iter().find(|relation| relation["relation"] == name).unwrap().clone()
    };
    let rule = |tag: &str, side: &str| serde_json::json!({ "tag": tag, "side": side });
    // det: three times the nearest noun on the right. The odd fold is the second sentence, which has no det.
    let det = relation("det");
    let expected = serde_json::json!({
        "accuracy": 1.0,
        "heldout_accuracy": null,
        "rules": { "DET": rule("NOUN", "right") },
        "single": { "tag": "NOUN", "side": "right", "accuracy": 1.0 },
    });
    assert_eq!((&det["sentences"], &det["blocks"], &det["tag_baseline"]), (&2.into(), &2.into(), &expected));
    // nsubj: the nearest verb on the right. The rule fails for the second dog, whose nearest verb is in another clause.
    let nsubj = relation("nsubj");
    assert_eq!(
        nsubj["tag_baseline"]["rules"],
        serde_json::json!({ "NOUN": rule("VERB", "right"), "PRON": rule("VERB", "right") })
    );
    assert_eq!(nsubj["tag_baseline"]["accuracy"], 0.75);
    // The second sentence gives a rule for its one pronoun but none for nouns. In sentences one and three, this rule
    // finds the pronoun alone.
    assert_eq!(nsubj["tag_baseline"]["heldout_accuracy"], 0.5);
    // obj: a noun on either side of its verb, where the tie goes to the left; a pronoun on the right of its verb.
    let obj = &relation("obj")["tag_baseline"];
    assert_eq!(obj["rules"], serde_json::json!({ "NOUN": rule("VERB", "left"), "PRON": rule("VERB", "left") }));
    assert_eq!((&obj["accuracy"], &obj["single"]["accuracy"]), (&(2.0 / 3.0).into(), &(2.0 / 3.0).into()));
    // "me" is one word from its head. The two cats are two words away, one on either side.
    let distances = relation("obj")["by_distance"].clone();
    let counts: Vec<u64> = distances.as_array().unwrap().iter().map(|at| at["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 0, 1, 1, 0, 0, 0, 0, 0, 0]);
}

/// The planted heads have the highest possible scores. A corpus of short lines has too little evidence for heads that
/// look far.
#[test]
fn high_score_on_little_evidence_gives_no_label() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("short.txt");
    // All lines differ, because equal lines would count as one.
    let short = (0..100).map(|line| format!("the w{line}\n"));
    let long = (0..20).map(|line| format!("the w{line} {}\n", "the dog ".repeat(5).trim()));
    std::fs::write(&corpus, short.chain(long).collect::<String>()).unwrap();
    let labels = |more: &[&str]| {
        let arguments = ["analyze", "box:planted", "-c", path(&corpus), "-o", "-", "--no-run-info"];
        let report: Value = serde_json::from_str(&run(&[&arguments, more].concat()).unwrap()).unwrap();
        let primary: Vec<String> =
            [0, 9].map(|head: usize| report["heads"][head]["primary"].as_str().unwrap().to_owned()).into();
        (primary, report["denominators"].clone())
    };
    let (primary, denominators) = labels(&[]);
    // Twenty lines of twelve words have 20 x 7 queries with a word five places before them. The other lines have none.
    assert_eq!(
        denominators["offset_mass"]["-5"],
        serde_json::json!({ "count": 140, "sentences": 20, "blocks": 20, "effective_blocks": 20.0 })
    );
    // 36 blocks have two short lines, 20 blocks a short and a long line, and 8 blocks a short line.
    let effective = 320.0 * 320.0 / f64::from(36 * 2 * 2 + 20 * 12 * 12 + 8);
    assert_eq!(
        denominators["offset_mass"]["-1"],
        serde_json::json!({ "count": 100 + 20 * 11, "sentences": 120, "blocks": 64, "effective_blocks": effective })
    );
    assert_eq!(primary, ["previous-token", "unlabelled"]);
    let policy = folder.path().join("any.toml");
    std::fs::write(&policy, "min_sentences = 20\n").unwrap();
    assert_eq!(labels(&["--policy", path(&policy)]).0, ["previous-token", "offset:-5"]);
    std::fs::write(&policy, "min_sentences = 20\nmin_queries = 141\n").unwrap();
    assert_eq!(labels(&["--policy", path(&policy)]).0, ["previous-token", "unlabelled"]);
}
