//! Tokenizers of unbounded cost are refused, or stop at the sentence that costs too much.

use std::fs;
use std::path::PathBuf;

use crate::support::answers::Answers;
use crate::support::{path, run, tiny_bert};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The tiny model with a changed tokenizer.
struct Costly(TempDir);

impl Costly {
    fn new(change: impl FnOnce(&mut Value)) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["config.json", "model.safetensors"] {
            fs::copy(tiny_bert().join(name), folder.path().join(name)).unwrap();
        }
        let mut tokenizer: Value =
            serde_json::from_slice(&fs::read(tiny_bert().join("tokenizer.json")).unwrap()).unwrap();
        change(&mut tokenizer);
        fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
        Self(folder)
    }

    fn normalized(parts: &[Value]) -> Self {
        Self::new(|tokenizer| tokenizer["normalizer"] = json!({ "type": "Sequence", "normalizers": parts }))
    }

    fn split(parts: &[Value]) -> Self {
        Self::new(|tokenizer| tokenizer["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": parts }))
    }

    /// Analyses a text and returns the path of the report, or the exit status and the error. Asserts that a failed run
    /// leaves no output.
    fn analyze(&self, text: &str) -> Result<PathBuf, (i32, String)> {
        let (corpus, report) = (self.0.path().join("a.txt"), self.0.path().join("report.json"));
        fs::write(&corpus, text).unwrap();
        let outcome = run(&["analyze", path(self.0.path()), "-c", path(&corpus), "-q", "-o", path(&report)]);
        let files = fs::read_dir(self.0.path()).unwrap().count();
        assert_eq!(files, if outcome.is_ok() { 5 } else { 4 }, "{outcome:?}");
        outcome.map(|_| report).map_err(|(status, message)| (status, message.replace(path(self.0.path()), "DIR")))
    }

    /// The exit status and the error of analysing this text.
    fn stop(&self, text: &str) -> (i32, String) {
        self.analyze(text).unwrap_err()
    }

    /// The exit status and the error of loading the tokenizer.
    fn refusal(&self) -> (i32, String) {
        self.stop("the dog\n")
    }
}

fn replace(pattern: &str, content: &str) -> Value {
    json!({ "type": "Replace", "pattern": { "String": pattern }, "content": content })
}

fn split(pattern: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false })
}

#[test]
fn a_normaliser_that_multiplies_the_text_stops_at_the_sentence() {
    let mut answers = Answers::new();
    for doublings in [26, 40] {
        let costly = Costly::normalized(&vec![replace("c", "cc"); doublings]);
        answers.refused(&format!("a letter that is doubled {doublings} times"), &costly.stop("the dog\nthe cat\n"));
        // Text that the normaliser leaves unchanged is analysed.
        costly.analyze("the dog\n").unwrap();
    }
    let costly = Costly::normalized(&[replace("c", &"c".repeat(1000)), replace("c", &"c".repeat(1000))]);
    answers.refused("letters that become a thousand, twice", &costly.stop(&"c".repeat(3000)));
    // Loading a tokenizer tokenizes the letter `a`. An empty pattern matches before each letter.
    let doubled = Costly::normalized(&vec![replace("a", "aa"); 26]);
    answers.refused("the letter `a`, doubled", &doubled.refusal());
    let before_each = json!({ "type": "Replace", "pattern": { "Regex": "" }, "content": "aaaa" });
    answers.refused("an empty match", &Costly::normalized(&vec![before_each; 9]).refusal());
    // A normaliser may prepend a text.
    Costly::normalized(&[json!({ "type": "Prepend", "prepend": " " })]).analyze("dog\n").unwrap();
    answers.held("costly-tokenizers-normalisers");
}

#[test]
fn a_pattern_that_needs_a_large_automaton_is_refused() {
    let nested = "((a{0,50}){0,50}){0,50}b";
    let mut answers = Answers::new();
    answers.refused("a pattern to split at", &Costly::split(&[split(nested)]).refusal());
    let pattern = json!({ "type": "Replace", "pattern": { "Regex": nested }, "content": "" });
    answers.refused("a pattern to replace", &Costly::normalized(&[pattern]).refusal());
    answers.refused("65 patterns", &Costly::split(&vec![split("a"); 65]).refusal());
    answers.refused("a long pattern", &Costly::split(&[split(&"a".repeat(8193))]).refusal());
    answers.held("costly-tokenizers-patterns");
}

