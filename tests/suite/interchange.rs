//! The study `interchange`, compared with `fixtures/reference_interchange.py` and run as a user runs it.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{any_input, fixture, parts_add_up, path, run, tiny_bert};
use serde_json::Value;

/// The program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

/// Runs the task alone, without studies of a corpus.
const ALONE: [&str; 10] = [
    "--with",
    "interchange",
    "--without",
    "task,attention,trees,dependency,links,words",
    "--without",
    "frequency,explained-variance,repeats,in-context",
    "--limit",
    "8",
    "--no-run-info",
    "-q",
];

fn report(model: &str, task: &str, more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", model, "-c", path(&corpus), "--task", task, "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], &ALONE, more].concat()).unwrap()).unwrap()
}

fn check(model: &str, task: &str, golden: &str, positions: &str) -> Value {
    let golden = fs::read_to_string(fixture(&format!("goldens/{golden}.json"))).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let task = fixture(&format!("tasks/{task}.jsonl"));
    let report = report(model, path(&task), &["--positions", positions]);
    let actual = &report["interchange"];
    assert_eq!([&actual["items"], &actual["units"]], [&expected["items"], &expected["units"]]);
    assert_eq!(actual["positions"], positions);
    let near = |at: &str, actual: &Value, expected: &Value| {
        let [a, b] = [actual, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}")));
        assert!((a - b).abs() < TOLERANCE, "{at} is {a}, the reference {b}");
    };
    near("gap", &actual["gap"], &expected["gap"]);
    near("not_lowered", &actual["not_lowered"], &expected["not_lowered"]);
    let heads = expected["heads"].as_array().unwrap();
    assert_eq!(actual["heads"].as_array().unwrap().len(), heads.len());
    for (place, expected) in heads.iter().enumerate() {
        let (metrics, actual) = (&report["heads"][place], &actual["heads"][place]);
        let name = metrics["name"].as_str().unwrap();
        for share in ["restored", "destroyed"] {
            near(&format!("{name} {share}"), &metrics["metrics"][share], &expected[share]);
            assert_eq!(actual[share], metrics["metrics"][share]);
            near(&format!("{name} {share} ±"), &metrics["standard_errors"][share], &expected[format!("{share}_error")]);
            for test in ["p_above", "p_below", "q_above"] {
                let (actual, expected) =
                    (&actual[format!("{share}_tests")][test], &expected[format!("{share}_{test}")]);
                if expected.is_null() {
                    assert!(actual.is_null(), "{name} {share} {test}");
                } else {
                    near(&format!("{name} {share} {test}"), actual, expected);
                }
            }
        }
    }
    report
}

#[test]
fn decoder_prompts_match_the_reference() {
    let report = check("box:causal", "copies-corrupted", "causal-interchange", "all");
    let corruption = &report["interchange"]["corruptions"][0];
    assert_eq!(
        (&corruption["name"], &corruption["items"], &corruption["tokens"], &corruption["changed"]),
        (&"one word".into(), &120.into(), &1440.into(), &120.into())
    );
}

#[test]
fn masked_texts_match_the_reference() {
    let report = check("box:small", "cloze-corrupted", "small-interchange", "all");
    let skipped = &report["settings"]["task"]["interchange"]["skipped"];
    assert_eq!(*skipped, serde_json::json!({"not_corrupted": 1, "other_length": 12}));
    assert_eq!(report["interchange"]["items_skipped"], 13);
    check("box:small", "cloze-corrupted", "small-interchange-answer", "answer");
}

/// The planted decoder's induction head and the previous-token head that feeds it carry the whole answer. No other head
/// contributes.
#[test]
fn planted_heads_carry_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = fs::read_to_string(fixture("models/planted-causal/tokenizer.json")).unwrap();
    let tokenizer: Value = serde_json::from_str(&tokenizer).unwrap();
    let vocabulary = tokenizer["model"]["vocab"].as_object().unwrap();
    let words: Vec<&str> = vocabulary.keys().filter(|word| !word.starts_with('[')).map(String::as_str).collect();
    let item = |number: usize| {
        let word = |place: usize| words[(7 * number + place) % words.len()];
        let text = |first: &str| format!("{} {first} {} {} {}", word(0), word(2), word(3), word(1));
        let (answer, foil) = (format!(" {}", word(2)), format!(" {}", word(3)));
        let (prompt, corrupted) = (text(word(1)), text(word(5)));
        serde_json::json!({"prompt": prompt, "corrupted": corrupted, "answer": answer, "foil": foil}).to_string() + "\n"
    };
    let task = folder.path().join("items.jsonl");
    fs::write(&task, (0..128).map(item).collect::<String>()).unwrap();
    let (model, policy) = (fixture("models/planted-causal"), any_input());
    let report = report(path(&model), path(&task), &["--policy", path(policy.path())]);
    let corpus = fixture("corpus/gold.conllu");
    let removed =
        ["analyze", path(&model), "-c", path(&corpus), "--task", path(&task), "--policy", path(policy.path())];
    let removed =
        run(&[&removed[..], &["--removal", "zero", "--with", "gates", "-o", "-"], &ALONE[4..]].concat()).unwrap();
    let removed: Value = serde_json::from_str(&removed).unwrap();
    assert_eq!(report["interchange"]["items"], 128);
    let gates = &removed["gates"];
    assert_eq!((&gates["together"], gates["alone"]["in_both"].as_array().unwrap().len()), (&true.into(), 2));
    assert_eq!((&gates["alone"]["in_one"], &gates["alone"]["of"]), (&serde_json::json!([]), &"all-heads".into()));
    for (place, head) in report["interchange"]["heads"].as_array().unwrap().iter().enumerate() {
        let carries = [0, 7].contains(&place);
        let verdicts: Vec<&str> = head["verdicts"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(verdicts, if carries { vec!["carries"] } else { Vec::new() }, "{head}");
        // Removal finds the two heads, too.
        let removed = &removed["task"]["heads"][place];
        assert_eq!(removed["verdict"] == "helpful", carries, "{removed}");
        // Gates of all heads together find them as well, from every start. At most one fit leaves an idle head open.
        let gates = &gates["heads"][place];
        let kept = gates["kept"].as_u64().unwrap();
        assert!(if carries { kept == 10 } else { kept <= 1 }, "{gates}");
        for share in ["restored", "destroyed"] {
            let share = head[share].as_f64().unwrap();
            assert!((share - f64::from(u8::from(carries))).abs() < 1e-3, "{head}");
        }
    }
}

