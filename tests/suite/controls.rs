//! `--control`: labels under null models, where there is nothing to find.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{analyze, fixture, path, run, tiny_bert};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

fn gold() -> std::path::PathBuf {
    fixture("corpus/gold.conllu")
}

/// The labels of a report's heads by category, counted independently of the program.
fn count_labels(report: &Value) -> Value {
    let labels = report["heads"].as_array().unwrap().iter().flat_map(|head| head["labels"].as_array().unwrap());
    count_by_category(report, labels.map(|label| label["label"].as_str().unwrap()))
}

/// The names under `key` in a control's heads, counted by category.
fn count_names(report: &Value, control: &Value, key: &str) -> Value {
    let names = control["heads"].as_array().unwrap().iter().flat_map(|head| head[key].as_array().unwrap());
    let mut counts = count_by_category(report, names.map(|name| name.as_str().unwrap()));
    // The study of the label `place` does not run in controls.
    counts.as_object_mut().unwrap().remove("place");
    counts
}

fn count_by_category<'a>(report: &Value, names: impl Iterator<Item = &'a str>) -> Value {
    let mut counts = report["label_counts"].clone();
    counts.as_object_mut().unwrap().values_mut().for_each(|count| *count = 0.into());
    for name in names {
        let family = match name.split_once(':') {
            Some(("offset", _)) => "offset:k",
            Some(("syntactic", _)) => "syntactic:<relation>",
            _ => name,
        };
        let count = counts[family].as_u64().expect("a family that is listed");
        counts[family] = (count + 1).into();
    }
    counts
}

#[test]
fn labels_are_counted_by_category() {
    let report = analyze(&gold(), &["--limit", "100", "--min-count", "5"]);
    assert_eq!(report["label_counts"], count_labels(&report));
    assert_eq!(report["controls"], json!([]));
    assert_eq!(report["settings"]["controls"], json!([]));
}

#[test]
fn controls_are_reported_beside_the_labels() {
    let arguments = ["--limit", "300", "--control", "shuffled-words", "--control", "random-init"];
    let report = analyze(&gold(), &[&arguments[..], &["--control-seeds", "2"]].concat());
    let control_and_seed = |control: &str, seed: u64| json!({ "control": control, "seed": seed });
    let expected = [
        control_and_seed("random-init", 0),
        control_and_seed("random-init", 1),
        control_and_seed("shuffled-words", 0),
        control_and_seed("shuffled-words", 1),
    ];
    assert_eq!(report["settings"]["controls"], json!(expected));
    let controls = report["controls"].as_array().unwrap();
    for (control, expected) in controls.iter().zip(&expected) {
        assert_eq!((&control["control"], &control["seed"]), (&expected["control"], &expected["seed"]));
        let families = |counts: &Value| {
            counts.as_object().unwrap().keys().filter(|family| *family != "place").cloned().collect::<Vec<_>>()
        };
        assert_eq!(families(&control["label_counts"]), families(&report["label_counts"]));
        assert!(control["label_counts"].get("place").is_none());
        assert_eq!(control["label_counts"], count_names(&report, control, "labels"));
        assert_eq!(control["kept_counts"], count_names(&report, control, "kept"));
        for there in control["heads"].as_array().unwrap() {
            let [layer, head] = ["layer", "head"].map(|key| usize::try_from(there[key].as_u64().unwrap()).unwrap());
            let real_head = &report["heads"][layer * 4 + head];
            assert_eq!(real_head["name"], there["name"]);
            let has =
                |name: &Value| real_head["labels"].as_array().unwrap().iter().any(|label| label["label"] == *name);
            let labels = there["labels"].as_array().unwrap();
            let kept: Vec<&Value> = labels.iter().filter(|name| has(name)).collect();
            assert!(!labels.is_empty() && kept.iter().copied().eq(there["kept"].as_array().unwrap()), "{there}");
        }
    }
    // Weights with a standard deviation of 0.02 give scores near 0, so attention is almost even.
    for control in &controls[..2] {
        assert_eq!(control["label_counts"]["broad"], 12);
        assert_eq!(control["firm_roles"], 0);
        assert_eq!(control["label_counts"]["syntactic:<relation>"], 0);
    }
    // Controls do not change the analysis itself.
    let alone = analyze(&gold(), &["--limit", "300"]);
    assert_eq!(report["heads"], alone["heads"]);
    assert_eq!(report["relations"], alone["relations"]);
}

