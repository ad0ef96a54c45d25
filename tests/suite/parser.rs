//! The study `parser`, compared with `fixtures/reference_parser.py` and run as a user runs it.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run};
use serde_json::Value;

/// Studies with their own tests.
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
fn parser_matches_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/small-parser.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let report = report("box:small", &fixture("corpus/gold.conllu"), &["--words", "spaced", "--sample", "200"]);
    let words = number(&expected["words"]);
    assert_eq!(report["words"], expected["words"]);
    // The reference does not round its fits to half precision. A tenth of a point is one or two words that nearly tie.
    let near = |at: &str, accuracy: f64, right: &Value, words: f64, most: f64| {
        let off = (accuracy * words - number(right)).abs();
        assert!(off <= most + 1e-6, "{at}: {} of {words} words, not {right}", accuracy * words);
    };
    assert_eq!(report["ridges"], expected["ridges"]);
    for name in ["attention", "distances and embeddings", "distances", "attention and distances"] {
        near(name, accuracy(&report, name), &expected[name], words, 0.001 * words);
    }
    // Counted accuracies are equal.
    for name in ["best head", "best offset", "right-branching", "tags"] {
        near(name, accuracy(&report, name), &expected[name], words, 0.0);
    }
    near("roots", number(&report["root_accuracy"]["accuracy"]), &expected["roots"], number(&report["roots"]), 1.0);
    let without = expected["without"].as_array().unwrap();
    for (layer, right) in report["layers"].as_array().unwrap().iter().zip(without) {
        near("a layer", number(&layer["without"]), right, words, 0.001 * words);
    }
    assert_eq!(report["layers"].as_array().unwrap().len(), without.len());
    let relations = report["relations"].as_array().unwrap();
    assert_eq!(relations.len(), expected["relations"].as_object().unwrap().len());
    for relation in relations {
        let name = relation["relation"].as_str().unwrap();
        let right = &expected["relations"][name];
        near(name, number(&relation["accuracy"]), right, number(&relation["words"]), 2.0);
    }
    for (fold, loss) in ["even", "odd"].into_iter().zip(expected["losses"].as_array().unwrap()) {
        let fits = report["fits"].as_array().unwrap();
        let fit = fits.iter().find(|fit| fit["parser"] == "attention" && fit["fold"] == fold).unwrap();
        assert!(number(&fit["gradient"]) <= 1e-6, "{fit}");
        assert!((number(&fit["loss"]) - number(loss)).abs() < 1e-4, "{fit} and {loss}");
    }
}

#[test]
fn planted_heads_get_weight() {
    let report = report("box:planted", &fixture("corpus/gold.conllu"), &["--words", "spaced", "--sample", "100"]);
    let heads = report["heads"].as_array().unwrap();
    let weight = |name: &str, direction: &str| {
        number(&heads.iter().find(|head| head["name"] == name).unwrap()["weight"][direction])
    };
    // L0H0 looks at the word before, and L0H1 at the word after. The next word as head has two votes: from L0H1 at the
    // dependent and from L0H0 at the head. The word before has the two opposite votes. More words depend on the next
    // word.
    let next = weight("L0H1", "dep->head") + weight("L0H0", "head->dep");
    let before = weight("L0H0", "dep->head") + weight("L0H1", "head->dep");
    assert!(next > before + 0.3, "{next} and {before}: {heads:?}");
    // L2H0 looks two words ahead. Heads that look at special tokens carry no information about words.
    assert!(weight("L2H0", "dep->head") > 1.0, "{heads:?}");
    assert!(["L1H0", "L1H1"].iter().all(|name| weight(name, "dep->head").abs() < 0.1), "{heads:?}");
    assert!(accuracy(&report, "attention") > accuracy(&report, "best head"), "{report}");
}

#[test]
fn shards_merge_to_the_report_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join("whole.json"));
    let common = ["analyze", "box:small", "-c", path(&corpus), "--with", "parser", "--without", OTHERS];
    let common = [&common[..], &["--sample", "60", "--no-run-info"]].concat();
    parts_add_up(&common, &whole);
}

#[test]
fn decoder_gets_a_tree() {
    let corpus = fixture("corpus/gold.conllu");
    let report = report("box:causal", &corpus, &["--sample", "80"]);
    assert_eq!(report["none"], Value::Null);
    assert!(accuracy(&report, "attention") > accuracy(&report, "best head"), "{report}");
    assert!(report["fits"].as_array().unwrap().iter().all(|fit| number(&fit["gradient"]) <= 1e-6), "{report}");
}

#[test]
fn corpus_without_trees_gets_a_remark() {
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
fn summary_figure_and_tables_show_the_parser() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, saved) = (fixture("corpus/gold.conllu"), folder.path().join("report.json"));
    let summary = analyze("box:small", &corpus, &["--sample", "60", "-o", path(&saved)]);
    let is_parser_line = |line: &&str| {
        let starts = ["Syntactic heads", " distances and", " attention of", "Sentences whose", "Points lost"];
        starts.iter().any(|start| line.starts_with(start))
    };
    let mut answers = Answers::within(folder.path());
    answers.said("the summary", &summary.lines().filter(is_parser_line).collect::<Vec<_>>().join("\n"));
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
