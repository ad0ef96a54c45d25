//! Checkpoints as published: each is read whole, or the error names the tensors that would be ignored.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::safetensors::{load, save};
use candle_core::{Device, Tensor};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::answers::Answers;
use crate::support::{architecture, fixture, opened, path, run, tiny_bert, weight_files};
use headscope::model::adapter::Adapter;
use headscope::model::files::AdapterFiles;
use headscope::model::weights::Checkpoint;

type Tensors = HashMap<String, Tensor>;

/// A copy of a model of `fixtures/models` with changed tensors and the tiny model's tokenizer.
fn changed_model(folder: &TempDir, name: &str, change: impl FnOnce(&mut Tensors)) -> PathBuf {
    let (from, to) = (fixture("models").join(name), folder.path().join("model"));
    fs::create_dir_all(&to).unwrap();
    fs::copy(from.join("config.json"), to.join("config.json")).unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(tiny_bert().join(file), to.join(file)).unwrap();
    }
    let mut tensors = tensors(&from);
    change(&mut tensors);
    save(&tensors, to.join("model.safetensors")).unwrap();
    to
}

fn tensors(model: &Path) -> Tensors {
    load(model.join("model.safetensors"), &Device::Cpu).unwrap()
}

/// The report over 20 sentences, or the exit status and the error.
fn report(model: &Path) -> Result<Value, (i32, String)> {
    let (out, corpus) = (model.join("report.json"), fixture("corpus/gold.conllu"));
    let arguments = ["analyze", path(model), "-c", path(&corpus), "--limit", "20", "-q", "-o", path(&out)];
    run(&arguments)?;
    Ok(serde_json::from_slice(&fs::read(out).unwrap()).unwrap())
}

/// The heads of the report.
fn metrics(model: &Path) -> Value {
    report(model).unwrap()["heads"].clone()
}

fn rename_tensors(tensors: &mut Tensors, rename: impl Fn(&str) -> String) {
    *tensors = tensors.drain().map(|(name, tensor)| (rename(&name), tensor)).collect();
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu).unwrap()
}

#[test]
fn unread_tensors_that_change_the_model_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let mut answers = Answers::within(folder.path());
    for name in [
        "encoder.layer.0.attention.self.query.lora_A.default.weight",
        "base_model.model.encoder.layer.0.attention.self.query.lora_B.weight",
        "encoder.layer.0.output.adapters.x.adapter_down.0.weight",
        "encoder.layer.0.attention.self.key.ia3_l.default",
        "prefix_encoder.embedding.weight",
        "encoder.layer.0.output.dense.SCB",
    ] {
        let model =
            changed_model(&folder, "tiny-bert", |tensors| drop(tensors.insert(name.to_owned(), zeros(&[4, 4]))));
        answers.refused(name, &report(&model).unwrap_err());
    }
    answers.held("checkpoints-foreign-tensors");
}

#[test]
fn an_extra_layer_and_an_unknown_part_are_refused() {
    let folder = TempDir::new().unwrap();
    let model = changed_model(&folder, "tiny-bert", |tensors| {
        let last_layer: Vec<_> = tensors.iter().filter(|(name, _)| name.contains(".2.")).collect();
        let more: Tensors =
            last_layer.into_iter().map(|(name, one)| (name.replace(".2.", ".3."), one.clone())).collect();
        tensors.extend(more);
    });
    let mut answers = Answers::within(folder.path());
    answers.refused("a layer too many", &report(&model).unwrap_err());
    let model = changed_model(&folder, "tiny-bert", |tensors| {
        tensors.insert("encoder.layer.0.attention.self.scale".to_owned(), zeros(&[4]));
    });
    answers.refused("an unknown part", &report(&model).unwrap_err());
    answers.held("checkpoints-unread-tensors");
}

#[test]
fn the_report_counts_unused_tensors_after_the_encoder() {
    let folder = TempDir::new().unwrap();
    let model = changed_model(&folder, "tiny-bert", |tensors| {
        rename_tensors(tensors, |name| format!("bert.{name}"));
        for (name, shape) in [
            ("bert.pooler.dense.weight", &[32, 32][..]),
            ("bert.pooler.dense.bias", &[32]),
            ("bert.embeddings.position_ids", &[1, 96]),
            ("classifier.weight", &[2, 32]),
        ] {
            tensors.insert(name.to_owned(), zeros(shape));
        }
    });
    let report = report(&model).unwrap();
    let expected = serde_json::json!([{"name": "classifier", "tensors": 1}, {"name": "pooler", "tensors": 2}]);
    assert_eq!(report["model"]["left"], expected);
    assert_eq!(report["heads"], metrics(&tiny(&folder)));
}

