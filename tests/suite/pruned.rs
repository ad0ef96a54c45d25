//! `headscope prune`: the written folder is the model without the heads, for every layout of weights. Its loss is the
//! loss in the report.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::golden::{Forward, Golden, largest_difference, of_ids, record};
use crate::support::answers::Answers;
use crate::support::{self, fixture, opened, path, run, tiny_bert, weight_files};
use headscope::model::files::{ModelFile, ModelFiles, Pooling, TokenizerFiles};
use headscope::model::forward::PassStart;
use headscope::model::forward::batch::{Batch, BatchInput, TokenClass};
use headscope::model::forward::gates::{Gate, Gates};
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::visitor::Needs;
use headscope::model::grid::HeadPlace;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use headscope::model::weights::pruned::{PrunedWeights, RemovedHeads};
use headscope::system::errors::ErrorClass;
use serde_json::{Value, json};

/// The files of a fixture model, with the tokenizer of the tiny BERT where the model has none.
fn files(folder: &Path) -> ModelFiles {
    ModelFiles {
        id: "model".to_owned(),
        revision: None,
        config: ModelFile::open(&folder.join("config.json")).unwrap(),
        architecture: support::architecture(folder),
        tokenizer: TokenizerFiles::find(&tiny_bert()).unwrap(),
        weights: opened(&weight_files(folder)),
        adapter: None,
        pooling: Ok(Pooling::Text),
    }
}

/// The last hidden states of an encoder with these weights.
fn last_states(files: &ModelFiles, weights: Vec<ModelFile>, gates: &Gates, golden: &Golden) -> Vec<Vec<f32>> {
    let checkpoint =
        Checkpoint::open(weights, files.architecture.family).unwrap().without_unknown_prefix(&files.architecture);
    let encoder = PackedEncoder::new(Parameters::load(&checkpoint, &files.architecture).unwrap());
    // Goldens of models without segments have none.
    let segments = |one: &Forward| if one.segments.is_empty() { vec![0; one.ids.len()] } else { one.segments.clone() };
    let texts: Vec<_> = golden.expected.iter().map(|one| of_ids(0, &one.ids, &segments(one))).collect();
    let inputs =
        texts.iter().map(|text| BatchInput { ids: &text.ids, segments: &text.segments, ..BatchInput::default() });
    let classes: Vec<TokenClass> = texts.iter().flat_map(|text| &text.ids).map(|_| TokenClass::Text).collect();
    let batch = Batch { inputs: inputs.collect() }.with_classes(&classes);
    let needs = Needs { hidden_states: true, ..Needs::ATTENTION };
    let actual = record(&encoder, PassStart::Embeddings, &batch, gates, needs);
    let hidden = files.architecture.config.hidden_size;
    let last = |ids: &Vec<u32>, states: &[f32]| states[states.len() - ids.len() * hidden..].to_vec();
    actual.iter().zip(&golden.expected).map(|(actual, one)| last(&one.ids, &actual.hidden_states)).collect()
}

