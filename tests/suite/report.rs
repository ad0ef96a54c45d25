//! The whole program as a user runs it: reports, maps, explanations.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use crate::support::answers::Answers;
use crate::support::{analyze, fixture, headscope, outcome, path, run, tiny_bert};
use headscope::model::grid::HeadPlace;
use headscope::studies::registry::STUDIES;
use headscope::study::Card;
use serde_json::{Value, json};

fn gold() -> std::path::PathBuf {
    fixture("corpus/gold.conllu")
}

fn schema() -> Value {
    serde_json::from_str(&run(&["schema"]).unwrap()).unwrap()
}

/// Every number of `value`, with its path.
fn numbers<'a>(at: &str, value: &'a Value, listed_values: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| numbers(&format!("{at}.{key}"), value, listed_values));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| numbers(&format!("{at}[{index}]"), value, listed_values));
        }
        _ => listed_values.push((at.to_owned(), value)),
    }
}

/// The place of a head that is not written with layer, head and name. Either its name stands alone, or its object lacks
/// one of the three.
fn head_written_otherwise(at: &str, value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => {
            if let Some(head) = fields.get("head") {
                let name = format!("L{}H{head}", fields.get("layer").unwrap_or(&Value::Null));
                if fields.get("name") != Some(&json!(name)) {
                    return Some(format!("{at} has not layer, head and name: {value}"));
                }
            }
            let others = fields.iter().filter(|(key, _)| *key != "name" || !fields.contains_key("head"));
            others.into_iter().find_map(|(key, value)| head_written_otherwise(&format!("{at}.{key}"), value))
        }
        Value::Array(items) => items.iter().find_map(|item| head_written_otherwise(&format!("{at}[]"), item)),
        Value::String(text) => text.parse::<HeadPlace>().is_ok().then(|| format!("{at} is {text} alone")),
        _ => None,
    }
}

/// The study that needs a model with a norm before each block, as decoders have it.
const PRE_NORM_STUDY: &str = "direct";

/// The studies that fit an encoder with a norm after each block.
fn encoder_studies() -> Vec<&'static str> {
    let cards = STUDIES.iter().map(|study| study.card()).filter(|card| !card.is_for_decoders_only);
    cards.map(|card| card.name).filter(|name| *name != PRE_NORM_STUDY).collect()
}

/// A report on a decoder, with the studies that fit no other model.
static DECODER: LazyLock<String> = LazyLock::new(|| {
    let cards = STUDIES
        .iter()
        .map(|study| study.card())
        .filter(|card| card.is_for_decoders_only || card.name == PRE_NORM_STUDY);
    let studies = cards.map(|card| card.name).collect::<Vec<_>>().join(",");
    let task = fixture("tasks/copies.jsonl");
    let options = ["--with", &studies, "--task", path(&task), "--limit", "20", "-o", "-"];
    run(&[&["analyze", "box:causal"], &options[..]].concat()).unwrap()
});

/// A report with every study of encoders.
static EVERYTHING: LazyLock<String> = LazyLock::new(|| {
    let studies = encoder_studies();
    let options = ["--with", &studies.join(","), "--limit", "200", "--sample", "40", "--min-count", "20"];
    let task = fixture("tasks/cloze-corrupted.jsonl");
    let options = [&options[..], &["--task", path(&task), "--remove", "L0H0", "-o", "-"]].concat();
    run(&[&["analyze", "box:small"], &options[..]].concat()).unwrap()
});