#[test]
fn shards_merge_to_the_report_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, task) = (fixture("corpus/gold.conllu"), fixture("tasks/cloze-corrupted.jsonl"));
    let common = ["analyze", "box:small", "-c", path(&corpus), "--task", path(&task), "--sample", "60"];
    parts_add_up(&[&common[..], &ALONE].concat(), &folder.path().join("whole.json"));
}

#[test]
fn summary_names_the_corruption_and_the_heads() {
    let task = fixture("tasks/copies-corrupted.jsonl");
    let arguments = ["analyze", "box:causal", "--task", path(&task), "--summary", "full"];
    let printed = run(&[&arguments[..], &ALONE[..6], &["--no-run-info"]].concat()).unwrap();
    let lines: Vec<&str> =
        printed.lines().filter(|line| line.contains("one word") || line.contains("restored")).collect();
    let mut answers = Answers::new();
    answers.said("a corruption", &lines.join("\n"));
    answers.held("interchange-summary");
}

#[test]
fn items_that_cannot_be_exchanged_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (file, corpus, headless) = (folder.path().join("items.jsonl"), fixture("corpus/gold.conllu"), tiny_bert());
    let item = |text: &str, corrupted: &str| {
        let item = serde_json::json!({"text": text, "corrupted": corrupted, "answer": "house", "foil": "the"});
        format!("{item}\n")
    };
    let good = item("the [MASK] was old .", "a [MASK] is old .");
    let bare = "{\"text\": \"the [MASK] was old .\", \"answer\": \"house\", \"foil\": \"the\"}\n";
    let other_tokens =
        r#"{"text": "the man was [MASK] .", "corrupted": "the man was[MASK] .", "answer": "fast", "foil": "ever"}"#;
    let mut answers = Answers::within(folder.path());
    for (title, model, task, more) in [
        ("no corrupted text", "box:small", bare.to_owned(), vec![]),
        ("another number of tokens", "box:small", item("the [MASK] was old .", "the [MASK] was old old ."), vec![]),
        ("another place of the mask", "box:small", item("the [MASK] was old .", "the was [MASK] old ."), vec![]),
        // Without the space, answer and foil are the rest of a word, `##fast` and `##ever`.
        ("other tokens of the answer", "box:small", other_tokens.to_owned(), vec![]),
        ("equal texts", "box:small", item("the [MASK] was old .", "the [MASK] was old ."), vec![]),
        ("a corrupted text without a mask", "box:small", item("the [MASK] was old .", "the house was old ."), vec![]),
        ("no corrupted text, with --strict", "box:small", format!("{good}{bare}"), vec!["--strict"]),
        ("pairs", "box:small", "{\"good\": \"the house\", \"bad\": \"house the\"}\n".to_owned(), vec![]),
        ("a model without a loss", path(&headless), good.clone(), vec![]),
    ] {
        fs::write(&file, task).unwrap();
        let arguments = ["analyze", model, "-c", path(&corpus), "--task", path(&file)];
        answers.refused(title, &run(&[&arguments[..], &ALONE, &more].concat()).unwrap_err());
    }
    // Nine units are too few for a standard error.
    fs::write(&file, good.repeat(9)).unwrap();
    let arguments = ["analyze", "box:small", "--task", path(&file), "--summary", "full"];
    let printed = run(&[&arguments[..], &ALONE[..6]].concat()).unwrap();
    let lines: Vec<&str> = printed.lines().filter(|line| line.contains("standard error")).collect();
    answers.said("nine units", &lines.join("\n"));
    for options in [["--with", "interchange"], ["--positions", "all"]] {
        let refused = run(&[&["analyze", "box:small"], &options[..]].concat());
        answers.refused(&options.join(" "), &refused.unwrap_err());
    }
    answers.held("interchange-refusals");
}
