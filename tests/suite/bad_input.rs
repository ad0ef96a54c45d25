//! Error messages for bad input.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{analyze, fixture, outcome, path, run, tiny_bert};
use headscope::model::families::table::FAMILIES;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use tempfile::TempDir;

/// A temporary folder for damaged copies.
struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A copy of the tiny model, to be damaged.
    fn model(&self) -> PathBuf {
        let copy = self.path("model");
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(tiny_bert()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        copy
    }

    fn answers(&self) -> Answers {
        Answers::within(self.0.path())
    }
}

/// The exit status and the error of a command that fails.
fn error(arguments: &[&str]) -> (i32, String) {
    run(arguments).expect_err("an error")
}

/// The exit status and the error of an analysis that fails.
fn analyze_error(model: &Path, corpus: &Path) -> (i32, String) {
    error(&["analyze", path(model), "--corpus", path(corpus), "-o", "-"])
}

/// Shape and bytes by tensor name.
type Tensors = HashMap<String, (Vec<usize>, Vec<u8>)>;

/// Rewrites the weights in a model folder.
fn change_weights(model: &Path, change: impl Fn(&mut Tensors)) {
    let file = model.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: HashMap<_, _> =
        tensors.iter().map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), view.data().to_vec()))).collect();
    change(&mut tensors);
    let views =
        tensors.iter().map(|(name, (shape, data))| (name, TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
    serialize_to_file(views, None, &file).unwrap();
}

fn gold() -> PathBuf {
    fixture("corpus/gold.conllu")
}

#[test]
fn incomplete_model_folders_are_refused() {
    let context = TestFolder::new();
    let mut answers = context.answers();
    answers.refused("no folder", &analyze_error(&context.path("absent"), &gold()));
    let model = context.model();
    for name in ["model.safetensors", "tokenizer.json"] {
        fs::remove_file(model.join(name)).unwrap();
        answers.refused(&format!("no {name}"), &analyze_error(&model, &gold()));
        fs::copy(tiny_bert().join(name), model.join(name)).unwrap();
    }
    answers.held("bad-input-model-folders");
}

#[test]
fn damaged_weights_are_refused() {
    let context = TestFolder::new();
    let (model, corpus) = (context.model(), context.file("one.txt", "the dog\n"));
    let whole = fs::read(model.join("model.safetensors")).unwrap();
    // Snapshots replace text that looks like an interval, so shapes are written differently.
    let mut answers = context.answers().hiding("[32, 64]", "32 x 64").hiding("[64, 32]", "64 x 32");
    let mut refused = |title: &str, change: &dyn Fn(&mut Tensors)| {
        fs::write(model.join("model.safetensors"), &whole).unwrap();
        change_weights(&model, change);
        answers.refused(title, &analyze_error(&model, &corpus));
    };
    refused("a missing tensor", &|tensors| {
        tensors.remove("encoder.layer.1.attention.output.LayerNorm.bias");
    });
    refused("a wrong shape", &|tensors| {
        tensors.get_mut("encoder.layer.0.intermediate.dense.weight").unwrap().0 = vec![32, 64];
    });
    refused("a value that is no number", &|tensors| {
        tensors.get_mut("encoder.layer.2.output.dense.bias").unwrap().1[12..16]
            .copy_from_slice(&f32::NAN.to_le_bytes());
    });
    refused("values that overflow on the way", &|tensors| {
        for bytes in tensors.get_mut("encoder.layer.1.output.dense.weight").unwrap().1.chunks_exact_mut(4) {
            bytes.copy_from_slice(&f32::MAX.to_le_bytes());
        }
    });
    fs::write(model.join("model.safetensors"), &whole[..whole.len() / 2]).unwrap();
    answers.refused("half of the file", &analyze_error(&model, &corpus));
    answers.held("bad-input-weights");
}

/// A model of `fixtures/models` with a tokenizer that fits.
fn with_tokenizer(context: &TestFolder, name: &str) -> PathBuf {
    let copy = context.path("model");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(fixture("models").join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    fs::copy(tiny_bert().join("tokenizer.json"), copy.join("tokenizer.json")).unwrap();
    copy
}

#[test]
fn damaged_and_hostile_pickles_are_refused() {
    let context = TestFolder::new();
    let model = with_tokenizer(&context, "tiny-albert");
    let file = model.join("pytorch_model.bin");
    let mut answers = context.answers();
    let mut refused = |title: &str, bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        answers.refused(title, &analyze_error(&model, &gold()));
    };
    let whole = fs::read(&file).unwrap();
    // Files of PyTorch before 1.6 begin with the pickle of a number.
    refused("no zip archive", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.");
    refused("no byte", b"");
    refused("half of the file", &whole[..whole.len() / 2]);
    let name = b"torch._utils\n_rebuild_tensor_v2";
    let place = whole.windows(name.len()).position(|window| window == name).unwrap();
    let mut hostile = whole.clone();
    hostile[place..][..name.len()].copy_from_slice(b"os\nsystem\n.....................");
    refused("another function", &hostile);
    answers.held("bad-input-pickles");
}

#[test]
fn inconsistent_shards_are_refused() {
    let context = TestFolder::new();
    let model = with_tokenizer(&context, "tiny-electra");
    let index = model.join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("model-00002-of-00002", "/etc/model")).unwrap();
    let mut answers = context.answers();
    answers.refused("a file that does not lie beside it", &analyze_error(&model, &gold()));
    fs::write(&index, &text).unwrap();
    let shard = model.join("model-00002-of-00002.safetensors");
    fs::copy(model.join("model-00001-of-00002.safetensors"), &shard).unwrap();
    let twice = analyze_error(&model, &gold());
    // The first duplicate tensor differs between runs.
    let (_, tensor) = twice.1.split_once("a tensor `").unwrap();
    answers = answers.hiding(tensor.split('`').next().unwrap(), "TENSOR");
    answers.refused("a tensor in two files", &twice);
    fs::remove_file(&shard).unwrap();
    answers.refused("a missing file", &analyze_error(&model, &gold()));
    answers.held("bad-input-shards");
}

#[test]
fn sizes_that_contradict_the_weights_are_refused() {
    let context = TestFolder::new();
    let model = with_tokenizer(&context, "tiny-mpnet");
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    // Snapshots replace text that looks like an interval, so shapes are written differently.
    let mut answers = context.answers().hiding(", ", " x ");
    for (field, old, new) in [
        ("vocab_size", "196", "16777216"),
        ("max_position_embeddings", "40", "41"),
        ("hidden_size", "24", "12"),
        // Another number of heads changes only one tensor shape.
        ("num_attention_heads", "3", "4"),
    ] {
        let (old, new) = (format!("\"{field}\": {old}"), format!("\"{field}\": {new}"));
        assert!(config.contains(&old));
        fs::write(model.join("config.json"), config.replace(&old, &new)).unwrap();
        answers.refused(&format!("{old} -> {new}"), &analyze_error(&model, &gold()));
    }
    answers.held("bad-input-sizes");
}

#[test]
fn unused_distance_buckets_change_nothing_and_missing_ones_are_refused() {
    let context = TestFolder::new();
    let model = with_tokenizer(&context, "tiny-mpnet");
    let corpus = context.file("c.txt", "the dog\n");
    let output = context.path("maps.safetensors");
    let maps = || {
        run(&["maps", path(&model), "-c", path(&corpus), "-o", path(&output)]).unwrap();
        let bytes = fs::read(&output).unwrap();
        SafeTensors::deserialize(&bytes).unwrap().tensor("attentions.0").unwrap().data().to_vec()
    };
    let plain = maps();
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let key = "\"relative_attention_num_buckets\": 32";
    assert!(config.contains(key));
    let with = |buckets: usize| {
        let text = config.replace(key, &format!("\"relative_attention_num_buckets\": {buckets}"));
        fs::write(model.join("config.json"), text).unwrap();
    };
    with(40);
    change_weights(&model, |tensors| {
        let (shape, bytes) = tensors.get_mut("encoder.relative_attention_bias.weight").unwrap();
        assert_eq!(*shape, [32, 3]);
        shape[0] = 40;
        bytes.extend([0x3f; 8 * 3 * 4]);
    });
    assert!(maps() == plain);
    with(31);
    let mut answers = context.answers();
    answers.refused("fewer than are used", &analyze_error(&model, &gold()));
    answers.held("bad-input-buckets");
}

#[test]
fn errors_truncate_long_values() {
    let context = TestFolder::new();
    let model = context.model();
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let long = "x".repeat(1 << 19);
    let policy = context.file("policy.toml", format!("{long} = 1\n"));
    let quoted = context.file("quoted.toml", format!("entropy_ratio = \"{long}\"\n"));
    let string_errors = [("model_type", "bert"), ("hidden_act", "gelu")].map(|(key, value)| {
        fs::write(
            model.join("config.json"),
            config.replace(&format!("\"{key}\": \"{value}\""), &format!("\"{key}\": \"{long}\"")),
        )
        .unwrap();
        analyze_error(&model, &gold())
    });
    fs::write(
        model.join("config.json"),
        config.replace("\"hidden_size\": 32", &format!("\"hidden_size\": \"{long}\"")),
    )
    .unwrap();
    let type_error = analyze_error(&model, &gold());
    let policy_errors = [&policy, &quoted].map(|file| error(&["analyze", "--policy", path(file)]));
    for (_, message) in string_errors.iter().chain(&policy_errors).chain([&type_error]) {
        assert!(message.len() < 7000 && message.contains("xxx..."), "{} bytes: {message:.200}", message.len());
    }
    let mut answers = context.answers().hiding(&"x".repeat(10), "x");
    answers.refused("a text for a number", &type_error);
    answers.held("bad-input-long-value");
}

#[test]
fn git_lfs_pointers_are_refused() {
    let context = TestFolder::new();
    let model = context.model();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 90000\n";
    let mut answers = context.answers();
    for name in ["model.safetensors", "tokenizer.json", "config.json"] {
        fs::write(model.join(name), pointer).unwrap();
        answers.refused(name, &analyze_error(&model, &gold()));
    }
    let corpus = context.file("corpus.conllu", pointer);
    answers.refused("a corpus", &analyze_error(&tiny_bert(), &corpus));
    let report = context.file("report.json", pointer);
    answers.refused("a report", &error(&["relabel", path(&report), "--preset", "voita2019"]));
    answers.held("bad-input-pointers");
}

#[test]
fn a_large_sparse_weights_file_is_refused() {
    let context = TestFolder::new();
    let model = context.model();
    // A sparse file: it occupies no blocks on the disk.
    fs::File::create(model.join("model.safetensors")).unwrap().set_len(64 << 30).unwrap();
    let mut answers = context.answers();
    answers.refused("64 GiB", &analyze_error(&model, &gold()));
    answers.held("bad-input-large-weights");
}

#[test]
fn the_module_prefix_of_data_parallel_models_changes_nothing() {
    let context = TestFolder::new();
    let (model, corpus) = (context.model(), context.file("c.txt", "the dog\n"));
    let report = |model: &Path| {
        run(&["maps", path(model), "-c", path(&corpus), "-o", path(&context.path("maps.safetensors"))]).unwrap();
        let bytes = fs::read(context.path("maps.safetensors")).unwrap();
        SafeTensors::deserialize(&bytes).unwrap().tensor("attentions.0").unwrap().data().to_vec()
    };
    let plain = report(&model);
    change_weights(&model, |tensors| {
        *tensors = tensors.drain().map(|(name, tensor)| (format!("module.{name}"), tensor)).collect();
    });
    assert!(report(&model) == plain);
}

#[test]
#[cfg(target_os = "linux")]
fn endless_files_are_refused() {
    let cases: [&[&str]; 5] = [
        &["relabel", "/dev/zero", "--preset", "voita2019", "-o", "-"],
        &["compare", "--numbers", "/dev/zero", "/dev/zero"],
        &["compare", "/dev/zero", "/dev/zero"],
        &["analyze", "--policy", "/dev/zero", "-o", "-"],
        &["merge", "/dev/zero", "-o", "-"],
    ];
    let mut answers = Answers::new();
    for arguments in cases {
        answers.refused(&arguments.join(" "), &error(arguments));
    }
    answers.held("bad-input-files-without-an-end");
}

#[test]
fn unsupported_and_inconsistent_configs_are_refused() {
    let context = TestFolder::new();
    let model = context.model();
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let families: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
    let mut answers = context.answers().hiding(&families.join(", "), "FAMILIES");
    let bert = "\"model_type\": \"bert\"";
    let cases: [&[(&str, &str)]; 20] = [
        &[(bert, "\"model_type\": \"strange\"")],
        &[(bert, "\"model_type\": \"gptj\"")],
        &[(bert, "\"model_type\": \"fnet\"")],
        &[(bert, "\"model_type\": \"bert\", \"quantization_config\": {}")],
        &[("\"model_type\": \"bert\",", ""), ("BertModel", "GPTJModel")],
        &[("\"num_attention_heads\": 4", "\"num_attention_heads\": 5")],
        &[("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 0")],
        &[("\"hidden_size\": 32,", "")],
        &[("\"use_cache\": true", "\"position_embedding_type\": \"spiral\"")],
        &[
            ("\"bert\"", "\"albert\""),
            ("\"use_cache\": true", "\"embedding_size\": 8, \"position_embedding_type\": \"relative_key\""),
        ],
        &[("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"mish\"")],
        &[("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 9223372036854775808")],
        &[("\"vocab_size\": 196", "\"vocab_size\": 99999999999")],
        &[("\"hidden_size\": 32", "\"hidden_size\": -32")],
        &[("\"bert\"", "\"roberta\""), ("\"pad_token_id\": 0", "\"pad_token_id\": 95")],
        &[("\"bert\"", "\"roberta\""), ("\"pad_token_id\": 0", "\"pad_token_id\": null")],
        &[("\"is_decoder\": false", "\"is_decoder\": true")],
        &[("\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": 1e300")],
        &[(bert, "\"model_type\": \"\\u001b[31m\"")],
        &[(config.as_str(), "{")],
    ];
    for changes in cases {
        let text = changes.iter().fold(config.clone(), |text, (old, new)| text.replace(old, new));
        fs::write(model.join("config.json"), text).unwrap();
        let shown = changes.iter().map(|(old, new)| format!("{} -> {new}", old.replace(&config, "all")));
        answers.refused(&shown.collect::<Vec<_>>().join(", "), &analyze_error(&model, &gold()));
    }
    answers.held("bad-input-configs");
}

#[test]
fn a_token_without_an_embedding_is_refused() {
    let context = TestFolder::new();
    let model = context.model();
    let tokenizer = fs::read_to_string(model.join("tokenizer.json")).unwrap();
    fs::write(model.join("tokenizer.json"), tokenizer.replace("\"letter\": 195", "\"letter\": 900")).unwrap();
    let mut answers = context.answers();
    answers.refused("a token beyond the embedding", &analyze_error(&model, &gold()));
    answers.held("bad-input-tokenizer");
}

#[test]
fn unreadable_corpora_are_refused() {
    let context = TestFolder::new();
    let mut answers = context.answers();
    answers.refused("no file", &analyze_error(&tiny_bert(), &context.path("absent.conllu")));
    for (name, content) in [
        ("empty.conllu", b"\n\n".as_slice()),
        ("comment.conllu", b"# newdoc\n\n"),
        ("columns.conllu", b"# ok\n1\tGo\t_\n"),
        ("latin1.txt", b"one\ncaf\xe9 noir\n"),
    ] {
        answers.refused(name, &analyze_error(&tiny_bert(), &context.file(name, content)));
    }
    answers.held("bad-input-corpora");
}

#[test]
fn long_sentences_are_skipped_or_truncated_and_counted() {
    let context = TestFolder::new();
    let long = "the dog ".repeat(60);
    let corpus = context.file("long.txt", format!("the cat\n{long}\n\nthe \u{200b}\n"));
    let report = analyze(&corpus, &[]);
    assert_eq!(report["corpus"]["skipped"]["too_many_tokens"], 1);
    assert_eq!(report["corpus"]["sentences"], 2);
    let report = analyze(&corpus, &["--truncate"]);
    assert_eq!(report["corpus"]["skipped"]["too_many_tokens"], 0);
    assert_eq!(report["corpus"]["truncated"], 1);
    // Tokens: `[CLS] the cat [SEP]`, 96 positions, `[CLS] the [SEP]`.
    assert_eq!(report["corpus"]["tokens"], 4 + 96 + 3);
    let report = analyze(&corpus, &["--max-tokens", "4"]);
    assert_eq!(report["corpus"]["skipped"]["too_many_tokens"], 1);

    let model = tiny_bert();
    let mut answers = context.answers();
    answers.refused("--max-tokens 97", &error(&["analyze", path(&model), "-c", path(&corpus), "--max-tokens", "97"]));
    answers.held("bad-input-long-sentences");
}

#[test]
fn a_word_without_tokens_is_left_out() {
    let context = TestFolder::new();
    let line = |id: u32, form: &str, head: u32| format!("{id}\t{form}\t_\t_\t_\t_\t{head}\tdep\t_\t_\n");
    let text = [line(1, "the", 2), line(2, "\u{200b}", 0), "\n".into(), line(1, "the", 2), line(2, "dog", 0)].concat();
    let file = context.file("zero.conllu", text);
    let corpus = |more: &[&str]| analyze(&file, more)["corpus"].clone();
    let report = corpus(&[]);
    assert_eq!((&report["sentences"], &report["words"], &report["heads_left_out"]), (&2.into(), &3.into(), &1.into()));
    assert_eq!(report["words_left_out"]["no_tokens"], 1);
    // Tokenized word by word, a word without tokens excludes its sentence.
    let report = corpus(&["--words", "spaced"]);
    assert_eq!((&report["sentences"], &report["words"]), (&1.into(), &2.into()));
    assert_eq!(report["skipped"]["word_without_tokens"], 1);
}

#[test]
fn unwritable_outputs_are_refused_before_the_analysis() {
    let context = TestFolder::new();
    let (model, corpus) = (tiny_bert(), gold());
    let output = context.path("absent/report.json");
    let mut answers = context.answers();
    let mut refused = |title: &str, model: &Path, output: &Path| {
        answers.refused(title, &error(&["analyze", path(model), "-c", path(&corpus), "-o", path(output)]));
    };
    refused("no folder", &model, &output);
    refused("nor the model: the output is the first to be looked at", &context.path("absent-model"), &output);
    let folder = context.path("folder.json");
    fs::create_dir(&folder).unwrap();
    refused("a folder", &model, &folder);
    answers.held("bad-input-outputs");
}

#[test]
fn a_failed_run_keeps_the_old_report_and_leaves_no_other_file() {
    let context = TestFolder::new();
    let report = context.file("report.json", "old");
    let corpus = context.file("bad.conllu", "1\tGo\t_\n");
    let model = tiny_bert();
    error(&["analyze", path(&model), "-c", path(&corpus), "-o", path(&report)]);
    assert_eq!(fs::read_to_string(&report).unwrap(), "old");
    let mut files: Vec<_> = fs::read_dir(context.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["bad.conllu", "report.json"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported() {
    let context = TestFolder::new();
    let (model, corpus) = (tiny_bert(), gold());
    let full = context.path("full.json");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let arguments = ["analyze", path(&model), "-c", path(&corpus), "--limit", "3", "-o"];
    let mut answers = context.answers();
    answers.refused("a file", &error(&[arguments.as_slice(), &[path(&full)]].concat()));
    let stdout = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_headscope"))
        .args(arguments)
        .arg("-")
        .stdout(stdout)
        .output()
        .unwrap();
    answers.refused("standard output", &outcome(&output).unwrap_err());
    answers.held("bad-input-full-disk");
}

#[test]
fn wrong_usage_ends_with_status_two() {
    let (model, corpus) = (tiny_bert(), gold());
    let (model, corpus) = (path(&model), path(&corpus));
    let cases: &[&[&str]] = &[
        &["analyze", "--format", "conllu"],
        &["analyze", model, "-c", "box:gold", "--format", "text"],
        &["analyze", "-c", "box:bronze"],
        &["analyze", model, "-c", "Cargo.toml"],
        &["analyze", model, "-c", "-"],
        &["analyze", model, "-c", corpus, "-o", "report.xml"],
        &["analyze", model, "-c", corpus, "-o", "a.json", "-o", "a.json"],
        &["analyze", model, "-c", corpus, "--truncate"],
        &["maps", model, "--text", "a", "-o", "maps.npz"],
        &["explain", "seperator"],
        &["explain", "xyzzy"],
        &["analyze", "--limit", "0"],
    ];
    let mut answers = Answers::new();
    for arguments in cases {
        answers.refused(&arguments.join(" "), &error(arguments));
    }
    answers.held("bad-input-wrong-usage");
}

#[test]
fn maps_of_missing_or_skipped_sentences_are_refused() {
    let context = TestFolder::new();
    let model = tiny_bert();
    let corpus = context.file("two.txt", format!("one\n{}\n", "the ".repeat(100)));
    let output = context.path("maps.safetensors");
    let mut answers = context.answers();
    for sentence in ["2", "1"] {
        let arguments = ["maps", path(&model), "-c", path(&corpus), "--sentence", sentence, "-o", path(&output)];
        answers.refused(sentence, &error(&arguments));
    }
    answers.held("bad-input-sentences");
    assert!(!output.exists());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_headscope")).arg("schema").stdout(writer).output();
    assert_eq!(outcome(&output.unwrap()), Ok(String::new()));
}
