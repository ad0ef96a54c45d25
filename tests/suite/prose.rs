//! All printed text, compared whole with reviewed snapshots: help, summaries, cards, comparisons, messages, texts of
//! figures.
//!
//! To review a rewording, run `INSTA_UPDATE=always cargo test --release --test suite prose` and read the difference in
//! `tests/suite/snapshots`. Decimals, percentages and ends of intervals are written `#`, since their last digits differ
//! between processors. Goldens hold the values.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::support::answers::{held, without_decimals};
use crate::support::{fixture, headscope, outcome, path, run};
use tempfile::TempDir;

fn printed(arguments: &[&str]) -> String {
    run(arguments).unwrap_or_else(|(status, message)| panic!("{arguments:?} ends with {status}: {message}"))
}

/// All commands, including hidden ones.
fn commands() -> Vec<String> {
    let completions = printed(&["completions", "bash"]);
    let mut names: Vec<String> = completions
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter_map(|word| word.strip_prefix("headscope__subcmd__"))
        .filter(|name| !name.contains("__"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn help() {
    held("help", &printed(&["--help"]));
    held("help-short", &printed(&["-h"]));
    held("help-analyze-short", &printed(&["analyze", "-h"]));
    for command in commands().iter().filter(|name| *name != "help") {
        held(&format!("help-{command}"), &printed(&[command, "--help"]));
    }
}

/// Two reports over the first 300 sentences of the box's corpus, and the commands that show them.
#[test]
fn reports() {
    let folder = TempDir::new().unwrap();
    let in_folder = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let gold = fixture("corpus/gold.conllu");
    let corpus = ["-c", path(&gold), "--limit", "300", "--no-run-info"];
    let (first, second) = (in_folder("first.json"), in_folder("second.json"));
    let studies = "effect,pruning,edges,output-shift,similarity,norms,repeats,parser,examples,trees,segments";
    let with = ["--with", studies, "--sample", "40"];
    let brief = printed(&[&["analyze", "box:small"], &corpus[..], &with, &["-o", &first]].concat());
    printed(&[&["analyze", "box:planted"], &corpus[..], &["-q", "-o", &second]].concat());
    let held = |name: &str, text: &str| held(name, &without_decimals(&text.replace(path(folder.path()), "DIR")));
    held("summary-brief", &brief);
    held("summary-full", &printed(&["show", &first, "--summary", "full"]));
    for head in ["L0H0", "L1H3", "L2H3", "L3H3"] {
        held(&format!("card-{head}"), &printed(&["show", &first, head]));
    }
    held("card-relation", &printed(&["show", &first, "--relation", "nsubj"]));
    held("heads", &printed(&["show", &first, "--heads"]));
    let decoder = [&["analyze", "box:causal"], &corpus[..], &["--with", "repeats,norms"]].concat();
    held("summary-decoder", &printed(&decoder));
    held("summary-decoder-full", &printed(&[&decoder[..], &["--summary", "full"]].concat()));
    for figure in ["grid", "layers", "relations", "effects", "pruning", "edges", "output-shift"] {
        let drawn = in_folder("figure.svg");
        printed(&["export", &first, "--figure", figure, "-o", &drawn]);
        held(&format!("figure-{figure}"), &texts(&fs::read_to_string(&drawn).unwrap()));
    }
    let changed = in_folder("changed.json");
    printed(&[&["analyze", "box:small", "--remove", "L1H3"], &corpus[..], &["-q", "-o", &changed]].concat());
    for command in [&["compare"][..], &["compare", "--numbers"], &["gate"], &["confirm"]] {
        let output = headscope(&[command, &[&first, &changed]].concat()).output().unwrap();
        let name = command.join("");
        let answer = outcome(&output).unwrap_or_else(|(status, message)| {
            format!("{}(status {status}) {message}", String::from_utf8_lossy(&output.stdout))
        });
        // The changed metrics differ between processors, so a snapshot holds only the sentences.
        held(&name, &if command.len() > 1 { sentences(&answer.replace(path(folder.path()), "DIR")) } else { answer });
    }
}

/// The lines of a text that are not indented, with `#` for each digit.
fn sentences(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with(' '));
    lines.collect::<Vec<_>>().join("\n").replace(|c: char| c.is_ascii_digit(), "#")
}

/// The texts of a figure, one per line.
fn texts(svg: &str) -> String {
    let elements = svg.split('<').filter(|element| !element.starts_with('/') && !element.starts_with("style"));
    let texts = elements.filter_map(|element| Some(element.split_once('>')?.1.trim())).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

/// The messages about wrong usage, by command line. No command needs a file.
#[test]
fn messages() {
    let wrong: [&[&str]; 33] = [
        &["analyse"],
        &["analyze", "--wiht", "effect"],
        &["analyze", "--with", "efect"],
        &["analyze", "--without", "efect"],
        &["analyze", "box:smal"],
        &["analyze", "no/such/folder"],
        &["analyze", "-c", "absent.conllu"],
        &["analyze", "--limit", "0"],
        &["analyze", "--limit", "many"],
        &["analyze", "--remove", "L9H9"],
        &["analyze", "--remove", "1.3"],
        &["analyze", "--shard", "3/2"],
        &["analyze", "-o", "report.pdf"],
        &["analyze", "-o", "no/such/folder/report.json"],
        &["analyze", "--policy", "absent.toml"],
        &["analyze", "--threads", "0"],
        &["analyze", "--memory", "lots"],
        &["analyze", "--preset", "clark2018"],
        &["analyze", "--control", "shuffled"],
        &["analyze", "--with", "task"],
        &["analyze", "--task", "absent.jsonl"],
        &["analyze", "--with", "coreference"],
        &["show", "absent.json"],
        &["show"],
        &["export", "absent.json"],
        &["compare", "absent.json"],
        &["gate", "absent.json", "absent.json"],
        &["merge"],
        &["explain", "nonsens"],
        &["explain", "ov"],
        &["view", "--head", "L9H9"],
        &["view", "--relation", "subject"],
        &["batch", "absent.toml"],
    ];
    let nowhere = TempDir::new().unwrap();
    let mut answers = String::new();
    for arguments in wrong {
        let output = headscope(arguments)
            .env("HF_HUB_OFFLINE", "1")
            .env("HF_HOME", nowhere.path())
            .current_dir(nowhere.path())
            .output()
            .unwrap();
        let (status, message) = match outcome(&output) {
            Ok(printed) => (0, printed),
            Err(failed) => failed,
        };
        let message = message.replace(path(nowhere.path()), "DIR");
        writeln!(answers, "$ headscope {}\n{message}status {status}\n", arguments.join(" ")).unwrap();
        assert!(
            fs::read_dir(nowhere.path()).unwrap().all(|entry| entry.unwrap().file_name() != Path::new("report.pdf"))
        );
    }
    held("messages", &without_decimals(&answers));
}
