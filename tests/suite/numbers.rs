//! `headscope compare --numbers`: changed numbers, numbers that are not compared, and the exit status.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, outcome, path, run, tiny_bert};
use candle_core::{DType, Device, Tensor, safetensors};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The report of the tiny model (3 layers, 4 heads) over 700 sentences, made once.
static REPORT: LazyLock<String> = LazyLock::new(|| {
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    run(&["analyze", path(&model), "-c", path(&corpus), "--no-run-info", "-o", "-"]).unwrap()
});

/// A folder that contains [`REPORT`] as a.json.
struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> Self {
        let context = Self(tempfile::tempdir().unwrap());
        context.file("a.json", REPORT.as_bytes());
        context
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// The report after `change`, saved under `name`.
    fn changed(&self, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
        let mut report = serde_json::from_str(&REPORT).unwrap();
        change(&mut report);
        self.file(name, serde_json::to_vec(&report).unwrap())
    }

    /// The exit status of a comparison with a.json, and its output or its error message.
    fn diff(&self, b: &Path, more: &[&str]) -> (i32, String) {
        diff(&self.path("a.json"), b, more)
    }

    fn json(&self, b: &Path, more: &[&str]) -> (i32, Value) {
        let (status, text) = self.diff(b, &[&["--json"], more].concat());
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
    }

    /// The partial of a shard of the tiny model over the corpus.
    fn partial(&self, name: &str, more: &[&str]) -> PathBuf {
        let (model, corpus, output) = (tiny_bert(), fixture("corpus/gold.conllu"), self.path(name));
        let arguments = ["analyze", path(&model), "-c", path(&corpus), "-q", "--no-run-info", "-o", path(&output)];
        run(&[&arguments, more].concat()).unwrap();
        output
    }
}