/// Compares a pruned model with the model in which gates replace the heads. Returns whether removed heads leave a
/// constant.
fn check(name: &str) -> bool {
    let folder = fixture("models").join(name);
    let files = files(&folder);
    let grid = files.architecture.grid();
    let golden = Golden::read(&fixture("goldens").join(format!("{name}.safetensors")));
    let names = &files.architecture.names;
    let constant = names.biases.attention_output;
    let (dim, last) = (files.architecture.config.head_dim(), grid.layers - 1);
    let mut gates = Gates::default();
    let mut removed = RemovedHeads::new();
    // Removes one head of the first layer and one of the last layer, chosen among the present heads, and all heads that
    // share their weights.
    let present = |layer: usize| files.architecture.config.present_heads(layer);
    let (first_head, last_head) = (present(0)[0], *present(last).last().unwrap());
    let is_removed = |place: &HeadPlace| {
        let shares = |layer: usize| names.layers[layer] == names.layers[place.layer];
        (shares(0) && place.head == first_head) || (shares(last) && place.head == last_head)
    };
    for place in grid.head_places().filter(is_removed) {
        // Layers that share their weights share the constants, too.
        let first = names.layers.iter().position(|stem| *stem == names.layers[place.layer]).unwrap();
        let seed = first * grid.heads + place.head;
        let vector: Vec<f32> = (0..dim).map(|at| ((seed * dim + at) as f32 * 0.7).sin()).collect();
        let gate = if constant {
            Gate::from_replacement([(); TokenClass::COUNT].map(|()| vector.clone()))
        } else {
            Gate::from_factor(0.0)
        };
        gates.set_gate(place.layer, place.head, gate);
        removed.insert(place, constant.then_some(vector));
    }
    let bench = tempfile::tempdir().unwrap();
    let pruned = PrunedWeights::new(&files, &removed).unwrap();
    let written: Vec<_> = pruned.names().iter().map(|name| bench.path().join(name)).collect();
    for (number, path) in written.iter().enumerate() {
        let mut file = fs::File::create(path).unwrap();
        pruned.write(number, &mut file).unwrap();
        file.flush().unwrap();
    }
    // The weights tell exactly which heads write a constant.
    let constant_heads = |weights: Vec<ModelFile>| {
        let checkpoint =
            Checkpoint::open(weights, files.architecture.family).unwrap().without_unknown_prefix(&files.architecture);
        Parameters::load(&checkpoint, &files.architecture).unwrap().constant_heads()
    };
    assert_eq!(constant_heads(files.weights.clone()), [], "{name}");
    assert_eq!(constant_heads(opened(&written)), removed.keys().copied().collect::<Vec<_>>(), "{name}");
    let expected = last_states(&files, files.weights.clone(), &gates, &golden);
    let actual = last_states(&files, opened(&written), &Gates::default(), &golden);
    let whole = last_states(&files, files.weights.clone(), &Gates::default(), &golden);
    for ((actual, expected), whole) in actual.iter().zip(&expected).zip(&whole) {
        let (wrong, change) = (largest_difference(actual, expected), largest_difference(whole, expected));
        assert!(wrong < 1e-5 && change > 100.0 * wrong, "{name}: {wrong} of {change}");
    }
    constant
}

#[test]
fn every_layout_of_weights_can_be_pruned() {
    let mut checked = BTreeMap::new();
    for entry in fs::read_dir(fixture("models")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_encoder = fixture("models").join(&name).join("config.json").exists();
        // The heads of planted models write nothing, so their removal changes nothing.
        if is_encoder && !name.starts_with("planted") && fixture("goldens").join(format!("{name}.safetensors")).exists()
        {
            checked.insert(name.clone(), check(&name));
        }
    }
    // Shards, pickles, shards of pickles, transposed projections, convolutions, shared layers, shared keys, no biases.
    for (name, constant) in [
        ("tiny-bert", true),
        ("tiny-electra", true),
        ("tiny-bert-pickle", true),
        ("tiny-distilbert", true),
        ("tiny-gpt2", true),
        ("tiny-squeezebert", true),
        ("tiny-albert", true),
        ("tiny-llama", true),
        ("tiny-mistral", false),
        ("tiny-t5", false),
    ] {
        assert_eq!(checked.get(name), Some(&constant), "{name} of {checked:?}");
    }
}

#[test]
fn pruned_model_can_be_pruned_again() {
    for (name, constant) in [
        ("tiny-bert-pickle", true),
        ("tiny-distilbert", true),
        ("tiny-gpt2", true),
        ("tiny-albert", true),
        ("tiny-t5", false),
    ] {
        assert_eq!(check(&format!("pruned/{name}")), constant, "{name}");
    }
    let bench = tempfile::tempdir().unwrap();
    let (model, folder) = (fixture("models/pruned/tiny-bert-pickle"), bench.path().join("pruned"));
    let prune = |heads: &str| run(&["prune", path(&model), "--heads", heads, "-o", path(&folder)]);
    let mut answers = Answers::within(bench.path());
    answers.refused("a head that is absent", &prune("L0H0,L0H1").unwrap_err());
    answers.said("a head that is there", &prune("L0H0").unwrap());
    answers.held("pruned-again");
}

