//! The study `task`, compared with `fixtures/reference_tasks.py` and run as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::golden::{largest_difference, record};
use crate::support::answers::Answers;
use crate::support::{architecture, fixture, opened, parts_add_up, path, run, tiny_bert, weight_files};
use crate::tensor::TensorEncoder;
use candle_core::{DType, Device};
use headscope::model::forward::batch::{Batch, BatchInput};
use headscope::model::forward::gates::Gates;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::visitor::Needs;
use headscope::model::forward::{Encoder, PassStart};
use headscope::model::parameters::{ClassifiedUnit, Classifier, Parameters};
use headscope::model::weights::Checkpoint;
use serde_json::Value;

/// The program computes in float32, the reference in float64.
const TOLERANCE: f64 = 1e-5;

/// The score of a pair sums the losses of all tokens of two texts, each token masked in its own run. With AVX2, it is
/// 1.2e-5 apart.
const MASKED_PAIRS_TOLERANCE: f64 = 2e-5;

/// Studies with their own tests.
const OTHERS: [&str; 7] =
    ["attention", "trees", "dependency", "words", "frequency", "explained-variance", "repeats,in-context"];

pub fn alone() -> Vec<&'static str> {
    OTHERS.iter().flat_map(|studies| ["--without", studies]).collect()
}

pub fn report(model: &str, task: &str, more: &[&str]) -> Value {
    let (corpus, task) = (fixture("corpus/gold.conllu"), fixture(&format!("tasks/{task}.jsonl")));
    let arguments =
        ["analyze", model, "-c", path(&corpus), "--limit", "8", "--task", path(&task), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&arguments[..], &alone(), more].concat()).unwrap()).unwrap()
}

fn near(at: &str, actual: &Value, expected: &Value) {
    near_within(TOLERANCE, at, actual, expected);
}

fn near_within(tolerance: f64, at: &str, actual: &Value, expected: &Value) {
    let [a, b] = [actual, expected].map(|value| value.as_f64().unwrap_or_else(|| panic!("{at} is {value}")));
    assert!((a - b).abs() < tolerance, "{at} is {a}, the reference {b}");
}

fn check(model: &str, task: &str, golden: &str, removal: &str) -> Value {
    check_within(TOLERANCE, model, task, golden, removal)
}

fn check_within(tolerance: f64, model: &str, task: &str, golden: &str, removal: &str) -> Value {
    let near = |at: &str, actual: &Value, expected: &Value| near_within(tolerance, at, actual, expected);
    let golden = fs::read_to_string(fixture(&format!("goldens/{golden}.json"))).unwrap();
    let expected: Value = serde_json::from_str(&golden).unwrap();
    let report = report(model, task, &["--removal", removal]);
    let actual = &report["task"];
    assert_eq!([&actual["items"], &actual["units"]], [&expected["items"], &expected["units"]]);
    for key in ["loss", "baseline", "loss_without_heads", "right_without_heads", "band", "p_above_baseline"] {
        near(key, &actual[key], &expected[key]);
    }
    near("right", &actual["right"]["share"], &expected["right"]);
    let low = &actual["right"]["ci95"][0];
    if expected["right"] == 1.0 {
        // If all units are right, the reference's interval has no width. By Clopper & Pearson (1934), the low end is
        // .025^(1/units).
        let exact = 0.025_f64.powf(1.0 / expected["units"].as_f64().unwrap());
        assert!((low.as_f64().unwrap() - exact).abs() < 1e-5, "the low end is {low}, not {exact}");
    } else {
        near("the interval", low, &expected["right_ci95"][0]);
    }
    let heads = expected["heads"].as_array().unwrap();
    assert_eq!(actual["heads"].as_array().unwrap().len(), heads.len());
    for (place, expected) in heads.iter().enumerate() {
        let (head, actual) = (&report["heads"][place], &actual["heads"][place]);
        let name = head["name"].as_str().unwrap();
        near(name, &actual["effect"], &expected["effect"]);
        near(name, &actual["right_effect"], &expected["right_effect"]);
        near(name, &head["standard_errors"]["task_effect"], &expected["standard_error"]);
        assert_eq!(actual["effect"], head["metrics"]["task_effect"]);
        for group in report["task"]["groups"].as_array().unwrap() {
            near(name, &group["effects"][place], &expected["groups"][group["group"].as_str().unwrap()]);
        }
    }
    report
}

