//! What a report says of the kind of text that a corpus is: copies, families, unknown tokens, words cut up, lists.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{analyze, fixture, path, run, tiny_bert};
use serde_json::Value;

/// The report on a corpus of this text, and its summary.
fn both(name: &str, text: &str, more: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join(name);
    fs::write(&corpus, text).unwrap();
    let model = tiny_bert();
    let summary = run(&[&["analyze", "--summary", "full", path(&model), "-c", path(&corpus)], more].concat()).unwrap();
    (analyze(&corpus, more), summary)
}

/// Holds the remarks on the corpus in full summaries.
fn hold_remarks<const N: usize>(name: &str, summaries: [(&str, &str); N]) {
    let mut answers = Answers::new();
    for (title, summary) in summaries {
        let (_, remarks) = summary.split_once("\nThe corpus:\n").unwrap();
        answers.said(title, remarks.split("\n\n").next().unwrap());
    }
    answers.held(name);
}

fn caveats(report: &Value) -> Vec<&str> {
    report["caveats"].as_array().unwrap().iter().map(|caveat| caveat["id"].as_str().unwrap()).collect()
}

/// What it is remarked on of these.
const REMARKED: [&str; 6] =
    ["unknown-tokens", "cut-up-words", "hardly-running-text", "generated", "equal-sentences", "few-sentences"];

fn remarked(report: &Value) -> Vec<&str> {
    caveats(report).into_iter().filter(|id| REMARKED.contains(id)).collect()
}

/// Sentences of so many words, all different from each other.
fn sentences(count: usize, words: usize) -> String {
    let known = ["the", "dog", "and", "cat", "a", "in", "of", "to"];
    let word =
        |place: usize, sentence: usize| known[sentence / known.len().pow(u32::try_from(place).unwrap()) % known.len()];
    let line = |sentence| (0..words).map(|place| word(place, sentence)).collect::<Vec<_>>().join(" ") + "\n";
    (0..count).map(line).collect()
}

#[test]
fn plain_text_is_not_remarked_on() {
    let (report, summary) = both("a.txt", &sentences(100, 5), &[]);
    assert_eq!(remarked(&report), [""; 0], "{}", report["corpus"]);
    let text = &report["corpus"]["text"];
    assert_eq!(
        (&text["sentences_read"], &text["different_sentences"], &text["families"]),
        (&100.into(), &100.into(), &100.into())
    );
    assert_eq!((&text["words_per_sentence"], &text["tokens_per_word"]), (&5.0.into(), &1.0.into()));
    assert_eq!(
        (&text["unknown_tokens"], &text["repeated_sentences"], &text["not_remembered"]),
        (&0.into(), &0.into(), &0.into())
    );
    let mut answers = Answers::new();
    answers.said("before the sentences", summary.split_once("\n\n- ").unwrap().0);
    answers.held("kind-of-text-plain");
}

#[test]
fn nine_sentences_are_nine_however_often_they_occur() {
    let nine = sentences(9, 5);
    let lines: Vec<&str> = nine.lines().collect();
    let text: String = (0..403).map(|line| lines[line * 7 % 9].to_owned() + "\n").collect();
    let (report, summary) = both("a.txt", &text, &[]);
    assert_eq!(remarked(&report), ["equal-sentences", "few-sentences"]);
    let of = &report["corpus"]["text"];
    assert_eq!(
        (&of["different_sentences"], &of["repeated_share"], &of["families"]),
        (&9.into(), &1.0.into(), &9.into())
    );
    hold_remarks("kind-of-text-nine-sentences", [("nine sentences", &summary)]);
    // Every sentence counts in the metrics, and each family once as evidence; so no label has enough of it.
    let rests = &report["denominators"]["window_mass"];
    assert_eq!((&rests["count"], &rests["sentences"]), (&(403 * 5).into(), &9.into()));
    assert!(report["heads"].as_array().unwrap().iter().all(|head| head["labels"] == serde_json::json!([])));
}

