//! The study `gradient`, held against `fixtures/reference_gradient.py`, and as a user runs it.

use std::fs;

use crate::support::{fixture, path, run, tiny_bert};
use serde_json::{Value, json};

/// Ours is float32, the reference float64; of the largest derivative.
const TOLERANCE: f64 = 1e-5;

/// The other studies have tests of their own.
const OTHERS: [&str; 6] = ["attention", "trees", "dependency", "words", "frequency", "explained"];

/// Analyses the gold corpus by this study and by what is asked for.
fn arguments<'a>(corpus: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["analyze", "box:small", "-c", corpus, "--with", "gradient", "--no-run-info", "-q"];
    arguments.extend(OTHERS.iter().flat_map(|study| ["--without", study]));
    arguments.extend(more);
    arguments
}

fn report(more: &[&str]) -> Value {
    let corpus = fixture("corpus/gold.conllu");
    let output = run(&arguments(path(&corpus), &[&["-o", "-"], more].concat())).unwrap();
    serde_json::from_str(&output).unwrap()
}

fn number(at: &str, value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{at} is {value}"))
}

fn check(removal: &str, more: &[&str]) {
    let golden = fs::read_to_string(fixture(&format!("goldens/small-gradient-{removal}.json"))).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let found = report(&[&["--removal", removal], more].concat());
    let gradient = &found["gradient"];
    for key in ["masked_tokens", "sentences"] {
        assert_eq!(gradient[key], expected[key], "{key}");
    }
    assert_eq!(gradient["removal"], removal);
    let loss = number("loss", &expected["loss"]);
    assert!((number("loss", &gradient["loss"]) / loss - 1.0).abs() < TOLERANCE);
    let heads = expected["heads"].as_array().unwrap();
    assert_eq!(gradient["heads"].as_array().unwrap().len(), heads.len());
    for (key, in_section, metric) in [
        ("importance", "importance", "gradient_importance"),
        ("first_order", "first_order_effect", "first_order_effect"),
    ] {
        let largest = heads.iter().map(|head| number(key, &head[key]).abs()).fold(0.0, f64::max);
        for (place, expected) in heads.iter().enumerate() {
            let (head, value) = (&found["heads"][place], number(key, &expected[key]));
            let off = (number(metric, &head["metrics"][metric]) - value).abs();
            assert!(off < TOLERANCE * largest, "{metric} of {} is off by {off}", head["name"]);
            assert_eq!(gradient["heads"][place][in_section], head["metrics"][metric]);
            let (error, known) = (&head["standard_errors"][metric], &expected[format!("{key}_error")]);
            match known.as_f64() {
                Some(known) => assert!((number(metric, error) - known).abs() < TOLERANCE * largest, "{error}"),
                None => assert_eq!(*error, Value::Null),
            }
        }
    }
    if let Some(rho) = expected.get("rho") {
        let [importance, first] = [&gradient["rank_correlations"][0], &gradient["rank_correlations"][1]];
        assert_eq!(
            (&importance["metric"], &importance["with"]),
            (&json!("gradient_importance"), &json!("loss_effect"))
        );
        for (found, key) in [(importance, "importance"), (first, "first_order")] {
            assert!((number(key, &found["rho"]) - number(key, &rho[key])).abs() < 1e-9, "{found}");
            assert!(found["ci95"].is_array(), "{found}");
        }
    }
}

#[test]
fn gradients_towards_the_mean_are_those_of_autograd() {
    check("mean", &["--sample", "64", "--with", "effect"]);
}

#[test]
fn gradients_towards_zero_in_all_phases_are_those_of_autograd() {
    check("zero", &["--phases", "7", "--sample", "8"]);
}

#[test]
fn parts_add_up_to_the_whole_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = fixture("corpus/gold.conllu");
    let arguments = |more: &[&str]| {
        let all = arguments(path(&corpus), &[&["--sample", "16", "--with", "effect"], more].concat());
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let analyze = |more: &[&str]| run(&arguments(more).iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let files = ["one.json", "two.json", "merged.json"].map(|name| folder.path().join(name));
    for (threads, file) in ["1", "2"].iter().zip(&files) {
        analyze(&["--threads", threads, "-o", path(file)]);
    }
    let parts: Vec<_> = (1..=2).map(|part| folder.path().join(format!("{part}.headscope"))).collect();
    for (part, file) in (1..).zip(&parts) {
        analyze(&["--shard", &format!("{part}/2"), "-o", path(file)]);
    }
    run(&["merge", path(&parts[1]), path(&parts[0]), "--no-run-info", "-q", "-o", path(&files[2])]).unwrap();
    let [one, two, merged] = files.each_ref().map(|file| fs::read(file).unwrap());
    assert_eq!(one, two);
    assert_eq!(one, merged);
    // A report is read back whole.
    let (again, policy) = (folder.path().join("again.json"), folder.path().join("policy.toml"));
    fs::write(&policy, "min_queries = 100000\n").unwrap();
    run(&["relabel", path(&files[0]), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap()["gradient"].clone();
    assert_eq!(read(&fs::read(&again).unwrap()), read(&one));
}

#[test]
fn a_head_that_is_gone_for_good_has_no_derivative() {
    for removal in ["mean", "zero"] {
        let found = report(&["--sample", "6", "--remove", "L0H0", "--removal", removal]);
        let heads = &found["gradient"]["heads"];
        assert_eq!((&heads[0]["importance"], &heads[0]["first_order_effect"]), (&json!(0.0), &json!(0.0)));
        assert_ne!(heads[1]["importance"], 0.0);
        assert_eq!(found["gradient"]["rank_correlations"], json!([]));
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let corpus = fixture("corpus/gold.conllu");
    let model = tiny_bert();
    let (status, error) = run(&["analyze", path(&model), "-c", path(&corpus), "--with", "gradient"]).unwrap_err();
    assert_eq!(status, 4);
    assert!(error.starts_with("error: --with gradient: `tiny-bert` has no masked-LM head"), "{error}");
    let more = ["analyze", "box:small", "-c", "-", "--format", "text", "--with", "gradient"];
    let (status, error) = run(&more).unwrap_err();
    assert_eq!(status, 2);
    assert!(error.contains("read again for the study gradient"), "{error}");
}