#[test]
fn figures_and_tables_match_the_cards() {
    let folder = tempfile::tempdir().unwrap();
    let [everything, arcs, links, decoder] =
        ["everything.json", "arcs.json", "links.json", "decoder.json"].map(|name| folder.path().join(name));
    fs::write(&everything, &*EVERYTHING).unwrap();
    fs::write(&decoder, &*DECODER).unwrap();
    // Enough sentences for tests of arc cuts and for edges above chance.
    let enough = ["--limit", "300", "--sample", "300", "--with", "knockout,edges"];
    run(&[&["analyze", "box:small", "-q", "-o", path(&arcs)], &enough[..]].concat()).unwrap();
    let reactions = fixture("corpus/reactions.jsonl");
    run(&["analyze", "box:small", "-c", path(&reactions), "-q", "-o", path(&links)]).unwrap();
    // The error about an unknown name lists all names that the report has.
    let names_in_reports = |option: &str, output: &str| -> BTreeSet<String> {
        let output = folder.path().join(output);
        let names = [&everything, &arcs, &links, &decoder].map(|report| {
            let (_, error) = run(&["export", path(report), option, "none", "-o", path(&output)]).unwrap_err();
            let names = error.split_once(": it has ").expect("a list").1;
            names.trim_end().split(", ").map(str::to_owned).collect::<Vec<_>>()
        });
        names.into_iter().flatten().collect()
    };
    let on_cards = |always: &[&'static str], card_names: fn(&Card) -> &'static [&'static str]| -> BTreeSet<String> {
        let studies = STUDIES.iter().flat_map(move |study| card_names(study.card()));
        always.iter().chain(studies).map(|name| (*name).to_owned()).collect()
    };
    let figures = on_cards(&["grid", "layers", "heatmap:METRIC"], |card| card.figures);
    assert_eq!(names_in_reports("--figure", "none.svg"), figures);
    let drawing = arcs.with_extension("svg");
    let absent = ["export", path(&everything), "--figure", "examples:L9H9", "-o", path(&drawing)];
    let mut answers = Answers::within(folder.path());
    answers.refused("examples of a head that is not there", &run(&absent).unwrap_err());
    answers.held("report-no-figure");
    let tables = on_cards(&["heads", "labels", "metrics", "controls", "files"], |card| card.tables);
    assert_eq!(names_in_reports("--table", "none.csv"), tables);
}

#[test]
fn heads_are_written_in_one_form() {
    let mut report: Value = serde_json::from_str(&EVERYTHING).unwrap();
    assert_eq!(report["settings"]["studies"], json!(encoder_studies()));
    let decoder: Value = serde_json::from_str(&DECODER).unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for report in [&report, &decoder] {
        let errors: Vec<String> =
            validator.iter_errors(report).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
    assert_eq!(head_written_otherwise("", &decoder), None);
    // The option `--remove`, as it was given.
    assert_eq!(report["settings"].as_object_mut().unwrap().remove("removed"), Some(json!(["L0H0"])));
    assert_eq!(head_written_otherwise("", &report), None);
    assert!(report["edges"]["strongest"][0]["source"]["name"].is_string());
}

#[test]
fn reports_follow_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    fs::write(&text, "One.\n\nAnother one, with a comma.\n").unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for report in [analyze(&gold(), &["--limit", "50"]), analyze(&gold(), &["--min-count", "5"]), analyze(&text, &[])] {
        let errors: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(report["heads"].as_array().unwrap().len(), 12);
        // The schema describes every key, including keys of the studies' sections.
        let described = schema()["properties"].as_object().unwrap().clone();
        assert!(report.as_object().unwrap().keys().all(|key| described.contains_key(key)));
        assert!(!described.contains_key(""));
    }
    // The schema is strict enough to reject a wrong report.
    let control = ["--control", "shuffled-words", "--control-seeds", "1"];
    let arguments = [&["analyze", "box:planted", "--limit", "100", "-o", "-"], &control[..]].concat();
    let whole: Value = serde_json::from_str(&run(&arguments).unwrap()).unwrap();
    assert!(validator.is_valid(&whole));
    let label = whole["heads"].as_array().unwrap().iter().position(|head| !head["labels"][0].is_null()).unwrap();
    for (place, wrong) in [
        ("/schema_version", json!(99)),
        ("/model/weights_sha256", json!("banana")),
        ("/model/heads", json!(0)),
        ("/label_counts", json!({ "banana": 1 })),
        ("/heads/0/primary", json!("banana")),
        ("/heads/0/primary", json!("offset:9")),
        ("/heads/0/metrics/entropy", json!("much")),
        ("/heads/0/metrics/entropy", json!(-1)),
        ("/heads/0/metrics/uuas", json!(7)),
        ("/heads/0/metrics/offset_argmax/1", json!(1.5)),
        ("/heads/0/ci95/uuas", json!([0.5])),
        ("/heads/0/ci95/uuas", json!([0.5, 7])),
        (&format!("/heads/{label}/labels/0/label"), json!("banana")),
        ("/controls/0/kept_counts", json!({ "banana": 1 })),
        ("/controls/0/heads/0/labels/0", json!("banana")),
        ("/relations/0/accuracy", json!(7)),
        ("/relations/0/baseline/heldout_accuracy", json!(-0.5)),
        ("/relations/0/versus_offset/q", json!(2)),
        ("/settings/policy/entropy_ratio", json!(2)),
    ] {
        let mut broken = whole.clone();
        *broken.pointer_mut(place).unwrap_or_else(|| panic!("{place} is nowhere")) = wrong;
        assert!(!validator.is_valid(&broken), "{place}");
    }
}

#[test]
fn top_level_keys_are_in_their_order() {
    let (model, corpus) = (tiny_bert(), gold());
    let text =
        run(&["analyze", "--summary", "full", path(&model), "-c", path(&corpus), "--limit", "5", "-o", "-"]).unwrap();
    let keys: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("  \"")?.split_once('"')).map(|(key, _)| key).collect();
    let expected = "schema_version tool in_brief model corpus settings chance chance_ci95 denominators label_counts controls heads relations tests links words classes class_kinds frequency explained_variance caveats run";
    assert_eq!(keys, expected.split(' ').collect::<Vec<_>>());
}

