//! The study `gradient`: against `fixtures/reference_gradient.py`, and on the command line.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{fixture, path, run, tiny_bert};
use serde_json::{Value, json};

/// The tolerance relative to the largest derivative: the program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

/// The tolerance of integrated gradients, in nats: they are means over many points.
const INTEGRATED_TOLERANCE: f64 = 1e-6;

/// Studies that are switched off here: other tests cover them.
const OTHERS: [&str; 6] = ["attention", "trees", "dependency", "words", "frequency", "explained-variance"];

/// The arguments for this study over the gold corpus, and `more`.
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
    let found = report(&[&["--words", "spaced", "--removal", removal], more].concat());
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
            let (error, reference) = (&head["standard_errors"][metric], &expected[format!("{key}_error")]);
            match reference.as_f64() {
                Some(reference) => assert!((number(metric, error) - reference).abs() < TOLERANCE * largest, "{error}"),
                None => assert_eq!(*error, Value::Null),
            }
        }
    }
    let integrated = &gradient["integrated"];
    assert_eq!(integrated["steps"], expected["steps"]);
    for key in ["loss_without_heads", "loss_difference", "sum"] {
        assert!((number(key, &integrated[key]) - number(key, &expected[key])).abs() < 1e-5, "{key}: {integrated}");
    }
    for (place, expected) in heads.iter().enumerate() {
        let (head, found) = (&found["heads"][place], &integrated["heads"][place]);
        let value = &head["metrics"]["integrated_gradient"];
        let off = (number("integrated", value) - number("integrated", &expected["integrated"])).abs();
        assert!(off < INTEGRATED_TOLERANCE, "integrated_gradient of {} is off by {off}", head["name"]);
        assert_eq!(found["integrated_gradient"], *value);
        let error = &head["standard_errors"]["integrated_gradient"];
        match expected["integrated_error"].as_f64() {
            Some(reference) => {
                assert!((number("integrated", error) - reference).abs() < INTEGRATED_TOLERANCE, "{error}");
                // A head more than four standard errors from 0 has a small p-value.
                let t = number("integrated", value).abs() / reference;
                assert!(t < 4.0 || number("p", &found["p"]) < 0.001, "{found}");
                assert!(number("q", &found["q"]) >= number("p", &found["p"]));
            }
            None => assert_eq!((error, &found["p"]), (&Value::Null, &Value::Null)),
        }
    }
    if let Some(rho) = expected.get("rho") {
        let [importance, first, along] = [0, 1, 2].map(|metric| &gradient["rank_correlations"][metric]);
        assert_eq!(along["metric"], "integrated_gradient");
        assert_eq!(
            (&importance["metric"], &importance["with"]),
            (&json!("gradient_importance"), &json!("loss_effect"))
        );
        for (found, key) in [(importance, "importance"), (first, "first_order"), (along, "integrated")] {
            assert!((number(key, &found["rho"]) - number(key, &rho[key])).abs() < 1e-9, "{found}");
            assert!(found["ci95"].is_array(), "{found}");
        }
    }
}

#[test]
fn gradients_towards_the_mean_equal_autograd() {
    check("mean", &["--sample", "64", "--gradient-steps", "16", "--with", "effect"]);
}

#[test]
fn gradients_towards_zero_in_all_phases_equal_autograd() {
    check("zero", &["--phases", "7", "--sample", "8", "--gradient-steps", "5"]);
}

#[test]
fn parts_add_up_to_the_whole_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = fixture("corpus/gold.conllu");
    let arguments = |more: &[&str]| {
        let all = arguments(
            path(&corpus),
            &[&["--sample", "16", "--gradient-steps", "3", "--with", "effect"], more].concat(),
        );
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
fn a_removed_head_has_no_derivative() {
    for removal in ["mean", "zero"] {
        let report = report(&["--sample", "6", "--gradient-steps", "32", "--remove", "L0H0", "--removal", removal]);
        let heads = &report["gradient"]["heads"];
        assert_eq!((&heads[0]["importance"], &heads[0]["first_order_effect"]), (&json!(0.0), &json!(0.0)));
        assert_ne!(heads[1]["importance"], 0.0);
        // The integrated gradients of the remaining heads still add up to the effect of all of them.
        let integrated = &report["gradient"]["integrated"];
        assert_eq!(integrated["heads"][0]["integrated_gradient"], 0.0);
        assert!(number("the error", &integrated["completeness_error"]) < 0.01, "{integrated}");
        assert_eq!(report["gradient"]["rank_correlations"], json!([]));
    }
}

#[test]
fn integrated_gradients_add_up_unless_steps_are_too_few() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, file) = (fixture("corpus/gold.conllu"), folder.path().join("report.json"));
    let integrate = |steps: &str| {
        let more = ["--sample", "64", "--gradient-steps", steps, "--summary", "full", "-o", path(&file)];
        let arguments: Vec<_> = arguments(path(&corpus), &more).into_iter().filter(|&word| word != "-q").collect();
        let summary = run(&arguments).unwrap();
        let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        (report["gradient"]["integrated"].clone(), summary)
    };
    let mut answers = Answers::new();
    let mut add_paragraph = |steps: &str, summary: &str| {
        let paragraph = summary.split("\n\n").find(|part| part.starts_with("Integrated gradients")).unwrap();
        answers.said(&format!("--gradient-steps {steps}"), paragraph);
    };
    let (enough, summary) = integrate("16");
    assert!(number("the error", &enough["completeness_error"]) < 0.01, "{enough}");
    add_paragraph("16", &summary);
    let (few, summary) = integrate("1");
    assert!(number("the error", &few["completeness_error"]) > 0.01, "{few}");
    add_paragraph("1", &summary);
    answers.held("gradient-steps");
    // Without `--gradient-steps` nothing is integrated, and the report has no such key.
    let report = report(&["--sample", "6"]);
    assert_eq!(report["gradient"].get("integrated"), None);
    assert_eq!(report["heads"][0]["metrics"]["integrated_gradient"], Value::Null);
}

#[test]
fn unmeasurable_gradients_are_refused() {
    let corpus = fixture("corpus/gold.conllu");
    let model = tiny_bert();
    let mut answers = Answers::new();
    for arguments in [
        &[path(&model), "-c", path(&corpus), "--with", "gradient"][..],
        &["box:small", "-c", "-", "--format", "text", "--with", "gradient"],
        &["box:small", "-c", path(&corpus), "--gradient-steps", "16"],
        &["box:small", "-c", path(&corpus), "--with", "gradient", "--gradient-steps", "0"],
        &["box:small", "-c", path(&corpus), "--with", "gradient", "--gradient-steps", "1000"],
    ] {
        answers.refused(&arguments.join(" "), &run(&[&["analyze"], arguments].concat()).unwrap_err());
    }
    answers.held("gradient-refused");
}