/// An unchanged copy of the tiny model.
fn tiny(folder: &TempDir) -> PathBuf {
    let copy = folder.path().join("whole");
    fs::create_dir_all(&copy).unwrap();
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        fs::copy(tiny_bert().join(file), copy.join(file)).unwrap();
    }
    copy
}

#[test]
fn prefixes_of_training_programs_are_recognised() {
    let folder = TempDir::new().unwrap();
    let expected = metrics(&tiny(&folder));
    for prefix in ["_orig_mod.", "_orig_mod.bert.", "module._orig_mod.model.bert.", "0.auto_model.", "bert._orig_mod."]
    {
        let model =
            changed_model(&folder, "tiny-bert", |tensors| rename_tensors(tensors, |name| format!("{prefix}{name}")));
        assert_eq!(metrics(&model), expected, "{prefix}");
    }
}

#[test]
fn shared_embeddings_are_read_under_the_names_of_all_parts() {
    let folder = TempDir::new().unwrap();
    for (name, others) in [
        (
            "tiny-bart",
            &["model.decoder.embed_tokens", "model.encoder.embed_tokens", "lm_head", "encoder.embed_tokens"][..],
        ),
        ("tiny-t5", &["encoder.embed_tokens", "decoder.embed_tokens"]),
    ] {
        let expected = metrics(&changed_model(&folder, name, |_| {}));
        for other in others {
            let model = changed_model(&folder, name, |tensors| {
                rename_tensors(tensors, |name| name.replace("model.shared.weight", "shared.weight"));
                let shared = tensors.remove("shared.weight").unwrap();
                tensors.insert(format!("{other}.weight"), shared);
            });
            assert_eq!(metrics(&model), expected, "{name}: {other}");
        }
    }
}

#[test]
fn the_metadata_may_map_a_tensor_to_another_name() {
    let folder = TempDir::new().unwrap();
    let model = changed_model(&folder, "tiny-bert", |_| {});
    let expected = metrics(&model);
    let file = model.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let whole = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let name = "embeddings.word_embeddings.weight";
    let rename_tensors = whole
        .tensors()
        .into_iter()
        .map(|(stored_name, view)| (if stored_name == name { "x.y".to_owned() } else { stored_name }, view));
    let metadata = HashMap::from([(name.to_owned(), "x.y".to_owned())]);
    safetensors::serialize_to_file(rename_tensors.collect::<Vec<_>>(), Some(metadata), &file).unwrap();
    assert_eq!(metrics(&model), expected);
}

#[test]
fn shards_need_no_index() {
    let folder = TempDir::new().unwrap();
    let model = changed_model(&folder, "tiny-bert", |_| {});
    let expected = metrics(&model);
    let all = tensors(&model);
    fs::remove_file(model.join("model.safetensors")).unwrap();
    let (first, second): (Tensors, Tensors) = all.into_iter().partition(|(name, _)| name.starts_with("embeddings."));
    save(&first, model.join("model-00001-of-00002.safetensors")).unwrap();
    let mut answers = Answers::within(folder.path());
    answers.refused("one of two parts", &report(&model).unwrap_err());
    answers.held("checkpoints-missing-part");
    save(&second, model.join("model-00002-of-00002.safetensors")).unwrap();
    assert_eq!(metrics(&model), expected);
}