#[test]
fn threads_change_no_byte_of_a_report() {
    let (model, corpus) = (tiny_bert(), gold());
    let report = |threads: &str| {
        let arguments =
            ["analyze", path(&model), "-c", path(&corpus), "-o", "-", "--no-run-info", "--threads", threads];
        run(&arguments).unwrap()
    };
    let one = report("1");
    for threads in ["2", "3", "8"] {
        assert_eq!(one, report(threads), "{threads} threads");
    }
}

/// Stands for the name of every relation that has words in too few blocks for an interval.
const RARE: &str = "a rare relation";

/// Every value lies in its interval, which has equal keys. Every tested head has its counts.
#[test]
fn values_lie_in_their_intervals() {
    let report = analyze(&gold(), &[]);
    let around = |value: &Value, interval: &Value, at: &str| {
        if value.is_null() || interval.is_null() {
            assert!(value == interval || at == RARE, "{at}: {value} and {interval}");
        } else {
            let value = value.as_f64().unwrap();
            let [low, high] = [0, 1].map(|end| interval[end].as_f64().unwrap());
            assert!(low <= value + 1e-12 && value <= high + 1e-12, "{at}: {value} is not in {interval}");
            assert_eq!(interval.as_array().unwrap().len(), 2);
        }
    };
    let keyed_alike = |values: &Value, intervals: &Value, at: &str| {
        let mut listed_values = Vec::new();
        numbers(at, values, &mut listed_values);
        for (name, value) in listed_values {
            let keys = name.strip_prefix(at).unwrap().split('.').skip(1);
            around(value, keys.fold(intervals, |interval, key| &interval[key]), &name);
        }
    };
    for head in report["heads"].as_array().unwrap() {
        keyed_alike(&head["metrics"], &head["ci95"], head["name"].as_str().unwrap());
    }
    keyed_alike(&report["chance"], &report["chance_ci95"], "chance");
    let mut tests = 0;
    for relation in report["relations"].as_array().unwrap() {
        let name =
            if relation["blocks"].as_u64().unwrap() < 10 { RARE } else { relation["relation"].as_str().unwrap() };
        for key in ["accuracy", "heldout_accuracy"] {
            around(&relation[key], &relation["ci95"][key], name);
            around(&relation["baseline"][key], &relation["ci95"]["baseline"][key], name);
        }
        let (layer, head, direction) = (&relation["layer"], &relation["head"], relation["direction"].as_str().unwrap());
        for entry in relation["by_head"].as_array().unwrap() {
            for direction in ["dep->head", "head->dep"] {
                around(&entry[direction], &entry["ci95"][direction], name);
                let versus = &entry["versus_offset"][direction];
                around(&versus["difference"], &versus["ci95"], name);
                let difference =
                    entry[direction].as_f64().unwrap() - relation["baseline"]["accuracy"].as_f64().unwrap();
                assert!((versus["difference"].as_f64().unwrap() - difference).abs() < 1e-12);
                let tested = relation["count"].as_u64().unwrap() >= 100;
                let above = versus["difference"].as_f64().unwrap() >= 0.1;
                assert_eq!(versus["q"].is_number(), tested && above && versus["p"].is_number());
                tests += usize::from(tested);
                assert!(versus["q"].as_f64().is_none_or(|q| q >= versus["p"].as_f64().unwrap()));
            }
            if (&entry["layer"], &entry["head"]) == (layer, head) {
                assert_eq!(entry["versus_offset"][direction], relation["versus_offset"]);
            }
        }
    }
    assert_eq!(report["tests"]["count"], tests);
    assert!(tests > 0);
}

