//! The invariants of docs/ARCHITECTURE.md that can be read off the sources.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The files under `src/` in whose code (comments left out) `word` occurs, as paths relative to it.
fn files_with(word: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    sources(&root, &mut all);
    let mentions = |path: &&PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
        code.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| line.contains(word))
    };
    let mut names: Vec<String> =
        all.iter().filter(mentions).map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect();
    names.sort();
    names
}

fn outside(word: &str, allowed: &[&str]) -> Vec<String> {
    let found = files_with(word);
    assert!(!found.is_empty(), "{word} is nowhere: this test looks for the wrong thing");
    found.into_iter().filter(|name| !allowed.iter().any(|start| name.starts_with(start))).collect()
}

#[test]
fn only_the_hub_client_reaches_the_network() {
    assert_eq!(outside("hf_hub", &["model/hub/"]), [""; 0]);
    assert_eq!(files_with("std::net"), [""; 0]);
}

#[test]
fn only_the_model_knows_tensors() {
    assert_eq!(outside("candle", &["model/"]), [""; 0]);
    assert_eq!(outside("gemm", &["model/"]), [""; 0]);
}

#[test]
fn only_the_command_line_knows_clap() {
    assert_eq!(outside("clap", &["commands/cli/"]), [""; 0]);
}

/// An output cannot overwrite what was opened there.
#[test]
fn inputs_are_opened_in_one_place() {
    for word in [" File::open(", "(File::open(", "fs::read(", "fs::read_to_string("] {
        assert_eq!(files_with(word).iter().filter(|name| !name.starts_with("system/")).count(), 0, "{word}");
    }
}

#[test]
fn unsafe_code_is_in_one_place() {
    assert_eq!(files_with("unsafe "), ["model/forward/matmul.rs"]);
}

#[test]
fn only_the_writers_and_readers_know_json_text() {
    // Reports are written by export/ and report/; config.json and tokenizer_config.json are read by model/;
    // corpus/ reads JSON lines; maps.rs writes metadata, cli/ prints the schema, metrics/head.rs describes an object to it;
    // partials have a header in JSON, which observation.rs compares; diff.rs compares reports of any version key by key.
    let allowed = [
        "export/",
        "report/",
        "model/",
        "corpus/jsonl.rs",
        "commands/maps.rs",
        "commands/cli/",
        "commands/diff.rs",
        "studies/metrics/head.rs",
        "passes/partial.rs",
        "passes/observation.rs",
    ];
    assert_eq!(outside("serde_json", &allowed), [""; 0]);
}
