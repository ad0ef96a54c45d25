//! Few or unequal documents, on which nothing is tested; and `--limit`, which takes whole documents.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{fixture, parts_add_up, path, run};
use serde_json::{Value, json};

/// The sentences of the gold corpus without their `# family` comments.
fn sentences() -> Vec<String> {
    let gold = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let plain = |sentence: &str| sentence.split_inclusive('\n').filter(|line| !line.starts_with("# family")).collect();
    gold.split_inclusive("\n\n").map(plain).collect()
}

/// Writes a file of documents, each with these sentences.
fn documents<'a>(folder: &Path, name: &str, documents: impl IntoIterator<Item = &'a [String]>) -> PathBuf {
    let document = |sentences: &[String]| format!("# newdoc\n{}", sentences.concat());
    let file = folder.join(name);
    fs::write(&file, documents.into_iter().map(document).collect::<String>()).unwrap();
    file
}

fn analyze(corpus: &Path, report: &Path, more: &[&str]) -> Value {
    let common = ["analyze", "box:small", "-c", path(corpus), "--no-run-info", "-q", "-o", path(report)];
    run(&[&common[..], more].concat()).unwrap();
    serde_json::from_slice(&fs::read(report).unwrap()).unwrap()
}

fn firm_labels(report: &Value) -> usize {
    let labels = report["heads"].as_array().unwrap().iter().flat_map(|head| head["labels"].as_array().unwrap());
    labels.filter(|label| label["borderline"] == false).count()
}

#[test]
fn nothing_is_tested_on_nine_documents() {
    let folder = tempfile::tempdir().unwrap();
    let sentences = sentences();
    let [a, b] = [("a", &sentences[..342]), ("b", &sentences[342..684])].map(|(name, part)| {
        let corpus = documents(folder.path(), &format!("{name}.conllu"), part.chunks(38));
        (corpus, folder.path().join(format!("{name}.json")))
    });
    for (corpus, report) in [&a, &b] {
        let actual = analyze(corpus, report, &[]);
        assert_eq!((&actual["corpus"]["unit"], &actual["corpus"]["units"]), (&json!("documents"), &json!(9)));
        assert_eq!(firm_labels(&actual), 0);
    }
    let mut answers = Answers::within(folder.path());
    for more in [&["compare"][..], &["compare", "--numbers"]] {
        let summary = run(&[more, &[path(&a.1), path(&b.1)]].concat()).unwrap();
        answers.said(&more.join(" "), summary.lines().next().unwrap());
    }
    answers.held("few-documents-nine");
    // With `--unit sentences`, labels are tested. The report and its partial record the unit.
    let actual = analyze(&a.0, &a.1, &["--unit", "sentences"]);
    assert_eq!((&actual["corpus"]["unit"], &actual["settings"]["unit"]), (&json!("sentences"), &json!("sentences")));
    assert!(firm_labels(&actual) > 0);
    parts_add_up(&["analyze", "box:small", "--no-run-info", "-q", "-c", path(&a.0), "--unit", "sentences"], &a.1);
}

#[test]
fn nothing_is_tested_on_copies_of_one_document() {
    let folder = tempfile::tempdir().unwrap();
    let sentences = sentences();
    let corpus = documents(folder.path(), "copies.conllu", [&sentences[..40]; 12]);
    let report = analyze(&corpus, &folder.path().join("copies.json"), &[]);
    assert_eq!((&report["corpus"]["unit"], &report["corpus"]["units"]), (&json!("documents"), &json!(1)));
    assert_eq!(firm_labels(&report), 0);
    let intervals =
        report["heads"].as_array().unwrap().iter().flat_map(|head| head["ci95"].as_object().unwrap().values());
    assert!(intervals.clone().count() > 0 && intervals.into_iter().flat_map(flatten).all(Value::is_null));
}

/// A value, or the values nested in an object.
fn flatten(value: &Value) -> Vec<&Value> {
    value.as_object().map_or_else(|| vec![value], |object| object.values().flat_map(flatten).collect())
}