fn diff(a: &Path, b: &Path, more: &[&str]) -> (i32, String) {
    let output = headscope(&[&["compare", "--numbers", path(a), path(b)], more].concat()).output().unwrap();
    let text = if output.stderr.is_empty() { output.stdout } else { output.stderr };
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// Sets a metric of a head to a value with this interval. The standard error is a quarter of the interval's width.
fn set(report: &mut Value, head: usize, metric: &str, value: f64, interval: [f64; 2]) {
    let head = &mut report["heads"][head];
    head["metrics"][metric] = json!(value);
    head["ci95"][metric] = json!(interval);
    head["standard_errors"][metric] = json!((interval[1] - interval[0]) / 4.0);
}

/// The entry that was not compared for a reason with the prefix `why`: its count and its numbers.
fn not_compared(outcome_json: &Value, why: &str) -> (u64, Value) {
    let all = outcome_json["left_aside"].as_array().unwrap();
    let entry = all.iter().find(|entry| entry["why"].as_str().unwrap().starts_with(why));
    let entry = entry.unwrap_or_else(|| panic!("no {why:?} in {all:#?}"));
    (entry["count"].as_u64().unwrap(), entry["of"].clone())
}

#[test]
fn report_does_not_differ_from_itself() {
    let context = TestFolder::new();
    let (status, text) = context.diff(&context.path("a.json"), &[]);
    assert_eq!(status, 0, "{text}");
    let mut answers = Answers::within(context.0.path());
    answers.said("a report and itself", &text.split("\n\n").take(2).collect::<Vec<_>>().join("\n\n"));
    let (status, outcome_json) = context.json(&context.path("a.json"), &[]);
    assert_eq!((status, &outcome_json["changed"], &outcome_json["not_shared"]), (0, &json!(false), &json!([])));
    assert_eq!(outcome_json["method"], "by-intervals");
    let compared = |part: &str| outcome_json["compared"][part].as_u64().unwrap();
    assert_eq!(compared("numbers"), compared("relations") + compared("metrics"));
    // 12 heads, and 24 accuracies for each relation with at least 100 words.
    assert_eq!((compared("metrics") % 12, compared("relations") % 24), (0, 0));
    assert!(compared("metrics") > 400 && compared("relations") > 400, "{}", outcome_json["compared"]);
    // One of the two reports may come from standard input.
    let report = context.path("a.json");
    let piped =
        headscope(&["compare", "--numbers", "-", path(&report)]).write_stdin(REPORT.as_bytes()).output().unwrap();
    answers.said("one from standard input", outcome(&piped).unwrap().lines().next().unwrap());
    answers.held("numbers-nothing-changed");
}

#[test]
fn number_differs_by_its_interval_after_correction() {
    let context = TestFolder::new();
    context.changed("a.json", |report| set(report, 2, "uuas", 0.4, [0.1, 0.43]));
    let b = context.changed("b.json", |report| set(report, 2, "uuas", 0.6, [0.56, 0.9]));
    let (status, outcome_json) = context.json(&b, &[]);
    assert_eq!(
        (status, &outcome_json["changed"], &outcome_json["labels"], &outcome_json["relations"]),
        (1, &json!(true), &json!([]), &json!([]))
    );
    assert_eq!(outcome_json["metrics"].as_array().unwrap().len(), 1);
    let change = &outcome_json["metrics"][0];
    assert_eq!((&change["name"], &change["number"]), (&json!("L0H2"), &json!("uuas")));
    let number = |key: &str| change[key].as_f64().unwrap();
    // The half-widths that face each other are 0.03 and 0.04. Student's 97.5th percentile with 61.357 degrees of
    // freedom is 1.999388 (scipy 1.17).
    assert!((number("difference") - 0.2).abs() < 1e-12);
    assert!((number("standard_error") - 0.025_007_652).abs() < 1e-8);
    assert_eq!(change["unit"], "shares");
    let heads = outcome_json["heads"].as_array().unwrap();
    assert_eq!((heads.len(), &heads[0]["name"], &heads[0]["changed"]), (1, &json!("L0H2"), &json!(1)));
    assert_eq!((&heads[0]["largest"]["number"], &heads[0]["largest"]["q"]), (&json!("uuas"), &change["q"]));
    // All other numbers are equal, with p = 1: the smallest of m p-values is multiplied by m.
    let numbers = outcome_json["compared"]["numbers"].as_f64().unwrap();
    assert!((number("q") / (number("p") * numbers) - 1.0).abs() < 1e-9);
    // `--only` decides the exit status.
    let exits = ["labels", "relations", "metrics", "labels,metrics"].map(|only| context.json(&b, &["--only", only]).0);
    assert_eq!(exits, [0, 0, 1, 1]);
    // A difference of 0.2 does not exceed the tolerance 0.2. A difference whose q is above the rate does not count.
    assert_eq!(context.json(&b, &["--tolerance", "0.2"]).0, 0);
    assert_eq!(context.json(&b, &["--rate", "1e-12"]).0, 0);
    let (_, text) = context.diff(&b, &[]);
    for part in [" uuas  +0.200  q ", " uuas  L0H2  0.400 [0.100, 0.430]  ->  0.600 [0.560, 0.900]  q "] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let mut answers = Answers::within(context.0.path())
        .hiding(&format!("1 of {} changed", outcome_json["compared"]["metrics"]), "1 of all metrics changed")
        .hiding(&format!("1 of {} numbers", heads[0]["compared"]), "1 of its numbers");
    let is_change_line = |line: &&str| line.ends_with(" changed") || line.contains(" uuas ");
    let change_lines: Vec<&str> = text.lines().take(1).chain(text.lines().filter(is_change_line)).collect();
    answers.said("one metric of one head", &change_lines.join("\n"));
    answers.held("numbers-one-change");
}

#[test]
fn lost_label_names_the_numbers_of_both_rules() {
    let context = TestFolder::new();
    let with = |name: &str, argmax: f64, mass: f64| {
        context.changed(name, |report| {
            for (metric, value) in [("offset_argmax", argmax), ("offset_mass", mass)] {
                let head = &mut report["heads"][0];
                head["metrics"][metric]["-1"] = json!(value);
                head["ci95"][metric]["-1"] = json!([value - 0.01, value + 0.01]);
                head["standard_errors"][metric]["-1"] = json!(0.005);
            }
        })
    };
    with("a.json", 0.98, 0.2);
    // By the largest weight: -0.85 / 0.1; by the mass: -0.47 / 0.5. The second margin is nearer to the label.
    let b = with("b.json", 0.05, 0.03);
    let (_, outcome_json) = context.json(&b, &[]);
    let labels = outcome_json["labels"].as_array().unwrap();
    let change = labels.iter().find(|change| change["label"] == "previous-token").expect("the label is lost");
    assert_eq!(
        (&change["number"], &change["a"]["number"], &change["b"]["number"]),
        (&json!("offset_argmax.-1"), &json!("offset_argmax.-1"), &json!("offset_mass.-1"))
    );
    let (_, text) = context.diff(&b, &[]);
    let line = text.lines().find(|line| line.contains("previous-token")).unwrap();
    for part in [
        "offset_argmax.-1 0.980 [0.970, 0.990] of 0.900  ->  offset_mass.-1 0.030 [0.020, 0.040] of 0.500  q ",
        " of offset_argmax.-1",
    ] {
        assert!(line.contains(part), "no {part:?} in {line}");
    }
}

#[test]
fn label_changes_from_firm_to_out_of_reach() {
    let context = TestFolder::new();
    context.changed("a.json", |report| set(report, 0, "separator_mass", 0.9, [0.85, 0.95]));
    let with = |value: f64, interval: [f64; 2]| {
        let b = context.changed("b.json", |report| set(report, 0, "separator_mass", value, interval));
        context.json(&b, &[]).1
    };
    // The threshold is 0.6.
    let lost = with(0.3, [0.25, 0.35]);
    assert_eq!(lost["labels"].as_array().unwrap().len(), 1);
    let change = &lost["labels"][0];
    assert_eq!(
        (&change["name"], &change["label"], &change["number"]),
        (&json!("L0H0"), &json!("separator"), &json!("separator_mass"))
    );
    assert_eq!((&change["a"]["firm"], &change["b"]["firm"]), (&json!(true), &json!(false)));
    assert_eq!(change["q"], lost["metrics"][0]["q"]);
    // The number differs, but the label is within reach.
    let near = with(0.5, [0.39, 0.61]);
    assert_eq!((near["labels"].as_array().unwrap().len(), near["metrics"].as_array().unwrap().len()), (0, 1));
    // The label is out of reach, but the number does not differ significantly.
    context.changed("a.json", |report| set(report, 0, "separator_mass", 0.65, [0.61, 0.69]));
    let unsure = with(0.55, [0.51, 0.59]);
    assert_eq!((unsure["labels"].as_array().unwrap().len(), unsure["metrics"].as_array().unwrap().len()), (0, 0));
    let (status, text) =
        context.diff(&context.changed("b.json", |report| set(report, 0, "separator_mass", 0.01, [0.0, 0.02])), &[]);
    assert_eq!(status, 1);
    assert!(
        text.contains(" L0H0  separator  lost  0.650 [0.610, 0.690] of 0.600  ->  0.010 [0.000, 0.020] of 0.600  q "),
        "{text}"
    );
}

#[test]
fn untestable_numbers_are_listed() {
    let context = TestFolder::new();
    let b = context.changed("b.json", |report| {
        // Without an interval there is no test.
        report["heads"][3]["metrics"]["uuas"] = json!(0.99);
        report["heads"][3]["ci95"]["uuas"] = Value::Null;
        report["heads"][4]["metrics"]["uuas"] = Value::Null;
        report["heads"].as_array_mut().unwrap().iter_mut().for_each(|head| {
            head["metrics"].as_object_mut().unwrap().remove("confidence");
            head["ci95"].as_object_mut().unwrap().remove("confidence");
        });
        // As in reports of version 0.1.
        report.as_object_mut().unwrap().remove("denominators");
        report["relations"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|relation| drop(relation.as_object_mut().unwrap().remove("blocks")));
        report["corpus"]["name"] = json!("other\u{1b}.conllu");
    });
    let (status, outcome_json) = context.json(&b, &[]);
    assert_eq!(status, 0, "{outcome_json}");
    assert_eq!(not_compared(&outcome_json, "number differs and cannot be tested"), (1, json!(["uuas"])));
    assert_eq!(not_compared(&outcome_json, "numbers are there on one side only"), (13, json!(["confidence", "uuas"])));
    assert!(not_compared(&outcome_json, "numbers are of relations with fewer words").0 > 0);
    let (count, names) = not_compared(&outcome_json, "numbers are made of rates of the corpus");
    assert_eq!(count % 12, 0);
    assert!(names.as_array().unwrap().contains(&json!("same_token_mass_expected")), "{names}");
    assert_eq!(outcome_json["not_shared"][0]["key"], "corpus.name");
    let (_, text) = context.diff(&b, &[]);
    assert!(!text.contains('\u{1b}'), "{text}");
    let metric_lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  ") && line.contains("uuas")).collect();
    let mut answers = Answers::within(context.0.path());
    answers.said("what is not compared of one metric", &metric_lines.join("\n"));
    answers.held("numbers-not-compared");
    // With --min-count above all counts, no relation is compared.
    let (_, none) = context.json(&b, &["--min-count", "1000000"]);
    assert_eq!(none["compared"]["relations"], 0);
}

#[test]
fn difference_without_variance_is_a_change() {
    let context = TestFolder::new();
    let with = |value: f64| move |report: &mut Value| set(report, 1, "uuas", value, [value, value]);
    context.changed("a.json", with(0.25));
    let (status, outcome_json) = context.json(&context.changed("b.json", with(0.5)), &[]);
    assert_eq!((status, &outcome_json["metrics"][0]["standard_error"]), (1, &json!(0.0)));
}

#[test]
fn different_policies_are_reported() {
    let context = TestFolder::new();
    let firm = |report: &mut Value| set(report, 0, "separator_mass", 0.9, [0.85, 0.95]);
    context.changed("a.json", firm);
    let stricter = context.changed("b.json", |report| {
        firm(report);
        report["settings"]["policy"]["separator_mass"] = json!(0.99);
    });
    let (status, outcome_json) = context.json(&stricter, &[]);
    assert_eq!(
        (status, not_compared(&outcome_json, "of the firm labels have other thresholds")),
        (0, (1, json!(["separator"])))
    );
    // Under one policy for both reports, the labels are compared.
    let policy = context.file("policy.toml", "separator_mass = 0.7\n");
    let (status, outcome_json) = context.json(&stricter, &["--policy", path(&policy)]);
    assert_eq!((status, &outcome_json["not_shared"]), (0, &json!([])));
}

#[test]
fn partials_of_the_same_sentences_are_compared_in_pairs() {
    let context = TestFolder::new();
    let before = context.partial("before.headscope", &["--shard", "1/1"]);
    let same = |a: &Path, b: &Path| {
        let (status, text) = diff(a, b, &["--json"]);
        let outcome_json: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        (
            status,
            outcome_json["method"].as_str().unwrap().to_owned(),
            outcome_json["compared"]["numbers"].as_u64().unwrap(),
        )
    };
    let (status, method, numbers) = same(&before, &before);
    assert_eq!((status, method.as_str()), (0, "paired-by-block"));
    // The report was made from the partial's sums.
    let report = context.path("a.json");
    assert_eq!(same(&before, &report), (0, "by-intervals".to_owned(), numbers));
    assert_eq!(same(&report, &before), (0, "by-intervals".to_owned(), numbers));
    // Reports of the same sentences get the hint that a pairing is possible.
    let hint = |a: &Path, b: &Path| {
        let outcome_json: Value = serde_json::from_str(&diff(a, b, &["--json"]).1).unwrap();
        outcome_json["pairing"].as_str().map(str::to_owned)
    };
    assert!(hint(&report, &before).is_some() && hint(&before, &before).is_none());
    assert!(diff(&report, &report, &[]).1.contains(&hint(&report, &report).unwrap()));
    let fewer = context.changed("fewer.json", |report| report["settings"]["limit"] = json!(3));
    assert_eq!(hint(&report, &fewer), None);
    // Layers above the removed heads see other hidden states; layers below do not.
    let after = context.partial("after.headscope", &["--shard", "1/1", "--remove", "L1H0,L1H1"]);
    let (status, text) = diff(&before, &after, &["--json", "--tolerance", "0"]);
    let outcome_json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &outcome_json["method"]), (1, &json!("paired-by-block")));
    assert_eq!(outcome_json["tolerances"], json!({ "shares": 0.0, "nats": 0.0, "tokens": 0.0 }));
    let changes: Vec<&Value> =
        ["relations", "metrics"].iter().flat_map(|part| outcome_json[part].as_array().unwrap()).collect();
    assert!(!changes.is_empty());
    assert!(changes.iter().all(|change| change["layer"] == 2), "{text}");
    // Sorted by size: .005 of a share, .02 nats and .02 tokens count as equal.
    let size = |change: &Value| {
        let unit = match change["unit"].as_str().unwrap() {
            "nats" | "tokens" => 0.02,
            _ => 0.005,
        };
        change["difference"].as_f64().unwrap().abs() / unit
    };
    assert!(outcome_json["metrics"].as_array().unwrap().is_sorted_by_key(|change| -size(change)));
    let heads = outcome_json["heads"].as_array().unwrap();
    assert_eq!(heads.iter().map(|head| head["changed"].as_u64().unwrap()).sum::<u64>(), changes.len() as u64);
    // Other shards have other sentences.
    let halves =
        ["1/2", "2/2"].map(|shard| context.partial(&format!("{}.headscope", &shard[..1]), &["--shard", shard]));
    assert_eq!(same(&halves[0], &halves[0]).1, "paired-by-block");
    assert_eq!(same(&halves[0], &halves[1]).1, "by-intervals");
}

