//! The attention of every head over one sentence, in reports and on pages, through the real binary.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{path, run};
use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

const TEXT: &str = "The old teacher gave the children a book.";

/// The 64 levels of weights in ascending order (RFC 4648, table 1).
const LEVELS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn analyze(folder: &Path, more: &[&str]) -> (Value, String) {
    let (report, page) = (folder.join("report.json"), folder.join("page.html"));
    let arguments = ["analyze", "--limit", "60", "--no-run-info", "-q", "-o", path(&report), "-o", path(&page)];
    run(&[&arguments[..], more].concat()).unwrap();
    (serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap(), fs::read_to_string(page).unwrap())
}

/// The weights of a map, each within half a level of the exact weight.
fn weights(map: &Value) -> Vec<f64> {
    let level = |letter| LEVELS.find(letter).unwrap() as f64 / 63.0;
    map.as_str().unwrap().chars().map(level).collect()
}

#[test]
fn show_gives_the_attention_of_the_maps_command() {
    let folder = TempDir::new().unwrap();
    let (report, page) = analyze(folder.path(), &["--show", TEXT]);
    let actual = &report["attention_maps"];
    let file = folder.path().join("maps.safetensors");
    run(&["maps", "--text", TEXT, "-o", path(&file)]).unwrap();
    let bytes = fs::read(&file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let expected: Vec<f64> = tensors
        .tensor("attentions.0")
        .unwrap()
        .data()
        .chunks_exact(4)
        .map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap())))
        .collect();
    let shown: Vec<f64> = actual["maps"].as_array().unwrap().iter().flat_map(weights).collect();
    assert_eq!(shown.len(), expected.len());
    assert!(shown.iter().zip(&expected).all(|(shown, exact)| (shown - exact).abs() <= 0.5 / 63.0 + 1e-6));
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let tokens: Value = serde_json::from_str(&metadata.metadata().as_ref().unwrap()["tokens.0"]).unwrap();
    assert_eq!(actual["tokens"], tokens);
    assert_eq!((&actual["sentence"], &actual["example_of"]), (&Value::Null, &Value::Null));
    // Nine words, including the full stop, between two special tokens. Plain text has no tree.
    let units = actual["units"].as_array().unwrap();
    let words: Vec<&str> =
        units.iter().filter(|unit| unit["is_word"] == true).map(|unit| unit["text"].as_str().unwrap()).collect();
    assert_eq!(words, ["The", "old", "teacher", "gave", "the", "children", "a", "book", "."]);
    assert_eq!((&units[0]["text"], units.len(), &actual["arcs"]), (&"[CLS]".into(), 11, &serde_json::json!([])));
    assert_eq!(units.last().unwrap()["tokens"][1], actual["tokens"].as_array().unwrap().len());
    let maps: Vec<&str> = actual["maps"].as_array().unwrap().iter().map(|map| map.as_str().unwrap()).collect();
    assert!(page.contains(&format!("data-maps=\"{}\"", maps.join(" "))), "the page has them");
    // A report with attention maps can be relabelled.
    let (saved, other) = (folder.path().join("report.json"), folder.path().join("other.json"));
    run(&["relabel", path(&saved), "--preset", "voita2019", "-o", path(&other)]).unwrap();
    let other: Value = serde_json::from_str(&fs::read_to_string(other).unwrap()).unwrap();
    assert_eq!(&other["attention_maps"], actual);
}