#[test]
fn text_may_be_rewritten_only_once() {
    let twice =
        vec![json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false }); 2];
    let mut answers = Answers::new();
    answers.refused("a part that writes it anew, twice", &Costly::split(&twice).refusal());
    let twice = Costly::new(|tokenizer| {
        let text = json!({ "Sequence": { "id": "A", "type_id": 0 } });
        tokenizer["post_processor"] =
            json!({ "type": "TemplateProcessing", "single": [text, text], "pair": [], "special_tokens": {} });
    });
    answers.refused("a template with it twice", &twice.refusal());
    answers.held("costly-tokenizers-text-twice");
}

#[test]
fn a_search_that_cannot_be_interrupted_ends_the_process() {
    // Searching a word tries all ways to cut it, up to the library's bound of a million steps. That took 14 ms on the
    // machine where this was written. Even at 2 ms a search, 4,000 words exceed their limit of 7 s.
    let words = json!({ "type": "WhitespaceSplit" });
    let costly = Costly::split(&[words, split("(?:ж|жж|жжж)*(?=c)b")]);
    let text = format!("the dog\n{}\n", format!("{} ", "ж".repeat(30)).repeat(4000));
    let mut answers = Answers::new();
    answers.refused("a long search", &costly.stop(&text));
    answers.held("costly-tokenizers-search");
}

#[test]
fn a_word_that_is_slow_to_split_stops_at_the_sentence() {
    let costly = Costly::new(|tokenizer| tokenizer["model"]["max_input_chars_per_word"] = json!(1_000_000_000));
    let word = "a".repeat(20_000);
    let mut answers = Answers::new();
    answers.refused("a long word", &costly.stop(&format!("the dog\n{word}\n")));
    answers.held("costly-tokenizers-word");
    costly.analyze("the dog\n").unwrap();
    // A word longer than the tokenizer's limit becomes the unknown token, as usual.
    Costly::new(|_| ()).analyze(&format!("the dog\n{word} dog\n")).unwrap();
}

#[test]
fn a_unigram_model_of_long_pieces_stops_at_the_sentence() {
    let unigram = |lengths: Vec<usize>| {
        Costly::new(move |tokenizer| {
            let pieces = lengths.into_iter().map(|length| (length, "a".repeat(length), -(length as f64)));
            let special = ["<unk>", "[CLS]", "[SEP]"].map(|token| json!([token, 0.0]));
            let vocabulary: Vec<Value> =
                special.into_iter().chain(pieces.map(|(_, piece, score)| json!([piece, score]))).collect();
            tokenizer["model"] = json!({ "type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": false });
            for step in ["normalizer", "pre_tokenizer", "post_processor"] {
                tokenizer[step] = Value::Null;
            }
            tokenizer["added_tokens"] = json!([]);
        })
    };
    let mut answers = Answers::new();
    answers.refused("a long word", &unigram((1..190).collect()).stop(&"a".repeat(1_000_000)));
    answers.refused("a long piece", &unigram(vec![1, 20_000]).refusal());
    answers.held("costly-tokenizers-unigram");
}

#[test]
fn long_tokens_and_prefixes_are_refused() {
    let added = |content: &str| {
        json!({ "id": 199, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                "special": false })
    };
    let push = |token: Value| {
        Costly::new(move |tokenizer| tokenizer["added_tokens"].as_array_mut().expect("a list").push(token))
    };
    let mut answers = Answers::new();
    answers.refused("a long added token", &push(added(&"x".repeat(20_000_000))).refusal());
    let many: Vec<Value> = (0..2000).map(|number| added(&format!("{number:0>1000}"))).collect();
    let many = Costly::new(move |tokenizer| tokenizer["added_tokens"] = many.into());
    answers.refused("many added tokens", &many.refusal());
    let prefix = "#".repeat(1_000_000);
    let prefix = Costly::new(move |tokenizer| tokenizer["model"]["continuing_subword_prefix"] = prefix.into());
    answers.refused("a long prefix", &prefix.refusal());
    answers.held("costly-tokenizers-lengths");
}

#[test]
fn an_oversized_vocabulary_tree_is_refused() {
    // 1,100 pieces of 1,000 bytes with different beginnings.
    let pieces = (0..1100).map(|number| json!([format!("{number:0>4}{}", "a".repeat(996)), -1.0]));
    let special = ["<unk>", "[CLS]", "[SEP]"].map(|token| json!([token, 0.0]));
    let vocabulary: Vec<Value> = special.into_iter().chain(pieces).collect();
    let costly = Costly::new(move |tokenizer| {
        tokenizer["model"] = json!({ "type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": false });
    });
    let mut answers = Answers::new();
    answers.refused("pieces that begin differently", &costly.refusal());
    answers.held("costly-tokenizers-tree");
}