#[test]
fn plain_text_has_no_tree_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    fs::write(&text, "One.\n\nAnother one, with a comma.\n").unwrap();
    let report = analyze(&text, &[]);
    assert_eq!(report["corpus"]["sentences"], 2);
    // One . / Another one , with a comma .
    assert_eq!(report["corpus"]["words"], 2 + 7);
    assert_eq!(report["relations"], Value::Array(Vec::new()));
    assert_eq!(report["heads"][0]["metrics"]["uuas"], Value::Null);
    assert_eq!(report["heads"][0]["metrics"]["uas"]["dep->head"], Value::Null);
    let caveats: Vec<_> = report["caveats"].as_array().unwrap().iter().map(|caveat| &caveat["id"]).collect();
    assert!(caveats.contains(&&Value::from("no-trees")));
}

#[test]
fn metrics_without_eligible_queries_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    fs::write(&text, "the dog\n").unwrap();
    let report = analyze(&text, &[]);
    let metrics = &report["heads"][0]["metrics"];
    assert!(metrics["offset_mass"]["-1"].is_number());
    assert_eq!(metrics["offset_mass"]["-2"], Value::Null);
    assert_eq!(report["chance"]["offset_mass"]["2"], Value::Null);
    // [CLS] the dog [SEP]: uniform attention is 1/4 everywhere.
    assert_eq!(report["chance"]["offset_mass"]["1"], 0.25);
    assert_eq!(report["chance"]["separator_mass"], 0.25);
    assert_eq!(report["chance"]["punctuation_mass"], 0.0);
}

#[test]
fn standard_input_gives_the_report_of_a_file() {
    let (model, corpus) = (tiny_bert(), gold());
    let bytes = fs::read(&corpus).unwrap();
    let command = ["analyze", path(&model), "-c", "-", "--format", "conllu", "--without", "explained-variance"];
    let piped = headscope(&[&command[..], &["-o", "-", "--no-run-info"]].concat()).write_stdin(bytes).output().unwrap();
    let piped: Value = serde_json::from_str(&outcome(&piped).unwrap()).unwrap();
    // A corpus that is read once cannot be counted beforehand. It has no rare tokens, and frequency explains nothing.
    let read = analyze(&corpus, &["--without", "explained-variance", "--without", "frequency"]);
    assert_eq!(piped["corpus"]["name"], "-");
    for key in ["heads", "relations", "chance"] {
        assert_eq!(piped[key], read[key]);
    }
    assert_eq!(piped["corpus"]["files"][0]["sha256"], read["corpus"]["files"][0]["sha256"]);
}

#[test]
fn limit_takes_the_first_sentences() {
    let report = analyze(&gold(), &["--limit", "7"]);
    assert_eq!(report["corpus"]["sentences"], 7);
    assert_eq!(report["settings"]["limit"], 7);
    // The hash still covers the whole corpus.
    let sha256 = &report["corpus"]["files"][0]["sha256"];
    assert_eq!(*sha256, analyze(&gold(), &[])["corpus"]["files"][0]["sha256"]);
}

#[test]
fn csv_has_the_numbers_of_the_json_report() {
    let folder = tempfile::tempdir().unwrap();
    let (json, csv) = (folder.path().join("report.json"), folder.path().join("heads.csv"));
    let (model, corpus) = (tiny_bert(), gold());
    let summary = run(&[
        "analyze",
        path(&model),
        "-c",
        path(&corpus),
        "--limit",
        "40",
        "-o",
        path(&json),
        "-o",
        path(&csv),
        "--quiet",
    ]);
    assert_eq!(summary, Ok(String::new()));
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let mut reader = csv::Reader::from_path(&csv).unwrap();
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let heads = report["heads"].as_array().unwrap();
    assert_eq!(rows.len(), heads.len());
    for (row, head) in rows.iter().zip(heads) {
        let mut metrics = Vec::new();
        numbers("", &head["metrics"], &mut metrics);
        for (name, value) in metrics {
            let column = header.iter().position(|column| *column == name[1..]).unwrap();
            let cell = |value: &Value| if value.is_null() { String::new() } else { value.to_string() };
            assert_eq!(row[column], cell(value), "{name}");
            let interval = name[1..].split('.').fold(&head["ci95"], |interval, key| &interval[key]);
            for (place, end) in ["low", "high"].into_iter().enumerate() {
                assert_eq!(header[column + 1 + place], format!("{}_ci95_{end}", &name[1..]));
                assert_eq!(row[column + 1 + place], cell(&interval[place]), "{name}");
            }
        }
        assert_eq!(row[2], head["name"]);
    }
}