#[test]
fn masked_words_match_the_reference() {
    let report = check("box:small", "cloze", "small-cloze", "mean");
    assert_eq!([&report["settings"]["task"]["kind"], &report["task"]["kind"]], ["cloze", "cloze"]);
}

#[test]
fn masked_pairs_match_the_reference() {
    check_within(MASKED_PAIRS_TOLERANCE, "box:small", "pairs", "small-pairs", "zero");
}

#[test]
fn continued_prompts_match_the_reference_and_need_induction_heads() {
    let report = check("box:causal", "copies", "causal-copies", "mean");
    // The decoder's three induction heads.
    for place in [4, 5, 7] {
        assert_eq!(report["task"]["heads"][place]["verdict"], "helpful", "{place}");
    }
}

#[test]
fn decoder_pairs_match_the_reference() {
    check("box:causal", "pairs", "causal-pairs", "zero");
}

/// Removes heads one by one. Compares the loss and the share right with the reference, on the odd units.
fn check_pruning(model: &str, task: &str, golden: &str, shares: &[&str]) {
    let golden = fs::read_to_string(fixture(&format!("goldens/{golden}.json"))).unwrap();
    let expected = &serde_json::from_str::<Value>(&golden).unwrap()["pruning"];
    let report = report(model, task, &["--removal", "zero", "--with", "pruning"]);
    let pruning = &report["pruning"];
    let curve = &pruning["orders"][0];
    assert_eq!((&curve["by"], &pruning["task"]), (&"task".into(), &report["task"]["kind"]));
    let name = |head: &Value| format!("L{}H{}", head["layer"], head["head"]);
    let heads: Vec<String> = curve["heads"].as_array().unwrap().iter().map(name).collect();
    assert_eq!(Value::from(heads.clone()), expected["heads"]);
    for point in 0..heads.len() {
        for number in ["loss", "right"] {
            near(&format!("{number} {point}"), &curve[number][point], &expected[number][point]);
        }
    }
    let budgets = curve["can_go"].as_array().unwrap();
    let measures: Vec<&Value> = budgets.iter().step_by(3).map(|budget| &budget["of"]).collect();
    assert_eq!(measures, shares);
    // The longest prefix of the order along which the share right falls by at most a tenth.
    let (whole, allowed) = (pruning["right"]["share"].as_f64().unwrap(), budgets.last().unwrap());
    let stays = |right: &&Value| whole - right.as_f64().unwrap() <= 0.1 * whole + 1e-9;
    let count = expected["right"].as_array().unwrap().iter().take_while(stays).count();
    near("the share that can go", &allowed["share"], &(count as f64 / heads.len() as f64).into());
}

#[test]
fn task_pruning_matches_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let model = classifier(folder.path(), "tiny-bert-classifier");
    check_pruning(path(&model), "classes", "tiny-bert-classes", &["loss", "all-heads", "right"]);
    // A difference of log-probabilities may be negative, so it has no shares.
    check_pruning("box:small", "pairs", "small-pairs", &["all-heads", "right"]);
}

/// ALBERT's layers share their weights, so a head is removed from all layers at once.
#[test]
fn heads_of_layers_with_shared_weights_are_removed_together() {
    let folder = tempfile::tempdir().unwrap();
    let model = classifier(folder.path(), "tiny-albert-classifier");
    let report = report(path(&model), "classes", &["--with", "pruning"]);
    assert_eq!(report["pruning"]["layers_share_weights"], true);
    for curve in report["pruning"]["orders"].as_array().unwrap() {
        let steps = |key: &str| curve[key].as_array().unwrap().chunks(2).map(<[Value]>::to_vec).collect::<Vec<_>>();
        for (heads, loss) in steps("heads").iter().zip(steps("loss")) {
            assert!(heads[0]["head"] == heads[1]["head"] && loss[0] == loss[1], "{heads:?} {loss:?}");
        }
    }
}

