//! Models and sentences that need more memory than is free are refused in advance.

use std::fs;
use std::path::PathBuf;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The tiny Llama with other sizes in its `config.json`. It has no table of positions.
struct Resized(TempDir);

impl Resized {
    fn new(sizes: &[(&str, u64)]) -> Self {
        let folder = TempDir::new().unwrap();
        for entry in fs::read_dir(fixture("models/tiny-llama")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        let config = folder.path().join("config.json");
        let mut json: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
        for (key, size) in sizes {
            json[key] = json!(size);
        }
        fs::write(&config, json.to_string()).unwrap();
        let vocabulary = fixture("models/tiny-bert/tokenizer.json");
        fs::copy(vocabulary, folder.path().join("tokenizer.json")).unwrap();
        Self(folder)
    }

    fn analyze(&self, text: &str, more: &[&str]) -> Result<PathBuf, (i32, String)> {
        let (corpus, report) = (self.0.path().join("a.txt"), self.0.path().join("report.json"));
        fs::write(&corpus, text).unwrap();
        let arguments = ["analyze", path(self.0.path()), "-c", path(&corpus), "-q", "-o", path(&report)];
        run(&[&arguments[..], more].concat()).map(|_| report)
    }

    fn answers(&self) -> Answers {
        let name = self.0.path().file_name().unwrap().to_str().unwrap();
        Answers::new().hiding(name, "NAME").hiding(path(self.0.path()), "DIR")
    }
}

#[test]
fn the_error_of_a_long_sentence_states_the_memory_it_needs() {
    let long = Resized::new(&[("max_position_embeddings", 131_072)]);
    let text = format!("the dog\n{}\nthe cat\n", "dog ".repeat(3000));
    let refusal = long.analyze(&text, &["--context", "sentence", "--memory", "250MB"]).unwrap_err();
    // Free memory is the limit minus what the process already uses.
    let (_, free) = refusal.1.split_once(" of memory, and ").unwrap();
    let (free, _) = free.split_once(" are free").unwrap();
    assert!(free.starts_with('2'), "{free}");
    let mut answers = long.answers().hiding(&format!(", and {free} are"), ", and FREE are");
    answers.refused("a long sentence", &refusal);
    answers.held("costly-shapes-long-sentence");
    assert!(!long.0.path().join("report.json").exists());
    // The remedy that the error suggests works.
    let skipped = long.analyze(&text, &["--context", "sentence", "--memory", "250MB", "--max-tokens", "1500"]).unwrap();
    let report: Value = serde_json::from_slice(&fs::read(skipped).unwrap()).unwrap();
    assert_eq!(report["corpus"]["sentences"], 2);
}

/// A pack that does not fit beside others runs alone, with identical sums.
#[test]
fn a_memory_limit_changes_no_byte() {
    let long = Resized::new(&[("max_position_embeddings", 4096)]);
    let text = format!("the dog\n{}\nthe cat\n", "dog ".repeat(1500));
    let report = |memory: &[&str]| {
        let arguments = ["--context", "sentence", "--no-run-info", "--threads", "2"];
        fs::read(long.analyze(&text, &[&arguments[..], memory].concat()).unwrap()).unwrap()
    };
    assert!(report(&[]) == report(&["--memory", "250MB"]));
}

#[test]
fn sizes_beyond_the_memory_are_refused_before_weights_are_read() {
    // 4,096 heads of dimension 1,024 share one key.
    let sizes =
        [("num_hidden_layers", 1), ("num_attention_heads", 4096), ("head_dim", 1024), ("num_key_value_heads", 1)];
    let large = Resized::new(&sizes);
    let mut answers = large.answers().hiding(" 18.0 GB", " 18 GB");
    answers.refused("heads of large sizes", &large.analyze("the dog\n", &["--memory", "8GB"]).unwrap_err());
    answers.held("costly-shapes-weights");
}
