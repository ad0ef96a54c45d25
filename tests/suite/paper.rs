//! Tables for a paper: relations of one or several reports, and prunable heads.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run};

/// The rows of a CSV table; each row maps columns to cells.
fn table(reports: &[&str], name: &str, file: &Path) -> Vec<HashMap<String, String>> {
    run(&[&["export"], reports, &["--table", name, "-o", path(file)]].concat()).unwrap();
    let mut rows = csv::Reader::from_path(file).unwrap();
    rows.deserialize().map(Result::unwrap).collect()
}

#[test]
fn relation_rows_have_eight_columns_and_the_firmness_of_their_label() {
    let folder = tempfile::tempdir().unwrap();
    let (saved, gold) = (folder.path().join("small.json"), fixture("corpus/gold.conllu"));
    run(&["analyze", "box:small", "-c", path(&gold), "-q", "-o", path(&saved)]).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let rows = table(&[path(&saved)], "paper", &folder.path().join("paper.csv"));
    let firm_labels = |head: &str| -> Vec<String> {
        let head = report["heads"].as_array().unwrap().iter().find(|other| other["name"] == head).unwrap();
        let labels = head["labels"].as_array().unwrap().iter().filter(|label| label["borderline"] == false);
        labels
            .filter(|label| label["direction"].is_string())
            .map(|label| format!("{} {}", label["label"].as_str().unwrap(), label["direction"].as_str().unwrap()))
            .collect()
    };
    let mut firm = 0;
    for row in &rows {
        let (head, direction) = row["head"].split_once(' ').unwrap();
        let label = format!("syntactic:{} {direction}", row["relation"]);
        assert_eq!(row["firm"] == "true", firm_labels(head).contains(&label), "{row:?}");
        firm += usize::from(row["firm"] == "true");
        assert_eq!(row.len(), 8);
    }
    assert!(firm > 0 && firm < rows.len(), "{firm} of {}", rows.len());
    let latex = folder.path().join("paper.tex");
    run(&["export", path(&saved), "--table", "paper", "-o", path(&latex)]).unwrap();
    let written = fs::read_to_string(&latex).unwrap();
    assert!(written.contains("\\begin{tabular}{lrllrrrr}"));
    let caption = written.lines().find_map(|line| line.strip_prefix("\\caption{")).unwrap();
    let mut answers = Answers::within(folder.path());
    answers.said(&format!("the caption, of {} sentences", report["corpus"]["sentences"]), caption);

    // A second report stands beside the first report. A report without relations has no such table.
    let half = folder.path().join("half.json");
    run(&["analyze", "box:small", "-c", path(&gold), "--limit", "350", "-q", "-o", path(&half)]).unwrap();
    let beside = table(&[path(&saved), path(&half)], "paper", &folder.path().join("both.csv"));
    let first = beside.iter().find(|row| row["relation"] == rows[0]["relation"]).unwrap();
    assert_eq!((&first["small.accuracy"], &first["small.head"]), (&rows[0]["accuracy"], &rows[0]["head"]));
    // The baselines of other sentences differ, so each report has its own.
    assert!(["offset", "word_classes"].iter().all(|name| first[&format!("half.{name}")].parse::<f64>().unwrap() > 0.0));
    assert!(!first.contains_key("offset"), "{first:?}");
    let stacked = table(&[path(&saved), path(&half)], "labels", &folder.path().join("labels.csv"));
    assert!(["small", "half"].iter().all(|report| stacked.iter().any(|row| row["report"] == *report)));
    let bare = folder.path().join("bare.json");
    run(&[
        "analyze",
        "box:small",
        "-c",
        path(&gold),
        "--limit",
        "50",
        "--without",
        "dependency",
        "-q",
        "-o",
        path(&bare),
    ])
    .unwrap();
    let out = folder.path().join("none.csv");
    let arguments = ["export", path(&saved), path(&bare), "--table", "paper", "-o", path(&out)];
    answers.refused("one report has no relations", &run(&arguments).unwrap_err());
    answers.held("paper-relations");
    assert!(!out.exists());
}

#[test]
fn budget_removes_the_first_heads_of_the_order() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("pruned.json");
    let others = "attention,trees,dependency,words,frequency,explained-variance";
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["--with", "pruning", "--sample", "30", "--removal", "zero", "--without", others];
    run(&[&["analyze", "box:small", "-c", path(&corpus), "-q", "-o", path(&saved)], &arguments[..]].concat()).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let rows = table(&[path(&saved)], "prune", &folder.path().join("prune.csv"));
    for curve in report["pruning"]["orders"].as_array().unwrap() {
        for budget in curve["can_go"].as_array().unwrap() {
            let is_row_of_budget = |row: &&HashMap<String, String>| {
                row["by"] == curve["by"].as_str().unwrap()
                    && row["of"] == budget["of"].as_str().unwrap()
                    && row["rise"].parse::<f64>().unwrap() == budget["rise"].as_f64().unwrap()
            };
            let mut listed: Vec<String> = Vec::new();
            for row in rows.iter().filter(is_row_of_budget) {
                assert_eq!(row["removal"], "zero");
                listed.extend(row["heads"].split(' ').map(|head| format!("L{}H{head}", row["layer"])));
                assert_eq!(row["removed"].parse::<f64>().unwrap(), 16.0 * budget["share"].as_f64().unwrap());
            }
            let count = listed.len();
            let mut first: Vec<String> = curve["heads"].as_array().unwrap()[..count]
                .iter()
                .map(|head| format!("L{}H{}", head["layer"], head["head"]))
                .collect();
            first.sort();
            assert_eq!((count as f64 / 16.0, listed), (budget["share"].as_f64().unwrap(), first));
        }
    }
    assert!(!rows.is_empty());
}