/// An empty tensor at the offset of the changed tensor stays as it is. A full output is an error of the output.
#[test]
fn tensors_change_by_their_names() {
    let bench = tempfile::tempdir().unwrap();
    let from = tiny_bert();
    for file in ["config.json", "tokenizer.json"] {
        fs::copy(from.join(file), bench.path().join(file)).unwrap();
    }
    let bytes = fs::read(from.join("model.safetensors")).unwrap();
    let length = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let name = header.as_object().unwrap().keys().find(|name| name.ends_with("0.attention.output.dense.weight"));
    let place = header[name.unwrap()]["data_offsets"][0].clone();
    header["a.empty"] = json!({"dtype": "F32", "shape": [0], "data_offsets": [place, place]});
    let header = serde_json::to_vec(&header).unwrap();
    let changed = [&(header.len() as u64).to_le_bytes()[..], &header, &bytes[8 + length..]].concat();
    fs::write(bench.path().join("model.safetensors"), changed).unwrap();
    let files = files(bench.path());
    let removed = RemovedHeads::from([(HeadPlace { layer: 0, head: 1 }, None)]);
    let pruned = PrunedWeights::new(&files, &removed).unwrap();
    pruned.write(0, &mut std::io::sink()).unwrap();
    let error = pruned.write(0, &mut &mut [0; 100][..]).unwrap_err();
    assert_eq!(ErrorClass::from_error(&error), ErrorClass::Output, "{error:#}");
}

/// A fixture model with a tokenizer, copied into a folder in `bench`.
fn readable(bench: &Path, name: &str) -> PathBuf {
    let folder = bench.join(name);
    fs::create_dir(&folder).unwrap();
    for (from, tokenizer) in [(fixture("models").join(name), false), (tiny_bert(), true)] {
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with("tokenizer") == tokenizer {
                fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
            }
        }
    }
    folder
}

/// The arguments of a run with the study `pruning` and only those studies that it needs.
fn pruning(model: &str, more: &[&str]) -> Vec<String> {
    let corpus = fixture("corpus/gold.conllu");
    let others = "attention,trees,dependency,links,words,classes,frequency,explained-variance";
    let common =
        ["analyze", model, "-c", path(&corpus), "--with", "pruning", "--without", others, "--no-run-info", "-q"];
    common.iter().chain(&["--sample", "24"]).chain(more).map(|&word| word.to_owned()).collect()
}

fn run_to_json(arguments: &[String]) -> Value {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["-o", "-"]).collect();
    serde_json::from_str(&run(&arguments).unwrap()).unwrap()
}

#[test]
fn pruned_model_has_the_loss_in_the_report() {
    let bench = tempfile::tempdir().unwrap();
    let at = |name: &str| bench.path().join(name);
    let mut answers = Answers::within(bench.path());
    // In order: half precision; layers under another name; no biases and shared keys.
    let bundled = "box:small".to_owned();
    let llama = path(&readable(bench.path(), "tiny-llama")).to_owned();
    let causal = path(&fixture("models/causal")).to_owned();
    for (name, model, removal) in
        [("small", &bundled, "constant"), ("causal", &causal, "constant"), ("llama", &llama, "zero")]
    {
        let whole = run_to_json(&pruning(model, &["--removal", removal]));
        let [report, folder, other, own] =
            ["report.json", "pruned", "other", "own"].map(|suffix| at(&format!("{name}-{suffix}")));
        fs::write(&report, serde_json::to_string(&whole).unwrap()).unwrap();
        let order = &whole["pruning"]["orders"][0];
        let arguments = ["prune", model, "--report", path(&report), "--budget", "20%", "-o", path(&folder)];
        let printed = run(&arguments).unwrap();
        let (layers, words): (Vec<&str>, Vec<&str>) = printed.lines().partition(|line| line.starts_with("  layer"));
        let removed_heads = layers.iter().flat_map(|line| line.split_whitespace().skip(3)).count();
        let expected = order["loss"][removed_heads.checked_sub(1).unwrap()].as_f64().unwrap();
        assert!(printed.contains(&format!(" {expected:.4} ")), "{printed}");
        answers.said(&format!("{name}, a fifth of the loss"), &words.join("\n"));
        // A budget as a share of the contribution of all heads, in another order. Heads of an untrained model may
        // contribute nothing.
        let budget = ["--report", path(&report), "--budget", "20%", "--of", "all-heads", "--by", "gradient"];
        match run(&[&["prune", model, "-o", path(&other)], &budget[..]].concat()) {
            Ok(printed) => {
                let words: Vec<&str> = printed.lines().filter(|line| !line.starts_with("  layer")).collect();
                answers.said(&format!("{name}, a fifth of all heads by gradient"), &words.join("\n"));
            }
            Err(refused) => assert!(removal == "zero", "{refused:?}"),
        }
        // Heads that the user chooses are removed as the report removes heads.
        let printed =
            run(&["prune", model, "-o", path(&own), "--report", path(&report), "--heads", "L0H1,L1H0"]).unwrap();
        answers.said(&format!("{name}, heads of one's own"), &printed);
        let actual = run_to_json(&pruning(path(&folder), &["--removal", "zero"]))["pruning"]["loss"].as_f64().unwrap();
        let change = (expected - whole["pruning"]["loss"].as_f64().unwrap()).abs();
        assert!((actual - expected).abs() < 1e-5 && change > 1e-4, "{model}: {actual} {expected} {change}");
    }
    answers.held("pruned-by-budget");
}

