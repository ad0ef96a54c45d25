//! Bad input, and the message that each gets.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{analyze, fixture, outcome, path, run, tiny_bert};
use headscope::model::families::FAMILIES;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use tempfile::TempDir;

/// A folder to spoil things in.
struct EstimationContext(TempDir);

impl EstimationContext {
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

    /// A copy of the tiny model, to be spoilt.
    fn model(&self) -> PathBuf {
        let copy = self.path("model");
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(tiny_bert()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        copy
    }

    /// The message for an analysis that fails, with the folder's path replaced by `DIR`.
    fn error(&self, arguments: &[&str]) -> (i32, String) {
        let (status, message) = run(arguments).expect_err("an error");
        (status, message.replace(path(self.0.path()), "DIR"))
    }

    fn analyze_error(&self, model: &Path, corpus: &Path) -> String {
        let (status, message) = self.error(&["analyze", path(model), "--corpus", path(corpus), "-o", "-"]);
        assert!([3, 4].contains(&status), "{status} {message}");
        message
    }
}

/// Rewrites the weights of a model folder.
fn change_weights(model: &Path, change: impl Fn(&mut HashMap<String, (Vec<usize>, Vec<u8>)>)) {
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
fn model_folders() {
    let context = EstimationContext::new();
    let missing = context.analyze_error(&context.path("absent"), &gold());
    assert!(missing.starts_with("error: no such model folder: `DIR/absent`"), "{missing}");

    let model = context.model();
    fs::remove_file(model.join("model.safetensors")).unwrap();
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: `DIR/model/model.safetensors` is missing: a model has the files config.json, tokenizer.json and \
         model.safetensors\n"
    );
    fs::copy(tiny_bert().join("model.safetensors"), model.join("model.safetensors")).unwrap();
    fs::remove_file(model.join("tokenizer.json")).unwrap();
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: `DIR/model/tokenizer.json` is missing: a tokenizer is tokenizer.json, vocab.txt with bpe.codes, vocab.txt, \
         vocab.json with merges.txt, sentencepiece.bpe.model, spiece.model, spm.model, sentencepiece.model or tokenizer.model; \
         there is config.json, model.safetensors, tokenizer_config.json\n"
    );
}

#[test]
fn a_missing_tensor_is_named_with_the_closest_that_there_are() {
    let context = EstimationContext::new();
    let model = context.model();
    change_weights(&model, |tensors| {
        tensors.remove("encoder.layer.1.attention.output.LayerNorm.bias");
    });
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: `DIR/model/model.safetensors` has no tensor for encoder.layer.1.attention.output.LayerNorm.bias: of the \
         52 tensors that there are, the closest by name are `encoder.layer.0.attention.output.LayerNorm.bias`, \
         `encoder.layer.2.attention.output.LayerNorm.bias`, `encoder.layer.1.attention.output.LayerNorm.weight`\n"
    );
}

#[test]
fn a_tensor_of_the_wrong_shape() {
    let context = EstimationContext::new();
    let model = context.model();
    change_weights(&model, |tensors| {
        tensors.get_mut("encoder.layer.0.intermediate.dense.weight").unwrap().0 = vec![32, 64];
    });
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: tensor encoder.layer.0.intermediate.dense.weight of `DIR/model/model.safetensors` has shape [32, 64]: \
         config.json implies [64, 32]\n"
    );
}

#[test]
fn weights_that_are_no_numbers() {
    let context = EstimationContext::new();
    let model = context.model();
    change_weights(&model, |tensors| {
        tensors.get_mut("encoder.layer.2.output.dense.bias").unwrap().1[12..16]
            .copy_from_slice(&f32::NAN.to_le_bytes());
    });
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: tensor encoder.layer.2.output.dense.bias of `DIR/model/model.safetensors` holds NaN at element 3: the \
         weights are damaged\n"
    );
}