#[test]
fn relabelling_reports_that_controls_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (saved, gold) = (folder.path().join("report.json"), gold());
    let arguments = ["analyze", "box:planted", "-c", path(&gold), "--limit", "50", "-q", "-o", path(&saved)];
    let relabel = |more: &[&str]| {
        run(&[&arguments, more].concat()).unwrap();
        run(&["relabel", path(&saved), "--preset", "voita2019"]).unwrap()
    };
    let (with, without) = (relabel(&["--control", "random-init"]), relabel(&[]));
    let more = with.lines().filter(|line| without.lines().all(|other| other != *line));
    let mut answers = Answers::new();
    answers.said("what is said of a report with controls alone", &more.collect::<Vec<_>>().join("\n"));
    answers.held("controls-relabelled");
}

#[test]
fn threads_change_no_control() {
    let counts = |more: &[&str]| {
        let arguments = ["--limit", "200", "--control", "shuffled-words", "--control-seeds", "1"];
        analyze(&gold(), &[&arguments[..], more].concat())["controls"].clone()
    };
    assert_eq!(counts(&["--threads", "1"]), counts(&["--threads", "3"]));
}

#[test]
fn shards_carry_their_controls() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus) = (tiny_bert(), gold());
    let settings = ["--control", "random-init", "--control", "shuffled-words", "--control-seeds", "1", "--no-run-info"];
    let analyze =
        |more: &[&str]| run(&[&["analyze", path(&model), "-c", path(&corpus)], &settings[..], more].concat()).unwrap();
    let whole = analyze(&["-o", "-"]);
    let parts = ["1/2", "2/2"].map(|shard| {
        let file = folder.path().join(format!("{}.headscope", &shard[..1]));
        analyze(&["--shard", shard, "-q", "-o", path(&file)]);
        path(&file).to_owned()
    });
    assert!(run(&["merge", &parts[0], &parts[1], "--no-run-info", "-o", "-"]).unwrap() == whole);
    // Parts with different controls cannot be merged.
    let other = folder.path().join("other.headscope");
    let arguments = ["analyze", path(&model), "-c", path(&corpus), "--no-run-info", "--shard", "2/2", "-q"];
    run(&[&arguments[..], &["-o", path(&other)]].concat()).unwrap();
    let mut answers = Answers::within(folder.path());
    answers.refused("a part without controls", &run(&["merge", &parts[0], path(&other)]).unwrap_err());
    answers.held("controls-in-shards");
}

#[test]
fn the_summary_has_a_line_for_each_control() {
    let (model, corpus) = (tiny_bert(), gold());
    let arguments = ["analyze", path(&model), "-c", path(&corpus), "--limit", "50", "--control", "random-init"];
    let summary = run(&arguments).unwrap();
    let said = summary.split("\n\n").find(|said| said.starts_with("Control ")).unwrap();
    assert!([" broad 12.0 ", " syntactic:<relation> 0.0 "].iter().all(|count| said.contains(count)), "{said}");
    let mut answers = Answers::new();
    answers.said("an untrained model", said);
    answers.held("controls-summary");
}

