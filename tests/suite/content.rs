//! Word classes, likeness, frequency and explained variance, against references that share no code with the program.
//! Also `--counts`, since tokens on standard input cannot be counted beforehand.

use std::fs;
use std::num::NonZeroUsize;

use crate::golden::load;
use crate::support::answers::Answers;
use crate::support::{analyze, fixture, headscope, outcome, path, run, tiny_bert};
use headscope::corpus::{CorpusScope, Input};
use headscope::passes::run::counting::count_tokens;
use headscope::sequences::reading::{Context, Spacing};
use serde_json::Value;

/// Both sides start from float32 attention and sum in different orders.
const TOLERANCE: f64 = 1e-5;

/// Asserts that `actual` has every value of `expected`.
fn check(at: &str, actual: &Value, expected: &Value) {
    match expected {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| check(&format!("{at}.{key}"), &actual[key], value));
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(place, value)| check(at, &actual[place], value)),
        Value::Null => assert_eq!(*actual, Value::Null, "{at}"),
        _ => {
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}"));
            assert!(
                (number(actual) - number(expected)).abs() <= TOLERANCE,
                "{at} is {actual}, the reference {expected}"
            );
        }
    }
}

/// The golden that `fixtures/reference_NAME.py` computed for tiny-bert.
fn golden(name: &str) -> Value {
    let golden = fs::read_to_string(fixture(&format!("goldens/tiny-bert-{name}.json")));
    serde_json::from_str(&golden.expect("python fixtures/reference_NAME.py makes the golden")).unwrap()
}

/// Asserts that a report has the metrics and chance levels of a golden.
fn check_heads(report: &Value, golden: &Value) {
    check("chance", &report["chance"], &golden["chance"]);
    let (heads, expected) = (report["heads"].as_array().unwrap(), golden["heads"].as_array().unwrap());
    assert_eq!(heads.len(), expected.len());
    for (head, expected) in heads.iter().zip(expected) {
        check(head["name"].as_str().unwrap(), &head["metrics"], expected);
    }
}

#[test]
fn explained_variance_equals_the_reference() {
    check_heads(
        &analyze(&fixture("corpus/gold.conllu"), &["--words", "spaced", "--limit", "120"]),
        &golden("explained-variance"),
    );
}

#[test]
fn attention_to_fixed_positions_equals_the_reference() {
    let cut = ["--truncate", "--max-tokens", "8", "--unit", "sentences"];
    let (report, golden) = (analyze(&fixture("corpus/documents.txt"), &cut), golden("places"));
    assert!(golden["pairs"].as_u64() > Some(100));
    for (place, head) in report["heads"].as_array().unwrap().iter().enumerate() {
        for metric in ["explained_by_place", "explained_by_place_over_offsets"] {
            check(metric, &head["metrics"][metric], &golden[metric][place]);
        }
    }
}

#[test]
fn every_number_equals_the_reference() {
    let (report, golden) =
        (analyze(&fixture("corpus/gold.conllu"), &["--words", "spaced", "--limit", "200"]), golden("content"));
    check_heads(&report, &golden);
    for what in ["ci95", "standard_errors"] {
        for (head, expected) in report["heads"].as_array().unwrap().iter().zip(golden[what].as_array().unwrap()) {
            check(&format!("{} {what}", head["name"]), &head[what], expected);
        }
    }
    for (metric, count) in golden["counts"].as_object().unwrap() {
        let count_in = |denominator: &Value| denominator["count"].clone();
        match count.as_object() {
            Some(by_tag) => {
                by_tag
                    .iter()
                    .for_each(|(tag, count)| assert_eq!(count_in(&report["denominators"][metric][tag]), *count));
            }
            None => assert_eq!(count_in(&report["denominators"][metric]), *count, "{metric}"),
        }
    }
}

/// The values of a head's metric: one, or one for each key.
fn cells(metric: &Value) -> Vec<Option<f64>> {
    metric.as_object().map_or_else(|| vec![metric.as_f64()], |cells| cells.values().map(Value::as_f64).collect())
}