#[test]
fn outcome_follows_its_schema() {
    let context = TestFolder::new();
    context.changed("a.json", |report| set(report, 0, "separator_mass", 0.9, [0.85, 0.95]));
    let (_, outcome_json) =
        context.json(&context.changed("b.json", |report| set(report, 0, "separator_mass", 0.1, [0.05, 0.15])), &[]);
    let schema: Value = serde_json::from_str(&run(&["explain", "--schema", "numbers"]).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&outcome_json).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    assert_eq!(outcome_json["schema_version"], 3);
    let mut wrong = outcome_json.clone();
    wrong["labels"][0]["a"]["firm"] = json!("banana");
    assert!(!validator.is_valid(&wrong));
    assert_eq!(run(&["schema"]).unwrap(), run(&["schema", "report"]).unwrap());
}

#[test]
fn each_unit_has_its_tolerance() {
    let context = TestFolder::new();
    let b = context.changed("b.json", |report| {
        for (metric, more) in [("entropy", 0.6), ("mean_distance", 1.5), ("uuas", 0.2)] {
            let value = report["heads"][5]["metrics"][metric].as_f64().unwrap() + more;
            set(report, 5, metric, value, [value - 0.01, value + 0.01]);
        }
    });
    let changed = |tolerance: &str| -> Vec<String> {
        let (_, outcome_json) = context.json(&b, &["--tolerance", tolerance]);
        let metrics = outcome_json["metrics"].as_array().unwrap();
        metrics.iter().map(|change| change["number"].as_str().unwrap().to_owned()).collect()
    };
    // 1.5 / .02, 0.2 / .005 and 0.6 / .02.
    assert_eq!(changed("0"), ["mean_distance", "uuas", "entropy"]);
    assert_eq!(changed("nats=0.6"), ["mean_distance", "uuas"]);
    assert_eq!(changed("nats=0.6,tokens=1.6"), ["uuas"]);
    assert_eq!(changed("0.25"), ["mean_distance", "entropy"]);
    let tolerances = |more: &[&str]| context.json(&b, more).1["tolerances"].clone();
    let given = tolerances(&["--tolerance", "0.25,shares=0"]);
    assert_eq!(given, json!({ "shares": 0.0, "nats": 0.25, "tokens": 0.25 }));
    assert_eq!(tolerances(&[]), json!({ "shares": 0.005, "nats": 0.02, "tokens": 0.02 }));
}