/// Heads that attend by position, or to a kind of token, keep their labels in any word order.
#[test]
fn planted_heads_keep_labels_that_need_no_word_order() {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv] = ["report.json", "report.csv"].map(|name| folder.path().join(name));
    let arguments = ["analyze", "box:planted", "--limit", "150", "--control", "shuffled-words", "--control-seeds", "2"];
    let summary = run(&[&arguments[..], &["-o", path(&json), "-o", path(&csv)]].concat()).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let counts = |counts: &Value, family: &str| counts[family].as_u64().unwrap();
    for control in report["controls"].as_array().unwrap() {
        for family in ["previous-token", "separator", "offset:k"] {
            assert_eq!(counts(&control["kept_counts"], family), counts(&report["label_counts"], family), "{family}");
        }
    }
    let mut answers = Answers::new();
    let paragraph = summary.split("\n\n").find(|paragraph| paragraph.starts_with("Control ")).unwrap();
    answers.said("shuffled words", paragraph);
    answers.held("controls-kept");
    // The table lists the labels that are kept with every seed.
    let mut table = ::csv::Reader::from_path(&csv).unwrap();
    let header = table.headers().unwrap().clone();
    let column = header.iter().position(|name| name == "kept.shuffled-words").expect("a column");
    for (row, head) in table.records().zip(report["heads"].as_array().unwrap()) {
        let expected = head["labels"].as_array().unwrap().iter().map(|label| label["label"].as_str().unwrap());
        let expected = expected.filter(|label| {
            report["controls"].as_array().unwrap().iter().all(|control| {
                let mut heads = control["heads"].as_array().unwrap().iter();
                heads.any(|control_head| {
                    control_head["name"] == head["name"]
                        && control_head["kept"].as_array().unwrap().contains(&json!(label))
                })
            })
        });
        assert_eq!(row.unwrap()[column].split_whitespace().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

#[test]
fn wrong_usage_of_controls_is_refused() {
    let (model, corpus) = (tiny_bert(), gold());
    let mut answers = Answers::new();
    for usage in [
        &["-c", "-", "--format", "conllu", "--control", "random-init"][..],
        &["-c", path(&corpus), "--control-seeds", "2"],
        &["-c", path(&corpus), "--control", "nothing"],
    ] {
        answers.refused(&usage.join(" "), &run(&[&["analyze", path(&model)], usage].concat()).unwrap_err());
    }
    answers.held("controls-usage");
}

#[test]
fn a_model_without_an_initialisation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(tiny_bert()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let file = folder.path().join("config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    config["initializer_range"] = 0.into();
    fs::write(&file, config.to_string()).unwrap();
    let corpus = gold();
    let arguments = ["analyze", path(folder.path()), "-c", path(&corpus), "--limit", "1", "--control", "random-init"];
    let mut answers = Answers::within(folder.path());
    answers.refused("initializer_range of 0", &run(&arguments).unwrap_err());
    answers.held("controls-no-initialisation");
}

/// `random-sharp` is an untrained model. Over the first fifty sentences, its layers are as far from even attention as
/// the trained ones.
#[test]
fn a_sharp_control_has_no_firm_role() {
    let corpus = gold();
    let others = ["attention", "trees", "dependency", "words", "frequency", "explained-variance", "coreference"];
    let others = others.iter().flat_map(|study| ["--without", study]).chain(["--with", "choice"]);
    let analyze_choice = |more: &[&str]| -> Value {
        let common = ["analyze", "box:small", "-c", path(&corpus), "--limit", "300", "--no-run-info", "-o", "-"];
        serde_json::from_str(&run(&[&common[..], &others.clone().collect::<Vec<_>>(), more].concat()).unwrap()).unwrap()
    };
    let report = analyze_choice(&["--control", "random-sharp", "--control", "rotated", "--control-seeds", "2"]);
    let kinds: Vec<&str> =
        report["controls"].as_array().unwrap().iter().map(|run| run["control"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["random-sharp", "random-sharp", "rotated", "rotated"]);
    // No head of such a model chooses by one component alone, so a `chooses:` label is evidence of training.
    for run in &report["controls"].as_array().unwrap()[..2] {
        assert_eq!(run["firm_roles"], 0, "{run}");
        let chosen = run["label_counts"].as_object().unwrap().iter().filter(|(name, _)| name.starts_with("chooses:"));
        assert!(chosen.clone().count() == 3 && chosen.clone().all(|(_, count)| *count == 0), "{run}");
    }
    // The control's numbers stand beside the model's numbers.
    for layer in report["choice"]["layers"].as_array().unwrap() {
        assert!(layer["sharp_control"]["position_token"].is_f64(), "{layer}");
    }
}

/// The gold corpus with relation names permuted within each sentence. The arcs stay unchanged.
fn with_permuted_relation_names(seed: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let text = fs::read_to_string(gold()).unwrap();
    let permuted = text.split_inclusive("\n\n").map(|sentence| {
        let column = |line: &str| line.split('\t').nth(7).map(str::to_owned);
        let is_arc = |line: &&str| line.split('\t').nth(6).is_some_and(|head| head != "0" && head != "_");
        let mut names: Vec<String> = sentence.lines().filter(is_arc).filter_map(column).collect();
        names.shuffle(&mut random);
        let mut names = names.into_iter();
        let lines = sentence.lines().map(|line| {
            let mut cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
            if is_arc(&line) {
                cells[7] = names.next().unwrap();
            }
            cells.join("\t") + "\n"
        });
        lines.collect::<String>()
    });
    permuted.collect()
}

/// With relation names permuted within sentences, no label goes beyond the best offset, however accurate the head is.
#[test]
fn permuted_relation_names_give_no_label_beyond_the_offset() {
    let folder = tempfile::tempdir().unwrap();
    let others = ["attention", "trees", "words", "frequency", "explained-variance", "coreference", "choice"];
    let others: Vec<&str> = others.iter().flat_map(|study| ["--without", study]).collect();
    let labels_beyond_offset = |corpus: &str| -> Vec<String> {
        let common = ["analyze", "box:small", "-c", corpus, "--no-run-info", "-o", "-"];
        let report: Value = serde_json::from_str(&run(&[&common[..], &others].concat()).unwrap()).unwrap();
        let heads = report["heads"].as_array().unwrap().iter();
        let labels = heads.flat_map(|head| head["labels"].as_array().unwrap());
        let is_beyond_offset = |label: &&Value| label["beyond"] != "offset" && label["label"] != "syntactic:all";
        labels.filter(is_beyond_offset).map(|label| format!("{} {}", label["label"], label["beyond"])).collect()
    };
    let named = labels_beyond_offset(path(&gold()));
    assert!(named.iter().any(|label| label == "\"syntactic:case\" \"relation\""), "{named:?}");
    for seed in 0..3 {
        let corpus = folder.path().join(format!("permuted-{seed}.conllu"));
        fs::write(&corpus, with_permuted_relation_names(seed)).unwrap();
        assert_eq!(labels_beyond_offset(path(&corpus)), [""; 0], "seed {seed}");
    }
}

/// Rotated outputs leave the attention of layer 0 unchanged, and so its firm labels. Labels of controls are tested like
/// all others.
#[test]
fn labels_of_a_control_are_tested() {
    let corpus = gold();
    let others = ["trees", "dependency", "words", "frequency", "explained-variance", "coreference", "choice"];
    let others = others.iter().flat_map(|study| ["--without", study]);
    let common = ["analyze", "box:small", "-c", path(&corpus), "--limit", "300", "--no-run-info", "-o", "-"];
    let control = ["--control", "rotated", "--control-seeds", "1"];
    let report: Value =
        serde_json::from_str(&run(&[&common[..], &control, &others.collect::<Vec<_>>()].concat()).unwrap()).unwrap();
    let firm = |head: &Value| {
        head["labels"].as_array().unwrap().iter().any(|label| label["label"] != "broad" && label["borderline"] == false)
    };
    let heads = report["heads"].as_array().unwrap();
    let of_layer_0 = heads[..4].iter().filter(|head| firm(head)).count() as u64;
    let there = report["controls"][0]["firm_roles"].as_u64().unwrap();
    assert!(of_layer_0 > 0 && there >= of_layer_0, "{there} of {of_layer_0}");
}