/// A file in the format of `torch.save` before PyTorch 1.6: pickles, then the storages.
fn legacy_file(tensors: &Tensors) -> Vec<u8> {
    let text = |text: &str| [b"X", &u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    let number = |number: usize| [b"J", &u32::try_from(number).unwrap().to_le_bytes()[..]].concat();
    let numbers =
        |all: &[usize]| [b"(".to_vec(), all.iter().flat_map(|&one| number(one)).collect(), b"t".to_vec()].concat();
    let mut file = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.".to_vec();
    file.extend([b"\x80\x02}(".to_vec(), text("little_endian"), b"\x88u.".to_vec()].concat());
    file.extend(b"\x80\x02ccollections\nOrderedDict\n)R(");
    let mut names: Vec<&String> = tensors.keys().collect();
    names.sort();
    for (key, name) in names.iter().enumerate() {
        let shape = tensors[*name].dims();
        let strides: Vec<usize> = (0..shape.len()).map(|at| shape[at + 1..].iter().product()).collect();
        let storage =
            [b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(), text("storage"), b"ctorch\nFloatStorage\n".to_vec()];
        let storage = [storage.concat(), text(&key.to_string()), text("cpu"), number(shape.iter().product())].concat();
        let view = [b"NtQK\x00".to_vec(), numbers(shape), numbers(&strides), b"\x89}tR".to_vec()].concat();
        file.extend([text(name), storage, view].concat());
    }
    file.extend(b"u.\x80\x02](");
    (0..names.len()).for_each(|key| file.extend(text(&key.to_string())));
    file.extend(b"e.");
    for name in names {
        let values = tensors[name].flatten_all().unwrap().to_vec1::<f32>().unwrap();
        file.extend((values.len() as u64).to_le_bytes());
        file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    file
}

#[test]
fn files_from_before_pytorch_1_6_are_read() {
    let folder = TempDir::new().unwrap();
    let model = changed_model(&folder, "tiny-bert", |_| {});
    let expected = metrics(&model);
    let whole = legacy_file(&tensors(&model));
    fs::remove_file(model.join("model.safetensors")).unwrap();
    let file = model.join("pytorch_model.bin");
    fs::write(&file, &whole).unwrap();
    assert_eq!(metrics(&model), expected);
    let mut answers = Answers::within(folder.path());
    for (title, bytes) in [
        ("a byte less", &whole[..whole.len() - 1]),
        ("a byte more", &[&whole[..], &[0]].concat()),
        ("the first 200 bytes", &whole[..200]),
    ] {
        fs::write(&file, bytes).unwrap();
        answers.refused(title, &report(&model).unwrap_err());
    }
    answers.held("checkpoints-damaged-pickles");
}

#[test]
fn lora_is_merged_as_in_peft() {
    for name in ["tiny-bert", "tiny-gpt2", "tiny-llama"] {
        let model = fixture("models").join(name);
        let architecture = architecture(&model);
        let files = AdapterFiles::open(&fixture("models/adapters").join(name)).unwrap();
        let open = || Checkpoint::open(opened(&weight_files(&model)), architecture.family).unwrap();
        let adapted = open().with_adapter(Some(Box::new(Adapter::read(&files, &architecture).unwrap())));
        let golden = load(fixture("goldens/adapters").join(format!("{name}.safetensors")), &Device::Cpu).unwrap();
        let mut changed = 0;
        for (tensor, expected) in golden {
            let Ok(base) = open().tensor(&tensor, expected.dims()) else { continue };
            let (actual, expected) =
                (adapted.tensor(&tensor, expected.dims()).unwrap(), expected.flatten_all().unwrap());
            let expected = expected.to_vec1::<f32>().unwrap();
            let difference = |a: &[f32]| a.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(difference(&actual) <= 1e-6, "{name}: {tensor} is {} apart", difference(&actual));
            changed += usize::from(difference(&base) > 1e-3);
        }
        assert!(changed >= 3, "{name}: {changed} tensors differ from the model's");
    }
}

#[test]
fn adapter_patterns_match_whole_module_names() {
    let folder = TempDir::new().unwrap();
    let (model, from) = (fixture("models/tiny-bert"), fixture("models/adapters/tiny-bert"));
    // The adapter as trained on a model with a task head: every name has the prefix `bert.`.
    let query = "bert.encoder.layer.1.attention.self.query";
    let prefixed = adapter(&folder, "alpha_pattern", serde_json::json!({query: 3}));
    let file = prefixed.join("adapter_model.safetensors");
    let mut factors = load(&file, &Device::Cpu).unwrap();
    rename_tensors(&mut factors, |name| name.replace("base_model.model.", "base_model.model.bert."));
    save(&factors, &file).unwrap();
    let architecture = architecture(&model);
    let merged = |folder: &Path| {
        let adapter = Adapter::read(&AdapterFiles::open(folder).unwrap(), &architecture).unwrap();
        let checkpoint = Checkpoint::open(opened(&weight_files(&model)), architecture.family).unwrap();
        let checkpoint = checkpoint.with_adapter(Some(Box::new(adapter)));
        checkpoint.tensor("encoder.layer.1.attention.self.query.weight", &[32, 32]).unwrap()
    };
    assert_eq!(merged(&prefixed), merged(&from));
}

/// The tiny model's adapter with one setting changed.
fn adapter(folder: &TempDir, key: &str, value: Value) -> PathBuf {
    let (from, to) = (fixture("models/adapters/tiny-bert"), folder.path().join("adapter"));
    fs::create_dir_all(&to).unwrap();
    fs::copy(from.join("adapter_model.safetensors"), to.join("adapter_model.safetensors")).unwrap();
    let mut settings: Value = serde_json::from_slice(&fs::read(from.join("adapter_config.json")).unwrap()).unwrap();
    settings[key] = value;
    fs::write(to.join("adapter_config.json"), settings.to_string()).unwrap();
    to
}

#[test]
fn an_adapter_in_the_model_folder_equals_a_named_one() {
    let folder = TempDir::new().unwrap();
    let model = changed_model(&folder, "tiny-bert", |_| {});
    let plain = report(&model).unwrap();
    let adapter = adapter(&folder, "r", 4.into());
    let (out, corpus) = (folder.path().join("named.json"), fixture("corpus/gold.conllu"));
    let arguments =
        ["analyze", path(&model), "-c", path(&corpus), "--limit", "20", "-q", "-o", path(&out), "--adapter"];
    run(&[&arguments[..], &[path(&adapter)]].concat()).unwrap();
    let named: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(adapter.join(file), model.join(file)).unwrap();
    }
    let beside = report(&model).unwrap();
    assert_eq!(beside["heads"], named["heads"]);
    assert_ne!(plain["heads"], named["heads"]);
    assert_eq!((&named["model"]["adapter"], &plain["model"]["adapter"]), (&"adapter".into(), &Value::Null));
    assert_ne!(plain["model"]["weights_sha256"], named["model"]["weights_sha256"]);
}

#[test]
fn adapters_that_cannot_be_merged_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let model = changed_model(&folder, "tiny-bert", |_| {});
    let mut answers = Answers::within(folder.path());
    let refusal = |adapter: &Path| run(&["analyze", path(&model), "--adapter", path(adapter)]).unwrap_err();
    for (key, value) in [
        ("peft_type", "IA3".into()),
        ("use_dora", true.into()),
        ("init_lora_weights", "pissa_niter_4".into()),
        ("target_parameters", serde_json::json!(["x"])),
        ("lora_alpha", Value::Null),
        ("alpha_pattern", serde_json::json!({"(": 1})),
    ] {
        answers.refused(key, &refusal(&adapter(&folder, key, value)));
    }
    let alone = adapter(&folder, "r", 4.into());
    answers.refused("an adapter alone", &run(&["analyze", path(&alone)]).unwrap_err());
    answers.refused("an adapter of another model", &refusal(&fixture("models/adapters/tiny-llama")));
    answers.held("checkpoints-adapters");
}