#[test]
fn a_copied_corpus_is_as_sure_as_one_copy() {
    let gold = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let (once, _) = both("a.conllu", &gold, &["--limit", "300"]);
    let first: String = gold.split_inclusive("\n\n").take(300).collect();
    let (twice, summary) = both("a.conllu", &(first.clone() + &first), &[]);
    hold_remarks("kind-of-text-copied", [("300 sentences twice", &summary)]);
    assert_eq!(twice["corpus"]["sentences"], 2 * once["corpus"]["sentences"].as_u64().unwrap());
    let (relations, again) = (once["relations"].as_array().unwrap(), twice["relations"].as_array().unwrap());
    assert_eq!(relations.len(), again.len());
    for (one, two) in relations.iter().zip(again) {
        let name = &one["relation"];
        assert_eq!(two["count"], 2 * one["count"].as_u64().unwrap(), "{name}");
        for key in ["sentences", "blocks", "accuracy", "heldout_accuracy", "baseline", "tag_baseline", "ci95"] {
            assert_eq!(two[key], one[key], "{key} of {name}");
        }
        for key in ["difference", "ci95", "standard_error", "head_only", "offset_only", "p"] {
            assert_eq!(two["versus_offset"][key], one["versus_offset"][key], "{key} of {name}");
        }
    }
}

#[test]
fn a_language_that_the_vocabulary_lacks_is_remarked_on() {
    let line = |number: u32| {
        format!(
            "{}は{}を見た 。 the cat sat\n",
            char::from_u32(0x4e00 + number).unwrap(),
            char::from_u32(0x5e00 + number).unwrap()
        )
    };
    let (report, summary) = both("a.txt", &(0..80).map(line).collect::<String>(), &[]);
    assert!(remarked(&report).contains(&"unknown-tokens"), "{}", report["corpus"]["text"]);
    hold_remarks("kind-of-text-unknown-language", [("Japanese", &summary)]);
}

#[test]
fn a_list_of_words_is_hardly_running_text() {
    let (report, summary) = both("a.txt", &sentences(64, 2), &[]);
    assert_eq!(remarked(&report), ["hardly-running-text"]);
    let long = sentences(64, 2)
        .replace("dog", "hippopotamusdog")
        .replace("cat", "hippopotamuscat")
        .replace("the", "antidisestablish");
    let (report, cut_up) = both("a.txt", &long, &[]);
    assert!(remarked(&report).contains(&"cut-up-words"), "{}", report["corpus"]["text"]);
    hold_remarks("kind-of-text-list", [("short lines", &summary), ("words that are cut up", &cut_up)]);
}

#[test]
fn the_corpus_of_the_box_says_that_it_is_generated() {
    let report = analyze(&fixture("corpus/gold.conllu"), &["--limit", "200"]);
    assert!(remarked(&report).contains(&"generated"));
    let generated = report["corpus"]["files"][0]["generated"].as_str().unwrap();
    assert!(generated.contains("grammar.py"), "{generated}");
    let summary = run(&["analyze", "--summary", "full", "--limit", "200"]).unwrap();
    let families = &report["corpus"]["text"]["families"];
    assert!(summary.contains(generated) && summary.contains(&format!(" {families} ")), "{summary}");
    hold_remarks("kind-of-text-generated", [("the corpus of the box", &summary)]);
}

/// Controls and pairs of sentences see the same families.
#[test]
fn families_go_through_controls_and_presets() {
    let more = ["--limit", "200", "--control", "shuffled-words", "--control-seeds", "1", "--preset", "clark2019"];
    let report = analyze(&fixture("corpus/gold.conllu"), &more);
    let plain = analyze(&fixture("corpus/gold.conllu"), &["--limit", "200"]);
    assert_eq!(report["corpus"], plain["corpus"]);
    assert_eq!(report["controls"][0]["control"], "shuffled-words");
    assert_ne!(report["clark2019"]["sequences"], 0);
}
