//! Hidden states against those of candle-transformers, a second implementation beside transformers', where it has the family;
//! for JinaBERT v2, which transformers has not, the only one here that is not of this project. BERT's are in `encoder.rs`.
//!
//! Not compared, of version 0.11.1:
//! - `umt5`: its T5 has one bias of scores for all layers;
//! - `modernbert` with biases (`tiny-modernbert-bare`), which it does not read;
//! - `gemma3_text`: its Gemma 3 attends to earlier tokens alone;
//! - DistilBERT with `gelu`, which it approximates by a tangent where transformers does not: that of the tiny model is `relu`;
//! - what it has no module for, such as ALBERT, ELECTRA, MPNet, ESM and DeBERTa's first version.

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

/// The config of a model, with keys that its `config.json` does not have or has under another name.
fn config<T: DeserializeOwned>(folder: &Path, more: Value) -> T {
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let mut keys: Map<String, Value> = serde_json::from_str(&text).unwrap();
    let Value::Object(more) = more else { panic!("keys are an object") };
    keys.extend(more);
    serde_json::from_value(keys.into()).unwrap()
}

fn folder_of(name: &str) -> PathBuf {
    fixture("models").join(name)
}

/// Holds the last hidden states of a model of `fixtures/models` against those that `oracle` makes of ids and segments, over
/// the sequences of its golden.
fn check(name: &str, oracle: impl FnMut(&Tensor, &Tensor) -> Result<Tensor>) {
    check_in(name, <[u32]>::to_vec, oracle);
}

/// The same with other segments.
fn check_in(name: &str, segments: fn(&[u32]) -> Vec<u32>, mut oracle: impl FnMut(&Tensor, &Tensor) -> Result<Tensor>) {
    let folder = folder_of(name);
    let architecture = support::architecture(&folder);
    let checkpoint = Checkpoint::open(opened(&weight_files(&folder)), architecture.family).unwrap();
    let encoder = PackedEncoder::new(Parameters::load(&checkpoint, &architecture).unwrap());
    let golden = Golden::read(&fixture("goldens").join(format!("{name}.safetensors")));
    for (index, sentence) in (0..).zip(&golden.expected) {
        let segments = segments(&sentence.segments);
        let row = |values: &[u32]| Tensor::new(values, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let expected = oracle(&row(&sentence.ids), &row(&segments)).unwrap();
        let expected = expected.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let all = forward(&encoder, vec![of_ids(index, &sentence.ids, &segments)]).remove(0).hidden_states;
        let found = &all[all.len() - expected.len()..];
        let largest = expected.iter().fold(1.0_f32, |largest, value| largest.max(value.abs()));
        let difference = largest_difference(found, &expected);
        println!("{name}, {} tokens: hidden states up to {largest:.1} differ by {difference:.1e}", sentence.ids.len());
        assert!(difference <= TOLERANCE * largest, "{name} differs by {difference}");
    }
}

#[test]
fn modernbert() {
    let folder = folder_of("tiny-modernbert");
    let more = json!({"layer_norm_eps": 1e-5, "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0});
    let model = modernbert::ModernBert::load(weights(&folder), &config(&folder, more)).unwrap();
    check("tiny-modernbert", |ids, _| model.forward(ids, &ids.ones_like()?));
}

#[test]
fn nomic_bert() {
    let folder = folder_of("tiny-nomic-bert-wild");
    let model = nomic_bert::NomicBertModel::load(weights(&folder), &config(&folder, json!({}))).unwrap();
    check("tiny-nomic-bert-wild", |ids, segments| model.forward(ids, Some(segments), None));
}

#[test]
fn jina_bert() {
    let folder = folder_of("tiny-jina-v2");
    let more = json!({"initializer_range": 0.02, "pad_token_id": 0});
    let model = jina_bert::BertModel::new(weights(&folder).pp("bert"), &config(&folder, more)).unwrap();
    // All tokens are of the first segment there.
    check_in("tiny-jina-v2", |segments| vec![0; segments.len()], |ids, _| model.forward(ids));
}

#[test]
fn xlm_roberta() {
    let folder = folder_of("tiny-xlm-roberta");
    let more = json!({"position_embedding_type": "absolute"});
    let model = xlm_roberta::XLMRobertaModel::new(&config(&folder, more), weights(&folder)).unwrap();
    check("tiny-xlm-roberta", |ids, segments| model.forward(ids, &ids.ones_like()?, segments, None, None, None));
}

#[test]
fn distilbert() {
    let folder = folder_of("tiny-distilbert");
    let model = distilbert::DistilBertModel::load(weights(&folder), &config(&folder, json!({}))).unwrap();
    check("tiny-distilbert", |ids, _| model.forward(ids, &ids.zeros_like()?));
}

#[test]
fn deberta_v2() {
    for name in ["tiny-deberta-v2", "tiny-deberta-v3"] {
        let folder = folder_of(name);
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
fn t5() {
    for name in ["tiny-t5", "tiny-mt5"] {
        let folder = folder_of(name);
        let mut model = t5::T5EncoderModel::load(weights(&folder), &config(&folder, json!({}))).unwrap();
        check(name, |ids, _| model.forward(ids));
    }
}