/// A classifier with the preset: derivatives, removal by zeros, and a curve of the share right.
#[test]
fn preset_measures_which_heads_a_classifier_needs() {
    let folder = tempfile::tempdir().unwrap();
    let model = classifier(folder.path(), "tiny-bert-classifier");
    let report = report(path(&model), "classes", &["--preset", "michel2019"]);
    assert_eq!([&report["task"]["removal"], &report["gradient"]["task"]], ["zero", "classify"]);
    near("the loss", &report["gradient"]["loss"], &report["task"]["loss"]);
    let by: Vec<&Value> = report["pruning"]["orders"].as_array().unwrap().iter().map(|curve| &curve["by"]).collect();
    assert_eq!(by[..2], ["task", "gradient"]);
    let agreement = &report["gradient"]["rank_correlations"][1];
    assert_eq!([&agreement["metric"], &agreement["with"]], ["first_order_effect", "task_effect"]);
    // The head with the largest effect has a first-order effect of equal sign.
    let heads = report["heads"].as_array().unwrap();
    let metric = |head: &Value, name: &str| head["metrics"][name].as_f64().unwrap();
    let most =
        heads.iter().max_by(|a, b| metric(a, "task_effect").abs().total_cmp(&metric(b, "task_effect").abs())).unwrap();
    assert!(metric(most, "task_effect") * metric(most, "first_order_effect") > 0.0, "{most}");
}

/// The derivative of a pair's score covers both texts.
#[test]
fn pair_derivatives_cover_both_texts() {
    let report = report("box:small", "pairs", &["--with", "gradient"]);
    // The losses are sums over twenty tokens, and the backward pass is float32.
    let [a, b] = ["gradient", "task"].map(|section| report[section]["loss"].as_f64().unwrap());
    assert!((a - b).abs() < 1e-3, "{a} {b}");
    assert_eq!(
        (&report["gradient"]["masked_tokens"], &report["gradient"]["task"]),
        (&report["task"]["items"], &"pair".into())
    );
}

#[test]
fn summary_opens_with_the_task_and_prunable_heads() {
    let task = fixture("tasks/copies.jsonl");
    let arguments =
        ["analyze", "box:causal", "--task", path(&task), "--with", "pruning", "--removal", "zero", "--summary", "full"];
    let printed = run(&[&arguments[..], &alone()].concat()).unwrap();
    let starts = ["- ", "Heads that can go", "5 % of the share right"];
    let lines: Vec<&str> = printed.lines().filter(|line| starts.iter().any(|start| line.starts_with(start))).collect();
    let mut answers = Answers::new();
    answers.said("a task with pruning", &lines.join("\n"));
    answers.held("tasks-summary-of-pruning");
}

#[test]
fn class_scores_match_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let model = classifier(folder.path(), "tiny-bert-classifier");
    let report = check(path(&model), "classes", "tiny-bert-classes", "zero");
    assert_eq!(report["model"]["objective"], "sequence_classes");
    near("baseline", &report["task"]["baseline"], &report["task"]["most_frequent_answer"]);
}

/// Some words have several tokens, and some have no label.
#[test]
fn tag_scores_match_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let model = classifier(folder.path(), "tiny-bert-tagger");
    let report = check(path(&model), "tags", "tiny-bert-tags", "zero");
    assert_eq!([&report["model"]["objective"], &report["task"]["kind"]], ["token_classes", "tag"]);
}

/// Writes a sentence encoder with these modules and this pooling mode into `folder`.
fn encoder(folder: &Path, modules: &str, mode: &str) {
    fs::create_dir(folder.join("1_Pooling")).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(tiny_bert().join(file), folder.join(file)).unwrap();
    }
    let module = |(number, kind): (usize, &str)| {
        let path = if number == 0 { String::new() } else { format!("{number}_{kind}") };
        serde_json::json!({"idx": number, "name": number.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}")})
    };
    let listed: Vec<Value> = modules.split(' ').enumerate().map(module).collect();
    fs::write(folder.join("modules.json"), serde_json::to_string(&listed).unwrap()).unwrap();
    let config = serde_json::json!({ format!("pooling_mode_{mode}"): true, "pooling_mode_other": false });
    fs::write(folder.join("1_Pooling/config.json"), config.to_string()).unwrap();
}

#[test]
fn triples_match_the_reference_for_every_pooling() {
    for (mode, pooling) in
        [("mean_tokens", "mean"), ("cls_token", "first"), ("max_tokens", "max"), ("lasttoken", "last")]
    {
        let folder = tempfile::tempdir().unwrap();
        encoder(folder.path(), "Transformer Pooling Normalize", mode);
        let report = check(path(folder.path()), "triples", &format!("tiny-bert-triples-{pooling}"), "mean");
        assert_eq!(report["settings"]["task"]["pooling"], pooling);
    }
    let unsaid = check(path(&tiny_bert()), "triples", "tiny-bert-triples-text", "mean");
    assert_eq!(unsaid["settings"]["task"]["pooling"], "text");
}

