//! The study `probes`, held against `fixtures/reference_probes.py`, and as a user runs it.

use std::fs;
use std::path::Path;

use crate::support::{fixture, path, run};
use serde_json::{Value, json};

/// The other studies have tests of their own.
const OTHERS: &str = "attention,trees,dependency,words,frequency,explained-variance,coreference";

fn analyze(more: &[&str]) -> String {
    let corpus = fixture("corpus/gold.conllu");
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--with", "probes", "--without", OTHERS, "--no-run-info"];
    run(&[&common[..], more].concat()).unwrap()
}

fn report(more: &[&str]) -> Value {
    serde_json::from_str(&analyze(&[&["-o", "-"], more].concat())).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Holds an accuracy against the number of words that are right, and that of words where two classes are as good.
fn right(at: &str, accuracy: &Value, words: f64, expected: &Value) {
    let Some([hits, ties]) = expected.as_array().map(|both| [number(&both[0]), number(&both[1])]) else {
        return assert_eq!(*accuracy, Value::Null, "{at}");
    };
    let found = number(accuracy) * words;
    assert!((found - hits).abs() < ties + 1e-6, "{at}: {found} words are right, {hits} of the reference, {ties} ties");
}

#[test]
fn probes_are_those_of_the_reference() {
    let golden = fs::read_to_string(fixture("goldens/small-probes.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&golden).unwrap();
    let found = report(&["--words", "spaced", "--probe", "misc.SpaceAfter"]);
    assert_eq!(found["settings"]["probes"], json!(["misc.SpaceAfter"]));
    let found = found["probes"].as_array().unwrap();
    assert_eq!(found.len(), expected.len());
    for (task, expected) in found.iter().zip(&expected) {
        for key in ["task", "words", "classes"] {
            assert_eq!(task[key], expected[key]);
        }
        let words = number(&expected["words"]);
        for key in ["majority", "form"] {
            right(key, &task[key]["accuracy"], words, &json!([expected[key], 0]));
        }
        for key in ["embedding", "neighbours"] {
            right(key, &task[key]["accuracy"], words, &expected[key]);
        }
        // What both neighbours add, and each head beside that.
        let accuracy = |key: &str| task[key]["accuracy"].as_f64();
        let differs = |found: &Value, from: Option<f64>, less: Option<f64>| match from.zip(less) {
            Some((from, less)) => assert!((number(found) - (from - less)).abs() < 1e-9, "{found}"),
            None => assert_eq!(*found, Value::Null),
        };
        differs(&task["neighbours_gain"], accuracy("neighbours"), accuracy("embedding"));
        for head in task["heads"].as_array().unwrap() {
            differs(&head["over_neighbours"], head["together"].as_f64(), accuracy("neighbours"));
        }
        for (layer, expected) in task["layers"].as_array().unwrap().iter().zip(expected["inputs"].as_array().unwrap()) {
            right("input", &layer["input"]["accuracy"], words, expected);
        }
        let heads = expected["heads"].as_array().unwrap();
        assert_eq!(task["heads"].as_array().unwrap().len(), heads.len());
        for (head, expected) in task["heads"].as_array().unwrap().iter().zip(heads) {
            let at = format!("{} {}", task["task"], head["name"]);
            for key in ["accuracy", "together", "control"] {
                right(&format!("{at} {key}"), &head[key], words, &expected[key]);
            }
            let near = |key: &str, tolerance: f64| match expected.get(key).and_then(Value::as_f64) {
                Some(value) => assert!((number(&head[key]) - value).abs() < tolerance, "{at} {key} is not {value}"),
                None => assert_eq!(head[key], Value::Null),
            };
            // A tie that falls the other way moves these a little.
            near("standard_error", 1e-4);
            near("q", 0.05);
        }
    }
}

#[test]
fn shards_of_both_stages_come_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (corpus, sample) = (fixture("corpus/gold.conllu"), ["--sample", "12", "--no-run-info", "-q"]);
    // All that look at the corpus twice; `use` needs the labels of `dependency`.
    let with = [
        "--with",
        "probes,knockout,pruning",
        "--without",
        "attention,trees,words,frequency,explained-variance,coreference",
    ];
    let run_to = |output: &str, more: &[&str]| {
        let common = ["analyze", "box:small", "-c", path(&corpus), "-o", output];
        run(&[&common[..], &with, &sample, more].concat()).map(|_| fs::read(output).unwrap())
    };
    let merge = |parts: &[&str], output: &str| {
        run(&[&["merge", "--no-run-info", "-q", "-o", output], parts].concat()).map(|_| fs::read(output).unwrap())
    };
    let whole = run_to(&file("whole.json"), &["--threads", "2"]).unwrap();
    let [one, two] = ["1/2", "2/2"].map(|shard| {
        let part = file(&format!("first-{}.headscope", &shard[..1]));
        run_to(&part, &["--shard", shard]).unwrap();
        part
    });
    let (report, first) = (file("report.json"), file("first.headscope"));
    let (status, error) = merge(&[&one, &two], &report).unwrap_err();
    assert_eq!(status, 6);
    assert!(error.contains("all shards of the second of two stages are missing: merge those of the first"), "{error}");
    assert!(!Path::new(&report).exists());
    let (_, error) = run_to(&file("after.headscope"), &["--shard", "1/2", "--after", &one]).unwrap_err();
    assert!(error.contains("it is shard 1/2: merge all shards first"), "{error}");
    merge(&[&two, &one], &first).unwrap();
    let after = ["1/3", "2/3", "3/3"].map(|shard| {
        let part = file(&format!("after-{}.headscope", &shard[..1]));
        run_to(&part, &["--shard", shard, "--after", &first]).unwrap();
        part
    });
    let [a, b, c] = after.each_ref().map(String::as_str);
    assert!(merge(&[&first, c, a, b], &report).unwrap() == whole);
    assert!(merge(&[a, &one, b, &two, c], &report).unwrap() == whole);

    // Labels by another policy than that of the second stage, of its parts and of a partial of both.
    let both = file("both.headscope");
    merge(&[&first, a, b, c], &both).unwrap();
    assert!(merge(&[&both], &report).unwrap() == whole);
    for parts in [&[&*first, a, b, c][..], &[&*both]] {
        let (status, error) = merge(&[&["--min-count", "100000"], parts].concat(), &file("refused.json")).unwrap_err();
        assert_eq!(status, 3, "{error}");
        assert!(error.contains("were run with labels by another policy than this one: give the --policy, "), "{error}");
    }
    // What makes no whole is refused.
    let refusal = |parts: &[&str]| merge(parts, &file("refused.json")).unwrap_err().1;
    assert!(refusal(&[&first, a, b]).contains("1 of 3 shards that were run with --after is missing: 3/3"));
    assert!(refusal(&[a, b, c]).contains("the sums that these were run after are missing"));
    let (_, error) = run_to(&file("other.headscope"), &["--shard", "1/3", "--after", a]).unwrap_err();
    assert!(error.contains("it is no partial of the first of two stages"), "{error}");
    let limited = ["--shard", "1/3", "--after", &first, "--limit", "300"];
    let (_, error) = run_to(&file("other.headscope"), &limited).unwrap_err();
    assert!(error.contains("it is of another run: protocol.limit is null in one and 300 in the other"), "{error}");
}

#[test]
fn an_untrained_model_stands_beside() {
    let found = report(&["--control", "random-init", "--control-seeds", "1"]);
    let head = |task: usize, name: &str| {
        let heads = found["probes"][task]["heads"].as_array().unwrap();
        heads.iter().find(|head| head["name"] == name).unwrap().clone()
    };
    // The part of speech is in the words, so that no head adds to it; the relation is not.
    let (upos, relation) = (head(0, "L1H3"), head(1, "L3H2"));
    assert!(number(&upos["accuracy"]) > number(&upos["untrained"]["accuracy"]) + 0.3, "{upos}");
    assert!(number(&relation["gain"]) > number(&relation["untrained"]["gain"]) + 0.03, "{relation}");
    assert!(number(&relation["accuracy"]) > number(&relation["untrained"]["accuracy"]) + 0.1, "{relation}");
    // Both neighbours' embeddings say more of the relation than any head does.
    let task = &found["probes"][1];
    let best = task["heads"].as_array().unwrap().iter().map(|head| number(&head["gain"])).fold(0.0, f64::max);
    assert!(number(&task["neighbours_gain"]) > best, "{} {best}", task["neighbours_gain"]);
    assert!(number(&relation["over_neighbours_ci95"][1]) < 0.0, "{relation}");
}

#[test]
fn what_is_asked_for_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("corpus.jsonl");
    let line = |number: usize| {
        let tags = if number.is_multiple_of(2) { json!(["A", null, 3]) } else { json!(["B", "A", "B"]) };
        json!({ "words": [format!("a{number}"), "b", "c"], "ner": tags, "id": number }).to_string() + "\n"
    };
    fs::write(&corpus, (0..40).map(line).collect::<String>()).unwrap();
    let common =
        ["analyze", "--summary", "full", "box:small", "-c", path(&corpus), "--with", "probes", "--without", OTHERS];
    let summary = run(&[&common[..], &["--probe", "ner", "--probe", "id"]].concat()).unwrap();
    assert!(summary.contains("upos: no word of the corpus has it."), "{summary}");
    assert!(summary.contains("ner: 100 words of 40 sentences, 3 classes."), "{summary}");
    assert!(summary.contains("Too few words to say what heads add to it"), "{summary}");
    assert!(summary.contains("id: no word of the corpus has it."), "{summary}");

    fs::write(&corpus, r#"{"words": ["a", "b"], "ner": ["A"]}"#).unwrap();
    let (_, error) = run(&[&common[..], &["--probe", "ner"]].concat()).unwrap_err();
    assert!(error.contains("`ner` has 1 entry for 2 words"), "{error}");
    let refusal = |more: &[&str]| run(&[&["analyze", "box:small"], more].concat()).unwrap_err();
    let cases: [(&[&str], &str); 4] = [
        (&["--probe", "xpos"], "--probe xpos is about the study probes: give --with probes as well"),
        (&["--with", "probes", "--probe", "upos"], "that is probed for in any case"),
        (&["--with", "probes", "--probe=a", "--probe=b", "--probe=c", "--probe=d", "--probe=e"], "4 can be probed for"),
        (
            &["-c", "box:gold", "--shard", "1/2", "--after", "x.headscope", "-o", "y.headscope"],
            "no study of this run looks at the corpus twice",
        ),
    ];
    for (arguments, message) in cases {
        let (status, error) = refusal(arguments);
        assert_eq!(status, 2);
        assert!(error.contains(message), "{error}");
    }
}
