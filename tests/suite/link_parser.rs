//! Links that the study `parser` reads from all heads, compared with `fixtures/reference_link_parser.py` and run as a
//! user runs them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::families::esm_with_vocabulary;
use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run, tiny_bert};
use serde_json::{Map, Value, json};
use tempfile::tempdir;

/// Studies that the tests do not need.
const OTHERS: &str = "attention,norms,trees,words,frequency,explained-variance,repeats,coreference,choice";

/// Writes the sentences of the gold corpus with their families and links. `links` makes the links of each type from the
/// rows of a sentence. Links of the type `undirected` are at least two words long.
fn corpus(file: &Path, undirected: &str, links: impl Fn(&[Vec<&str>]) -> Map<String, Value>) {
    let gold = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let mut lines = String::new();
    for block in gold.trim_end().split("\n\n") {
        let family = block.lines().find_map(|line| line.strip_prefix("# family = ")).expect("each sentence has one");
        let rows = block.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect());
        let rows: Vec<Vec<&str>> = rows.collect();
        let [forms, upos] = [1, 3].map(|column| rows.iter().map(|row| row[column]).collect::<Vec<_>>());
        let links = links(&rows);
        let mut line = json!({"words": forms, "upos": upos, "links": links, "family": family});
        if links.contains_key(undirected) {
            line["undirected"] = json!([undirected]);
            line["min_distance"] = json!({undirected: 2});
        }
        writeln!(lines, "{line}").unwrap();
    }
    fs::write(file, lines).unwrap();
}

/// Links from each word to its head, from each head to its dependents, and between dependents of one head.
fn tree_links(rows: &[Vec<&str>]) -> Map<String, Value> {
    let mut dependents: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate().filter(|(_, row)| row[6] != "0") {
        dependents.entry(row[6].parse().unwrap()).or_default().push(place + 1);
    }
    let head = dependents.iter().flat_map(|(head, own)| own.iter().map(move |word| json!([word, head])));
    let children: Vec<Value> = dependents.iter().map(|(head, own)| json!([head, own])).collect();
    let siblings = dependents.values().flat_map(|own| {
        let pairs = own.iter().flat_map(|a| own.iter().map(move |b| (*a, *b)));
        pairs.filter(|(a, b)| b.saturating_sub(*a) >= 2).map(|(a, b)| json!([a, b]))
    });
    let types = [("head", head.collect()), ("children", children), ("siblings", siblings.collect::<Vec<_>>())];
    types
        .into_iter()
        .filter(|(_, links)| !links.is_empty())
        .map(|(name, links)| (name.to_owned(), json!(links)))
        .collect()
}

fn report(model: &str, corpus: &Path, more: &[&str]) -> Value {
    let common = ["analyze", model, "-c", path(corpus), "--with", "parser", "--without", OTHERS, "--no-run-info"];
    let report = run(&[&common[..], &["-q", "-o", "-"], more].concat()).unwrap();
    serde_json::from_str(&report).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn links_of_type<'a>(links: &'a Value, name: &str) -> &'a Value {
    links.as_array().unwrap().iter().find(|links| links["type"] == name).unwrap_or_else(|| panic!("{name}: {links}"))
}

fn accuracy(links: &Value, name: &str) -> f64 {
    let all = links["accuracies"].as_array().unwrap();
    number(&all.iter().find(|one| one["parser"] == name).unwrap()["accuracy"])
}

#[test]
fn read_links_match_the_reference() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("links.jsonl");
    corpus(&file, "siblings", tree_links);
    let golden = fs::read_to_string(fixture("goldens/small-link-parser.json")).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let actual = report("box:small", &file, &["--words", "spaced", "--sample", "200"]);
    let links = &actual["parser"]["links"];
    assert_eq!(links.as_array().unwrap().len(), 3, "{links}");
    for (name, expected) in expected.as_object().unwrap() {
        let (actual, count) = (links_of_type(links, name), number(&expected["count"]));
        assert_eq!(actual["count"], expected["count"], "{name}");
        // The reference does not round its fits to half precision. A tenth of a point is one or two words that nearly
        // tie.
        for (model, most) in [
            ("attention", 0.001 * count + 1.0),
            ("attention and distances", 0.001 * count + 1.0),
            ("distances", 0.0),
            ("best head", 0.0),
            ("separations", 1e-6),
            ("chance", 1e-6),
        ] {
            let Some(right) = expected[model].as_f64() else { continue };
            let off = (accuracy(actual, model) * count - right).abs();
            assert!(off <= most + 1e-6, "{name}, {model}: {} of {count}, not {right}", accuracy(actual, model) * count);
        }
        for (fold, loss) in ["even", "odd"].into_iter().zip(expected["losses"].as_array().unwrap()) {
            let fits = actual["fits"].as_array().unwrap();
            let fit = fits.iter().find(|fit| fit["parser"] == "attention" && fit["fold"] == fold).unwrap();
            assert!((number(&fit["loss"]) - number(loss)).abs() < 1e-4, "{name}: {fit} and {loss}");
        }
        // The weights are equal as far as they matter.
        for (head, weight) in
            actual["heads"].as_array().unwrap().iter().zip(expected["weights"].as_array().into_iter().flatten())
        {
            let (actual, expected) = (number(&head["from"]), number(weight));
            assert!((actual - expected).abs() < 0.02 * (1.0 + expected.abs()), "{name}: {head} and {expected}");
        }
    }
}

