//! A corpus as a decoder reads it: sentence by sentence, or in windows of documents (`--context`), with a token for the beginning of
//! text or none (`--bos`).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::answers::Answers;
use crate::support::{fixture, path, run};

/// Twelve documents of gold sentences, which are numbered through: each of 25 sentences but the last.
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

/// Two documents of running text, of two sentences and of one. With the token for the beginning of text they have these many tokens,
/// by the tokenizer in the box: a letter is at least one.
#[test]
fn windows_of_two_documents_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("two.txt");
    // Each letter between spaces is a token with the space before it, and so is the first of a document without one.
    fs::write(&corpus, "a a a\na a\n\na a a a\n").unwrap();
    let read = |more: &[&str]| {
        let found = analyze(&corpus, more);
        let [corpus, reading] = [&found["corpus"], &found["settings"]["reading"]];
        (corpus["context"].clone(), corpus["tokens"].clone(), corpus["longest"].clone(), reading.clone())
    };
    let context = |sequences: u64, sentences: (f64, u64), tokens: (f64, u64)| {
        let of = |(mean, largest): (f64, u64)| json!({ "mean": mean, "largest": largest });
        json!({ "sequences": sequences, "sentences": of(sentences), "tokens": of(tokens) })
    };
    let reading = |context: &str, bos: &str, begins: Option<&str>| json!({ "context": context, "bos": bos, "begins_with": begins });
    let token = Some("<|endoftext|>");
    // Each sentence by itself: 4, 3 and 5 tokens.
    let (found, tokens, longest, by) = read(&["--context", "sentence"]);
    assert_eq!(found, context(3, (1.0, 1), (4.0, 5)));
    assert_eq!((tokens, longest, by), (json!(12), json!(5), reading("sentence", "auto", token)));
    // 1 + 3 + 2 and 1 + 4, which is the default where documents are the unit.
    let (found, tokens, longest, by) = read(&[]);
    assert_eq!(found, context(2, (1.5, 2), (5.5, 6)));
    assert_eq!((tokens, longest, by), (json!(11), json!(6), reading("document", "auto", token)));
    // Five tokens hold no more than one sentence.
    let (found, tokens, ..) = read(&["--context", "document", "--max-tokens", "5"]);
    assert_eq!((found, tokens), (context(3, (1.0, 1), (4.0, 5)), json!(12)));
    // Without the token for the beginning of text: 5 and 4.
    let (found, tokens, longest, by) = read(&["--context", "document", "--bos", "never"]);
    assert_eq!(found, context(2, (1.5, 2), (4.5, 5)));
    assert_eq!((tokens, longest, by), (json!(9), json!(5), reading("document", "never", None)));
    // The tokenizer puts it there: asking for it changes no number.
    let always = analyze(&corpus, &["--context", "document", "--bos", "always"]);
    let auto = analyze(&corpus, &["--context", "document"]);
    assert_eq!((&always["heads"], &always["corpus"]), (&auto["heads"], &auto["corpus"]));
    assert_eq!(always["settings"]["reading"], reading("document", "always", token));
}

