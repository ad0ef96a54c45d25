//! How a decoder reads a corpus: by sentence or in windows of documents (`--context`), with or without a token for the
//! beginning of text (`--bos`).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::answers::Answers;
use crate::support::{fixture, path, run};

/// Twelve documents of consecutive gold sentences: 25 in each but the last.
fn documents(folder: &Path) -> PathBuf {
    let gold = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let without_family = |line: &&str| !line.starts_with("# family");
    let sentences: Vec<String> = gold
        .split("\n\n")
        .take(290)
        .enumerate()
        .map(|(number, sentence)| {
            let begins = if number % 25 == 0 { format!("# newdoc id = d{}\n", number / 25) } else { String::new() };
            begins + &sentence.lines().filter(without_family).collect::<Vec<_>>().join("\n")
        })
        .collect();
    let file = folder.join("documents.conllu");
    fs::write(&file, sentences.join("\n\n") + "\n\n").unwrap();
    file
}

fn analyze(corpus: &Path, more: &[&str]) -> Value {
    let common = ["analyze", "box:causal", "-c", path(corpus), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&common, more].concat()).unwrap()).unwrap()
}

/// Two documents of running text, with two sentences and with one. Token counts include the token for the beginning of
/// text. The tokenizer in the box makes at least one token of each letter.
#[test]
fn windows_of_two_documents_match_hand_counts() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("two.txt");
    // A letter after a space forms one token with it. So does the first letter of a document, without a space.
    fs::write(&corpus, "a a a\na a\n\na a a a\n").unwrap();
    let read = |more: &[&str]| {
        let actual = analyze(&corpus, more);
        let [corpus, reading] = [&actual["corpus"], &actual["settings"]["reading"]];
        (corpus["context"].clone(), corpus["tokens"].clone(), corpus["longest"].clone(), reading.clone())
    };
    let context = |sequences: u64, sentences: (f64, u64), tokens: (f64, u64)| {
        let mean_and_largest = |(mean, largest): (f64, u64)| json!({ "mean": mean, "largest": largest });
        json!({ "sequences": sequences, "sentences": mean_and_largest(sentences), "tokens": mean_and_largest(tokens) })
    };
    let reading = |context: &str, bos: &str, begins: Option<&str>| json!({ "context": context, "bos": bos, "begins_with": begins });
    let token = Some("<|endoftext|>");
    // Sentences alone: 4, 3 and 5 tokens.
    let (actual, tokens, longest, reading_settings) = read(&["--context", "sentence"]);
    assert_eq!(actual, context(3, (1.0, 1), (4.0, 5)));
    assert_eq!((tokens, longest, reading_settings), (json!(12), json!(5), reading("sentence", "auto", token)));
    // Documents: 1 + 3 + 2 and 1 + 4 tokens. This is the default where documents are the unit.
    let (actual, tokens, longest, reading_settings) = read(&[]);
    assert_eq!(actual, context(2, (1.5, 2), (5.5, 6)));
    assert_eq!((tokens, longest, reading_settings), (json!(11), json!(6), reading("document", "auto", token)));
    // Windows of five tokens hold one sentence each.
    let (actual, tokens, ..) = read(&["--context", "document", "--max-tokens", "5"]);
    assert_eq!((actual, tokens), (context(3, (1.0, 1), (4.0, 5)), json!(12)));
    // Without the token for the beginning of text: 5 and 4 tokens.
    let (actual, tokens, longest, reading_settings) = read(&["--context", "document", "--bos", "never"]);
    assert_eq!(actual, context(2, (1.5, 2), (4.5, 5)));
    assert_eq!((tokens, longest, reading_settings), (json!(9), json!(5), reading("document", "never", None)));
    // The tokenizer adds this token anyway, so asking for it changes no number.
    let always = analyze(&corpus, &["--context", "document", "--bos", "always"]);
    let auto = analyze(&corpus, &["--context", "document"]);
    assert_eq!((&always["heads"], &always["corpus"]), (&auto["heads"], &auto["corpus"]));
    assert_eq!(always["settings"]["reading"], reading("document", "always", token));
}

