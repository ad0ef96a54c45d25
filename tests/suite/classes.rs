//! Word classes from JSON lines, from a treebank column and from a small vocabulary; and class options that are
//! refused.

use std::fmt::Write;
use std::fs;

use crate::families::esm_with_vocabulary;
use crate::support::answers::Answers;
use crate::support::{fixture, path, run, tiny_bert};
use serde_json::{Value, json};
use tempfile::tempdir;

/// The gold corpus as JSON lines with two class keys, `upos` and `initial`.
fn gold() -> String {
    let corpus = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let mut lines = String::new();
    for block in corpus.trim_end().split("\n\n") {
        let rows = block.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect());
        let rows: Vec<Vec<&str>> = rows.collect();
        let [forms, upos] = [1, 3].map(|column| rows.iter().map(|row| row[column]).collect::<Vec<_>>());
        let initials: Vec<Option<String>> = forms.iter().map(|form| form.get(..1).map(str::to_owned)).collect();
        writeln!(lines, "{}", json!({"words": forms, "classes": {"upos": upos, "initial": initials}})).unwrap();
    }
    lines
}

/// The labels of each head with this prefix and their scores, without punctuation.
fn labels(report: &Value, family: &str) -> Vec<Vec<(String, Value)>> {
    let head_labels = |head: &Value| {
        let labels = head["labels"].as_array().unwrap().iter();
        let mut labels: Vec<(String, Value)> = labels
            .filter_map(|label| {
                let name = label["label"].as_str().unwrap().strip_prefix(family)?;
                (name != "PUNCT").then(|| (name.to_owned(), label["score"].clone()))
            })
            .collect();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels
    };
    report["heads"].as_array().unwrap().iter().map(head_labels).collect()
}

#[test]
fn classes_do_not_depend_on_the_corpus_format() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("gold.jsonl");
    fs::write(&corpus, gold()).unwrap();
    // The threshold is one point above even attention, so that some heads have labels.
    let policy = scratch.path().join("policy.toml");
    fs::write(&policy, "content_mass = 0.01\n").unwrap();
    let report = |corpus: &str, classes: &str| -> Value {
        let others = "attention,trees,dependency,links,frequency,explained-variance";
        let arguments = ["analyze", "box:small", "-c", corpus, "--words", "spaced", "--without", others];
        let classes = ["--classes", classes, "--policy", path(&policy), "--no-run-info", "-q", "-o", "-"];
        serde_json::from_str(&run(&[&arguments[..], &classes].concat()).unwrap()).unwrap()
    };
    let column = report(path(&fixture("corpus/gold.conllu")), "upos");
    let lines = report(path(&corpus), "upos");
    // Treebank sentences are grouped in families and JSON lines are not, so intervals are left out.
    let masses = |report: &Value| -> Vec<Value> {
        let heads = |class: &Value| class["by_head"].as_array().unwrap().clone();
        let heads = report["classes"].as_array().unwrap().iter().flat_map(heads);
        heads.map(|head| json!([head["mass"]["value"], head["chance"], head["expected"]])).collect()
    };
    assert_eq!(masses(&column), masses(&lines));
    assert_eq!(column["settings"]["classes"], "upos");
    let classes = column["classes"].as_array().unwrap();
    assert_eq!(column["class_kinds"], json!([{"key": "upos", "classes": classes.len()}]));
    let tags = labels(&column, "tag:");
    let names = |labels: &[Vec<(String, Value)>]| -> Vec<Vec<String>> {
        labels.iter().map(|labels| labels.iter().map(|(name, _)| name.clone()).collect()).collect()
    };
    assert_eq!(names(&labels(&column, "class:upos=")), names(&tags));
    assert!(tags.iter().any(|labels| !labels.is_empty()), "{tags:?}");
    for class in classes {
        for (head, by_class) in column["heads"].as_array().unwrap().iter().zip(class["by_head"].as_array().unwrap()) {
            assert_eq!(head["metrics"]["tag_mass"][class["class"].as_str().unwrap()], by_class["mass"]["value"]);
        }
    }
    // The second class key of the JSON lines.
    let initials = report(path(&corpus), "initial");
    let keys: Vec<&Value> = initials["classes"].as_array().unwrap().iter().map(|class| &class["key"]).collect();
    assert!(keys.len() > 10 && keys.iter().all(|key| **key == "initial"));
}