#[test]
fn summary_shows_grid_relations_and_skips() {
    let (model, corpus) = (tiny_bert(), gold());
    let summary = run(&["analyze", "--summary", "full", path(&model), "-c", path(&corpus)]).unwrap();
    assert!(summary.contains("\n L2 ") && summary.contains("nsubj"), "{summary}");
    let parts = ["model ", "corpus ", "     H0", " relation ", "Skipped "];
    let lines = summary.lines().filter(|line| parts.iter().any(|part| line.starts_with(part)));
    let mut answers = Answers::new();
    answers.said("parts of a full summary", &lines.collect::<Vec<_>>().join("\n"));
    answers.held("report-summary");
    assert!(!summary.contains('\u{1b}'), "colours where there is no terminal");
}

#[test]
fn existing_report_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report.json");
    fs::write(&output, "old").unwrap();
    let (model, corpus) = (tiny_bert(), gold());
    run(&["analyze", path(&model), "-c", path(&corpus), "--limit", "3", "-q", "-o", path(&output)]).unwrap();
    let report: Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
    assert_eq!(report["schema_version"], 4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the report is left");
}

#[test]
fn maps_hold_the_attention_of_each_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus, output) = (tiny_bert(), gold(), folder.path().join("maps.safetensors"));
    let sentences = ["--sentence", "4", "--sentence", "0"];
    run(&[&["maps", path(&model), "-c", path(&corpus), "-o", path(&output)], sentences.as_slice()].concat()).unwrap();
    check_maps(&output, &["attentions.0", "attentions.4"]);
    run(&["maps", path(&model), "--text", "The dog left.", "-o", path(&output)]).unwrap();
    let bytes = fs::read(&output).unwrap();
    run(&["maps", path(&model), "--text", "The dog left.", "-o", path(&output)]).unwrap();
    assert_eq!(fs::read(&output).unwrap(), bytes, "equal inputs give equal bytes");
    let metadata = check_maps(&output, &["attentions.0"]);
    assert_eq!(metadata["tokens.0"], r#"["[CLS]","the","dog","left",".","[SEP]"]"#);
    assert_eq!(metadata["word_ids.0"], "[null,0,1,2,3,null]");
    assert_eq!(metadata["format"], "headscope.maps");
    assert_eq!(metadata["axes"], r#"["layer","head","from","to"]"#);
    assert!(metadata["model"].contains(r#""id":"tiny-bert""#));
}

fn check_maps(path: &Path, names: &[&str]) -> std::collections::HashMap<String, String> {
    let bytes = fs::read(path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut listed_values = tensors.names();
    listed_values.sort_unstable();
    assert_eq!(listed_values, names);
    for (name, tensor) in tensors.tensors() {
        let [layers, heads, queries, keys] = tensor.shape()[..] else { panic!("{name} is {:?}", tensor.shape()) };
        assert_eq!((layers, heads, queries), (3, 4, keys));
        let weights: Vec<f32> =
            tensor.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
        for row in weights.chunks_exact(keys) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    header.metadata().clone().unwrap()
}

#[test]
fn explain_describes_names_words_and_cells() {
    let mut answers = Answers::new();
    for name in ["offset:-3", "offset_mass.-1", "min_queries"] {
        answers.said(name, &run(&["explain", name]).unwrap());
    }
    for name in ["offset:9", "offset:1", "syntactic:"] {
        answers.refused(name, &run(&["explain", name]).unwrap_err());
    }
    for word in [
        "gain",
        "q",
        "margin",
        "borderline",
        "primary",
        "held-out",
        "over tags",
        "ci95",
        "kept",
        "role",
        "threshold",
        "strongest evidence",
    ] {
        let text = run(&["explain", word]).unwrap();
        let (_, page) = text.rsplit_once("\nMore: ").unwrap_or_else(|| panic!("no page: {text}"));
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page.trim_end())).unwrap();
        assert!(page.to_lowercase().contains(text.lines().next().unwrap()), "{word} is not on the page: {text}");
    }
    // Cells of the grid, with their marks.
    for cell in ["rare", "+2", "broad+1", "case~+7", "first?", "-2", "+2+1", "punct", "no role found"] {
        let text = run(&["explain", cell]).unwrap();
        answers.said(&format!("the cell {cell}"), &text.lines().take(6).collect::<Vec<_>>().join("\n"));
    }
    let all = run(&["explain"]).unwrap();
    let parts = ["Other words: ", "Thresholds: ", "syntactic:<relation> ", "uuas "];
    let lines = all.lines().filter(|line| parts.iter().any(|part| line.starts_with(part)));
    answers.said("lines of the list", &lines.collect::<Vec<_>>().join("\n"));
    answers.held("report-explain");
}

#[test]
fn detectors_page_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/detectors.md");
    let remake = "docs/detectors.md is stale: headscope explain --markdown > docs/detectors.md";
    assert_eq!(fs::read_to_string(page).unwrap(), run(&["explain", "--markdown"]).unwrap(), "{remake}");
}

#[test]
fn short_help_of_analyze_fits_a_screen_and_long_help_lists_each_study_once() {
    let short = run(&["analyze", "-h"]).unwrap();
    let lines = short.lines().count();
    assert!((24..=41).contains(&lines), "{lines}: {short}");
    let long = run(&["analyze", "--help"]).unwrap();
    let listed = |study: &str| long.lines().filter(|line| line.trim_start().starts_with(&format!("{study}  "))).count();
    for study in ["attention", "knockout", "clark2019"] {
        assert_eq!(listed(study), 1, "{study}: {long}");
    }
}

#[test]
#[cfg(unix)]
fn outputs_keep_their_permissions_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (model, corpus) = (tiny_bert(), gold());
    let write =
        |output: &Path| run(&["analyze", path(&model), "-c", path(&corpus), "--limit", "2", "-q", "-o", path(output)]);
    fs::write(file("private.json"), "old").unwrap();
    fs::set_permissions(file("private.json"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("new.json", file("link.json")).unwrap();
    for output in ["private.json", "link.json"] {
        write(&file(output)).unwrap();
    }
    assert_eq!(fs::metadata(file("private.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(file("link.json").is_symlink() && !file("new.json").is_symlink());
    fs::set_permissions(file("private.json"), fs::Permissions::from_mode(0o400)).unwrap();
    let mut answers = Answers::within(folder.path());
    answers.refused("a file that may not be written", &write(&file("private.json")).unwrap_err());
    answers.held("report-read-only");
}

#[test]
fn closed_pipe_at_standard_output_does_not_stop_file_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus, output) = (tiny_bert(), gold(), folder.path().join("heads.csv"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let arguments = ["analyze", path(&model), "-c", path(&corpus), "--limit", "2", "-o", "-", "-o", path(&output)];
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_headscope")).args(arguments).stdout(writer).output();
    assert_eq!(outcome(&run.unwrap()), Ok(String::new()));
    assert!(output.exists());
}

#[test]
fn threads_change_no_error_amid_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let line = |id: u32, columns: &str| format!("{id}\tdog\t_\t_\t_\t_\t0\troot{columns}\n");
    let good = line(1, "\t_\t_") + "\n";
    let bad = line(1, "\t_\t_") + &line(2, "") + &line(3, "\t_\t_");
    let (model, corpus) = (tiny_bert(), folder.path().join("bad.conllu"));
    fs::write(&corpus, good.repeat(400) + &bad).unwrap();
    let refused = || run(&["analyze", path(&model), "-c", path(&corpus), "--threads", "8"]).unwrap_err();
    let first = refused();
    (1..10).for_each(|_| assert_eq!(refused(), first));
    let mut answers = Answers::within(folder.path());
    answers.refused("eight threads", &first);
    answers.held("report-error-amid-a-sentence");
}
