//! Tokenizers that cost without end: each is refused, or ends at a sentence, through the real binary.

use std::fs;
use std::path::PathBuf;

use crate::support::{path, run, tiny_bert};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The tiny model with another tokenizer.
struct Costly(TempDir);

impl Costly {
    /// The tokenizer is changed by `change`.
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

    /// Analyses a text; the report, or the status and the message. No output is left but a whole one.
    fn analyze(&self, text: &str) -> Result<PathBuf, (i32, String)> {
        let (corpus, report) = (self.0.path().join("a.txt"), self.0.path().join("report.json"));
        fs::write(&corpus, text).unwrap();
        let outcome = run(&["analyze", path(self.0.path()), "-c", path(&corpus), "-q", "-o", path(&report)]);
        let left = fs::read_dir(self.0.path()).unwrap().count();
        assert_eq!(left, if outcome.is_ok() { 5 } else { 4 }, "{outcome:?}");
        outcome.map(|_| report)
    }

    /// The message of the error at a sentence of this line.
    fn stops_at(&self, text: &str, line: usize) -> String {
        let (status, message) = self.analyze(text).unwrap_err();
        assert_eq!(status, 3, "{message}");
        let sentence = line - 1;
        assert!(message.contains(&format!("a.txt:{line}: cannot tokenise sentence {sentence}: ")), "{message}");
        message
    }

    /// The message of the error where the tokenizer is read.
    fn is_refused(&self) -> String {
        let (status, message) = self.analyze("the dog\n").unwrap_err();
        assert_eq!(status, 4, "{message}");
        assert!(message.contains("tokenizer.json`: ") && message.len() < 1000, "{message}");
        message
    }
}

fn replace(pattern: &str, content: &str) -> Value {
    json!({ "type": "Replace", "pattern": { "String": pattern }, "content": content })
}

fn split(pattern: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false })
}

#[test]
fn a_normaliser_that_multiplies_the_text_ends_at_the_sentence() {
    for doublings in [26, 40] {
        let costly = Costly::normalized(&vec![replace("c", "cc"); doublings]);
        assert!(costly.stops_at("the dog\nthe cat\n", 2).contains("of 7 bytes of text its normaliser makes more than"));
        // What it leaves alone is analysed.
        costly.analyze("the dog\n").unwrap();
    }
    let costly = Costly::normalized(&[replace("c", &"c".repeat(1000)), replace("c", &"c".repeat(1000))]);
    assert!(costly.stops_at(&"c".repeat(3000), 1).contains("its normaliser makes more than"));
    // Reading a tokenizer tokenises the letter `a`. An empty match is before each letter.
    let doubled = Costly::normalized(&vec![replace("a", "aa"); 26]);
    assert!(doubled.is_refused().contains("of 1 bytes of text its normaliser makes more than 1088"));
    let before_each = json!({ "type": "Replace", "pattern": { "Regex": "" }, "content": "aaaa" });
    assert!(Costly::normalized(&vec![before_each; 9]).is_refused().contains("its normaliser makes more than"));
    // A text at its front is not too much.
    Costly::normalized(&[json!({ "type": "Prepend", "prepend": " " })]).analyze("dog\n").unwrap();
}

#[test]
fn a_pattern_that_needs_a_large_automaton_is_refused() {
    let nested = "((a{0,50}){0,50}){0,50}b";
    assert!(Costly::split(&[split(nested)]).is_refused().contains(nested));
    let pattern = json!({ "type": "Replace", "pattern": { "Regex": nested }, "content": "" });
    assert!(Costly::normalized(&[pattern]).is_refused().contains(nested));
    let many = Costly::split(&vec![split("a"); 65]);
    assert!(many.is_refused().contains("its pre_tokenizer has 66 parts, at most 64 are read"));
    assert!(Costly::split(&[split(&"a".repeat(8193))]).is_refused().contains("a pattern has 8193 bytes"));
}