#[test]
fn unknown_pooling_is_refused_only_for_a_task() {
    let folder = tempfile::tempdir().unwrap();
    encoder(folder.path(), "Transformer Pooling Dense", "mean_tokens");
    let task = fixture("tasks/triples.jsonl");
    let mut answers = Answers::within(folder.path());
    let refused = run(&["analyze", path(folder.path()), "--task", path(&task), "-q"]);
    answers.refused("a dense layer after the pooling", &refused.unwrap_err());
    answers.held("tasks-unknown-pooling");
    run(&["analyze", path(folder.path()), "--limit", "8", "-q"]).unwrap();
}

/// A classifier with a tokenizer, in `folder`.
pub fn classifier(folder: &Path, name: &str) -> PathBuf {
    for (model, files) in
        [(name, ["config.json", "model.safetensors"]), ("tiny-bert", ["tokenizer.json", "tokenizer_config.json"])]
    {
        for file in files {
            fs::copy(fixture("models").join(model).join(file), folder.join(file)).unwrap();
        }
    }
    folder.to_owned()
}

/// Compares the logits of sequence classification heads, by both encoders, with the goldens of
/// `fixtures/make_classifiers.py`.
#[test]
fn classifier_logits_match_transformers() {
    for name in ["bert", "roberta", "distilbert", "electra", "albert", "deberta-v2", "gpt2"] {
        let folder = fixture(&format!("models/tiny-{name}-classifier"));
        let golden = fixture(&format!("goldens/classifiers/{name}.safetensors"));
        let golden = candle_core::safetensors::load(&golden, &Device::Cpu).unwrap();
        let whole = |name: &str| -> Vec<u32> { golden[name].to_dtype(DType::U32).unwrap().to_vec1().unwrap() };
        let architecture = architecture(&folder);
        let checkpoint = Checkpoint::open(opened(&weight_files(&folder)), architecture.family).unwrap();
        let config = fs::read_to_string(folder.join("config.json")).unwrap();
        let loaded = Classifier::load(&checkpoint, &architecture, &config, ClassifiedUnit::Sequences);
        let Classifier { head, labels } = loaded.unwrap();
        assert_eq!(
            (labels.class_count, labels.class_names.join(" "), labels.is_at_last_token),
            (3, "past present future".to_owned(), name == "gpt2")
        );
        assert_eq!(
            [labels.class_number("present"), labels.class_number("2"), labels.class_number("3")],
            [Some(1), Some(2), None]
        );
        let parameters = Parameters::load(&checkpoint, &architecture).unwrap();
        let parameters = Parameters { prediction: Some(head), ..parameters };
        let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
        let fast = PackedEncoder::new(parameters);
        for index in 0..2 {
            let (ids, segments) = (whole(&format!("ids.{index}")), whole(&format!("segments.{index}")));
            let expected: Vec<f32> = golden[&format!("logits.{index}")].to_vec1().unwrap();
            let place = if labels.is_at_last_token { ids.len() - 1 } else { 0 };
            let input =
                BatchInput { ids: &ids, segments: &segments, predicted_positions: &[place], ..BatchInput::default() };
            let needs = Needs { logits: true, ..Needs::default() };
            for encoder in [&slow as &dyn Encoder, &fast] {
                let batch = Batch { inputs: vec![input] };
                let actual = record(encoder, PassStart::Embeddings, &batch, &Gates::default(), needs);
                let difference = largest_difference(&actual[0].logits, &expected);
                assert!(difference <= 1e-5, "{name}: {difference:e}");
            }
        }
    }
}