#[test]
fn show_example_adds_the_map_of_an_example() {
    let folder = TempDir::new().unwrap();
    let (report, page) = analyze(folder.path(), &["--with", "examples"]);
    assert!(report.get("attention_maps").is_none() && !page.contains("id=glance"));
    let (report, page) = analyze(folder.path(), &["--with", "examples", "--show-example"]);
    let map = &report["attention_maps"];
    let heads = report["heads"].as_array().unwrap();
    let name = &map["example_of"]["name"];
    assert!(heads.iter().any(|head| &head["name"] == name && head["labels"][0]["borderline"] == false), "{name}");
    let typical = |head: &Value| {
        let examples = head["examples"].as_array().unwrap().iter();
        examples.clone().find(|example| example["rank"] == "typical").cloned()
    };
    let examples = report["examples"]["heads"].as_array().unwrap();
    let typical_example = typical(examples.iter().find(|head| &head["name"] == name).unwrap()).unwrap();
    assert_eq!(typical_example["sentence"], map["sentence"]);
    assert_eq!(map["maps"].as_array().unwrap().len(), heads.len());
    // The tree of the example has an arc for each word but the root.
    let (units, arcs) = (map["units"].as_array().unwrap(), map["arcs"].as_array().unwrap());
    assert_eq!(arcs.len() + 1, units.iter().filter(|unit| unit["is_word"] == true).count());
    assert!(arcs.iter().all(|arc| {
        let to = usize::try_from(arc["to"].as_u64().unwrap()).unwrap();
        units[to]["is_word"] == true && arc["relation"] != ""
    }));
    let sentence = map["sentence"].as_u64().unwrap();
    assert!(page.contains("id=glance") && page.contains(&format!("Sentence {sentence} of the corpus: ")));
}

#[test]
fn sentences_that_cannot_be_shown_are_refused_before_the_run() {
    let long = "a ".repeat(40);
    let folder = TempDir::new().unwrap();
    let [report, page] = ["report.json", "page.html"].map(|name| folder.path().join(name));
    let mut answers = Answers::within(folder.path());
    for (title, arguments) in [
        ("a long sentence", &["analyze", "--show", &long, "-o", path(&report)][..]),
        ("no sentence", &["analyze", "--show", "", "-o", path(&report)]),
        ("an example without examples", &["analyze", "--show-example"]),
        ("a long sentence on a page", &["view", "--head", "all", "--text", &long, "-o", path(&page)]),
    ] {
        answers.refused(title, &run(arguments).unwrap_err());
    }
    answers.held("attention-maps-refusals");
    assert!(!report.exists());
}

/// 144 heads (as in BERT base) over 24 tokens (a long sentence).
#[test]
fn thumbnails_of_a_large_model_are_small() {
    let folder = TempDir::new().unwrap();
    let (mut report, page) = analyze(folder.path(), &[]);
    let heads = report["heads"].as_array().unwrap().len();
    let maps = |heads: usize, tokens: usize| {
        serde_json::json!({
            "example_of": null,
            "sentence": null,
            "tokens": vec!["token"; tokens],
            "maps": vec!["g".repeat(tokens * tokens); heads],
        })
    };
    report["attention_maps"] = maps(heads, 24);
    let (saved, other) = (folder.path().join("saved.json"), folder.path().join("other.html"));
    fs::write(&saved, report.to_string()).unwrap();
    run(&["export", path(&saved), "-o", path(&other)]).unwrap();
    let of_each = (fs::read_to_string(&other).unwrap().len() - page.len()) as f64 / heads as f64;
    assert!(144.0 * of_each < 150_000.0, "{of_each} bytes a head");
    // Incomplete maps are refused.
    let mut answers = Answers::within(folder.path());
    for (change, heads, tokens) in [("heads", heads - 1, 24), ("tokens", heads, 33)] {
        report["attention_maps"] = maps(heads, tokens);
        fs::write(&saved, report.to_string()).unwrap();
        answers.refused(change, &run(&["export", path(&saved), "-o", path(&other)]).unwrap_err());
    }
    answers.held("attention-maps-not-whole");
}

#[test]
fn view_draws_all_heads_on_a_page() {
    let folder = TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    run(&["view", "--head", "all", "--text", TEXT, "--text", "It <slept>.", "-o", path(&page)]).unwrap();
    let html = fs::read_to_string(&page).unwrap();
    assert_eq!(html.matches("data-maps=").count(), 2);
    assert!(html.contains("default-src 'none'") && !html.contains("<slept>"));
    let terminal = run(&["view", "--head", "all", "--text", "It slept."]).unwrap();
    let headings: Vec<&str> = terminal.lines().filter(|line| line.contains(", sentence 0")).collect();
    let mut answers = Answers::new();
    answers.said("the terminal's headings", &headings.join("\n"));
    answers.held("attention-maps-all-heads");
}