#[test]
fn nothing_is_tested_where_one_document_has_most_of_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let sentences = sentences();
    // Nine documents of 20 sentences and one of 500 are worth 680² / (500² + 9 · 20²) = 1.8 equal ones.
    let parts = sentences[..180].chunks(20).chain([&sentences[180..680]]);
    let corpus = documents(folder.path(), "unequal.conllu", parts);
    let report = folder.path().join("unequal.json");
    assert_eq!(firm_labels(&analyze(&corpus, &report, &[])), 0);
    let summary = run(&["compare", "--numbers", path(&report), path(&report)]).unwrap();
    let mut answers = Answers::within(folder.path());
    answers.said("compare --numbers", summary.lines().next().unwrap());
    answers.held("few-documents-unequal");
}

#[test]
fn ten_files_without_marks_count_as_documents() {
    let folder = tempfile::tempdir().unwrap();
    let sentences = sentences();
    let unit = |files: usize| {
        let file = |number: usize| {
            let file = folder.path().join(format!("{number}.conllu"));
            fs::write(&file, sentences[20 * number..20 * (number + 1)].concat()).unwrap();
            file
        };
        let files: Vec<PathBuf> = (0..files).map(file).collect();
        let corpora: Vec<&str> = files.iter().flat_map(|file| ["-c", path(file)]).collect();
        let report = run(&[&["analyze", "box:small", "-o", "-"][..], &corpora].concat()).unwrap();
        serde_json::from_str::<Value>(&report).unwrap()["corpus"]["unit"].clone()
    };
    assert_eq!([unit(1), unit(9), unit(10)], ["sentences", "sentences", "documents"]);
}

#[test]
fn a_limit_takes_whole_documents_spread_over_the_corpus() {
    let folder = tempfile::tempdir().unwrap();
    let sentences = sentences();
    let chunks: Vec<&[String]> = sentences[..600].chunks(50).collect();
    let corpus = documents(folder.path(), "twelve.conllu", chunks.iter().copied());
    let (limited, taken) = (folder.path().join("limited.json"), folder.path().join("taken.json"));
    let actual = analyze(&corpus, &limited, &["--limit", "280"]);
    assert_eq!(actual["corpus"]["documents"], json!({ "taken": 6, "of": 12 }));
    assert_eq!(actual["corpus"]["sentences"], 300);
    // Of twelve documents, the first taken are 0, 8, 4, 2, 10 and 6. These six alone give equal numbers.
    let alone = documents(folder.path(), "six.conllu", [0, 2, 4, 6, 8, 10].map(|number| chunks[number]));
    let alone = analyze(&alone, &taken, &[]);
    for key in ["heads", "relations", "chance"] {
        assert_eq!(actual[key], alone[key], "{key}");
    }
    parts_add_up(&["analyze", "box:small", "--no-run-info", "-q", "-c", path(&corpus), "--limit", "280"], &limited);
}

/// Random tokens are no part of a text. Over two sentences, a decoder's heads without a label are marked `?`, not as
/// heads without a role.
#[test]
fn short_texts_leave_unlabelled_heads_undecided() {
    let folder = tempfile::tempdir().unwrap();
    let (short, long) = (folder.path().join("short.txt"), fixture("corpus/gold.conllu"));
    fs::write(&short, "The cat sat on the mat .\nA dog barked .\n").unwrap();
    let grid = |corpus: &Path| -> String {
        let summary = run(&["analyze", "box:causal", "-c", path(corpus), "--without", "in-context"]).unwrap();
        summary.lines().filter(|line| line.starts_with(" L")).collect::<Vec<_>>().join("\n")
    };
    let (of_short, of_long) = (grid(&short), grid(&long));
    assert!(of_short.contains('?') && !of_short.contains(" . ") && of_short.contains("ind"), "{of_short}");
    assert!(of_long.contains("ind"), "{of_long}");
}