/// Over the same sentences, both studies agree on every choice that is made on one half and scored on the other half.
#[test]
fn parser_baselines_match_the_links_study() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("links.jsonl");
    corpus(&file, "siblings", tree_links);
    let report = report("box:small", &file, &["--words", "spaced", "--sample", "100000", "--limit", "120"]);
    for name in ["head", "children"] {
        let [parser, links] = [&report["parser"]["links"], &report["links"]].map(|links| links_of_type(links, name));
        assert_eq!(parser["count"], links["count"]);
        for (model, links_value) in [
            ("best head", &links["heldout_accuracy"]),
            ("place", &links["by_place"]["heldout_accuracy"]),
            ("same class", &links["by_class"]["heldout_accuracy"]),
            ("class rules", &links["by_class_rules"]["heldout_accuracy"]),
            ("chance", &links["chance"]),
        ] {
            assert!((accuracy(parser, model) - number(links_value)).abs() < 1e-12, "{name}, {model}: {links_value}");
        }
    }
    let [parser, links] = [&report["parser"]["links"], &report["links"]].map(|links| links_of_type(links, "siblings"));
    assert_eq!(parser["count"], links["pairs"]["taken"]);
    for (model, links_value) in [("separations", "by_separation"), ("chance", "chance")] {
        assert!((accuracy(parser, model) - number(&links["pairs"][links_value])).abs() < 1e-9, "{model}");
    }
    let best = links["by_head"].as_array().unwrap().iter().map(|head| number(&head["precision_at_length"]));
    assert!(accuracy(parser, "best head") <= best.fold(0.0, f64::max) + 1e-12);
}

/// The arcs of a tree, given as links. Scored words and single heads agree. Only the root and punctuation make the fits
/// differ.
#[test]
fn tree_arcs_as_links_are_read_nearly_as_well() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("arcs.jsonl");
    corpus(&file, "", |rows| {
        let arcs = rows.iter().filter(|row| row[6] != "0" && row[7].split(':').next() != Some("punct"));
        let arcs: Vec<Value> =
            arcs.map(|row| json!([row[0].parse::<u64>().unwrap(), row[6].parse::<u64>().unwrap()])).collect();
        if arcs.is_empty() { Map::new() } else { json!({"arc": arcs}).as_object().unwrap().clone() }
    });
    let common = ["--words", "spaced", "--sample", "120", "--unit", "sentences"];
    let trees = report("box:small", &fixture("corpus/gold.conllu"), &common);
    let links = report("box:small", &file, &common);
    assert_eq!(trees["parser"].get("links"), None);
    let (trees, links) = (&trees["parser"], links_of_type(&links["parser"]["links"], "arc"));
    // A word whose only other word is its head has no choice as a link.
    let (words, sources) = (number(&trees["words"]), number(&links["count"]));
    assert!(words - sources >= 0.0 && words - sources <= 0.01 * words, "{words} {sources}");
    let tree_hits = |name: &str| accuracy(trees, name) * words - (words - sources);
    assert!((tree_hits("best head") - accuracy(links, "best head") * sources).abs() < 1e-6);
    for name in ["attention", "distances", "attention and distances", "distances and embeddings"] {
        let [tree, link] = [accuracy(trees, name), accuracy(links, name)];
        assert!((tree - link).abs() < 0.03, "{name}: {tree} as trees, {link} as links");
    }
}

#[test]
fn shards_merge_to_the_report_of_one_run() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("links.jsonl");
    corpus(&file, "siblings", tree_links);
    let common = ["analyze", "box:small", "-c", path(&file), "--with", "parser", "--without", OTHERS];
    let common = [&common[..], &["--sample", "60", "--no-run-info"]].concat();
    parts_add_up(&common, &scratch.path().join("whole.json"));
}

