//! Hidden states compared with candle-transformers, a second implementation beside transformers. BERT is tested in
//! `encoder.rs`.
//!
//! For JinaBERT v2, which transformers lacks, candle-transformers is the only independent implementation.
//!
//! Not compared, in candle-transformers 0.11.1:
//! - `umt5`: its T5 shares one position bias among all layers;
//! - `modernbert` with biases (`tiny-modernbert-bare`): it does not read them;
//! - `gemma3_text`: its Gemma 3 is causal;
//! - DistilBERT with `gelu`: it uses the tanh approximation where transformers does not; the tiny model has `relu`;
//! - families without a module there, such as ALBERT, ELECTRA, MPNet, ESM and DeBERTa's first version.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Result, Tensor, pickle, safetensors};
use candle_nn::{Module, VarBuilder};
use candle_transformers::models::{debertav2, distilbert, jina_bert, modernbert, nomic_bert, t5, xlm_roberta};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::golden::{Golden, TOLERANCE, forward, largest_difference, of_ids};
use crate::support;
use crate::support::{fixture, opened, weight_files};
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;

/// All tensors of a model.
fn weights(folder: &Path) -> VarBuilder<'static> {
    let mut all = HashMap::new();
    for file in weight_files(folder) {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => all.extend(safetensors::load(file, &Device::Cpu).unwrap()),
            _ => all.extend(pickle::read_all(file).unwrap()),
        }
    }
    VarBuilder::from_tensors(all, DType::F32, &Device::Cpu)
}

/// The config of a model, plus keys that its `config.json` lacks or names differently.
fn config<T: DeserializeOwned>(folder: &Path, extra: Value) -> T {
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let mut keys: Map<String, Value> = serde_json::from_str(&text).unwrap();
    let Value::Object(extra) = extra else { panic!("keys are an object") };
    keys.extend(extra);
    serde_json::from_value(keys.into()).unwrap()
}

fn model_folder(name: &str) -> PathBuf {
    fixture("models").join(name)
}

/// Compares the last hidden states of a model of `fixtures/models` with those that `oracle` computes from ids and
/// segments, over the sequences of its golden.
fn check(name: &str, oracle: impl FnMut(&Tensor, &Tensor) -> Result<Tensor>) {
    check_with_segments(name, <[u32]>::to_vec, oracle);
}

/// As [`check`], with segments derived from the golden's segments.
fn check_with_segments(
    name: &str,
    segments: fn(&[u32]) -> Vec<u32>,
    mut oracle: impl FnMut(&Tensor, &Tensor) -> Result<Tensor>,
) {
    let folder = model_folder(name);
    let architecture = support::architecture(&folder);
    let checkpoint = Checkpoint::open(opened(&weight_files(&folder)), architecture.family).unwrap();
    let encoder = PackedEncoder::new(Parameters::load(&checkpoint, &architecture).unwrap());
    let golden = Golden::read(&fixture("goldens").join(format!("{name}.safetensors")));
    for (index, sentence) in (0..).zip(&golden.expected) {
        let segments = segments(&sentence.segments);
        let row = |values: &[u32]| Tensor::new(values, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let expected = oracle(&row(&sentence.ids), &row(&segments)).unwrap();
        let expected = expected.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let hidden_states = forward(&encoder, vec![of_ids(index, &sentence.ids, &segments)]).remove(0).hidden_states;
        let actual = &hidden_states[hidden_states.len() - expected.len()..];
        let largest = expected.iter().fold(1.0_f32, |largest, value| largest.max(value.abs()));
        let difference = largest_difference(actual, &expected);
        println!("{name}, {} tokens: hidden states up to {largest:.1} differ by {difference:.1e}", sentence.ids.len());
        assert!(difference <= TOLERANCE * largest, "{name} differs by {difference}");
    }
}

#[test]
fn modernbert_matches_candle_transformers() {
    let folder = model_folder("tiny-modernbert");
    let more = json!({"layer_norm_eps": 1e-5, "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0});
    let model = modernbert::ModernBert::load(weights(&folder), &config(&folder, more)).unwrap();
    check("tiny-modernbert", |ids, _| model.forward(ids, &ids.ones_like()?));
}

#[test]
fn nomic_bert_matches_candle_transformers() {
    let folder = model_folder("tiny-nomic-bert-wild");
    let model = nomic_bert::NomicBertModel::load(weights(&folder), &config(&folder, json!({}))).unwrap();
    check("tiny-nomic-bert-wild", |ids, segments| model.forward(ids, Some(segments), None));
}

#[test]
fn jina_bert_matches_candle_transformers() {
    let folder = model_folder("tiny-jina-v2");
    let more = json!({"initializer_range": 0.02, "pad_token_id": 0});
    let model = jina_bert::BertModel::new(weights(&folder).pp("bert"), &config(&folder, more)).unwrap();
    // candle-transformers puts all tokens of JinaBERT in segment 0.
    check_with_segments("tiny-jina-v2", |segments| vec![0; segments.len()], |ids, _| model.forward(ids));
}

#[test]
fn xlm_roberta_matches_candle_transformers() {
    let folder = model_folder("tiny-xlm-roberta");
    let more = json!({"position_embedding_type": "absolute"});
    let model = xlm_roberta::XLMRobertaModel::new(&config(&folder, more), weights(&folder)).unwrap();
    check("tiny-xlm-roberta", |ids, segments| model.forward(ids, &ids.ones_like()?, segments, None, None, None));
}

#[test]
fn distilbert_matches_candle_transformers() {
    let folder = model_folder("tiny-distilbert");
    let model = distilbert::DistilBertModel::load(weights(&folder), &config(&folder, json!({}))).unwrap();
    check("tiny-distilbert", |ids, _| model.forward(ids, &ids.zeros_like()?));
}

#[test]
fn deberta_v2_matches_candle_transformers() {
    for name in ["tiny-deberta-v2", "tiny-deberta-v3"] {
        let folder = model_folder(name);
        let weights = weights(&folder);
        let weights = if weights.contains_tensor("deberta.embeddings.word_embeddings.weight") {
            weights.pp("deberta")
        } else {
            weights
        };
        let model = debertav2::DebertaV2Model::load(weights, &config(&folder, json!({}))).unwrap();
        check(name, |ids, segments| model.forward(ids, Some(segments.clone()), None));
    }
}

#[test]
fn t5_matches_candle_transformers() {
    for name in ["tiny-t5", "tiny-mt5"] {
        let folder = model_folder(name);
        let mut model = t5::T5EncoderModel::load(weights(&folder), &config(&folder, json!({}))).unwrap();
        check(name, |ids, _| model.forward(ids));
    }
}
