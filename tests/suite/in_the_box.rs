//! The box: the trained model, the planted model, whose labels are all known in advance, and runs that read no file.

use crate::golden;
use std::collections::HashMap;
use std::fs;

use crate::golden::{Golden, check_parity};
use crate::support::answers::Answers;
use crate::support::{fixture, headscope, outcome, path, run};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert;
use headscope::model::Model;
use headscope::model::source::ModelRef;
use serde_json::Value;

/// The labels that `fixtures/models/make_planted.py` plants. Rows are layers, and columns are heads.
const PLANTED: [[&str; 4]; 3] = [
    ["previous-token", "next-token", "self", "offset:-2"],
    ["separator", "first-special", "punctuation", "broad"],
    ["offset:2", "offset:-5", "local", "unlabelled"],
];

fn report(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(&[&["analyze"], arguments, &["-o", "-", "--no-run-info"]].concat()).unwrap()).unwrap()
}

/// Covers the whole path from the weight file through forward pass, sums and metrics to labels.
#[test]
fn planted_heads_get_exactly_their_labels() {
    let corpus = fixture("corpus/gold.conllu");
    let report = report(&["box:planted", "--corpus", path(&corpus)]);
    assert_eq!(report["corpus"]["sentences"], 700);
    for head in report["heads"].as_array().unwrap() {
        let (layer, number) = (head["layer"].as_u64().unwrap(), head["head"].as_u64().unwrap());
        let planted = PLANTED[usize::try_from(layer).unwrap()][usize::try_from(number).unwrap()];
        // No head has another label. All words share one embedding, so no word is more alike than others. Fixed offsets
        // are the baseline of syntactic labels, so planted heads earn none.
        let labels: Vec<&str> =
            head["labels"].as_array().unwrap().iter().map(|label| label["label"].as_str().unwrap()).collect();
        let expected = if planted == "unlabelled" { vec![] } else { vec![planted] };
        assert_eq!(labels, expected, "{}", head["name"]);
        assert_eq!(head["primary"], *labels.first().unwrap_or(&"unlabelled"), "{}", head["name"]);
    }
}

/// Every tenth construction of the corpus in the box was held out when the small model was trained.
#[test]
fn run_over_training_text_says_so() {
    let corpus = fixture("corpus/gold.conllu");
    let text = fs::read_to_string(&corpus).unwrap();
    let families = text.lines().filter_map(|line| line.strip_prefix("# family = ")?.parse::<u32>().ok());
    let known = families.clone().filter(|family| family % 10 != 0).count();
    let printed = run(&["analyze", "box:small", "--limit", "20"]).unwrap();
    let remark = printed.lines().find(|line| line.starts_with("The corpus: ")).unwrap();
    assert!(remark.contains(&format!(" {known} of the {} sentences of box:gold ", families.count())), "{remark}");
    let mut answers = Answers::new();
    answers.said("the corpus", remark);
    answers.held("in-the-box-trained-on");
    assert!(!run(&["analyze", "box:planted", "--limit", "20"]).unwrap().contains("training text of"));
}

/// A description states where a planted head looks, and no more.
#[test]
fn planted_heads_are_described_in_a_sentence() {
    let corpus = fixture("corpus/gold.conllu");
    let report = report(&["box:planted", "--corpus", path(&corpus)]);
    let sentences: Vec<&str> =
        report["heads"].as_array().unwrap().iter().map(|head| head["description"].as_str().unwrap()).collect();
    let mut answers = Answers::new();
    answers.said("planted heads", &sentences.join("\n"));
    answers.held("in-the-box-planted-heads");
    // Every head has a description, which contains the evidence of its first label.
    assert_eq!(sentences.len(), 12);
    for (head, sentence) in report["heads"].as_array().unwrap().iter().zip(&sentences) {
        let label = &head["labels"][0];
        let evidence = label["label"].as_str().map(|name| format!("({name} {:.2} ", label["score"].as_f64().unwrap()));
        assert!(evidence.is_none_or(|evidence| sentence.contains(&evidence)), "{sentence}");
        assert!(sentence.ends_with('.'), "{sentence}");
    }
}