/// What a corpus of documents is read in without an option, and that the option for it gives the same bytes.
#[test]
fn a_corpus_with_documents_is_read_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = documents(folder.path());
    let found = analyze(&corpus, &[]);
    assert_eq!(found["settings"]["reading"]["context"], "document");
    assert_eq!(found["corpus"]["unit"], "documents");
    assert_eq!(found, analyze(&corpus, &["--context", "document"]));
    let ids = |report: &Value| -> Vec<String> {
        let caveats = report["caveats"].as_array().unwrap().iter();
        caveats.map(|caveat| caveat["id"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!ids(&found).contains(&"sentences-alone".to_owned()));
    let alone = analyze(&corpus, &["--context", "sentence"]);
    assert!(ids(&alone).contains(&"sentences-alone".to_owned()));
    // The same sentences, and the same arcs but for words that a window begins with.
    for key in ["sentences", "words", "skipped"] {
        assert_eq!(found["corpus"][key], alone["corpus"][key], "{key}");
    }
    let scored = |report: &Value| -> u64 {
        report["relations"].as_array().unwrap().iter().map(|relation| relation["count"].as_u64().unwrap()).sum()
    };
    assert_eq!(scored(&found), scored(&alone));
    // Every relation is in as many sentences.
    let sentences = |report: &Value| -> Vec<Value> {
        report["relations"].as_array().unwrap().iter().map(|relation| relation["sentences"].clone()).collect()
    };
    assert_eq!(sentences(&found), sentences(&alone));
    // An encoder reads sentences by themselves, and says nothing of how.
    let encoder = run(&["analyze", "box:small", "-c", path(&corpus), "--no-run-info", "-o", "-"]).unwrap();
    let encoder: Value = serde_json::from_str(&encoder).unwrap();
    assert_eq!([&encoder["corpus"]["context"], &encoder["settings"]["reading"]], [&Value::Null; 2]);
}

/// Whole, in shards, in parts and on any number of threads: the same bytes; shards of other contexts do not go together.
#[test]
fn shards_and_parts_of_windows_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = documents(folder.path());
    let file = |name: &str| folder.path().join(name);
    // Clusters would join the others, but in parts.
    let studies = "norms,effect,gradient,output-shift,similarity,edges,probes,examples";
    let with = ["--with", studies, "--without", "cluster-effect,cluster-shift", "--sample", "60"];
    let common = [&["analyze", "box:causal", "-c", path(&corpus), "--no-run-info", "-q"][..], &with].concat();
    let whole = file("whole.json");
    run(&[&common[..], &["--threads", "2", "-o", path(&whole)]].concat()).unwrap();
    let expected = fs::read(&whole).unwrap();
    let again = file("again.json");
    let same = |more: &[&str]| {
        run(&[&common[..], more, &["-o", path(&again)]].concat()).unwrap();
        assert!(fs::read(&again).unwrap() == expected, "{more:?}");
    };
    same(&["--threads", "1"]);
    let parts = file("parts");
    same(&["--resume", path(&parts)]);
    same(&["--resume", path(&parts)]);
    // Studies that count sentences say what they counted.
    let summary = run(&["show", path(&whole), "--summary", "full"]).unwrap();
    let mut answers = Answers::within(folder.path());
    for study in ["change of the output", "shift of the attention of each later head", "Similar heads"] {
        answers.said(study, summary.lines().find(|line| line.contains(study)).unwrap());
    }
    let report: Value = serde_json::from_slice(&expected).unwrap();
    let tokens = report["effect"]["masked_tokens"].as_u64().unwrap();
    assert!(tokens > 0 && tokens < report["corpus"]["tokens"].as_u64().unwrap(), "{tokens}");
    // Sentences are drawn out of their windows, and have what stands before them.
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

/// The losses of windows, and what each head adds to them, as `fixtures/reference_effect.py` computes them apart.
#[test]
fn losses_in_windows_are_those_of_the_reference() {
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(fixture("goldens/causal-effect-windows.json")).unwrap()).unwrap();
    let options =
        ["--context", "document", "--max-tokens", "32", "--with", "effect", "--sample", "64", "--words", "spaced"];
    let found = analyze(&fixture("corpus/entities.conllu"), &options);
    let effect = &found["effect"];
    for key in ["masked_tokens", "sentences"] {
        assert_eq!(effect[key], expected[key], "{key}");
    }
    assert_eq!(found["corpus"]["context"]["sequences"], effect["sentences"]);
    let near = |at: &str, found: &Value, expected: &Value| {
        let [a, b] = [found, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}")));
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
fn what_is_of_decoders_is_refused_of_encoders() {
    let gold = fixture("corpus/gold.conllu");
    let mut answers = Answers::new();
    for option in [["--context", "document"], ["--bos", "always"], ["--bos", "never"]] {
        let arguments = ["analyze", "box:small", "-c", path(&gold), "--limit", "3"];
        answers.refused(&option.join(" "), &run(&[&arguments[..], &option].concat()).unwrap_err());
    }
    answers.held("context-encoders");
    run(&["analyze", "box:small", "--limit", "3", "--context", "sentence", "--bos", "auto", "-q"]).unwrap();
}

/// The decoder in the box with a tokenizer that puts nothing before a text.
#[test]
fn the_beginning_of_text_must_have_a_name() {
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
    // As the tokenizer in the box does by itself.
    let own = run(&["analyze", "box:causal", "--limit", "20", "--no-run-info", "-o", "-"]).unwrap();
    let own: Value = serde_json::from_str(&own).unwrap();
    assert_eq!((&always["heads"], &always["corpus"]), (&own["heads"], &own["corpus"]));
    assert_ne!(bare["heads"], own["heads"]);
    config["bos_token_id"] = Value::Null;
    write("config.json", &config);
    let mut answers = Answers::within(folder.path());
    answers.refused("no name", &analyze("always").unwrap_err());
    answers.held("context-beginning-of-text");
    write("tokenizer_config.json", &json!({ "bos_token": "<|endoftext|>" }));
    assert_eq!(report("always")["heads"], own["heads"]);
}
