//! An installed program's completions, manual pages, verbose version and citations.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::answers::Answers;
use crate::support::{path, run};

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).unwrap();
        for word in ["analyze", "batch", "keep-going", "max-tokens"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    assert_eq!(run(&["completions", "csh"]).unwrap_err().0, 2);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let man = folder.path().join("share/man1");
    run(&["man", "-o", path(&man)]).unwrap();
    let names: BTreeSet<String> =
        fs::read_dir(&man).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let help = run(&["--help"]).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut expected: BTreeSet<String> = commands
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|name| *name != "help" && help.contains(&format!("\n  {name} ")))
        .map(|name| format!("headscope-{name}.1"))
        .collect();
    expected.insert("headscope.1".to_owned());
    assert!(expected.is_subset(&names), "{names:?} {expected:?}");
    let page = fs::read_to_string(man.join("headscope-batch.1")).unwrap();
    assert!(page.contains(".TH headscope-batch 1") && page.contains("keep\\-going"), "{page}");
    assert_eq!(run(&["man", "-o", path(&man.join("headscope.1"))]).unwrap_err().0, 5);
}

#[test]
fn verbose_version_names_features_and_processor() {
    let short = run(&["--version"]).unwrap();
    assert_eq!(short, format!("headscope {}\n", env!("CARGO_PKG_VERSION")));
    for arguments in [["--version", "--verbose"], ["--verbose", "--version"]] {
        let long = run(&arguments).unwrap();
        assert!(long.starts_with(&short), "{long}");
        let keys: Vec<&str> = long.lines().skip(1).map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(keys, ["features", "system", "processor path", "report schema", "partial format"]);
    }
    assert_eq!(run(&["--verbose", "explain"]).unwrap_err().0, 2);
}

#[test]
fn cite_names_the_papers_of_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    run(&["analyze", "box:planted", "-c", "box:gold", "--limit", "60", "-o", path(&report), "-q"]).unwrap();
    let text = run(&["cite", path(&report)]).unwrap();
    assert!(text.contains(&format!(". Version {}. Software", env!("CARGO_PKG_VERSION"))), "{text}");
    let is_named = |line: &&str| ["  confidence ", "  Clark et al. 2019."].iter().any(|start| line.starts_with(start));
    let mut answers = Answers::new();
    answers.said("the program and labels", text.split("\nMetrics of").next().unwrap());
    answers.said("a metric and a paper", &text.lines().filter(is_named).collect::<Vec<_>>().join("\n"));
    answers.held("installed-papers");
    let bibtex = run(&["cite", path(&report), "--bibtex"]).unwrap();
    let entry = "\n}\n\n@inproceedings{clark2019,\n  author = {Clark, Kevin and Khandelwal, Urvashi and ";
    assert!(bibtex.contains(entry), "{bibtex}");

    let mut json: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    for head in json["heads"].as_array_mut().unwrap() {
        head["metrics"]["confidence"] = Value::Null;
    }
    let without = folder.path().join("without.json");
    fs::write(&without, json.to_string()).unwrap();
    let text = run(&["cite", path(&without)]).unwrap();
    assert!(!text.contains("\n  confidence  "), "a metric that no head has a value of: {text}");

    assert!(run(&["cite"]).unwrap().starts_with("cff-version: 1.2.0\n"));
    assert_eq!(run(&["cite", path(&folder.path().join("absent.json"))]).unwrap_err().0, 3);
}