/// A corpus with documents is read in documents by default. `--context document` gives an equal report.
#[test]
fn documents_are_the_default_context() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = documents(folder.path());
    let in_documents = analyze(&corpus, &[]);
    assert_eq!(in_documents["settings"]["reading"]["context"], "document");
    assert_eq!(in_documents["corpus"]["unit"], "documents");
    assert_eq!(in_documents, analyze(&corpus, &["--context", "document"]));
    let ids = |report: &Value| -> Vec<String> {
        let caveats = report["caveats"].as_array().unwrap().iter();
        caveats.map(|caveat| caveat["id"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!ids(&in_documents).contains(&"sentences-alone".to_owned()));
    let in_sentences = analyze(&corpus, &["--context", "sentence"]);
    assert!(ids(&in_sentences).contains(&"sentences-alone".to_owned()));
    // The context changes neither the counts of sentences, words and skips nor the number of scored arcs.
    for key in ["sentences", "words", "skipped"] {
        assert_eq!(in_documents["corpus"][key], in_sentences["corpus"][key], "{key}");
    }
    let scored = |report: &Value| -> u64 {
        report["relations"].as_array().unwrap().iter().map(|relation| relation["count"].as_u64().unwrap()).sum()
    };
    assert_eq!(scored(&in_documents), scored(&in_sentences));
    // The context changes no relation's number of sentences.
    let sentences = |report: &Value| -> Vec<Value> {
        report["relations"].as_array().unwrap().iter().map(|relation| relation["sentences"].clone()).collect()
    };
    assert_eq!(sentences(&in_documents), sentences(&in_sentences));
    // An encoder reads sentence by sentence, and its report has no such keys.
    let encoder = run(&["analyze", "box:small", "-c", path(&corpus), "--no-run-info", "-o", "-"]).unwrap();
    let encoder: Value = serde_json::from_str(&encoder).unwrap();
    assert_eq!([&encoder["corpus"]["context"], &encoder["settings"]["reading"]], [&Value::Null; 2]);
}

/// One run, shards, resumed parts and other numbers of threads give identical bytes. Shards of different contexts
/// cannot be merged.
#[test]
fn shards_and_parts_of_windows_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = documents(folder.path());
    let file = |name: &str| folder.path().join(name);
    // The cluster studies would run beside `similarity`, but not in parts.
    let studies = "norms,effect,gradient,output-shift,similarity,edges,probes,examples";
    let with = ["--with", studies, "--without", "cluster-effect,cluster-shift", "--sample", "60"];
    let common = [&["analyze", "box:causal", "-c", path(&corpus), "--no-run-info", "-q"][..], &with].concat();
    let whole = file("whole.json");
    run(&[&common[..], &["--threads", "2", "-o", path(&whole)]].concat()).unwrap();
    let expected = fs::read(&whole).unwrap();
    let again = file("again.json");
    let assert_unchanged = |more: &[&str]| {
        run(&[&common[..], more, &["-o", path(&again)]].concat()).unwrap();
        assert!(fs::read(&again).unwrap() == expected, "{more:?}");
    };
    assert_unchanged(&["--threads", "1"]);
    let parts = file("parts");
    assert_unchanged(&["--resume", path(&parts)]);
    assert_unchanged(&["--resume", path(&parts)]);
    // The summary states what these studies counted.
    let summary = run(&["show", path(&whole), "--summary", "full"]).unwrap();
    let mut answers = Answers::within(folder.path());
    for study in ["change of the output", "shift of the attention of each later head", "Similar heads"] {
        answers.said(study, summary.lines().find(|line| line.contains(study)).unwrap());
    }
    let report: Value = serde_json::from_slice(&expected).unwrap();
    let tokens = report["effect"]["masked_tokens"].as_u64().unwrap();
    assert!(tokens > 0 && tokens < report["corpus"]["tokens"].as_u64().unwrap(), "{tokens}");
    // Examples are sentences out of windows. An ellipsis stands for the text before them.
    let drawn =
        report["examples"]["heads"].as_array().unwrap().iter().flat_map(|head| head["examples"].as_array().unwrap());
    let units: Vec<&Value> = drawn.map(|example| &example["units"]).collect();
    assert!(!units.is_empty() && units.iter().any(|units| units[1] == "…"), "{units:?}");

    let common =
        ["analyze", "box:causal", "-c", path(&corpus), "--no-run-info", "-q", "--with", "effect", "--sample", "60"];
    run(&[&common[..], &["-o", path(&whole)]].concat()).unwrap();
    let expected = fs::read(&whole).unwrap();
    let shard = |number: usize, more: &[&str]| {
        let part = file(&format!("{number}.headscope"));
        run(&[&common[..], &["--shard", &format!("{number}/3"), "-o", path(&part)], more].concat()).unwrap();
        part
    };
    let shards = [1, 2, 3].map(|number| shard(number, &[]));
    let merged = file("merged.json");
    let merge = || {
        let [a, b, c] = &shards;
        run(&["merge", path(c), path(a), path(b), "--no-run-info", "-q", "-o", path(&merged)])
    };
    merge().unwrap();
    assert!(fs::read(&merged).unwrap() == expected);
    for option in [["--context", "sentence"], ["--bos", "never"]] {
        shard(2, &option);
        answers.refused(&option.join(" "), &merge().unwrap_err());
    }
    answers.held("context-shards");
}