#[test]
fn weights_that_overflow_on_the_way() {
    let context = EstimationContext::new();
    let model = context.model();
    change_weights(&model, |tensors| {
        for bytes in tensors.get_mut("encoder.layer.1.output.dense.weight").unwrap().1.chunks_exact_mut(4) {
            bytes.copy_from_slice(&f32::MAX.to_le_bytes());
        }
    });
    let message = context.analyze_error(&model, &gold());
    // Which sentence is the first to fail depends on the threads.
    assert!(
        message.starts_with("error: cannot run `model` over the corpus, sentences counted from 0: sentence "),
        "{message}"
    );
    let rest = ": layer 2 computes values that are not finite: the weights are damaged or overflow in float32\n";
    assert!(message.ends_with(rest), "{message}");
}

/// A model of `fixtures/models` with a tokenizer that fits it.
fn with_tokenizer(context: &EstimationContext, name: &str) -> PathBuf {
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
fn pickles() {
    let context = EstimationContext::new();
    let model = with_tokenizer(&context, "tiny-albert");
    let file = model.join("pytorch_model.bin");
    let way_out = "If the file is whole and you trust it, make one of it that can be read, in Python:\n  \
                   import torch\n  \
                   torch.save(torch.load(\"DIR/model/pytorch_model.bin\", map_location=\"cpu\", weights_only=True), \
                   \"DIR/model/pytorch_model.bin\")\n";
    let expect = |bytes: &[u8], problem: &str| {
        fs::write(&file, bytes).unwrap();
        let expected = format!("error: cannot read weights from `DIR/model/pytorch_model.bin`: {problem}. {way_out}");
        assert_eq!(context.analyze_error(&model, &gold()), expected);
    };
    let whole = fs::read(&file).unwrap();
    // What PyTorch wrote before version 1.6 begins with the pickle of a number.
    let old = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";
    expect(old, "it is neither a zip archive, as PyTorch has written since version 1.6, nor what it wrote before");
    expect(b"", "it is neither a zip archive, as PyTorch has written since version 1.6, nor what it wrote before");
    expect(&whole[..whole.len() / 2], "its end is missing: download it again");
    let place = |text: &[u8]| whole.windows(text.len()).position(|window| window == text).unwrap();
    let mut hostile = whole.clone();
    let name = b"torch._utils\n_rebuild_tensor_v2";
    hostile[place(name)..][..name.len()].copy_from_slice(b"os\nsystem\n.....................");
    let at = place(name) - 1 - place(b"\x80\x02ccollections");
    let refers = "it refers to `os.system`, which has no place in a state dict: nothing of it was executed";
    expect(&hostile, &format!("the pickle, at byte {at}: {refers}"));
}

#[test]
fn shards() {
    let context = EstimationContext::new();
    let model = with_tokenizer(&context, "tiny-electra");
    let index = model.join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("model-00002-of-00002", "/etc/model")).unwrap();
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: cannot use `DIR/model/model.safetensors.index.json`: it lists the file \"/etc/model.safetensors\", which \
         does not lie beside it\n"
    );
    fs::write(&index, &text).unwrap();
    let shard = model.join("model-00002-of-00002.safetensors");
    fs::copy(model.join("model-00001-of-00002.safetensors"), &shard).unwrap();
    let message = context.analyze_error(&model, &gold());
    assert!(
        message.starts_with(
            "error: cannot read weights from `DIR/model/model-00002-of-00002.safetensors`: it has a tensor `"
        ),
        "{message}"
    );
    assert!(message.ends_with("` that `DIR/model/model-00001-of-00002.safetensors` has too\n"), "{message}");
    fs::remove_file(&shard).unwrap();
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: `DIR/model/model-00002-of-00002.safetensors` is missing, but model.safetensors.index.json lists it: the \
         model is not whole\n"
    );
}