/// A description contains each study's finding, with its number.
#[test]
fn descriptions_contain_the_findings_of_studies() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("report.json");
    run(&["analyze", "--with", "effect", "--sample", "100", "-q", "-o", path(&saved)]).unwrap();
    let shown = run(&["show", path(&saved), "--heads"]).unwrap();
    let mut answers = Answers::within(folder.path());
    // The choice of layer 0 holds by construction and is left out.
    let rows = shown.lines().filter(|line| ["head ", "L0H0 ", "L1H3 "].iter().any(|row| line.trim().starts_with(row)));
    let rows: Vec<&str> = rows.collect();
    answers.said("a table of heads", &rows.join("\n"));
    let data: Value = serde_json::from_str(&run(&["show", path(&saved), "--heads", "--json"]).unwrap()).unwrap();
    let sentence = data[0]["description"].as_str().unwrap();
    assert!(rows[1].trim().ends_with(sentence), "{rows:?}");
    let card = run(&["show", path(&saved), "L0H0", "--all"]).unwrap();
    assert!(card.contains(sentence), "{card}");
    assert_eq!((&data[0]["name"], &data[0]["primary"]), (&"L0H0".into(), &"next-token".into()));
    // Every output form of the table has these values.
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let head = &report["heads"][0];
    assert_eq!(
        (&data[0]["score"], &data[0]["loss_effect"]),
        (&head["labels"][0]["score"], &head["metrics"]["loss_effect"])
    );
    assert_eq!(
        (&data[0]["chooses"], &data[0]["chooses_share"]),
        (&head["chooses"]["label"], &head["chooses"]["score"])
    );
    let at = |name: &str| folder.path().join(name);
    let (csv, tex) = (at("heads.csv"), at("heads.tex"));
    run(&["export", path(&saved), "--table", "heads", "-o", path(&csv), "-o", path(&tex)]).unwrap();
    let csv = fs::read_to_string(csv).unwrap();
    let columns = "layer,head,name,primary,score,ci95_low,ci95_high,baseline,threshold,q,labels,borderline,chooses,chooses_share,\
        chooses_ci95_low,chooses_ci95_high,chooses_borderline,loss_effect,loss_effect_ci95_low,loss_effect_ci95_high,description";
    assert_eq!(csv.lines().next(), Some(columns));
    let tex = fs::read_to_string(tex).unwrap();
    assert!(tex.contains("\\begin{tabular}") && tex.contains("\nL0H0 & next-token & "), "{tex}");
    let some = at("some.csv");
    run(&["export", path(&saved), "--table", "heads", "--columns", "name,primary", "-o", path(&some)]).unwrap();
    assert!(fs::read_to_string(&some).unwrap().starts_with("name,primary\nL0H0,next-token\n"));
    // `--rows` selects rows by their cells. All conditions must hold.
    let select_rows = |conditions: &[&str]| {
        let rows = conditions.iter().flat_map(|condition| ["--rows", condition]);
        let always = ["export", path(&saved), "--table", "heads", "--columns", "name", "-o", path(&some)];
        run(&always.into_iter().chain(rows).collect::<Vec<_>>()).map(|_| fs::read_to_string(&some).unwrap())
    };
    assert_eq!(select_rows(&["primary=next-token", "layer<1"]).unwrap(), "name\nL0H0\n");
    for condition in ["score>1", "primry=broad", "primary>broad"] {
        answers.refused(condition, &select_rows(&[condition]).unwrap_err());
    }
    // Errors about wrong names suggest the right names.
    let (csv, svg, report) = (at("x.csv"), at("x.svg"), path(&saved));
    for arguments in [
        &["export", report, "--table", "heads", "--columns", "nme", "-o", path(&csv)][..],
        &["export", report, "--table", "relation", "-o", path(&csv)],
        &["export", report, "--figure", "relation", "-o", path(&svg)],
        &["show", report, "--relation", "subject"],
        &["show", report, "--label", "syntactic:subj"],
        &["compare", report, report, "--fail-on", "syntactic"],
    ] {
        answers.refused(&arguments.join(" "), &run(arguments).unwrap_err());
    }
    answers.held("in-the-box-studies-in-sentences");
}

#[test]
fn planted_scores_follow_from_the_weights() {
    let corpus = fixture("corpus/gold.conllu");
    let report = report(&["box:planted", "--corpus", path(&corpus)]);
    let metric = |place: usize, name: &str| report["heads"][place]["metrics"][name].clone();
    let offset = |place: usize, name: &str, k: &str| metric(place, name)[k].as_f64().unwrap();
    // A score of 12 against up to 63 others: e^12 / (e^12 + 63) = 0.9996.
    for (place, k) in [(0, "-1"), (1, "1"), (2, "0"), (3, "-2"), (8, "2"), (9, "-5")] {
        assert!((0.9996..=1.0).contains(&offset(place, "offset_mass", k)), "{place} {k}");
        if k != "0" {
            assert_eq!(offset(place, "offset_argmax", k), 1.0, "{place} {k}");
        }
    }
    assert!(metric(4, "separator_mass").as_f64().unwrap() > 0.9996);
    assert!(metric(5, "first_special_mass").as_f64().unwrap() > 0.9996);
    assert!(metric(6, "punctuation_mass").as_f64().unwrap() > 0.9996);
    assert!((metric(7, "entropy_ratio").as_f64().unwrap() - 1.0).abs() < 1e-6);
    // Half of the attention is on [CLS], half on [SEP].
    assert!((metric(11, "separator_mass").as_f64().unwrap() - 0.5).abs() < 1e-3);
    assert!((metric(11, "first_special_mass").as_f64().unwrap() - 0.5).abs() < 1e-3);
}