#[test]
fn residues_are_classes_by_default() {
    let model = esm_with_vocabulary();
    let corpus = model.path().join("a.fasta");
    let mut proteins = String::new();
    (0..40).for_each(|number| writeln!(proteins, ">p{number}\nMKTAYIAKQRQISFVKSHFSRQ").unwrap());
    fs::write(&corpus, proteins).unwrap();
    let arguments = ["analyze", path(model.path()), "-c", path(&corpus), "-q", "--no-run-info", "-o", "-"];
    let report: Value = serde_json::from_str(&run(&arguments).unwrap()).unwrap();
    let classes = report["classes"].as_array().unwrap();
    let class = |name: &str| classes.iter().find(|class| class["class"] == name).unwrap();
    // Twelve different residues: M K T A Y I Q R S F V H.
    assert_eq!((classes.len(), &class("K")["words"], &class("K")["key"]), (12, &json!(3 * 40), &json!("token")));
    // The sequence has 22 residues, three of them K, and 24 tokens. A K sees two other K, any other residue sees three.
    let chance = f64::from(3 * 2 + 19 * 3) / 24.0 / 22.0;
    assert!(
        (class("K")["by_head"][0]["chance"].as_f64().unwrap() - chance).abs() < 1e-9,
        "{}",
        class("K")["by_head"][0]
    );
}

#[test]
fn the_summary_mentions_classes_only_if_asked() {
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let arguments = ["analyze", path(&model), "-c", path(&corpus), "--summary", "full", "--limit", "100"];
    let printed = run(&arguments).unwrap();
    assert!(!printed.contains("class of the kind") && !printed.contains("class:"), "{printed}");
    let mut answers = Answers::new();
    for kind in ["misc.Nothing", "lemma"] {
        let printed = run(&[&arguments[..], &["--classes", kind]].concat()).unwrap();
        let lines: Vec<&str> = printed.lines().filter(|line| line.contains("of the kind")).collect();
        answers.said(kind, &lines.join("\n"));
    }
    answers.refused("nosuch", &run(&[&arguments[..], &["--classes", "nosuch"]].concat()).unwrap_err());
    answers.held("classes-no-words");
}

#[test]
fn invalid_classes_are_refused() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("bad.jsonl");
    let long = "b".repeat(257);
    let mut answers = Answers::within(scratch.path()).hiding(&long, "LONG");
    let two = r#""classes": {"element": ["C", "O"], "ring": ["a", "b"]}"#;
    for (keys, arguments) in [
        (two, &[][..]),
        (r#""ring": ["a"]"#, &["--classes", "ring"]),
        (&format!(r#""ring": ["a", "{long}"]"#), &["--classes", "ring"]),
        (r#""classes": {"a=b": ["C", "O"]}"#, &[]),
        (r#""classes": {"": ["C", "O"]}"#, &[]),
        (r#""classes": {"ring": ["", "b"]}"#, &[]),
        (two, &["--classes", "ring", "--without", "classes"]),
    ] {
        fs::write(&corpus, format!("{{\"words\": [\"C\", \"O\"], {keys}}}\n")).unwrap();
        let refused = run(&[&["analyze", path(&tiny_bert()), "-c", path(&corpus), "-q"], arguments].concat());
        answers.refused(&format!("{keys} {}", arguments.join(" ")), &refused.unwrap_err());
    }
    answers.held("classes-meaningless");
}

#[test]
fn the_summary_distinguishes_too_little_text_from_no_labelled_head() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("gold.jsonl");
    let model = tiny_bert();
    let all = gold();
    let summary = |lines: usize, more: &[&str]| {
        fs::write(&corpus, all.lines().take(lines).collect::<Vec<_>>().join("\n")).unwrap();
        let arguments = ["analyze", path(&model), "-c", path(&corpus), "--classes", "upos", "--summary", "full"];
        run(&[&arguments, more].concat()).unwrap()
    };
    let mut answers = Answers::new();
    let printed = summary(9, &[]);
    let lines: Vec<&str> = printed.lines().filter(|line| line.contains("Too little text for")).collect();
    answers.said("nine sentences", &lines.join("\n"));
    assert!(!printed.contains("No head is shown to attend"), "{printed}");
    // No head reaches a threshold of .99.
    let policy = scratch.path().join("policy.toml");
    fs::write(&policy, "content_mass = 0.99\n").unwrap();
    let printed = summary(200, &["--policy", path(&policy)]);
    answers.said("a threshold of .99", printed.lines().find(|line| line.contains(" classes.")).unwrap());
    answers.held("classes-without-labels");
    assert!(!printed.contains("Too little text for classes"), "{printed}");
}
