//! Trained models of chemical reactions, saved before PyTorch 1.6, as their packages ship them: rxnmapper's ALBERT and
//! the three BERTs of rxnfp. Their weights are not in the repository.
//!
//! `HEADSCOPE_REACTION_MODELS` names the folder of the two unpacked wheels.
//! The tests run only with `--test reaction_models`; `.ci/run` does so.

#[path = "support/golden.rs"]
mod golden;
mod support;

use std::path::{Path, PathBuf};

use golden::{Golden, TOLERANCE, check_forward, largest_difference, load_with_prediction, of_ids, record};
use headscope::model::forward::PassStart;
use headscope::model::forward::gates::Gates;
use headscope::model::forward::visitor::Needs;
use headscope::sequences::pack::Pack;
use serde_json::Value;
use support::{fails_nothing, fixture, path, run};
use tempfile::TempDir;

const ALBERT: &str = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k";
/// Goldens of `fixtures/make_reaction_goldens.py`, each with its model's folder.
const MODELS: [(&str, &str); 4] = [
    ("rxnmapper", ALBERT),
    ("rxnfp-pretrained", "rxnfp/models/transformers/bert_pretrained"),
    ("rxnfp-ft", "rxnfp/models/transformers/bert_ft"),
    ("rxnfp-ft-10k", "rxnfp/models/transformers/bert_ft_10k_25s"),
];

fn packaged(folder: &str) -> PathBuf {
    let root = std::env::var_os("HEADSCOPE_REACTION_MODELS");
    PathBuf::from(root.expect("HEADSCOPE_REACTION_MODELS is the folder of both wheels: see .ci/run")).join(folder)
}

/// A copy of a packaged folder. Its config gets a `model_type`, as the error about the missing key advises.
fn typed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["pytorch_model.bin", "vocab.txt"] {
        std::fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    let mut config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
    if config["model_type"].is_null() {
        config["model_type"] = "bert".into();
    }
    std::fs::write(copy.path().join("config.json"), config.to_string()).unwrap();
    copy
}

/// Writes the esterification of each of fourteen acids with each of ten alcohols, in the models' own tokens.
fn corpus(folder: &Path) -> PathBuf {
    let line = |acid: usize, alcohol: usize| {
        let [acid, alcohol] = [acid, alcohol].map(|carbons| " C".repeat(carbons));
        format!(
            "{{\"words\": [{}]}}\n",
            quoted(&format!("{acid} C ( = O ) O .{alcohol} O >>{acid} C ( = O ) O{alcohol}"))
        )
    };
    let lines: String = (1..15).flat_map(|acid| (1..11).map(move |alcohol| line(acid, alcohol))).collect();
    let corpus = folder.join("reactions.jsonl");
    std::fs::write(&corpus, lines).unwrap();
    corpus
}

