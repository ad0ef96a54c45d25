//! Every architecture family against transformers.

use crate::tensor::TensorEncoder;
use crate::{gradients, replaced, support};
use std::fs;
use std::path::Path;

use crate::corpora::gzip;
use crate::golden::{Golden, check_forward, of_ids};
use crate::support::answers::Answers;
use crate::support::{fixture, opened, path, run, tiny_bert, weight_files};
use candle_core::Device;
use headscope::model::config::Config;
use headscope::model::families::architecture::Architecture;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use headscope::sequences::sequence::Sequence;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Compares both encoders of a model of `fixtures/models` with its golden, then checks replaced attention rows and
/// gradients.
fn check(name: &str) {
    let (packed, readable, config, sentences) = check_golden(name);
    replaced::check(&packed, &readable, &config, sentences.clone());
    replaced::check_sides(&packed, &config, sentences[0].clone());
    gradients::check(&packed, &readable, sentences);
}

/// Compares both encoders of a model of `fixtures/models` with its golden.
fn check_golden(name: &str) -> (PackedEncoder, TensorEncoder, Config, Vec<Sequence>) {
    let folder = fixture("models").join(name);
    let architecture = support::architecture(&folder);
    let checkpoint = Checkpoint::open(opened(&weight_files(&folder)), architecture.family).unwrap();
    let parameters = Parameters::load(&checkpoint, &architecture).unwrap();
    // A classifier to differentiate, whatever prediction head the model has.
    let head = gradients::head(architecture.config.hidden_size);
    let parameters = Parameters { prediction: Some(head), ..parameters };
    let golden = Golden::read(&fixture("goldens").join(format!("{name}.safetensors")));
    let sentences: Vec<_> =
        (0..).zip(&golden.expected).map(|(index, sentence)| of_ids(index, &sentence.ids, &sentence.segments)).collect();
    let layers = architecture.config.num_hidden_layers;
    println!("{name}");
    let readable = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
    check_forward(&readable, layers, sentences.clone(), &golden.expected);
    let packed = PackedEncoder::new(parameters);
    check_forward(&packed, layers, sentences.clone(), &golden.expected);
    (packed, readable, architecture.config, sentences)
}

#[test]
fn roberta_matches_transformers() {
    check("tiny-roberta");
    check("tiny-xlm-roberta");
    check("tiny-camembert");
}

#[test]
fn bert_from_a_legacy_pickle_matches_transformers() {
    check("tiny-bert-pickle");
}

#[test]
fn distilbert_from_pickle_shards_matches_transformers() {
    check("tiny-distilbert");
}

#[test]
fn electra_from_shards_matches_transformers() {
    check("tiny-electra");
}

#[test]
fn albert_from_a_pickle_matches_transformers() {
    check("tiny-albert");
}

#[test]
fn mpnet_matches_transformers() {
    check("tiny-mpnet");
}

#[test]
fn bert_variants_match_transformers() {
    check("tiny-dpr-question");
    check("tiny-dpr-context");
    check("tiny-splinter");
    check("tiny-visual-bert");
    check("tiny-bert-generation");
}

#[test]
fn roberta_variants_match_transformers() {
    check("tiny-data2vec-text");
    check("tiny-luke");
    check("tiny-ibert");
}

#[test]
fn embeddings_that_are_constant_on_plain_text_match_transformers() {
    check("tiny-ernie");
    check("tiny-layoutlm");
    check("tiny-markuplm");
}

#[test]
fn separate_output_embeddings_match_transformers() {
    check("tiny-rembert");
}

#[test]
fn grouped_convolutions_match_transformers() {
    check("tiny-squeezebert");
}

#[test]
fn pre_norm_layers_match_transformers() {
    check("tiny-roberta-prelayernorm");
    check("tiny-megatron-bert");
    check("tiny-xlm-roberta-xl");
}

/// Rotary positions, gated linear units and layers without biases, with the tensor names of transformers and of the
/// families' own code.
#[test]
fn rotary_encoders_match_transformers() {
    check("tiny-modernbert");
    check("tiny-modernbert-bare");
    check("tiny-nomic-bert");
    check("tiny-nomic-bert-wild");
    check("tiny-nomic-bert-native");
    check("tiny-gte");
    check("tiny-gte-native");
    check("tiny-new");
    check("tiny-jina-embeddings-v3");
    check("tiny-jina-embeddings-v3-native");
}