/// Compares the logits of token classification heads with the goldens of `fixtures/make_classifiers.py`. One head has a
/// layer before the classes, and the heads' tensors have different names.
#[test]
fn tagger_logits_match_transformers() {
    for name in ["bert", "modernbert", "gpt2", "llama"] {
        let folder = fixture(&format!("models/tiny-{name}-tagger"));
        let golden = fixture(&format!("goldens/classifiers/{name}-tagger.safetensors"));
        let golden = candle_core::safetensors::load(&golden, &Device::Cpu).unwrap();
        let whole = |name: &str| -> Vec<u32> { golden[name].to_dtype(DType::U32).unwrap().to_vec1().unwrap() };
        let architecture = architecture(&folder);
        let checkpoint = Checkpoint::open(opened(&weight_files(&folder)), architecture.family).unwrap();
        let config = fs::read_to_string(folder.join("config.json")).unwrap();
        let loaded = Classifier::load(&checkpoint, &architecture, &config, ClassifiedUnit::Tokens).unwrap();
        assert_eq!((loaded.labels.class_count, loaded.labels.class_number("future")), (3, Some(2)));
        let parameters = Parameters::load(&checkpoint, &architecture).unwrap();
        let parameters = Parameters { prediction: Some(loaded.head), ..parameters };
        let encoder = PackedEncoder::new(parameters);
        for index in 0..2 {
            let (ids, segments) = (whole(&format!("ids.{index}")), whole(&format!("segments.{index}")));
            let expected: Vec<f32> = golden[&format!("logits.{index}")].flatten_all().unwrap().to_vec1().unwrap();
            let every: Vec<usize> = (0..ids.len()).collect();
            let input =
                BatchInput { ids: &ids, segments: &segments, predicted_positions: &every, ..BatchInput::default() };
            let needs = Needs { logits: true, ..Needs::default() };
            let actual =
                record(&encoder, PassStart::Embeddings, &Batch { inputs: vec![input] }, &Gates::default(), needs);
            let difference = largest_difference(&actual[0].logits, &expected);
            assert!(difference <= 1e-5, "{name}: {difference:e}");
        }
    }
}

#[test]
fn shards_merge_to_the_report_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, task, whole) =
        (fixture("corpus/gold.conllu"), fixture("tasks/cloze.jsonl"), folder.path().join("whole.json"));
    let common =
        ["analyze", "box:small", "-c", path(&corpus), "--task", path(&task), "--sample", "60", "--no-run-info", "-q"];
    parts_add_up(&[&common[..], &alone()].concat(), &whole);
}

#[test]
fn summary_opens_with_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let tagger = classifier(folder.path(), "tiny-bert-tagger");
    let mut answers = Answers::new();
    for (model, task) in [("box:causal", "copies"), (path(&tagger), "tags")] {
        let items = fixture(&format!("tasks/{task}.jsonl"));
        let printed = run(&["analyze", model, "--task", path(&items), "--no-run-info", "--sample", "30"]).unwrap();
        answers.said(task, printed.lines().find(|line| line.starts_with("- ")).unwrap());
        assert!(printed.lines().count() <= 25, "{printed}");
    }
    answers.held("tasks-summary-opens");
}