#[test]
fn content_label_depends_on_its_own_number() {
    let context = TestFolder::new();
    let with = |name: &str, mass: f64, over: f64| {
        context.changed(name, |report| {
            set(report, 7, "same_tag_mass", mass, [mass - 0.01, mass + 0.01]);
            for metric in ["same_tag_mass_over_chance", "same_tag_mass_over_position"] {
                set(report, 7, metric, over, [over - 0.01, over + 0.01]);
            }
        })
    };
    with("a.json", 0.8, 0.5);
    let lost = |mass: f64| {
        let (_, outcome_json) = context.json(&with("b.json", mass, -0.1), &[]);
        outcome_json["labels"].as_array().unwrap().iter().find(|change| change["label"] == "same-tag").cloned()
    };
    let change = lost(0.1).expect("the label is lost");
    assert_eq!(
        (&change["a"]["number"], &change["number"]),
        (&json!("same_tag_mass_over_chance"), &json!("same_tag_mass"))
    );
    // If the head's own number is unchanged, the corpus changed, and no label is lost.
    assert_eq!(lost(0.8), None);
}

/// A copy of a fixture model with changed weights.
fn changed_model(name: &str, folder: &Path, change: impl Fn(&mut [f32])) -> PathBuf {
    let target = folder.join("model");
    fs::create_dir(&target).unwrap();
    for entry in fixture("models").join(name).read_dir().unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), target.join(entry.file_name())).unwrap();
    }
    let file = target.join("model.safetensors");
    let mut tensors: Vec<(String, Tensor)> = safetensors::load(&file, &Device::Cpu).unwrap().into_iter().collect();
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    let changed = |(name, tensor): (String, Tensor)| {
        let mut values: Vec<f32> = tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        change(&mut values);
        (name, Tensor::from_vec(values, tensor.shape(), &Device::Cpu).unwrap())
    };
    let tensors: HashMap<String, Tensor> = tensors.into_iter().map(changed).collect();
    safetensors::save(&tensors, &file).unwrap();
    target
}