#[test]
fn planted_model_attention_matches_transformers() {
    let golden = Golden::read(&fixture("goldens/planted.safetensors"));
    check_parity(&golden::load(&fixture("models/planted")), &golden);
    let boxed = ModelRef::parse("box:planted").resolve(&()).unwrap();
    check_parity(&Model::load(boxed).unwrap(), &golden);
}

/// Training gave the heads these labels; their initial weights are random.
#[test]
fn training_gives_labels_to_heads() {
    let report = report(&["--control", "random-init", "--control-seeds", "2"]);
    let place = |layer: usize, head: usize| &report["heads"][4 * layer + head];
    assert_eq!(place(0, 0)["primary"], "next-token");
    assert_eq!(place(1, 3)["primary"], "previous-token");
    assert!(place(0, 0)["metrics"]["offset_mass"]["1"].as_f64().unwrap() > 0.95);
    assert!(place(1, 3)["metrics"]["offset_mass"]["-1"].as_f64().unwrap() > 0.95);
    let firm = |head: &Value| -> Vec<String> {
        let labels = head["labels"].as_array().unwrap().iter().filter(|label| label["borderline"] == false);
        labels.map(|label| label["label"].as_str().unwrap().to_owned()).collect()
    };
    for (layer, head, expected) in [
        (2, 3, &["syntactic:case", "syntactic:det", "syntactic:cop"][..]),
        (3, 0, &["syntactic:advcl", "separator"]),
        (3, 2, &["syntactic:case", "syntactic:obj"]),
        (3, 3, &["separator"]),
    ] {
        let actual = firm(place(layer, head));
        assert!(
            expected.iter().all(|&label| actual.iter().any(|actual| actual == label)),
            "L{layer}H{head}: {actual:?}"
        );
    }
    for control in report["controls"].as_array().unwrap() {
        let counts = &control["label_counts"];
        assert_eq!(counts["broad"], 16, "{control}");
        assert_eq!(counts["next-token"], 0);
        assert_eq!(counts["previous-token"], 0);
        assert_eq!(counts["syntactic:<relation>"], 0);
    }
}

#[test]
fn trained_model_matches_transformers() {
    let golden = Golden::read(&fixture("goldens/small.safetensors"));
    check_parity(&golden::load(&fixture("models/small")), &golden);
}

/// The file has the masked-LM head in the form that candle's own BERT expects.
#[test]
fn trained_model_has_a_masked_lm_head() {
    let weights = candle_core::safetensors::load(fixture("models/small/model.safetensors"), &Device::Cpu).unwrap();
    let mut weights: HashMap<String, Tensor> =
        weights.into_iter().map(|(name, tensor)| (name, tensor.to_dtype(DType::F32).unwrap())).collect();
    // The output layer shares the weights of the embeddings, so the file has these weights once.
    for (tied, stored) in
        [("decoder.weight", "bert.embeddings.word_embeddings.weight"), ("decoder.bias", "cls.predictions.bias")]
    {
        weights.insert(format!("cls.predictions.{tied}"), weights[stored].clone());
    }
    let config = std::fs::read_to_string(fixture("models/small/config.json")).unwrap();
    let weights = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
    let model = bert::BertForMaskedLM::load(weights, &serde_json::from_str(&config).unwrap()).unwrap();

    let golden = std::fs::read(fixture("goldens/small.safetensors")).unwrap();
    let golden = candle_core::safetensors::load_buffer(&golden, &Device::Cpu).unwrap();
    let ids = golden["ids.0"].unsqueeze(0).unwrap();
    let logits = model.forward(&ids, &ids.zeros_like().unwrap(), None).unwrap().squeeze(0).unwrap();
    assert_eq!(logits.dims(), golden["logits.0"].dims());
    let [logits, expected] =
        [&logits, &golden["logits.0"]].map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap());
    let difference = golden::largest_difference(&logits, &expected);
    assert!(difference < 1e-3, "logits differ by {difference}");
}