#[test]
fn unscorable_items_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [items, bench] = ["items.jsonl", "classifier"].map(|name| folder.path().join(name));
    fs::create_dir(&bench).unwrap();
    let bench = classifier(&bench, "tiny-bert-classifier");
    let (bench, corpus) = (path(&bench), fixture("corpus/gold.conllu"));
    let cloze =
        |text: &str, answer: &str| format!(r#"{{"text": "{text}", "answer": "{answer}", "foil": "the"}}"#) + "\n";
    let good = cloze("the [MASK] was old .", "house");
    let pair = "{\"good\": \"the house\", \"bad\": \"house the\"}\n";
    let prompt = |answer: &str| format!(r#"{{"prompt": "the house", "answer": "{answer}", "foil": " the"}}"#);
    let class = |label: &str| format!("{{\"text\": \"the house\", \"label\": {label}}}");
    let mut answers = Answers::within(folder.path());
    for (title, model, task, more) in [
        ("no item", "box:small", String::new(), vec![]),
        ("items of two kinds", "box:small", format!("{good}{pair}"), vec![]),
        ("no mask", "box:small", cloze("the house was old .", "house"), vec![]),
        ("two masks", "box:small", cloze("the [MASK] was [MASK] .", "house"), vec![]),
        ("an answer of several tokens", "box:small", cloze("the [MASK] was old .", "house that was old"), vec![]),
        ("equal sides", "box:small", cloze("the [MASK] was old .", "the"), vec![]),
        ("too many tokens", "box:small", cloze(&format!("{}[MASK]", "the ".repeat(200)), "house"), vec![]),
        ("a prompt for a model that fills in masks", "box:small", prompt(" was"), vec![]),
        ("a mask for a decoder", "box:causal", good.clone(), vec![]),
        ("an answer that continues a word", "box:causal", prompt("was"), vec![]),
        ("no mask, with --strict", "box:small", format!("{good}{}", cloze("no mask", "house")), vec!["--strict"]),
        ("an unknown label", bench, class("\"never\""), vec![]),
        ("an unknown number of a label", bench, class("3"), vec![]),
        ("an equal foil", bench, class("\"past\", \"foil\": \"past\""), vec![]),
        ("an unknown foil", bench, class("\"past\", \"foil\": \"gone\""), vec![]),
        ("a label, with --with effect", bench, class("1"), vec!["--with", "effect"]),
        ("a label for a model without classes", "box:small", class("1"), vec![]),
        // The tensors of both kinds of heads have one name.
        ("tags for a classifier of sequences", bench, r#"{"words": ["the"], "labels": ["past"]}"#.to_owned(), vec![]),
        // A line that is no item is an error of the file, not wrong usage.
        ("keys of no kind", "box:small", pair.replace("good", "gud"), vec![]),
        ("a misspelt key", "box:small", pair.to_owned() + &pair.replace('}', ", \"famliy\": \"x\"}"), vec![]),
    ] {
        fs::write(&items, task).unwrap();
        let arguments = ["analyze", model, "-c", path(&corpus), "--limit", "8", "--task", path(&items), "-q"];
        answers.refused(title, &run(&[&arguments[..], &alone(), &more].concat()).unwrap_err());
    }
    let without = run(&["analyze", bench, "--preset", "blimp"]);
    answers.refused("a preset without a task", &without.unwrap_err());
    answers.held("tasks-not-scored");
}

/// A report of a task alone has no labels. Comparisons of labels say so, and a card says what its numbers are computed
/// over.
#[test]
fn report_of_a_task_alone_has_no_labels() {
    let folder = tempfile::tempdir().unwrap();
    let (task, report) = (fixture("tasks/copies.jsonl"), folder.path().join("task.json"));
    run(&["analyze", "box:causal", "--task", path(&task), "--sample", "30", "-q", "-o", path(&report)]).unwrap();
    let mut answers = Answers::within(folder.path());
    for command in ["gate", "compare"] {
        answers.refused(command, &run(&[command, path(&report), path(&report)]).unwrap_err());
    }
    let numbers = run(&["compare", "--numbers", path(&report), path(&report)]).unwrap();
    answers.said("compare --numbers", numbers.lines().find(|line| line.starts_with("a  ")).unwrap());
    assert!(!numbers.contains("corpus"), "{numbers}");
    answers.said("show", &run(&["show", path(&report), "L1H0"]).unwrap());
    answers.held("tasks-without-labels");
}

/// Heads are offered for pruning only by a task that the model can do, and by a measure that the report has.
#[test]
fn pruning_needs_a_task_that_the_model_can_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (items, report, pruned) = (at("items.jsonl"), at("report.json"), at("pruned"));
    let copies = fs::read_to_string(fixture("tasks/copies.jsonl")).unwrap();
    let analyzed = |text: &str| {
        fs::write(&items, text).unwrap();
        let arguments = ["analyze", "box:causal", "--task", path(&items), "--with", "pruning", "--removal", "zero"];
        run(&[&arguments[..], &["-o", path(&report)]].concat()).unwrap()
    };
    let prune = |more: &[&str]| {
        let arguments = ["prune", "box:causal", "--report", path(&report), "-o", path(&pruned)];
        run(&[&arguments[..], more].concat())
    };
    let swapped = copies.replace("\"answer\"", "\"x\"").replace("\"foil\"", "\"answer\"").replace("\"x\"", "\"foil\"");
    let printed = analyzed(&swapped);
    let mut answers = Answers::within(folder.path());
    let brief = |printed: &str| printed.lines().filter(|line| line.starts_with("- ")).collect::<Vec<_>>().join("\n");
    answers.said("a task that the model cannot do", &brief(&printed));
    assert!(!printed.contains("can be removed together") && !printed.contains("Heads that can go, in"), "{printed}");
    answers.refused("pruned by such a task", &prune(&["--budget", "50%", "--of", "right"]).unwrap_err());
    assert!(!pruned.exists());

    answers.said("a task that the model can do", &brief(&analyzed(&copies)));
    // A difference of log-probabilities has no share. The error names the measure that works.
    answers.refused("pruned by another measure", &prune(&["--budget", "50%"]).unwrap_err());
    answers.held("tasks-heads-that-go");
    prune(&["--budget", "50%", "--of", "right"]).unwrap();
}