#[test]
fn sizes_that_the_weights_do_not_have() {
    let context = EstimationContext::new();
    let model = with_tokenizer(&context, "tiny-mpnet");
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let cases = [
        ("vocab_size", "196", "16777216", "word_embeddings.weight", "[196, 24]", "[16777216, 24]"),
        ("max_position_embeddings", "40", "41", "position_embeddings.weight", "[40, 24]", "[41, 24]"),
        ("hidden_size", "24", "12", "word_embeddings.weight", "[196, 24]", "[196, 12]"),
    ];
    for (field, old, new, tensor, found, implied) in cases {
        let (old, new) = (format!("\"{field}\": {old}"), format!("\"{field}\": {new}"));
        assert!(config.contains(&old));
        fs::write(model.join("config.json"), config.replace(&old, &new)).unwrap();
        let expected = format!(
            "error: tensor embeddings.{tensor} of `DIR/model/model.safetensors` has shape {found}: config.json implies \
             {implied}\n"
        );
        assert_eq!(context.analyze_error(&model, &gold()), expected);
    }
    // Heads of another width: all other shapes are the same.
    fs::write(model.join("config.json"), config.replace("\"num_attention_heads\": 3", "\"num_attention_heads\": 4"))
        .unwrap();
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: tensor encoder.relative_attention_bias.weight of `DIR/model/model.safetensors` has shape [32, 3]: \
         config.json implies [32, 4]\n"
    );
}

#[test]
fn more_buckets_of_distances_than_are_used() {
    let context = EstimationContext::new();
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
    let message = context.analyze_error(&model, &gold());
    assert!(message.contains("relative_attention_num_buckets is 31: distances are sorted into 32"), "{message}");
}

#[test]
fn a_value_as_long_as_a_file_is_cut() {
    let context = EstimationContext::new();
    let model = context.model();
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let long = "x".repeat(1 << 19);
    let policy = context.file("policy.toml", format!("{long} = 1\n"));
    let quoted = context.file("quoted.toml", format!("entropy_ratio = \"{long}\"\n"));
    let named = [("model_type", "bert"), ("hidden_act", "gelu")].map(|(key, value)| {
        fs::write(
            model.join("config.json"),
            config.replace(&format!("\"{key}\": \"{value}\""), &format!("\"{key}\": \"{long}\"")),
        )
        .unwrap();
        context.analyze_error(&model, &gold())
    });
    fs::write(
        model.join("config.json"),
        config.replace("\"hidden_size\": 32", &format!("\"hidden_size\": \"{long}\"")),
    )
    .unwrap();
    let typed = context.analyze_error(&model, &gold());
    let of_policy = [&policy, &quoted].map(|file| context.error(&["analyze", "--policy", path(file)]).1);
    for message in named.iter().chain(&of_policy).chain([&typed]) {
        assert!(message.len() < 7000 && message.contains("xxx..."), "{} bytes: {message:.200}", message.len());
    }
    assert!(
        typed.contains("hidden_size: invalid type: string \"xxx") && typed.contains(" at line 13 column "),
        "{typed}"
    );
}

#[test]
fn weights_that_git_has_not_fetched() {
    let context = EstimationContext::new();
    let model = context.model();
    for name in ["model.safetensors", "tokenizer.json", "config.json"] {
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 90000\n";
        fs::write(model.join(name), pointer).unwrap();
        let expected = format!(
            "error: cannot read `DIR/model/{name}`: it is a pointer of git LFS and not the file itself: run `git lfs pull` \
             in its folder\n"
        );
        assert_eq!(context.analyze_error(&model, &gold()), expected);
    }
    // A corpus and a report, as well.
    let pointer = fs::read_to_string(model.join("config.json")).unwrap();
    let pulled = "it is a pointer of git LFS and not the file itself: run `git lfs pull` in its folder\n";
    let corpus = context.analyze_error(&tiny_bert(), &context.file("corpus.conllu", &pointer));
    assert_eq!(corpus, format!("error: DIR/corpus.conllu:1: {pulled}"));
    let (_, report) =
        context.error(&["relabel", path(&context.file("report.json", &pointer)), "--preset", "voita2019"]);
    assert_eq!(report, format!("error: cannot read the report `DIR/report.json`: {pulled}"));
}