/// The report and the partial of a model over a corpus.
fn report_and_partial(model: &Path, corpus: &Path, at: &Path) -> [PathBuf; 2] {
    let both = ["json", "headscope"].map(|extension| at.with_extension(extension));
    let [report, partial] = &both;
    let outputs = ["-o", path(report), "--partial", path(partial)];
    run(&[&["analyze", path(model), "-c", path(corpus), "-q", "--no-run-info"], &outputs[..]].concat()).unwrap();
    both
}

/// A small calibration. `benches/numbers_error_rate.py` does it for real models and treebanks.
#[test]
fn corpus_halves_do_not_differ_but_other_weights_do() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, small) = (fixture("corpus/gold.conllu"), fixture("models/small"));
    let text = fs::read_to_string(&corpus).unwrap();
    let sentences: Vec<&str> = text.split_inclusive("\n\n").collect();
    let mut random = ChaCha8Rng::seed_from_u64(28);
    let mut changed = 0;
    for number in 0..8 {
        let mut places: Vec<usize> = (0..sentences.len()).collect();
        places.shuffle(&mut random);
        let (first, second) = places.split_at_mut(sentences.len() / 2);
        let [a, b] = [first, second].map(|half| {
            half.sort_unstable();
            half.iter().map(|&place| sentences[place]).collect::<String>()
        });
        let [a, b] = [("a", a), ("b", b)].map(|(side, half)| {
            let file = folder.path().join(format!("{number}{side}.conllu"));
            fs::write(&file, half).unwrap();
            let [report, _] = report_and_partial(&small, &file, &file);
            report
        });
        changed += diff(&a, &b, &["--json"]).0;
    }
    // One comparison in a hundred is a false alarm: two of eight happen in 1 of 400 runs of such a test.
    assert!(changed <= 1, "{changed} of 8");

    let before = report_and_partial(&small, &corpus, &folder.path().join("before"));
    let after = |name: &str, change: &dyn Fn(&mut [f32])| {
        let at = folder.path().join(name);
        fs::create_dir(&at).unwrap();
        report_and_partial(&changed_model("small", &at, change), &corpus, &at.join("after"))
    };
    let both = |after: &[PathBuf; 2]| [0, 1].map(|kind| diff(&before[kind], &after[kind], &["--json"]).0);
    // Noise of a tenth of each tensor's standard deviation is noticed. Rounding to bfloat16 is not.
    let noise = RefCell::new(ChaCha8Rng::seed_from_u64(29));
    let noisy = after("noisy", &|values: &mut [f32]| {
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / values.len() as f32;
        for value in values {
            // Twelve uniform numbers from 0 to 1 have a sum of variance 1.
            let sum: f32 = (0..12).map(|_| noise.borrow_mut().random::<f32>()).sum();
            *value += 0.1 * variance.sqrt() * (sum - 6.0);
        }
    });
    assert_eq!(both(&noisy), [1, 1]);
    let rounded = after("rounded", &|values: &mut [f32]| {
        values.iter_mut().for_each(|value| *value = f32::from_bits((value.to_bits() + 0x7FFF) & 0xFFFF_0000));
    });
    assert_eq!(both(&rounded), [0, 0]);
}