#[test]
fn boxed_model_has_at_most_eight_mebibytes() {
    let bytes = |folder: &str| -> u64 {
        let files = std::fs::read_dir(fixture(folder)).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    assert!(bytes("models/small") <= 8 << 20);
}

#[test]
fn boxed_model_has_its_name_and_the_hashes_of_its_files() {
    let text = tempfile::tempdir().unwrap();
    let corpus = text.path().join("text.txt");
    std::fs::write(&corpus, "One sentence.\n").unwrap();
    let report_on = |model: &str| report(&[model, "--corpus", path(&corpus)])["model"].clone();
    let (mut boxed, folder) = (report_on("box:planted"), report_on(path(&fixture("models/planted"))));
    assert_eq!((&boxed["id"], &folder["id"]), (&"box:planted".into(), &"planted".into()));
    assert_eq!(boxed["weights_sha256"].as_str().unwrap().len(), 64);
    boxed["id"] = folder["id"].clone();
    assert_eq!(boxed, folder);
}

#[test]
fn boxed_decoder_has_induction_heads() {
    let control = ["--control", "random-init", "--control-seeds", "3"];
    let options = ["box:causal", "--with", "repeats,effect", "--limit", "200", "--sample", "60"];
    let report = report(&[&options[..], &control].concat());
    assert_eq!(report["model"]["objective"], "next_tokens");
    let labels = |head: &serde_json::Value| -> Vec<String> {
        let firm = head["labels"].as_array().unwrap().iter().filter(|label| label["borderline"] == false);
        firm.map(|label| label["label"].as_str().unwrap().to_owned()).collect()
    };
    let actual: Vec<Vec<String>> = report["heads"].as_array().unwrap().iter().map(labels).collect();
    let expected: [&[&str]; 8] = [
        &["self"],
        &["previous-token"],
        &["broad"],
        &["local"],
        &[],
        &["copies", "first-token", "induction"],
        &["copies", "induction"],
        &["copies", "first-token", "induction"],
    ];
    for (place, (mut actual, expected)) in actual.into_iter().zip(expected).enumerate() {
        actual.sort();
        assert_eq!(actual, expected, "head {place}");
    }
    // Without training, every head is broad and has no other label.
    let controls = report["controls"].as_array().unwrap();
    assert_eq!(controls.len(), 3);
    for head in controls.iter().flat_map(|control| control["heads"].as_array().unwrap()) {
        assert_eq!(head["labels"], serde_json::json!(["broad"]), "{}", head["name"]);
    }
}

#[test]
fn unknown_names_in_the_box_are_refused() {
    let mut answers = Answers::new();
    for model in ["box:huge", "BOX:small"] {
        answers.refused(model, &run(&["analyze", model]).unwrap_err());
    }
    answers.held("in-the-box-not");
}

/// The README's command names no file.
#[test]
fn analyze_without_arguments_reads_the_box() {
    let nowhere = tempfile::tempdir().unwrap();
    let printed = outcome(&headscope(&["analyze"]).current_dir(nowhere.path()).output().unwrap()).unwrap();
    let mut answers = Answers::new();
    answers.said("model and corpus", printed.split("\n\n").next().unwrap());
    answers.held("in-the-box-without-arguments");
    // The README shows the beginning of the output.
    let readme = fs::read_to_string(fixture("../README.md")).unwrap();
    let shown = readme.split_once("<!-- begin: output of").unwrap().1.split("```\n").nth(1).unwrap();
    let begins: Vec<&str> = printed.lines().map(str::trim_end).take(shown.lines().count()).collect();
    assert_eq!(begins, shown.lines().collect::<Vec<_>>());
    assert_eq!(nowhere.path().read_dir().unwrap().count(), 0);
}

#[test]
fn boxed_corpus_equals_the_corpus_of_the_repository() {
    let report_on = |corpus: &str| report(&["box:planted", "--corpus", corpus]);
    let (mut boxed, file) = (report_on("box:gold"), report_on(path(&fixture("corpus/gold.conllu"))));
    assert_eq!((&boxed["corpus"]["name"], &file["corpus"]["name"]), (&"box:gold".into(), &"gold.conllu".into()));
    boxed["corpus"]["name"] = file["corpus"]["name"].clone();
    boxed["corpus"]["files"][0]["name"] = file["corpus"]["files"][0]["name"].clone();
    assert_eq!(boxed, file);
}

#[test]
fn maps_need_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, arguments) in [("text", ["--text", "Every head is known."]), ("corpus", ["--sentence", "3"])] {
        let output = folder.path().join(name).with_extension("safetensors");
        run(&[&["maps"], arguments.as_slice(), &["-o", path(&output)]].concat()).unwrap();
        let bytes = std::fs::read(&output).unwrap();
        let maps = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let names: Vec<&str> = maps.names().into_iter().collect();
        assert_eq!(names, [if name == "text" { "attentions.0" } else { "attentions.3" }]);
        let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        assert!(header.metadata().as_ref().unwrap()["model"].contains("box:small"));
    }
}