#[test]
fn leads_are_relative_to_the_reported_chance_levels() {
    let report = analyze(&fixture("corpus/gold.conllu"), &["--limit", "120"]);
    let mut compared = 0;
    for head in report["heads"].as_array().unwrap() {
        let metrics = head["metrics"].as_object().unwrap();
        for (name, lead) in metrics {
            let (metric, expected) = if let Some(metric) = name.strip_suffix("_over_chance") {
                (metric, cells(&report["chance"][metric]))
            } else if let Some(metric) = name.strip_suffix("_over_position") {
                let expected = cells(&metrics[&format!("{metric}_expected")]);
                (metric, expected.into_iter().map(|value| Some(1.25 * value?)).collect())
            } else {
                continue;
            };
            for ((lead, value), expected) in cells(lead).into_iter().zip(cells(&metrics[metric])).zip(expected) {
                let Some(((lead, value), expected)) = lead.zip(value).zip(expected) else { continue };
                assert!((lead - (value - expected)).abs() < 1e-9, "{name}: {lead} is not {value} - {expected}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn standard_input_has_rare_words_only_with_given_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (model, counts) = (tiny_bert(), folder.path().join("counts.json"));
    let corpus = fixture("corpus/gold.conllu");
    run(&["counts", path(&model), "-c", path(&corpus), "-o", path(&counts)]).unwrap();
    let bytes = fs::read(&corpus).unwrap();
    let piped = |more: &[&str]| {
        let command = ["analyze", path(&model), "-c", "-", "--format", "conllu", "-o", "-", "--no-run-info"];
        headscope(&[&command, more].concat()).write_stdin(bytes.clone()).output().unwrap()
    };
    let report = |output: &std::process::Output| -> Value { serde_json::from_str(&outcome(output).unwrap()).unwrap() };
    let without = piped(&[]);
    let messages = String::from_utf8(without.stderr.clone()).unwrap();
    let notes: Vec<&str> = messages.lines().filter(|line| line.contains("the study ")).collect();
    let mut answers = Answers::new();
    answers.said("notes", &notes.join("\n"));
    assert_eq!(report(&without)["settings"]["left_out"], serde_json::json!(["frequency"]));
    answers.refused("asked for", &outcome(&piped(&["--with", "frequency"])).unwrap_err());
    answers.held("content-standard-input");

    let (from_input, from_file) = (report(&piped(&["--counts", path(&counts)])), analyze(&corpus, &[]));
    assert_eq!(from_input["heads"], from_file["heads"]);
    assert!(from_input["settings"].get("left_out").is_none());
    assert_eq!(from_input["settings"]["counts"].as_str().unwrap().len(), 64);
    assert!(from_file["settings"].get("counts").is_none());
}

#[test]
fn invalid_counts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (model, counts) = (tiny_bert(), folder.path().join("counts.json"));
    let corpus = fixture("corpus/gold.conllu");
    let refused =
        || run(&["analyze", path(&model), "-c", path(&corpus), "--counts", path(&counts), "-o", "-"]).unwrap_err();
    let mut answers = Answers::within(folder.path());
    answers.refused("no file", &refused());
    for text in ["[1]", "{\"the\": -1}", "{\"nowhere\\u001b\": 1}", "{}"] {
        fs::write(&counts, text).unwrap();
        answers.refused(text, &refused());
    }
    answers.held("content-counts");
}

/// The number of threads changes neither the counts nor the error, which is the first of the corpus. The gold corpus is
/// counted in eleven batches. The second and the fourth are broken here.
#[test]
fn threads_change_no_token_count() {
    let model = load(&tiny_bert());
    let gold = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.conllu");
    let sentences = gold.split("\n\n").enumerate();
    let sentences = sentences.map(|(number, one)| if [100, 200].contains(&number) { "1\tThe" } else { one });
    fs::write(&broken, sentences.collect::<Vec<_>>().join("\n\n")).unwrap();
    let counted = |file: &std::path::Path, scope: &CorpusScope, threads| {
        let corpus = [Input::parse(file, None).unwrap()];
        let threads = NonZeroUsize::new(threads).unwrap();
        count_tokens(&corpus, (&model.tokenizer, Context::Sentence, Spacing::Written), 64, false, scope, threads)
            .map_err(|error| format!("{error:#}"))
    };
    let line = gold.split("\n\n").take(100).map(|one| one.lines().count() + 1).sum::<usize>() + 1;
    for limit in [None, Some(70)] {
        let counts =
            |threads| counted(&fixture("corpus/gold.conllu"), &CorpusScope::new(limit, None), threads).unwrap().0;
        assert!(!counts(1).is_empty());
        assert_eq!([counts(2), counts(7)], [counts(1), counts(1)], "{limit:?}");
    }
    for threads in [1, 2, 7] {
        let error = counted(&broken, &CorpusScope::default(), threads).unwrap_err();
        assert!(error.contains(&format!("broken.conllu:{line}")), "{error}");
        // Errors after the requested sentences are not reached.
        counted(&broken, &CorpusScope::new(Some(100), None), threads).unwrap();
    }
}
