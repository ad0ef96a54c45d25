//! The study `parser`, held against `fixtures/reference_parser.py`, and as a user runs it.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run};
use serde_json::Value;

/// The other studies have tests of their own.
const OTHERS: &str = "attention,trees,dependency,words,frequency,explained-variance,coreference,repeats";

fn analyze(model: &str, corpus: &Path, more: &[&str]) -> String {
    let common = [
        "analyze",
        "--summary",
        "full",
        model,
        "-c",
        path(corpus),
        "--with",
        "parser",
        "--without",
        OTHERS,
        "--no-run-info",
    ];
    run(&[&common[..], more].concat()).unwrap()
}

fn report(model: &str, corpus: &Path, more: &[&str]) -> Value {
    let report = analyze(model, corpus, &[&["-o", "-"], more].concat());
    serde_json::from_str::<Value>(&report).unwrap()["parser"].take()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn accuracy(parser: &Value, name: &str) -> f64 {
    let all = parser["accuracies"].as_array().unwrap();
    number(&all.iter().find(|one| one["parser"] == name).unwrap()["accuracy"])
}

#[test]
fn the_parser_is_that_of_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/small-parser.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let found = report("box:small", &fixture("corpus/gold.conllu"), &["--words", "spaced", "--sample", "200"]);
    let words = number(&expected["words"]);
    assert_eq!(found["words"], expected["words"]);
    // What is fitted there is not rounded to half precision: a tenth of a point is a word or two of those that nearly tie.
    let near = |at: &str, accuracy: f64, right: &Value, words: f64, most: f64| {
        let off = (accuracy * words - number(right)).abs();
        assert!(off <= most + 1e-6, "{at}: {} of {words} words, not {right}", accuracy * words);
    };
    assert_eq!(found["ridges"], expected["ridges"]);
    for name in ["attention", "distances and embeddings", "distances", "attention and distances"] {
        near(name, accuracy(&found, name), &expected[name], words, 0.001 * words);
    }
    // What is only counted is the same.
    for name in ["best head", "best offset", "right-branching", "tags"] {
        near(name, accuracy(&found, name), &expected[name], words, 0.0);
    }
    near("roots", number(&found["root_accuracy"]["accuracy"]), &expected["roots"], number(&found["roots"]), 1.0);
    let without = expected["without"].as_array().unwrap();
    for (layer, right) in found["layers"].as_array().unwrap().iter().zip(without) {
        near("a layer", number(&layer["without"]), right, words, 0.001 * words);
    }
    assert_eq!(found["layers"].as_array().unwrap().len(), without.len());
    let relations = found["relations"].as_array().unwrap();
    assert_eq!(relations.len(), expected["relations"].as_object().unwrap().len());
    for relation in relations {
        let name = relation["relation"].as_str().unwrap();
        let right = &expected["relations"][name];
        near(name, number(&relation["accuracy"]), right, number(&relation["words"]), 2.0);
    }
    for (fold, loss) in ["even", "odd"].into_iter().zip(expected["losses"].as_array().unwrap()) {
        let fits = found["fits"].as_array().unwrap();
        let fit = fits.iter().find(|fit| fit["parser"] == "attention" && fit["fold"] == fold).unwrap();
        assert!(number(&fit["gradient"]) <= 1e-6, "{fit}");
        assert!((number(&fit["loss"]) - number(loss)).abs() < 1e-4, "{fit} and {loss}");
    }
}

#[test]
fn heads_that_were_planted_get_weight() {
    let found = report("box:planted", &fixture("corpus/gold.conllu"), &["--words", "spaced", "--sample", "100"]);
    let heads = found["heads"].as_array().unwrap();
    let weight = |name: &str, direction: &str| {
        number(&heads.iter().find(|head| head["name"] == name).unwrap()["weight"][direction])
    };
    // L0H0 looks at the word before, L0H1 at the one after: for the next word speak the attention of the one to it and that of
    // the other from it, and for the word before the two others. More words depend on the next one.
    let next = weight("L0H1", "dep->head") + weight("L0H0", "head->dep");
    let before = weight("L0H0", "dep->head") + weight("L0H1", "head->dep");
    assert!(next > before + 0.3, "{next} and {before}: {heads:?}");
    // L2H0 looks two words ahead, and heads that look at special tokens say nothing of words.
    assert!(weight("L2H0", "dep->head") > 1.0, "{heads:?}");
    assert!(["L1H0", "L1H1"].iter().all(|name| weight(name, "dep->head").abs() < 0.1), "{heads:?}");
    assert!(accuracy(&found, "attention") > accuracy(&found, "best head"), "{found}");
}

#[test]
fn shards_come_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let common = ["analyze", "box:small", "-c", path(&corpus), "--with", "parser", "--without", OTHERS];
    let common = [&common[..], &["--sample", "60", "--no-run-info"]].concat();
    parts_add_up(&common, &whole);
}

#[test]
fn a_decoder_has_a_tree_too() {
    let corpus = fixture("corpus/gold.conllu");
    let found = report("box:causal", &corpus, &["--sample", "80"]);
    assert_eq!(found["none"], Value::Null);
    assert!(accuracy(&found, "attention") > accuracy(&found, "best head"), "{found}");
    assert!(found["fits"].as_array().unwrap().iter().all(|fit| number(&fit["gradient"]) <= 1e-6), "{found}");
}

#[test]
fn what_has_no_trees_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file
    };
    let row = |id: u32, form: &str, head: u32, relation: &str| {
        format!("{id}\t{form}\t_\tX\t_\t_\t{head}\t{relation}\t_\t_\n")
    };
    let sentence = row(1, "It", 2, "nsubj") + &row(2, "rains", 0, "root") + "\n";
    let alone = row(1, "Yes", 0, "root") + "\n" + &row(1, "No", 0, "root") + "\n";
    let mut answers = Answers::new();
    for (name, text) in
        [("plain.txt", "No tree is here.\nNor here.\n"), ("one.conllu", &sentence), ("alone.conllu", &alone)]
    {
        let summary = analyze("box:small", &file(name, text), &[]);
        answers.said(name, summary.lines().find(|line| line.starts_with("Syntactic heads")).unwrap());
    }
    answers.held("parser-none");
}

#[test]
fn the_summary_the_figure_and_the_tables_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, saved) = (fixture("corpus/gold.conllu"), folder.path().join("report.json"));
    let summary = analyze("box:small", &corpus, &["--sample", "60", "-o", path(&saved)]);
    let is_of_parser = |line: &&str| {
        let starts = ["Syntactic heads", " distances and", " attention of", "Sentences whose", "Points lost"];
        starts.iter().any(|start| line.starts_with(start))
    };
    let mut answers = Answers::within(folder.path());
    answers.said("the summary", &summary.lines().filter(is_of_parser).collect::<Vec<_>>().join("\n"));
    assert!(fs::read_to_string(&saved).unwrap().contains("parser-read-not-used"));
    for (option, name, output) in [
        ("--figure", "parser", "figure.svg"),
        ("--table", "parsers", "parsers.csv"),
        ("--table", "parser_relations", "relations.csv"),
        ("--table", "parser_layers", "layers.csv"),
    ] {
        let output = folder.path().join(output);
        run(&["export", path(&saved), option, name, "-o", path(&output)]).unwrap();
        assert!(fs::read_to_string(output).unwrap().lines().count() > 2, "{name}");
    }
    let shown = run(&["show", path(&saved), "L0H1", "--all"]).unwrap();
    answers.said("a card", shown.lines().find(|line| line.starts_with("parser: ")).unwrap());
    answers.held("parser-summary");
}