#[test]
fn one_run_writes_a_report_and_its_partial() {
    let context = TestFolder::new();
    let shard_bytes = fs::read(context.partial("shard.headscope", &["--shard", "1/1"])).unwrap();
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let [report, partial] = report_and_partial(&model, &corpus, &context.path("both"));
    assert!(fs::read(&partial).unwrap() == shard_bytes);
    assert_eq!(fs::read_to_string(&report).unwrap(), *REPORT);
    // With a folder of parts as well.
    let parts = context.path("parts");
    let resumed = context.path("resumed.headscope");
    let common = ["analyze", path(&model), "-c", path(&corpus), "-q", "--no-run-info"];
    run(&[&common[..], &["--resume", path(&parts), "--partial", path(&resumed)]].concat()).unwrap();
    assert!(fs::read(&resumed).unwrap() == shard_bytes);
    // With two stages as well: the partial has both stages.
    let two = ["analyze", "box:small", "-c", path(&corpus), "-q", "--no-run-info", "--limit", "200", "--sample", "64"];
    let two = [&two[..], &["--with", "similarity,effect"]].concat();
    let (whole, sums, merged) = (context.path("two.json"), context.path("two.headscope"), context.path("merged.json"));
    run(&[&two[..], &["-o", path(&whole), "--partial", path(&sums)]].concat()).unwrap();
    run(&["merge", path(&sums), "-q", "--no-run-info", "-o", path(&merged)]).unwrap();
    assert_eq!(fs::read_to_string(&merged).unwrap(), fs::read_to_string(&whole).unwrap());
    // Meaningless options are refused before any work is done.
    let at = context.path("x.headscope");
    let mut answers = Answers::within(context.0.path());
    for more in [
        &["--shard", "1/2", "-o", path(&at), "--partial", path(&at)][..],
        &["--partial", "x.json"],
        &["--partial", path(&at), "-o", "x.headscope"],
    ] {
        answers.refused(&more.join(" "), &run(&[&common[..], more].concat()).unwrap_err());
    }
    answers.held("numbers-partials-refused");
    assert!(!at.exists());
}

#[test]
fn errors_are_not_changes() {
    let context = TestFolder::new();
    let mut answers = Answers::within(context.0.path());
    for (name, content) in [("bad.json", "["), ("bad.json", "{}"), ("bad.headscope", "{}")] {
        answers.refused(&format!("{name} with {content}"), &context.diff(&context.file(name, content), &[]));
    }
    let newer = context.changed("newer.json", |report| report["schema_version"] = json!(99));
    answers.refused("a report of a later schema", &context.diff(&newer, &[]));
    answers.held("numbers-refusals");
    assert_eq!(context.diff(&context.path("missing.json"), &[]).0, 3);
    for wrong in [
        ["--tolerance", "-1"],
        ["--tolerance", "bits=1"],
        ["--tolerance", "nats=x"],
        ["--rate", "0"],
        ["--rate", "1"],
        ["--only", "banana"],
        ["--preset", "clark2019"],
    ] {
        assert_eq!(context.diff(&context.path("a.json"), &wrong).0, 2, "{wrong:?}");
    }
    assert_eq!(diff(Path::new("-"), Path::new("-"), &[]).0, 2);
}
