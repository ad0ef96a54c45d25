//! Every family against transformers.

#[path = "support/golden.rs"]
mod golden;
mod support;

use candle_core::Device;
use golden::{Golden, check_forward, of_ids};
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::tensor::TensorEncoder;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use support::{fixture, opened, weight_files};

/// Holds both encoders of a model of `fixtures/models` against its golden.
fn check(name: &str) {
    let folder = fixture("models").join(name);
    let architecture = support::architecture(&folder);
    let checkpoint = Checkpoint::open(opened(&weight_files(&folder)), architecture.family.prefix).unwrap();
    let parameters = Parameters::load(&checkpoint, &architecture).unwrap();
    let golden = Golden::read(&fixture("goldens").join(format!("{name}.safetensors")));
    let sentences: Vec<_> =
        (0..).zip(&golden.expected).map(|(index, sentence)| of_ids(index, &sentence.ids, &sentence.segments)).collect();
    let layers = architecture.config.num_hidden_layers;
    println!("{name}");
    let readable = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
    check_forward(&readable, layers, sentences.clone(), &golden.expected);
    check_forward(&PackedEncoder::new(parameters), layers, sentences, &golden.expected);
}

#[test]
fn roberta() {
    check("tiny-roberta");
    check("tiny-xlm-roberta");
    check("tiny-camembert");
}

#[test]
fn bert_from_an_old_pickle() {
    check("tiny-bert-pickle");
}

#[test]
fn distilbert_from_shards_of_pickles() {
    check("tiny-distilbert");
}

#[test]
fn electra_from_shards() {
    check("tiny-electra");
}

#[test]
fn albert_from_a_pickle() {
    check("tiny-albert");
}

#[test]
fn mpnet() {
    check("tiny-mpnet");
}

#[test]
fn relative_positions() {
    check("tiny-bert-relative-key");
    check("tiny-roberta-relative-key-query");
}