#[test]
fn text_is_written_anew_once() {
    let twice =
        vec![json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false }); 2];
    assert!(Costly::split(&twice).is_refused().contains("more than one part of type ByteLevel"));
    let twice = Costly::new(|tokenizer| {
        let text = json!({ "Sequence": { "id": "A", "type_id": 0 } });
        tokenizer["post_processor"] =
            json!({ "type": "TemplateProcessing", "single": [text, text], "pair": [], "special_tokens": {} });
    });
    assert!(twice.is_refused().contains("a template has the text A more than once"));
}

#[test]
fn a_search_that_cannot_be_interrupted_ends_the_process() {
    // A search of a word tries all ways to cut it, up to the library's bound of a million steps (14 ms on the machine
    // where this was written). 4,000 words exceed their limit of 7 s even where a search takes 2 ms.
    let words = json!({ "type": "WhitespaceSplit" });
    let costly = Costly::split(&[words, split("(?:ж|жж|жжж)*(?=c)b")]);
    let text = format!("the dog\n{}\n", format!("{} ", "ж".repeat(30)).repeat(4000));
    assert!(costly.stops_at(&text, 2).contains("it takes more than 7 s"));
}

#[test]
fn a_word_that_would_be_cut_for_long_ends_at_the_sentence() {
    let costly = Costly::new(|tokenizer| tokenizer["model"]["max_input_chars_per_word"] = json!(1_000_000_000));
    let word = "a".repeat(20_000);
    assert!(costly.stops_at(&format!("the dog\n{word}\n"), 2).contains("a word of 20000 characters, and max_input"));
    costly.analyze("the dog\n").unwrap();
    // Of a word that is longer than what is cut the unknown token is made, as ever.
    Costly::new(|_| ()).analyze(&format!("the dog\n{word} dog\n")).unwrap();
}

#[test]
fn a_unigram_model_of_long_pieces_ends_at_the_sentence() {
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
    let message = unigram((1..190).collect()).stops_at(&"a".repeat(1_000_000), 1);
    assert!(message.contains("a word of 1000000 bytes, and the vocabulary tokens of 189"), "{message}");
    let message = unigram(vec![1, 20_000]).is_refused();
    assert!(message.contains("a token of its vocabulary has 20000 bytes, and no more than 1024 are read"), "{message}");
}

#[test]
fn tokens_and_prefixes_are_short() {
    let added = |content: &str| {
        json!({ "id": 199, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                "special": false })
    };
    let push = |token: Value| {
        Costly::new(move |tokenizer| tokenizer["added_tokens"].as_array_mut().expect("a list").push(token))
    };
    assert!(push(added(&"x".repeat(20_000_000))).is_refused().contains("an added token has 20000000 bytes"));
    let many: Vec<Value> = (0..2000).map(|number| added(&format!("{number:0>1000}"))).collect();
    let many = Costly::new(move |tokenizer| tokenizer["added_tokens"] = many.into());
    assert!(many.is_refused().contains("its added tokens have 2000000 bytes together"));
    let prefix = "#".repeat(1_000_000);
    let prefix = Costly::new(move |tokenizer| tokenizer["model"]["continuing_subword_prefix"] = prefix.into());
    assert!(prefix.is_refused().contains("continuing_subword_prefix has 1000000 bytes"));
}

#[test]
fn a_vocabulary_whose_tree_is_larger_than_that_of_any_language_is_refused() {
    // 1,100 pieces of 1,000 bytes that begin differently.
    let pieces = (0..1100).map(|number| json!([format!("{number:0>4}{}", "a".repeat(996)), -1.0]));
    let special = ["<unk>", "[CLS]", "[SEP]"].map(|token| json!([token, 0.0]));
    let vocabulary: Vec<Value> = special.into_iter().chain(pieces).collect();
    let costly = Costly::new(move |tokenizer| {
        tokenizer["model"] = json!({ "type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": false });
    });
    let message = costly.is_refused();
    assert!(message.contains("the 1103 tokens of its vocabulary need 37"), "{message}");
    assert!(message.contains("at most 1048576 are read"), "{message}");
}