#[test]
fn layers_with_shared_weights_lose_a_head_together() {
    let bench = tempfile::tempdir().unwrap();
    let (model, folder) = (readable(bench.path(), "tiny-albert"), bench.path().join("pruned"));
    let prune = |heads: &str| run(&["prune", path(&model), "--heads", heads, "-o", path(&folder)]);
    let mut answers = Answers::within(bench.path());
    let refused = prune("L0H1").unwrap_err();
    answers.refused("one of them", &refused);
    assert!(!folder.exists() && fs::read_dir(bench.path()).unwrap().count() == 1);
    // The hint works as printed.
    let all = refused.1.split("give `--heads ").nth(1).and_then(|rest| rest.split('`').next()).expect("a hint");
    answers.said("all of them", &prune(all).unwrap());
    answers.held("pruned-shared-layers");
    assert!(folder.join("model.safetensors").exists() && !folder.join("pytorch_model.bin").exists());
}

#[test]
fn prune_copies_all_files_except_other_weights() {
    let bench = tempfile::tempdir().unwrap();
    let (model, folder) = (bench.path().join("model"), bench.path().join("pruned"));
    fs::create_dir_all(model.join("1_Pooling")).unwrap();
    fs::create_dir_all(model.join("onnx")).unwrap();
    for entry in fs::read_dir(tiny_bert()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), model.join(entry.file_name())).unwrap();
    }
    for name in ["modules.json", "1_Pooling/config.json", "README.md", "tf_model.h5", "onnx/model.onnx"] {
        fs::write(model.join(name), "{}").unwrap();
    }
    let prune = |head: &str| run(&["prune", path(&model), "--heads", head, "-o", path(&folder)]);
    let mut answers = Answers::within(bench.path());
    answers.said("files that are not copied", &prune("L0H1").unwrap());
    for name in ["modules.json", "1_Pooling/config.json", "README.md", "tokenizer.json", "config.json"] {
        assert_eq!(fs::read(folder.join(name)).unwrap(), fs::read(model.join(name)).unwrap(), "{name}");
    }
    answers.refused("a folder with files", &prune("L0H2").unwrap_err());
    answers.held("pruned-folder");
}

#[test]
fn impossible_prunings_are_refused() {
    let bench = tempfile::tempdir().unwrap();
    let (report, folder) = (bench.path().join("report.json"), bench.path().join("pruned"));
    let prune = |more: &[&str]| run(&[&["prune", "box:small", "-o", path(&folder)], more].concat()).unwrap_err();
    let mut answers = Answers::within(bench.path());
    answers.refused("a head that is not there", &prune(&["--heads", "L9H0"]));
    answers.refused("a budget without a report", &prune(&["--budget", "1%"]));
    answers.refused("a budget of nothing", &prune(&["--report", "r.json", "--budget", "0%"]));
    let write = |value: &Value| fs::write(&report, serde_json::to_string(value).unwrap()).unwrap();
    let mut saved = run_to_json(&pruning("box:small", &[]));
    write(&saved);
    let budget = ["--report", path(&report), "--budget", "1%"];
    answers.refused("a report of removal by the mean", &prune(&budget));
    saved["pruning"]["removal"] = json!("zero");
    write(&saved);
    let little = prune(&["--report", path(&report), "--budget", "0.00001%"]);
    assert!(little.1.contains("0.00001 %"), "{little:?}");
    answers.refused("a budget that is too small", &little);
    answers.refused("an order that is not there", &prune(&[&budget[..], &["--by", "nothing"]].concat()));
    saved["model"]["weights_sha256"] = json!("0".repeat(64));
    write(&saved);
    answers.refused("a report of another model", &prune(&budget));
    assert!(!folder.exists());
    answers.held("pruned-not");
}