/// Losses in windows and the effect of each head, as `fixtures/reference_effect.py` computes them independently.
#[test]
fn losses_in_windows_equal_the_reference() {
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(fixture("goldens/causal-effect-windows.json")).unwrap()).unwrap();
    let options =
        ["--context", "document", "--max-tokens", "32", "--with", "effect", "--sample", "64", "--words", "spaced"];
    let actual = analyze(&fixture("corpus/entities.conllu"), &options);
    let effect = &actual["effect"];
    for key in ["masked_tokens", "sentences"] {
        assert_eq!(effect[key], expected[key], "{key}");
    }
    assert_eq!(actual["corpus"]["context"]["sequences"], effect["sentences"]);
    let near = |at: &str, actual: &Value, expected: &Value| {
        let [a, b] = [actual, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}")));
        assert!((a - b).abs() < 1e-5, "{at} is {a}, the reference {b}");
    };
    near("loss", &effect["loss"], &expected["loss"]);
    near("loss without heads", &effect["loss_without_heads"], &expected["loss_without_heads"]);
    let heads = expected["heads"].as_array().unwrap();
    for (place, expected) in heads.iter().enumerate() {
        near(&format!("head {place}"), &effect["heads"][place]["effect"], &expected["effect"]);
    }
    for relation in effect["relations"].as_array().unwrap() {
        let name = relation["relation"].as_str().unwrap();
        near(name, &relation["loss"], &expected["relations"][name]["loss"]);
    }
}

#[test]
fn encoders_refuse_options_of_decoders() {
    let gold = fixture("corpus/gold.conllu");
    let mut answers = Answers::new();
    for option in [["--context", "document"], ["--bos", "always"], ["--bos", "never"]] {
        let arguments = ["analyze", "box:small", "-c", path(&gold), "--limit", "3"];
        answers.refused(&option.join(" "), &run(&[&arguments[..], &option].concat()).unwrap_err());
    }
    answers.held("context-encoders");
    run(&["analyze", "box:small", "--limit", "3", "--context", "sentence", "--bos", "auto", "-q"]).unwrap();
}

/// The decoder in the box, with a tokenizer that adds no token before a text.
#[test]
fn bos_always_needs_a_token_with_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let from = fixture("models/causal");
    fs::copy(from.join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    let json = |name: &str| -> Value { serde_json::from_str(&fs::read_to_string(from.join(name)).unwrap()).unwrap() };
    let write = |name: &str, value: &Value| fs::write(folder.path().join(name), value.to_string()).unwrap();
    let (mut config, mut tokenizer) = (json("config.json"), json("tokenizer.json"));
    tokenizer["post_processor"] = Value::Null;
    write("config.json", &config);
    write("tokenizer.json", &tokenizer);
    let analyze = |bos: &str| {
        let options = ["--limit", "20", "--bos", bos, "--no-run-info", "-o", "-"];
        run(&[&["analyze", path(folder.path())], &options[..]].concat())
    };
    let report = |bos: &str| -> Value { serde_json::from_str(&analyze(bos).unwrap()).unwrap() };
    let (bare, always) = (report("auto"), report("always"));
    assert_eq!(bare["settings"]["reading"]["begins_with"], Value::Null);
    assert_eq!(always["settings"]["reading"]["begins_with"], "<|endoftext|>");
    // `--bos always` then gives the numbers of the original tokenizer.
    let original = run(&["analyze", "box:causal", "--limit", "20", "--no-run-info", "-o", "-"]).unwrap();
    let original: Value = serde_json::from_str(&original).unwrap();
    assert_eq!((&always["heads"], &always["corpus"]), (&original["heads"], &original["corpus"]));
    assert_ne!(bare["heads"], original["heads"]);
    config["bos_token_id"] = Value::Null;
    write("config.json", &config);
    let mut answers = Answers::within(folder.path());
    answers.refused("no name", &analyze("always").unwrap_err());
    answers.held("context-beginning-of-text");
    write("tokenizer_config.json", &json!({ "bos_token": "<|endoftext|>" }));
    assert_eq!(report("always")["heads"], original["heads"]);
}
