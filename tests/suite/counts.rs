//! Every output states the label counts of the report.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{fixture, path, run};
use serde_json::Value;

/// The numbers in `A of B` before each occurrence of `phrase`. In `7 of 16 heads (44 %) have a firm role`, ` a firm
/// role` gives (7, 16).
fn counts(text: &str, phrase: &str) -> Vec<(usize, usize)> {
    let number = |word: &str| word.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok();
    let before = |at: usize| -> Option<(usize, usize)> {
        let start = text[..at].rfind(" of ").filter(|start| at - start < 40)?;
        Some((
            number(text[..start].split_whitespace().next_back()?)?,
            number(text[start + 4..at].split_whitespace().next()?)?,
        ))
    };
    text.match_indices(phrase).filter_map(|(at, _)| before(at)).collect()
}

/// A report of studies that need only a corpus, with its summary and its page.
#[test]
fn all_outputs_state_equal_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (saved, page) = (folder.path().join("report.json"), folder.path().join("report.html"));
    let corpus = fixture("corpus/gold.conllu");
    let with = "norms,choice,segments,similarity,repeats";
    let arguments =
        ["analyze", "box:small", "-c", path(&corpus), "--limit", "300", "--with", with, "--summary", "full"];
    let summary = run(&[&arguments[..], &["-o", path(&saved), "-o", path(&page)]].concat()).unwrap();
    let page = fs::read_to_string(&page).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let heads = report["heads"].as_array().unwrap();
    let labels_of = |head: &'_ Value| -> Vec<Value> { head["labels"].as_array().unwrap().clone() };
    let is_firm_role = |label: &Value| label["borderline"] == false && label["label"] != "broad";
    // Firm: heads with a firm role, in every output.
    let firm = heads.iter().filter(|head| labels_of(head).iter().any(is_firm_role)).count();
    let shown = run(&["show", path(&saved)]).unwrap();
    let brief: Vec<&str> = report["in_brief"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    for (name, text) in [("summary", &*summary), ("page", &page), ("show", &shown), ("in_brief", &brief.join("\n"))] {
        let found = counts(text, " a firm role");
        assert!(
            !found.is_empty() && found.iter().all(|count| *count == (firm, heads.len())),
            "{name}: {found:?}, {firm}"
        );
    }
    // The counts by first firm role add up to the number of heads with a firm role.
    let by_role: usize = brief[0]
        .split_once(": ")
        .unwrap()
        .1
        .split(", ")
        .filter_map(|part| part.split_whitespace().next().unwrap().parse::<usize>().ok())
        .sum();
    assert_eq!(by_role, firm, "{}", brief[0]);
    // All: firm and borderline labels together.
    let all: Vec<Value> = heads.iter().flat_map(labels_of).collect();
    let borderline = all.iter().filter(|label| label["borderline"] == true).count();
    for (name, text) in [("summary", &*summary), ("page", &page)] {
        let found = counts(text, " borderline: score above the threshold");
        assert!(!found.is_empty() && found.iter().all(|count| *count == (borderline, all.len())), "{name}: {found:?}");
    }
    // First: the legend of the grid counts every head once, by the category of its first label.
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for head in heads {
        let name = head["primary"].as_str().unwrap();
        let family = if name.starts_with("syntactic:") { "syntactic:<relation>" } else { name };
        *first.entry(family.to_owned()).or_default() += 1;
    }
    for (family, count) in first.iter().filter(|(family, _)| *family != "unlabelled") {
        let line = summary.lines().find(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(&count.to_string()) && words.next() == Some(family)
        });
        assert!(line.is_some(), "{count} {family}: {summary}");
    }
    // A study lists all heads with one of its labels, even if another label comes first.
    let listed = summary.split_once("(first label or not):").unwrap().1;
    let separator = listed.split_once(", separator ").unwrap().1;
    let listed_names: Vec<String> = separator
        .split([',', '\n'])
        .next()
        .unwrap()
        .split_whitespace()
        .map(|name| name.trim_end_matches('?').to_owned())
        .collect();
    let labelled_heads = heads.iter().filter(|head| labels_of(head).iter().any(|label| label["label"] == "separator"));
    assert_eq!(listed_names, labelled_heads.map(|head| head["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
    // The table of labels has a row for each label.
    let table = folder.path().join("labels.csv");
    run(&["export", path(&saved), "--table", "labels", "-o", path(&table)]).unwrap();
    assert_eq!(fs::read_to_string(&table).unwrap().lines().count(), all.len() + 1);
}