#[test]
fn disentangled_attention_matches_transformers() {
    check("tiny-deberta-v3");
    check("tiny-deberta-v2");
    check("tiny-deberta");
    check("tiny-deberta-near");
}

#[test]
fn heads_with_shared_keys_match_transformers() {
    check("tiny-eurobert");
}

#[test]
fn the_report_states_which_heads_share_keys() {
    let folder = with_tokenizer("tiny-eurobert");
    let output = folder.path().join("report.json");
    let model = path(folder.path());
    let summary =
        run(&["analyze", "--summary", "full", model, "--with", "similarity", "--limit", "60", "-o", path(&output)])
            .unwrap();
    let mut answers = Answers::new();
    let model_lines: Vec<&str> = summary.lines().skip_while(|line| *line != "The model:").take(2).collect();
    answers.said("the summary on the model", &model_lines.join("\n"));
    let report: Value = serde_json::from_str(&fs::read_to_string(&output).unwrap()).unwrap();
    assert_eq!((&report["model"]["heads"], &report["model"]["key_value_heads"]), (&6.into(), &2.into()));
    let groups: Vec<_> = report["heads"].as_array().unwrap().iter().map(|head| &head["key_value_group"]).collect();
    assert_eq!(groups, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
    // Each of two layers has two groups of three heads, so there are 12 pairs.
    assert_eq!(report["similarity"]["same_key_value_group"]["distance"]["pairs"], 12);
    let card = run(&["show", path(&output), "L1H4", "--all"]).unwrap();
    answers.said("the card", &lines_with(&card, &["It shares"]));
    answers.held("families-shared-keys");
    let table = folder.path().join("heads.csv");
    run(&["export", path(&output), "--table", "heads", "-o", path(&table)]).unwrap();
    let table = fs::read_to_string(table).unwrap();
    assert!(table.starts_with("layer,head,name,key_value_group,primary,"), "{table}");
    // Relabelling keeps the groups.
    let again = folder.path().join("again.json");
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 100\n").unwrap();
    run(&["relabel", path(&output), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let again: Value = serde_json::from_str(&fs::read_to_string(again).unwrap()).unwrap();
    assert_eq!((&again["heads"], &again["similarity"]), (&report["heads"], &report["similarity"]));
    // Reports of models without shared keys lack these keys.
    let plain = support::analyze(&fixture("corpus/gold.conllu"), &["--limit", "5"]);
    assert!(plain["model"].get("key_value_heads").is_none() && plain["heads"][0].get("key_value_group").is_none());
}

/// Queries, keys and the outputs of blocks are normalised.
#[test]
fn blocks_with_normalised_outputs_match_transformers() {
    check("tiny-gemma3-text");
}

/// The references are the families' own code in PyTorch: transformers has no classes for them.
#[test]
fn families_outside_transformers_match_their_own_code() {
    check("tiny-neobert");
    check("tiny-jina-v2");
    check("tiny-mosaic-bert");
}

#[test]
fn protein_encoders_match_transformers() {
    check("tiny-esm");
    check("tiny-esm-1b");
}

#[test]
fn sequence_to_sequence_encoders_match_transformers() {
    check("tiny-t5");
    check("tiny-mt5");
    check("tiny-umt5");
    check("tiny-bart");
    check("tiny-mbart");
}

/// Attention is full up to this length and sparse beyond it.
#[test]
fn big_bird_matches_transformers_while_attention_is_full() {
    check("tiny-big-bird");
    let config = support::architecture(&fixture("models").join("tiny-big-bird")).config;
    assert_eq!(config.max_positioned_tokens(), 28);
}

#[test]
fn absolute_position_decoders_match_transformers() {
    check("tiny-gpt2");
    check("tiny-gpt2-bare");
    check("tiny-gpt-neo");
    check("tiny-opt");
    check("tiny-clip-text");
}

#[test]
fn rotary_decoders_match_transformers() {
    check("tiny-gpt-neox");
    check("tiny-gpt-neox-serial");
    check("tiny-llama");
    check("tiny-mistral");
    check("tiny-qwen2");
    check("tiny-qwen3");
    check("tiny-smollm3");
    check("tiny-gemma3-decoder");
    check("tiny-gemma2");
    check("tiny-modernbert-decoder");
}

/// A CLIP config contains the text config, and names distinguish its tensors from those for images.
#[test]
fn clip_is_read_as_its_text_model() {
    let folder = fixture("models").join("tiny-clip-text");
    let config: Value = serde_json::from_str(&fs::read_to_string(folder.join("config.json")).unwrap()).unwrap();
    let both = json!({ "model_type": "clip", "text_config": config, "vision_config": { "hidden_size": 7 } });
    let (alone, parsed) = (support::architecture(&folder), Architecture::parse(&both.to_string()).unwrap());
    assert_eq!((&parsed.config, &parsed.names), (&alone.config, &alone.names));
    let mut answers = Answers::new();
    let error = Architecture::parse(r#"{"model_type": "clip"}"#).unwrap_err();
    answers.said("no config of texts", &error.to_string());
    answers.held("families-texts-and-images");
}

/// Tokens before the query that each layer sees (`None`: all). Decoders see no token after the query.
#[test]
fn decoders_have_their_windows() {
    let windows = [
        ("tiny-gpt2", vec![None, None]),
        ("tiny-gpt-neo", vec![None, Some(5), Some(5)]),
        ("tiny-gpt-neox", vec![None, None]),
        ("tiny-opt", vec![None, None]),
        ("tiny-llama", vec![None, None]),
        ("tiny-mistral", vec![Some(5), Some(5)]),
        ("tiny-qwen2", vec![None, Some(4), Some(4)]),
        ("tiny-qwen3", vec![None, None]),
        ("tiny-smollm3", vec![Some(6), None]),
        ("tiny-gemma3-decoder", vec![Some(4), None]),
        ("tiny-gemma2", vec![Some(4), None]),
        ("tiny-modernbert-decoder", vec![None, Some(5), Some(5)]),
    ];
    for (name, before) in windows {
        let visibility = support::architecture(&fixture("models").join(name)).config.visibility;
        let tokens_before = |layer: usize| visibility.layer_visibility(layer).before;
        assert_eq!((0..before.len()).map(tokens_before).collect::<Vec<_>>(), before, "{name}");
        assert!(visibility.are_causal(), "{name}");
    }
}

/// Windows shorter than the longest sequence of the golden.
#[test]
fn windowed_encoders_match_transformers() {
    let windows = [
        ("tiny-longformer", vec![Some(2), Some(4)]),
        ("tiny-modernbert", vec![None, Some(4), None]),
        ("tiny-gemma3-text", vec![Some(5), None, Some(5)]),
    ];
    for (name, reaches) in windows {
        check(name);
        let config = support::architecture(&fixture("models").join(name)).config;
        let reach = |layer: usize| config.visibility.layer_visibility(layer).before;
        assert_eq!((0..reaches.len()).map(reach).collect::<Vec<_>>(), reaches, "{name}");
    }
}

#[test]
fn relative_positions_match_transformers() {
    check("tiny-bert-relative-key");
    check("tiny-roberta-relative-key-query");
}

/// Models that transformers 4 pruned, ran and saved.
#[test]
fn pruned_models_match_transformers() {
    for (name, absent) in [
        ("tiny-bert-pickle", vec!["L0H1", "L1H0", "L1H2"]),
        ("tiny-distilbert", vec!["L0H0", "L0H1"]),
        // Layers 0 and 2 of six share the weights that lack a head.
        ("tiny-albert", vec!["L0H1", "L2H1", "L5H0", "L5H2"]),
        ("tiny-t5", vec!["L0H1", "L1H0"]),
        ("tiny-gpt2", vec!["L0H0", "L1H1", "L1H2"]),
    ] {
        let name = format!("pruned/{name}");
        let (.., config, _) = check_golden(&name);
        assert_eq!(config.absent.iter().map(ToString::to_string).collect::<Vec<_>>(), absent, "{name}");
    }
}

/// The lines of a text that contain one of these parts.
fn lines_with(text: &str, parts: &[&str]) -> String {
    text.lines().filter(|line| parts.iter().any(|part| line.contains(part))).collect::<Vec<_>>().join("\n")
}

fn name(folder: &TempDir) -> &str {
    folder.path().file_name().unwrap().to_str().unwrap()
}

/// A model of `fixtures/models` with the tokenizer of the tiny BERT.
pub fn with_tokenizer(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for entry in fixture("models").join(name).read_dir().unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    fs::copy(tiny_bert().join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    folder
}

#[test]
fn sequences_with_sparse_attention_are_skipped() {
    let folder = with_tokenizer("tiny-big-bird");
    let corpus = folder.path().join("corpus.txt");
    // With `[CLS]` and `[SEP]`, the sentences have 28 and 29 tokens.
    fs::write(&corpus, format!("{}\n{}\n", "the ".repeat(26), "the ".repeat(27))).unwrap();
    let analyze = |more: &[&str]| {
        let options = ["analyze", path(folder.path()), "-c", path(&corpus), "-o", "-", "--no-run-info"];
        run(&[&options, more].concat())
    };
    let report: serde_json::Value = serde_json::from_str(&analyze(&[]).unwrap()).unwrap();
    assert_eq!((&report["corpus"]["sentences"], &report["corpus"]["tokens"]), (&1.into(), &28.into()));
    assert_eq!(report["corpus"]["skipped"]["too_many_tokens"], 1);
    let mut answers = Answers::new();
    answers.refused("--max-tokens 29", &analyze(&["--max-tokens", "29"]).unwrap_err());
    answers.held("families-sparse-attention");
}

#[test]
fn view_shows_the_attention_of_decoders() {
    let folder = with_tokenizer("tiny-gpt2");
    let shown =
        run(&["view", path(folder.path()), "--text", "the cat sat on it", "--head", "L1H2", "--numbers"]).unwrap();
    let rows: Vec<&str> = shown.lines().skip(2).collect();
    assert!(rows.len() == 7 && shown.lines().nth(1).unwrap().starts_with("from\\to "), "{shown}");
    for (query, row) in rows.into_iter().enumerate() {
        let weights: Vec<&str> = row.split("->").next().unwrap().split_whitespace().skip(2).collect();
        // Tokens that a query does not see are left blank.
        assert_eq!(weights.len(), query + 1, "{shown}");
    }
}

/// Reports of decoders split relations by the side of the head, have nulls where no query sees a token, and count the
/// first token separately.
#[test]
fn reports_of_decoders_distinguish_sides() {
    let folder = with_tokenizer("tiny-gpt2");
    let out = folder.path().join("report.json");
    let corpus = fixture("corpus").join("entities.conllu");
    let analyze = |more: &[&str]| {
        let options = ["analyze", path(folder.path()), "-c", path(&corpus), "-o", path(&out), "--max-tokens", "32"];
        run(&[&options, more].concat())
    };
    let summary = analyze(&["--with", "norms,repeats", "--summary", "full"]).unwrap();
    let mut answers = Answers::new().hiding(name(&folder), "NAME");
    answers.said("the summary", &lines_with(&summary, &["a token sees"]));
    let report: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let chance = &report["chance"];
    assert!(chance["offset_mass"]["-1"].is_number() && chance["offset_mass"]["1"].is_null());
    assert!(chance["first_token_mass"].is_number() && chance["first_special_mass"].is_null());
    let relations = report["relations"].as_array().unwrap();
    let relations_of =
        |name: &str| relations.iter().filter(|relation| relation["relation"] == name).collect::<Vec<_>>();
    let [left, right] = relations_of("all")[..] else { panic!("{relations:?}") };
    assert_eq!([left, right].map(|part| part["side"].as_str().unwrap()), ["left", "right"]);
    assert_eq!([left, right].map(|part| part["direction"].as_str().unwrap()), ["dep->head", "head->dep"]);
    let share = |part: &Value| part["share"].as_f64().unwrap();
    assert!((share(left) + share(right) - 1.0).abs() < 1e-12);
    let head = &left["by_head"][0];
    assert!(head["dep->head"].is_number() && head["head->dep"].is_null(), "{head}");
    let caveats: Vec<&str> =
        report["caveats"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(caveats.contains(&"causal") && !caveats.contains(&"windows"), "{caveats:?}");
    let card = run(&["show", path(&out), "--relation", "all"]).unwrap();
    answers.said("the card of a relation", &lines_with(&card, &["head on the"]));
    for option in
        [["--with", "knockout"], ["--with", "segments"], ["--preset", "clark2019"], ["--preset", "kovaleva2019"]]
    {
        answers.refused(&option.join(" "), &analyze(&option).unwrap_err());
    }
    answers.held("families-decoders");
}

/// Chance levels depend on the class of a layer, and are null where no query sees a token. The summary states what
/// layers see.
#[test]
fn windowed_layers_have_their_own_chance_levels() {
    let folder = with_tokenizer("tiny-modernbert");
    let corpus = folder.path().join("corpus.txt");
    let sentence = |words: usize| "the cat sat on it . ".repeat(words).trim_end().to_owned();
    fs::write(&corpus, (1..5).map(sentence).collect::<Vec<_>>().join("\n")).unwrap();
    let out = folder.path().join("report.json");
    let summary = run(&[
        "analyze",
        "--summary",
        "full",
        path(folder.path()),
        "-c",
        path(&corpus),
        "-o",
        path(&out),
        "--with",
        "norms",
    ])
    .unwrap();
    let mut answers = Answers::new();
    answers.said("the summary", &lines_with(&summary, &["a token sees"]));
    answers.held("families-windows");
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let classes = serde_json::json!([
        {"layers": [0, 2], "before": null, "after": null},
        {"layers": [1], "before": 4, "after": 4},
    ]);
    assert_eq!(report["model"]["visibility"], classes);
    let heads = report["heads"].as_array().unwrap();
    let (whole, window) = (&heads[0], &heads[3]);
    for metric in ["offset_mass", "offset_argmax", "norm_offset_mass"] {
        assert!(whole["metrics"][metric]["5"].is_number() && window["metrics"][metric]["5"].is_null(), "{metric}");
    }
    assert!(report["chance"]["first_special_mass"].is_null());
    let chance = |head: &serde_json::Value| head["chance"]["first_special_mass"].as_f64().unwrap();
    assert!(chance(window) > 1.5 * chance(whole));
    let rests_on = |head: &serde_json::Value| head["denominators"]["first_special_mass"]["count"].clone();
    // Four words of each sentence have `[CLS]` in their window.
    assert_eq!((rests_on(window), rests_on(whole)), (16.into(), serde_json::Value::Null));
    assert_eq!(report["denominators"]["first_special_mass"]["count"], 80);
    let caveats = report["caveats"].as_array().unwrap();
    assert!(caveats.iter().any(|caveat| caveat["id"] == "windows"), "{caveats:?}");
    let read_again = run(&["show", path(&out), "L1H0", "--all"]).unwrap();
    assert!(read_again.contains("first_special_mass"), "{read_again}");
}

/// Sets the queries of a model to 0. All scores are then 0, and every token attends evenly to the tokens it sees.
fn without_queries(folder: &Path) {
    let file = folder.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let whole = SafeTensors::deserialize(&bytes).unwrap();
    let zeroed = |name: &str, data: &[u8]| {
        // A joint projection has queries, keys and values in this order, one third each.
        let zeros = match name {
            name if name.contains("Wqkv") => data.len() / 3,
            name if ["query.", "q_proj."].iter().any(|part| name.contains(part)) => data.len(),
            _ => 0,
        };
        [&vec![0; zeros][..], &data[zeros..]].concat()
    };
    let data: Vec<(String, Vec<u8>)> =
        whole.tensors().iter().map(|(name, view)| (name.clone(), zeroed(name, view.data()))).collect();
    let view = |name: &str, data| {
        let stored = whole.tensor(name).unwrap();
        TensorView::new(stored.dtype(), stored.shape().to_vec(), data).unwrap()
    };
    let tensors: Vec<(&str, TensorView<'_>)> = data.iter().map(|(name, data)| (&**name, view(name, data))).collect();
    safetensors::serialize_to_file(tensors, None, &file).unwrap();
}

/// All numbers of an object, by their keys joined with dots.
fn flatten(value: &Value) -> Vec<(String, Option<f64>)> {
    let entries = value.as_object().unwrap().iter();
    let each = |(key, value): (&String, &Value)| match value {
        Value::Object(_) => flatten(value).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)).collect(),
        number => vec![(key.clone(), number.as_f64())],
    };
    entries.flat_map(each).collect()
}

/// A head that attends evenly is `broad`, and its other metrics are at the chance level of its layer. This holds in
/// sentences and in windows of documents, which decoders read.
#[test]
fn even_heads_are_at_chance_in_all_layers() {
    let decoders = ["tiny-llama", "tiny-mistral", "tiny-gpt-neo", "tiny-opt"];
    let encoders = ["tiny-modernbert", "tiny-longformer", "tiny-gemma3-text", "tiny-roberta"];
    let decoder_cases = decoders.into_iter().flat_map(|name| [(name, "sentence"), (name, "document")]);
    for (name, context) in encoders.into_iter().map(|name| (name, "sentence")).chain(decoder_cases) {
        let folder = with_tokenizer(name);
        without_queries(folder.path());
        let corpus = folder.path().join("corpus.txt");
        // All sentences differ, since equal ones would count once.
        let word = |number: usize, place: usize| if (number >> (place % 6)).is_multiple_of(2) { "the" } else { "cat" };
        let sentence =
            |number: usize| (0..8 + number % 12).map(|place| word(number, place)).collect::<Vec<_>>().join(" ");
        // Twelve documents of eight sentences.
        let line = |number: usize| sentence(number) + if number % 8 == 7 { " .\n\n" } else { " .\n" };
        fs::write(&corpus, (0..96).map(line).collect::<String>()).unwrap();
        let options =
            ["analyze", path(folder.path()), "-c", path(&corpus), "-o", "-", "--no-run-info", "--with", "norms"];
        let options = [&options[..], &["--context", context]].concat();
        let report: Value = serde_json::from_str(&run(&options).unwrap()).unwrap();
        let common = flatten(&report["chance"]);
        let mut held = 0;
        for head in report["heads"].as_array().unwrap() {
            assert_eq!(head["primary"], "broad", "{name} {}", head["name"]);
            let own_chance = flatten(&head["chance"]);
            let value_of = |all: &[(String, Option<f64>)], metric: &str| {
                all.iter().find(|(name_in_report, _)| name_in_report == metric).and_then(|(_, value)| *value)
            };
            for (metric, value) in flatten(&head["metrics"]) {
                // These metrics are not at chance. The argmax of equal weights is the first one. Explained variance
                // assumes noise, and there is none. Copying depends on what a head writes.
                if metric.contains("argmax") || metric.starts_with("explained") || metric.starts_with("copy") {
                    continue;
                }
                let chance = value_of(&own_chance, &metric).or(value_of(&common, &metric));
                if let Some((value, chance)) = value.zip(chance).filter(|_| metric != "output_share") {
                    let at = format!("{name} {context} {} {metric}", head["name"]);
                    assert!((value - chance).abs() < 1e-5, "{at}: {value} {chance}");
                    held += 1;
                }
            }
        }
        assert!(held > 100, "{name} {held}");
        let largest = report["corpus"]["context"]["sentences"]["largest"].as_u64();
        assert_eq!(largest.is_some_and(|most| most > 1), context == "document", "{name} {context}");
    }
}

/// Microsoft's checkpoints have prediction heads that use more than the last hidden states.
#[test]
fn prediction_heads_with_other_inputs_are_refused() {
    let mut answers = Answers::new();
    for tensor in ["mask_predictions.dense.bias", "lm_predictions.lm_head.dense.bias"] {
        let folder = with_tokenizer("tiny-deberta-near");
        let weights = folder.path().join("model.safetensors");
        let bytes = fs::read(&weights).unwrap();
        let stored = SafeTensors::deserialize(&bytes).unwrap();
        let more = TensorView::new(Dtype::F16, vec![12], &[0; 24]).unwrap();
        let tensors = stored.iter().chain([(tensor, more)]);
        let bytes = safetensors::serialize(tensors.map(|(name, tensor)| (name.to_owned(), tensor)), None).unwrap();
        fs::write(weights, bytes).unwrap();
        answers = answers.hiding(name(&folder), "NAME");
        answers.refused(tensor, &run(&["analyze", path(folder.path()), "--with", "effect"]).unwrap_err());
        run(&["analyze", path(folder.path()), "--limit", "3"]).unwrap();
    }
    answers.held("families-heads-trained-otherwise");
}

/// The tiny ESM with the vocabulary of ESM-2.
pub(crate) fn esm_with_vocabulary() -> TempDir {
    let folder = TempDir::new().unwrap();
    let from = fixture("models/tiny-esm");
    fs::copy(from.join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    let config = fs::read_to_string(from.join("config.json")).unwrap();
    let config = config.replace("\"mask_token_id\": 9", "\"mask_token_id\": 32");
    fs::write(folder.path().join("config.json"), config).unwrap();
    let vocabulary = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>";
    fs::write(folder.path().join("vocab.txt"), vocabulary.replace(' ', "\n")).unwrap();
    folder
}

const PROTEINS: &str =
    "; made up\n>p1 the first\nMKTAYIAKQR\nqisfvk--SHF*\n>p2\nGIVEQCCTSICSLYQLENYCN\n>none\n>p3\nMKJA\n";

#[test]
fn a_protein_in_fasta_is_a_sentence_of_residues() {
    let model = esm_with_vocabulary();
    let [fasta, text] = ["a.fasta.gz", "b.txt"].map(|name| model.path().join(name));
    fs::write(&fasta, gzip(PROTEINS.as_bytes())).unwrap();
    fs::write(&text, "MKTAYIAKQRQISFVKSHF\nGIVEQCCTSICSLYQLENYCN\nMKJA\n").unwrap();
    let report = |corpus: &Path| -> Value {
        let arguments = ["analyze", path(model.path()), "-c", path(corpus), "-o", "-", "--no-run-info"];
        serde_json::from_str(&run(&arguments).unwrap()).unwrap()
    };
    let (proteins, as_text) = (report(&fasta), report(&text));
    assert_eq!(proteins["heads"], as_text["heads"]);
    let corpus = &proteins["corpus"];
    assert_eq!((&corpus["sentences"], &corpus["words"], &corpus["tokens"]), (&3.into(), &44.into(), &50.into()));
    assert_eq!((&corpus["skipped"]["no_tokens"], &corpus["text"]["unknown_tokens"]), (&1.into(), &1.into()));
    assert_eq!(corpus["files"][0]["format"], "fasta");
    assert_eq!(proteins["model"]["residues"], true);
    assert_eq!(proteins["settings"]["left_out"], json!(["trees", "dependency", "words", "frequency"]));
    assert_eq!(proteins["settings"]["studies"], json!(["attention", "links", "classes", "explained-variance"]));
    assert!(proteins["caveats"].as_array().unwrap().iter().any(|caveat| caveat["id"] == "residues"));
    let summary = run(&["analyze", "--summary", "full", path(model.path()), "-c", path(&fasta)]).unwrap();
    let mut answers = Answers::new();
    answers
        .said("the summary", &lines_with(&summary, &["its tokens are", "corpus  ", "Intervals and tests", "Skipped"]));
    answers.held("families-proteins");
    assert!(!summary.contains("sentence of"), "{summary}");
}

#[test]
fn words_and_proteins_are_not_confused() {
    let model = esm_with_vocabulary();
    let fasta = model.path().join("a.fa");
    fs::write(&fasta, PROTEINS).unwrap();
    let mut answers = Answers::new().hiding(name(&model), "NAME");
    answers.refused("a corpus of words", &run(&["analyze", path(model.path())]).unwrap_err());
    for option in [["--with", "trees"], ["--without", "attention,links,classes,explained-variance"]] {
        let arguments = [&["analyze", path(model.path()), "-c", path(&fasta)][..], &option].concat();
        answers.refused(&option.join(" "), &run(&arguments).unwrap_err());
    }
    // A model of text reads proteins as text, and the report says so.
    let report = support::analyze(&fasta, &[]);
    assert!(report["caveats"].as_array().unwrap().iter().any(|caveat| caveat["id"] == "proteins-as-text"), "{report}");
    let summary = run(&["analyze", "--summary", "full", path(&tiny_bert()), "-c", path(&fasta)]).unwrap();
    answers.said("the summary of a model of text", &lines_with(&summary, &["not one of proteins"]));
    answers.held("families-words-and-proteins");
}

#[test]
fn unsupported_options_are_refused() {
    check_refusals(
        "families-options",
        &[
            ("tiny-ibert", "\"quant_mode\": false", "\"quant_mode\": true"),
            ("tiny-big-bird", "\"use_bias\": true", "\"use_bias\": false"),
            ("tiny-big-bird", "\"rescale_embeddings\": false", "\"rescale_embeddings\": true"),
            ("tiny-rembert", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"),
            ("tiny-ernie", "\"use_task_id\": true", "\"position_embedding_type\": \"relative_key\""),
            ("tiny-markuplm", "\"max_depth\": 3", "\"max_depth\": 0"),
        ],
    );
}

#[test]
fn unsupported_options_of_recent_encoders_are_refused() {
    check_refusals(
        "families-options-of-encoders",
        &[
            ("tiny-modernbert", "\"norm_bias\": false", "\"norm_bias\": true"),
            ("tiny-modernbert", "\"sliding_attention\",", "\"linear_attention\","),
            ("tiny-nomic-bert-wild", "\"prenorm\": false", "\"prenorm\": true"),
            ("tiny-nomic-bert-wild", "\"prenorm\": false", "\"num_experts\": 8"),
            ("tiny-new", "\"rope_theta\": 1000.0", "\"rope_theta\": 1000.0, \"logn_attention_scale\": true"),
            ("tiny-gte", "\"rope_type\": \"llama3\"", "\"rope_type\": \"longrope\""),
            ("tiny-eurobert", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"),
            ("tiny-esm", "\"position_embedding_type\": \"rotary\"", "\"position_embedding_type\": \"relative_key\""),
            (
                "tiny-deberta",
                "\"position_biased_input\": false",
                "\"position_biased_input\": false, \"talking_head\": true",
            ),
            ("tiny-deberta", "\"c2p\"", "\"p2p\""),
            (
                "tiny-deberta",
                "\"position_biased_input\": false",
                "\"position_biased_input\": false, \"embedding_size\": 8",
            ),
            ("tiny-deberta-v3", "\"position_buckets\": 8", "\"position_buckets\": 8, \"conv_kernel_size\": 3"),
            ("tiny-t5", "\"relative_attention_num_buckets\": 12", "\"relative_attention_num_buckets\": 13"),
            (
                "tiny-xlm-roberta",
                "\"model_type\": \"xlm-roberta\"",
                "\"model_type\": \"xlm-roberta\", \"position_embedding_type\": \"rotary\"",
            ),
        ],
    );
}

#[test]
fn unsupported_options_of_decoders_are_refused() {
    check_refusals(
        "families-options-of-decoders",
        &[
            ("tiny-gpt2", "\"scale_attn_by_inverse_layer_idx\": false", "\"scale_attn_by_inverse_layer_idx\": true"),
            ("tiny-gpt-neo", "\"local\"\n", "\"sparse\"\n"),
            ("tiny-gpt-neo", "\"num_layers\": 3", "\"num_layers\": 4"),
            ("tiny-gpt-neo", "\"window_size\": 6", "\"window_size\": 0"),
            ("tiny-opt", "\"do_layer_norm_before\": true", "\"do_layer_norm_before\": false"),
            ("tiny-opt", "\"word_embed_proj_dim\": 12", "\"word_embed_proj_dim\": 6"),
            ("tiny-mistral", "\"sliding_window\": 6", "\"sliding_window\": 0"),
            ("tiny-llama", "\"model_type\": \"llama\"", "\"model_type\": \"qwen3_moe\""),
            ("tiny-gemma2", "\"attn_logit_softcapping\": 3.0", "\"attn_logit_softcapping\": -3.0"),
            ("tiny-smollm3", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"),
        ],
    );
}

/// Replaces one text in each of these configs of `fixtures/models`. The snapshot of this name holds the errors.
fn check_refusals(snapshot: &str, cases: &[(&str, &str, &str)]) {
    let mut answers = Answers::new();
    for (name, old, new) in cases.iter().copied() {
        let config = fs::read_to_string(fixture("models").join(name).join("config.json")).unwrap();
        assert!(config.contains(old), "{name}: {old}");
        let error = Architecture::parse(&config.replace(old, new)).unwrap_err();
        answers.said(&format!("{name}: {}", new.trim()), &error.to_string());
    }
    answers.held(snapshot);
}

#[test]
fn a_missing_row_for_plain_text_is_refused() {
    let folder = with_tokenizer("tiny-markuplm");
    let config = folder.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap().replace("\"subs_pad_id\": 8", "\"subs_pad_id\": 9");
    fs::write(&config, text).unwrap();
    let mut answers = Answers::new();
    answers.refused("row 9 of 9", &run(&["analyze", path(folder.path()), "-c", "box:gold", "-o", "-"]).unwrap_err());
    answers.held("families-row-of-plain-text");
}