#[test]
fn weights_that_only_say_that_they_are_large() {
    let context = EstimationContext::new();
    let model = context.model();
    // It has no blocks on the disk.
    fs::File::create(model.join("model.safetensors")).unwrap().set_len(64 << 30).unwrap();
    let message = context.analyze_error(&model, &gold());
    assert!(message.contains("have 68719476736 bytes, and config.json describes an encoder of "), "{message}");
    assert!(message.ends_with(": more than 1073741824 are not read\n"), "{message}");
}

#[test]
fn a_model_that_was_wrapped_to_run_on_several_devices() {
    let context = EstimationContext::new();
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
fn files_without_an_end() {
    let context = EstimationContext::new();
    let cases: [&[&str]; 5] = [
        &["relabel", "/dev/zero", "--preset", "voita2019", "-o", "-"],
        &["compare", "--numbers", "/dev/zero", "/dev/zero"],
        &["compare", "/dev/zero", "/dev/zero"],
        &["analyze", "--policy", "/dev/zero", "-o", "-"],
        &["merge", "/dev/zero", "-o", "-"],
    ];
    for arguments in cases {
        let (status, message) = context.error(arguments);
        assert_eq!(status, 3, "{message}");
        let expected =
            if arguments[0] == "merge" { "it is damaged or cut short" } else { "the most that is read of it" };
        assert!(message.contains("/dev/zero") && message.contains(expected), "{message}");
    }
}

#[test]
fn truncated_weights() {
    let context = EstimationContext::new();
    let model = context.model();
    let weights = fs::read(model.join("model.safetensors")).unwrap();
    fs::write(model.join("model.safetensors"), &weights[..weights.len() / 2]).unwrap();
    let message = context.analyze_error(&model, &gold());
    assert!(message.starts_with("error: cannot read weights from `DIR/model/model.safetensors`: "), "{message}");
}

#[test]
fn configs() {
    let context = EstimationContext::new();
    let model = context.model();
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let families: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
    let supported = format!("(supported: {})", families.join(", "));
    let unsupported = format!("model_type \"strange\" is not supported {supported}");
    let hostile = format!("model_type \"\\u{{1b}}[31m\" is not supported {supported}");
    let untold = format!(
        "there is no model_type, and architectures names no class of a supported one: add the model's own, as in `\"model_type\": \"bert\"` {supported}"
    );
    let cases = [
        (config.replace("\"model_type\": \"bert\"", "\"model_type\": \"strange\""), unsupported.as_str()),
        (
            config.replace("\"model_type\": \"bert\"", "\"model_type\": \"gptj\""),
            "model_type is gptj: of decoders those of Gemma 2 and 3, GPT-2, GPT-Neo, GPT-NeoX, Llama, Mistral, ModernBERT, OPT, \
             Qwen2, Qwen3 and SmolLM3 are supported",
        ),
        (
            config.replace("\"model_type\": \"bert\"", "\"model_type\": \"fnet\""),
            "model_type is fnet: it mixes tokens by a Fourier transform and has no attention heads",
        ),
        (
            config.replacen('{', "{\"quantization_config\": {}, ", 1),
            "quantization_config is there: only unquantised weights are read",
        ),
        (config.replace("\"model_type\": \"bert\",", "").replace("BertModel", "GPTJModel"), untold.as_str()),
        (
            config.replace("\"num_attention_heads\": 4", "\"num_attention_heads\": 5"),
            "hidden_size 32 is not a multiple of num_attention_heads 5",
        ),
        (config.replace("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 0"), "num_hidden_layers is 0"),
        (config.replace("\"hidden_size\": 32,", ""), "missing field `hidden_size` at line 28 column 1"),
        (
            config.replace("\"use_cache\": true", "\"position_embedding_type\": \"spiral\""),
            "position_embedding_type \"spiral\" is not supported (supported: absolute, relative_key, \
             relative_key_query) at line 26 column 37",
        ),
        (
            config
                .replace("\"bert\"", "\"albert\"")
                .replace("\"use_cache\": true", "\"embedding_size\": 8, \"position_embedding_type\": \"relative_key\""),
            "position_embedding_type is relative, which is not supported of albert (supported: absolute)",
        ),
        (
            config.replace("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"mish\""),
            "hidden_act: activation \"mish\" is not supported (supported: gelu, gelu_python, gelu_new, gelu_pytorch_tanh, \
             gelu_fast, gelu_accurate, relu, silu, swish, quick_gelu, tanh) at line 11 column 22",
        ),
        (
            config.replace("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 9223372036854775808"),
            "num_hidden_layers is 9223372036854775808: no model has more than 1024",
        ),
        (
            config.replace("\"vocab_size\": 196", "\"vocab_size\": 99999999999"),
            "vocab_size is 99999999999: no model has more than 16777216",
        ),
        (
            config.replace("\"hidden_size\": 32", "\"hidden_size\": -32"),
            "hidden_size: invalid value: integer `-32`, expected a whole number of 0 or more at line 13 column 20",
        ),
        (
            config.replace("\"bert\"", "\"roberta\"").replace("\"pad_token_id\": 0", "\"pad_token_id\": 95"),
            "max_position_embeddings 96 leaves no position after the padding index 95",
        ),
        (
            config.replace("\"bert\"", "\"roberta\"").replace("\"pad_token_id\": 0", "\"pad_token_id\": null"),
            "pad_token_id: invalid type: null, expected a whole number of 0 or more at line 22 column 22",
        ),
        (
            config.replace("\"is_decoder\": false", "\"is_decoder\": true"),
            "is_decoder is true: only encoders are supported, whose tokens attend in both directions",
        ),
        (
            config.replace("\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": 1e300"),
            "layer_norm_eps is 1e300: a small positive number is expected",
        ),
        (config.replace("\"model_type\": \"bert\"", "\"model_type\": \"\\u001b[31m\""), hostile.as_str()),
        ("{".to_owned(), "not valid JSON: EOF while parsing an object at line 1 column 1"),
    ];
    for (text, problem) in cases {
        fs::write(model.join("config.json"), text).unwrap();
        let expected = format!("error: cannot use `DIR/model/config.json`: {problem}\n");
        assert_eq!(context.analyze_error(&model, &gold()), expected);
    }
}

#[test]
fn a_tokenizer_of_another_model() {
    let context = EstimationContext::new();
    let model = context.model();
    let tokenizer = fs::read_to_string(model.join("tokenizer.json")).unwrap();
    fs::write(model.join("tokenizer.json"), tokenizer.replace("\"letter\": 195", "\"letter\": 900")).unwrap();
    assert_eq!(
        context.analyze_error(&model, &gold()),
        "error: tokenizer `DIR/model/tokenizer.json` does not fit the model: its token `letter` has id 900, \
         config.json says vocab_size 196\n"
    );
}

#[test]
fn corpora() {
    let context = EstimationContext::new();
    let model = tiny_bert();
    let absent = context.path("absent.conllu");
    assert_eq!(context.analyze_error(&model, &absent), "error: no such corpus file or folder: `DIR/absent.conllu`\n");
    let empty = context.file("empty.conllu", "\n\n");
    assert_eq!(context.analyze_error(&model, &empty), "error: corpus `empty.conllu` has no sentences\n");
    let comment = context.file("comment.conllu", "# newdoc\n\n");
    assert_eq!(
        context.analyze_error(&model, &comment),
        "error: corpus `comment.conllu` leaves nothing to analyse: every sentence was skipped (1 without any token of \
         text)\n"
    );
    let columns = context.file("columns.conllu", "# ok\n1\tGo\t_\n");
    assert_eq!(
        context.analyze_error(&model, &columns),
        "error: DIR/columns.conllu:2: a CoNLL-U line has 10 columns separated by tabs, this one has 3: `1\\tGo\\t_`\n"
    );
    let latin1 = context.file("latin1.txt", b"one\ncaf\xe9 noir\n");
    assert_eq!(
        context.analyze_error(&model, &latin1),
        "error: DIR/latin1.txt:2: not UTF-8 (byte 4 of the line is 0xe9): convert the file to UTF-8 first\n"
    );
}

#[test]
fn long_sentences_are_skipped_and_counted_or_cut() {
    let context = EstimationContext::new();
    let long = "the dog ".repeat(60);
    let corpus = context.file("long.txt", format!("the cat\n{long}\n\nthe \u{200b}\n"));
    let report = analyze(&corpus, &[]);
    assert_eq!(report["corpus"]["skipped"]["too_many_tokens"], 1);
    assert_eq!(report["corpus"]["sentences"], 2);
    let report = analyze(&corpus, &["--truncate"]);
    assert_eq!(report["corpus"]["skipped"]["too_many_tokens"], 0);
    assert_eq!(report["corpus"]["truncated"], 1);
    // [CLS] the cat [SEP], 96 positions, [CLS] the [SEP]
    assert_eq!(report["corpus"]["tokens"], 4 + 96 + 3);
    let report = analyze(&corpus, &["--max-tokens", "4"]);
    assert_eq!(report["corpus"]["skipped"]["too_many_tokens"], 1);

    let model = tiny_bert();
    let (status, message) = context.error(&["analyze", path(&model), "-c", path(&corpus), "--max-tokens", "97"]);
    assert_eq!((status, message.as_str()), (2, "error: --max-tokens 97 is more than the 96 positions of the model\n"));
}

#[test]
fn a_word_without_tokens_leaves_itself_out() {
    let context = EstimationContext::new();
    let line = |id: u32, form: &str, head: u32| format!("{id}\t{form}\t_\t_\t_\t_\t{head}\tdep\t_\t_\n");
    let text = [line(1, "the", 2), line(2, "\u{200b}", 0), "\n".into(), line(1, "the", 2), line(2, "dog", 0)].concat();
    let file = context.file("zero.conllu", text);
    let corpus = |more: &[&str]| analyze(&file, more)["corpus"].clone();
    let report = corpus(&[]);
    assert_eq!((&report["sentences"], &report["words"], &report["heads_left_out"]), (&2.into(), &3.into(), &1.into()));
    assert_eq!(report["words_left_out"]["no_tokens"], 1);
    // One by one it takes its sentence along.
    let report = corpus(&["--words", "spaced"]);
    assert_eq!((&report["sentences"], &report["words"]), (&1.into(), &2.into()));
    assert_eq!(report["skipped"]["word_without_tokens"], 1);
}

#[test]
fn outputs_are_tried_before_the_work_begins() {
    let context = EstimationContext::new();
    let (model, corpus) = (tiny_bert(), gold());
    let output = context.path("absent/report.json");
    // The model does not exist either: the output is the first to be looked at.
    for model in [&model, &context.path("absent-model")] {
        let (status, message) = context.error(&["analyze", path(model), "-c", path(&corpus), "-o", path(&output)]);
        assert_eq!(status, 5);
        assert_eq!(
            message,
            "error: cannot write `DIR/absent/report.json`: there is no folder `DIR/absent`: create it first\n"
        );
    }
    let folder = context.path("folder.json");
    fs::create_dir(&folder).unwrap();
    let (_, message) = context.error(&["analyze", path(&model), "-c", path(&corpus), "-o", path(&folder)]);
    assert_eq!(message, "error: cannot write `DIR/folder.json`: it is a folder\n");
}

#[test]
fn a_failed_run_leaves_the_old_report_and_nothing_else() {
    let context = EstimationContext::new();
    let report = context.file("report.json", "old");
    let corpus = context.file("bad.conllu", "1\tGo\t_\n");
    let model = tiny_bert();
    context.error(&["analyze", path(&model), "-c", path(&corpus), "-o", path(&report)]);
    assert_eq!(fs::read_to_string(&report).unwrap(), "old");
    let mut left: Vec<_> = fs::read_dir(context.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["bad.conllu", "report.json"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk() {
    let context = EstimationContext::new();
    let (model, corpus) = (tiny_bert(), gold());
    let full = context.path("full.json");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let arguments = ["analyze", path(&model), "-c", path(&corpus), "--limit", "3", "-o"];
    let (status, message) = context.error(&[arguments.as_slice(), &[path(&full)]].concat());
    assert_eq!(
        (status, message.as_str()),
        (5, "error: cannot write `DIR/full.json`: No space left on device (os error 28)\n")
    );
    let stdout = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_headscope"))
        .args(arguments)
        .arg("-")
        .stdout(stdout)
        .output()
        .unwrap();
    let (status, message) = outcome(&output).unwrap_err();
    assert_eq!(
        (status, message.as_str()),
        (5, "error: cannot write to standard output: No space left on device (os error 28)\n")
    );
}

#[test]
fn wrong_usage_ends_with_status_two() {
    let (model, corpus) = (tiny_bert(), gold());
    let (model, corpus) = (path(&model), path(&corpus));
    let cases: &[(&[&str], &str)] = &[
        (&["analyze", "--format", "conllu"], "the following required arguments were not provided:\n  --corpus <PATH>"),
        (&["analyze", model, "-c", "box:gold", "--format", "text"], "`box:gold` is CoNLL-U: leave out --format"),
        (&["analyze", "-c", "box:bronze"], "there is no corpus `box:bronze` in the box: it has box:gold"),
        (
            &["analyze", model, "-c", "Cargo.toml"],
            "cannot tell the format of `Cargo.toml` by its extension: say --format conllu, text, jsonl, fasta, rxn or pairs",
        ),
        (
            &["analyze", model, "-c", "-"],
            "standard input has no extension to tell the format by: say --format conllu, text, jsonl, fasta, rxn or pairs",
        ),
        (
            &["analyze", model, "-c", corpus, "-o", "report.xml"],
            "cannot tell the format of output `report.xml` by its extension: use .json or .json.gz or .csv",
        ),
        (&["analyze", model, "-c", corpus, "-o", "a.json", "-o", "a.json"], "the same output is given twice"),
        (
            &["analyze", model, "-c", corpus, "--truncate"],
            "--truncate is for plain text: a sentence without its end has another tree",
        ),
        (
            &["maps", model, "--text", "a", "-o", "maps.npz"],
            "`maps.npz`: attention is written as .svg, .html or .safetensors",
        ),
        (&["explain", "seperator"], "there is nothing named `seperator`; did you mean `separator`?"),
        (&["explain", "xyzzy"], "there is nothing named `xyzzy`: `headscope explain` lists all"),
        (&["analyze", "--limit", "0"], "a whole number of 1 or more is expected"),
    ];
    for (arguments, expected) in cases {
        let (status, message) = run(arguments).expect_err("wrong usage");
        assert_eq!(status, 2, "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn sentences_to_map_must_be_there() {
    let context = EstimationContext::new();
    let model = tiny_bert();
    let corpus = context.file("two.txt", format!("one\n{}\n", "the ".repeat(100)));
    let output = context.path("maps.safetensors");
    let maps = |sentence: &str| {
        context.error(&["maps", path(&model), "-c", path(&corpus), "--sentence", sentence, "-o", path(&output)])
    };
    assert_eq!(maps("2"), (3, "error: there is no sentence 2 in `two.txt`: it has 2, counted from 0\n".to_owned()));
    assert_eq!(
        maps("1"),
        (
            3,
            "error: DIR/two.txt:2: sentence 1, one with more tokens than the limit, cannot go through the model: \
                cut plain text with --truncate, or raise --max-tokens if the model has more positions\n"
                .to_owned()
        )
    );
    assert!(!output.exists());
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_headscope")).arg("schema").stdout(writer).output();
    assert_eq!(outcome(&output.unwrap()), Ok(String::new()));
}