/// The tiny model's adapter with one more tensor.
fn adapter_with(folder: &TempDir, name: &str, tensor: Tensor) -> PathBuf {
    let adapter = adapter(folder, "r", 4.into());
    let file = adapter.join("adapter_model.safetensors");
    let mut tensors = load(&file, &Device::Cpu).unwrap();
    tensors.insert(format!("base_model.model.{name}"), tensor);
    save(&tensors, file).unwrap();
    adapter
}

#[test]
fn adapter_tensors_that_would_be_lost_are_refused() {
    let folder = TempDir::new().unwrap();
    let refusal = |model: &Path, adapter: &Path, more: &[&str]| {
        let arguments = ["analyze", path(model), "--limit", "20", "--adapter", path(adapter)];
        run(&[&arguments[..], more].concat()).unwrap_err()
    };
    let mut answers = Answers::within(folder.path());
    // A full (not low-rank) tensor for a layer that the model lacks.
    let adapter = adapter_with(&folder, "encoder.layer.9.output.dense.bias", zeros(&[32]));
    let model = changed_model(&folder, "tiny-bert", |_| {});
    answers.refused("a tensor of a layer that is not there", &refusal(&model, &adapter, &[]));
    // An update of output embeddings that are tied to the input embeddings would change the loss.
    let factor = |part: &str| format!("cls.predictions.decoder.lora_{part}.weight");
    let adapter = adapter_with(&folder, &factor("A"), zeros(&[4, 32]));
    let file = adapter.join("adapter_model.safetensors");
    let mut tensors = load(&file, &Device::Cpu).unwrap();
    tensors.insert(format!("base_model.model.{}", factor("B")), zeros(&[196, 4]));
    save(&tensors, file).unwrap();
    let with_head = changed_model(&folder, "tiny-bert", |tensors| {
        for (name, shape) in [
            ("transform.dense.weight", &[32, 32][..]),
            ("transform.dense.bias", &[32]),
            ("transform.LayerNorm.weight", &[32]),
            ("transform.LayerNorm.bias", &[32]),
            ("bias", &[196]),
        ] {
            tensors.insert(format!("cls.predictions.{name}"), zeros(shape));
        }
    });
    answers.refused("an update of shared embeddings", &refusal(&with_head, &adapter, &["--with", "effect"]));
    answers.held("checkpoints-lost-tensors");
}