fn quoted(words: &str) -> String {
    words.split_whitespace().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

#[test]
fn attention_hidden_states_and_logits_match_pytorch() {
    for (name, folder) in MODELS {
        println!("{name}");
        let folder = typed(&packaged(folder));
        let model = load_with_prediction(folder.path());
        let golden = Golden::read(&fixture(&format!("goldens/reactions/{name}.safetensors")));
        let reaction = || vec![of_ids(0, &golden.expected[0].ids, &vec![0; golden.expected[0].ids.len()])];
        check_forward(model.encoder.as_ref(), model.grid().layers, reaction(), &golden.expected);
        let expected = &golden.expected[0].logits;
        assert_eq!(model.objective.is_some(), !expected.is_empty(), "{name}: a masked-LM head");
        if model.objective.is_some() {
            let pack = Pack { sequences: reaction() };
            let needs = Needs { logits: true, ..Needs::default() };
            let all_positions = [(0..golden.expected[0].ids.len()).collect()];
            let batch = pack.batch().with_predicted(&all_positions);
            let actual = record(model.encoder.as_ref(), PassStart::Embeddings, &batch, &Gates::default(), needs);
            let largest = expected.iter().fold(1_f32, |largest, logit| largest.max(logit.abs()));
            let difference = largest_difference(&actual[0].logits, expected);
            println!("logits: {difference:.1e}");
            assert!(difference <= TOLERANCE * largest, "{name}: logits differ by {difference}");
        }
    }
}

/// Three heads of rxnmapper's ALBERT, among them the head that the package uses, follow the atom maps. They beat every
/// rule of position and of elements. Heads of column 2 copy the element alone.
/// `fixtures/reference_links.py` computes all figures.
#[test]
fn heads_follow_atom_maps() {
    let (folder, corpus) = (typed(&packaged(ALBERT)), fixture("corpus/reactions.jsonl"));
    let report = |corpus: &Path| -> Value {
        let arguments = ["analyze", path(folder.path()), "-c", path(corpus), "--tokens-as-words", "-q", "-o", "-"];
        serde_json::from_str(&run(&arguments).unwrap()).unwrap()
    };
    let (numbered, report) = (report(&fixture("corpus/reactions.rxn")), report(&corpus));
    assert_eq!((&numbered["links"], &numbered["heads"]), (&report["links"], &report["heads"]));
    let golden = std::fs::read_to_string(fixture("goldens/reactions/rxnmapper-links.json")).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let maps = &report["links"][0];
    let close = |own: &Value, other: &Value| {
        let [own, other] = [own, other].map(|number| number.as_f64().unwrap());
        assert!((own - other).abs() < 1e-6, "{own}, {other} of the reference");
    };
    assert_eq!((&maps["count"], &maps["with_class"]["count"]), (&golden["count"], &golden["with_class"]));
    close(&maps["chance"], &golden["chance"]);
    close(&maps["class_chance"], &golden["class_chance"]);
    let rules = maps["rules"].as_array().unwrap();
    for (name, accuracy) in golden["rules"].as_object().unwrap() {
        close(&rules.iter().find(|rule| rule["rule"] == **name).unwrap()["accuracy"], accuracy);
    }
    for (place, head) in maps["by_head"].as_array().unwrap().iter().enumerate() {
        close(&head["mass"], &golden["mass"][place]);
        for key in ["accuracy", "among_class", "to_special"] {
            ["from", "to"]
                .into_iter()
                .enumerate()
                .for_each(|(slot, end)| close(&head[key][end], &golden[key][place][slot]));
        }
    }
    let reach = |name: &str| {
        let head = report["heads"].as_array().unwrap().iter().find(|head| head["name"] == *name).unwrap();
        let label = head["labels"].as_array().unwrap().iter().find(|label| label["label"] == "link:maps")?;
        Some((label["beyond"].clone(), label["borderline"].clone()))
    };
    for name in ["L9H5", "L8H5", "L10H5"] {
        assert_eq!(reach(name), Some(("all".into(), false.into())), "{name}");
    }
    assert_eq!((reach("L7H2"), reach("L7H4")), (Some(("place".into(), false.into())), None));
}

#[test]
fn packaged_folder_error_says_what_to_do() {
    let (status, message) = run(&["analyze", path(&packaged(ALBERT))]).unwrap_err();
    assert_eq!(status, 4, "{message}");
    for part in ["gives back 25 of the 576 entries", "do_lower_case", "--tokens-as-words"] {
        assert!(message.contains(part), "{message}");
    }
    let (status, message) = run(&["analyze", path(&packaged(MODELS[1].1))]).unwrap_err();
    assert_eq!(status, 4, "{message}");
    assert!(message.contains("\"model_type\": \"bert\""), "{message}");
}

#[test]
fn reactions_in_model_tokens_are_analysed() {
    let scratch = tempfile::tempdir().unwrap();
    let corpus = corpus(scratch.path());
    for (name, folder) in MODELS {
        let folder = typed(&packaged(folder));
        let report =
            run(&["analyze", path(folder.path()), "-c", path(&corpus), "--tokens-as-words", "-q", "-o", "-"]).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["corpus"]["sentences"], 140, "{name}");
        assert_eq!(report["corpus"]["text"]["tokens"], report["corpus"]["words"], "{name}: each word is one token");
        assert_eq!(report["corpus"]["text"]["unknown_tokens"], 0, "{name}");
        assert!(fails_nothing(&report), "{name}: {}", report["corpus"]["health"]);
        let heads = report["heads"].as_array().unwrap();
        assert!(heads.iter().any(|head| head["primary"] != "broad"), "{name}: no head has a role");
    }
}