#[test]
fn too_few_links_get_a_remark() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("few.jsonl");
    let line = |links: &str| format!(r#"{{"words": ["a", "b", "c"], "links": {links}}}"#) + "\n";
    let summary = |text: &str| {
        fs::write(&file, text).unwrap();
        let common = ["analyze", "box:small", "-c", path(&file), "--with", "parser", "--without", OTHERS];
        run(&[&common[..], &["--summary", "full"]].concat()).unwrap()
    };
    let mut answers = Answers::new();
    let text = summary(&line(r#"{"maps": [[1, 2]]}"#).repeat(3));
    answers.said("three links", text.lines().find(|line| line.contains("from all heads")).unwrap());
    // A type that is named but has no link, compared with no type at all.
    let text = summary(&line(r#"{"maps": []}"#).repeat(3));
    answers.said("a type without links", text.lines().find(|line| line.contains("from all attention heads")).unwrap());
    answers.held("link-parser-too-few");
    assert!(!text.contains("Links from all"), "{text}");
}

#[test]
fn summary_and_table_have_every_type() {
    let scratch = tempdir().unwrap();
    let [file, saved, table] = ["links.jsonl", "report.json", "links.csv"].map(|name| scratch.path().join(name));
    corpus(&file, "siblings", tree_links);
    let common =
        ["analyze", "box:small", "-c", path(&file), "--with", "parser", "--without", OTHERS, "--summary", "full"];
    let text = run(&[&common[..], &["--sample", "100", "-o", path(&saved)]].concat()).unwrap();
    // The line above each table, and the names of the table's columns.
    let lines: Vec<&str> =
        text.lines().filter(|line| line.contains("from all attention heads") || line.contains("untrained")).collect();
    let mut answers = Answers::new();
    answers.said("three types of links", &lines.join("\n"));
    answers.held("link-parser-summary");
    assert!(text.contains("\n siblings ") && text.contains("\n children "), "{text}");
    assert!(!text.contains("Syntactic heads from all attention heads"), "{text}");
    assert!(fs::read_to_string(&saved).unwrap().contains("links-read-not-used"));
    run(&["export", path(&saved), "--table", "parser_links", "-o", path(&table)]).unwrap();
    let table = fs::read_to_string(table).unwrap();
    assert!(table.starts_with("type,") && table.lines().count() == 1 + 10 + 10 + 5, "{table}");
    let shown = run(&["show", path(&saved), "L0H0", "--all"]).unwrap();
    assert!(!shown.contains("weights in the parser of all heads"), "{shown}");
}

#[test]
fn protein_contacts_are_read_from_a_residue_model() {
    let scratch = tempdir().unwrap();
    let model = esm_with_vocabulary();
    let [fasta, table] = ["p.fasta", "contacts.tsv"].map(|name| scratch.path().join(name));
    let (mut proteins, mut contacts) = (String::new(), "sentence\tfrom\tto\ttype\n".to_owned());
    for number in 0..24_usize {
        let residue =
            |place: usize| "ACDEFGHIKLMNPQRSTVWY".as_bytes()[(number * 7 + place * place * 3 + place) % 20] as char;
        writeln!(proteins, ">P{number}\n{}", (0..24).map(residue).collect::<String>()).unwrap();
        for place in 1..=8 {
            writeln!(contacts, "P{number}\t{place}\t{}\tcontact", place + 7 + (number + place) % 6).unwrap();
        }
    }
    fs::write(&fasta, proteins).unwrap();
    fs::write(&table, contacts).unwrap();
    let options = ["--links", path(&table), "--undirected", "contact", "--min-distance", "contact=6"];
    let arguments =
        ["analyze", path(model.path()), "-c", path(&fasta), "--with", "parser", "--no-run-info", "-q", "-o", "-"];
    let report: Value = serde_json::from_str(&run(&[&arguments[..], &options].concat()).unwrap()).unwrap();
    let actual = links_of_type(&report["parser"]["links"], "contact");
    assert_eq!(
        (&actual["undirected"], &actual["none"], &actual["count"]),
        (&json!(true), &Value::Null, &json!(24 * 24))
    );
    assert!(accuracy(actual, "chance") > 0.0 && accuracy(actual, "attention") >= 0.0, "{actual}");
}

#[test]
fn decoder_reads_links_on_both_sides() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("links.jsonl");
    corpus(&file, "siblings", tree_links);
    let report = report("box:causal", &file, &["--sample", "60"]);
    let sides: Vec<(&str, &str)> = report["parser"]["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|links| (links["type"].as_str().unwrap(), links["side"].as_str().unwrap()))
        .collect();
    let expected =
        [("children", "left"), ("children", "right"), ("head", "left"), ("head", "right"), ("siblings", "left")];
    assert_eq!(sides, expected);
    let fits = report["parser"]["links"].as_array().unwrap().iter().flat_map(|links| links["fits"].as_array().unwrap());
    assert!(fits.clone().count() > 20 && fits.clone().all(|fit| number(&fit["gradient"]) <= 1e-6), "{report}");
}

/// A model without trees and links runs as before.
#[test]
fn report_without_links_does_not_mention_links() {
    let (model, gold) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let arguments = ["analyze", path(&model), "-c", path(&gold), "--with", "parser", "--sample", "20", "--limit", "40"];
    let text = run(&[&arguments[..], &["--summary", "full"]].concat()).unwrap();
    assert!(!text.to_lowercase().contains("links"), "{text}");
}
