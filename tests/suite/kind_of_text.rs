//! Remarks of a report on the kind of text in a corpus: copies, families, unknown tokens, split words, lists.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{analyze, fixture, path, run, tiny_bert};
use serde_json::Value;

/// The report on a corpus with this text, and its full summary.
fn report_and_summary(name: &str, text: &str, more: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join(name);
    fs::write(&corpus, text).unwrap();
    let model = tiny_bert();
    let summary = run(&[&["analyze", "--summary", "full", path(&model), "-c", path(&corpus)], more].concat()).unwrap();
    (analyze(&corpus, more), summary)
}

/// Compares the remarks on the corpus in full summaries with a snapshot.
fn check_remarks<const N: usize>(name: &str, summaries: [(&str, &str); N]) {
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

/// The caveats about the kind of text.
const REMARKED: [&str; 6] =
    ["unknown-tokens", "cut-up-words", "hardly-running-text", "generated", "equal-sentences", "few-sentences"];

fn remarked(report: &Value) -> Vec<&str> {
    caveats(report).into_iter().filter(|id| REMARKED.contains(id)).collect()
}

/// `count` different sentences of `words` words each.
fn sentences(count: usize, words: usize) -> String {
    let known = ["the", "dog", "and", "cat", "a", "in", "of", "to"];
    let word =
        |place: usize, sentence: usize| known[sentence / known.len().pow(u32::try_from(place).unwrap()) % known.len()];
    let line = |sentence| (0..words).map(|place| word(place, sentence)).collect::<Vec<_>>().join(" ") + "\n";
    (0..count).map(line).collect()
}

#[test]
fn plain_text_gets_no_remark() {
    let (report, summary) = report_and_summary("a.txt", &sentences(100, 5), &[]);
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
fn repeated_sentences_count_once_as_evidence() {
    let nine = sentences(9, 5);
    let lines: Vec<&str> = nine.lines().collect();
    let text: String = (0..403).map(|line| lines[line * 7 % 9].to_owned() + "\n").collect();
    let (report, summary) = report_and_summary("a.txt", &text, &[]);
    assert_eq!(remarked(&report), ["equal-sentences", "few-sentences"]);
    let text_section = &report["corpus"]["text"];
    assert_eq!(
        (&text_section["different_sentences"], &text_section["repeated_share"], &text_section["families"]),
        (&9.into(), &1.0.into(), &9.into())
    );
    check_remarks("kind-of-text-nine-sentences", [("nine sentences", &summary)]);
    // Every sentence counts in the metrics, but each family counts once as evidence, so no label has enough evidence.
    let evidence = &report["denominators"]["window_mass"];
    assert_eq!((&evidence["count"], &evidence["sentences"]), (&(403 * 5).into(), &9.into()));
    assert!(report["heads"].as_array().unwrap().iter().all(|head| head["labels"] == serde_json::json!([])));
}

#[test]
fn copied_corpus_has_the_intervals_of_one_copy() {
    let gold = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let (once, _) = report_and_summary("a.conllu", &gold, &["--limit", "300"]);
    let first: String = gold.split_inclusive("\n\n").take(300).collect();
    let (twice, summary) = report_and_summary("a.conllu", &(first.clone() + &first), &[]);
    check_remarks("kind-of-text-copied", [("300 sentences twice", &summary)]);
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
fn unknown_language_gets_a_remark() {
    let line = |number: u32| {
        format!(
            "{}は{}を見た 。 the cat sat\n",
            char::from_u32(0x4e00 + number).unwrap(),
            char::from_u32(0x5e00 + number).unwrap()
        )
    };
    let (report, summary) = report_and_summary("a.txt", &(0..80).map(line).collect::<String>(), &[]);
    assert!(remarked(&report).contains(&"unknown-tokens"), "{}", report["corpus"]["text"]);
    check_remarks("kind-of-text-unknown-language", [("Japanese", &summary)]);
}

#[test]
fn word_list_is_hardly_running_text() {
    let (report, summary) = report_and_summary("a.txt", &sentences(64, 2), &[]);
    assert_eq!(remarked(&report), ["hardly-running-text"]);
    let long = sentences(64, 2)
        .replace("dog", "hippopotamusdog")
        .replace("cat", "hippopotamuscat")
        .replace("the", "antidisestablish");
    let (report, cut_up) = report_and_summary("a.txt", &long, &[]);
    assert!(remarked(&report).contains(&"cut-up-words"), "{}", report["corpus"]["text"]);
    check_remarks("kind-of-text-list", [("short lines", &summary), ("words that are cut up", &cut_up)]);
}

#[test]
fn boxed_corpus_is_reported_as_generated() {
    let report = analyze(&fixture("corpus/gold.conllu"), &["--limit", "200"]);
    assert!(remarked(&report).contains(&"generated"));
    let generated = report["corpus"]["files"][0]["generated"].as_str().unwrap();
    assert!(generated.contains("grammar.py"), "{generated}");
    let summary = run(&["analyze", "--summary", "full", "--limit", "200"]).unwrap();
    let families = &report["corpus"]["text"]["families"];
    assert!(summary.contains(generated) && summary.contains(&format!(" {families} ")), "{summary}");
    check_remarks("kind-of-text-generated", [("the corpus of the box", &summary)]);
}

/// Controls and pairs of sentences keep the families of the corpus.
#[test]
fn controls_and_presets_keep_families() {
    let more = ["--limit", "200", "--control", "shuffled-words", "--control-seeds", "1", "--preset", "clark2019"];
    let report = analyze(&fixture("corpus/gold.conllu"), &more);
    let plain = analyze(&fixture("corpus/gold.conllu"), &["--limit", "200"]);
    assert_eq!(report["corpus"], plain["corpus"]);
    assert_eq!(report["controls"][0]["control"], "shuffled-words");
    assert_ne!(report["clark2019"]["sequences"], 0);
}
