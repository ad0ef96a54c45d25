//! The encoder against PyTorch, against candle's own BERT, and against itself.

#[path = "support/golden.rs"]
mod golden;
mod support;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert;
use golden::{Golden, check_parity, encode, forward, largest_difference, load};
use support::{fixture, tiny_bert};

fn tiny_golden() -> Golden {
    Golden::read(&fixture("goldens/tiny-bert.safetensors"))
}

#[test]
fn attention_and_hidden_states_are_those_of_pytorch() {
    check_parity(&load(&tiny_bert()), &tiny_golden());
}

#[test]
fn a_sentence_in_a_pack_is_the_sentence_alone() {
    let model = load(&tiny_bert());
    let sentences: Vec<_> = tiny_golden().sentences.iter().map(|words| encode(&model, words)).collect();
    let together = forward(model.encoder.as_ref(), sentences.clone());
    for (sentence, packed) in sentences.into_iter().zip(together) {
        let alone = forward(model.encoder.as_ref(), vec![sentence]).remove(0);
        // Not bit for bit: a matrix product may sum in another order for another number of rows.
        assert!(largest_difference(&alone.attentions, &packed.attentions) < 1e-6);
        assert!(largest_difference(&alone.hidden_states, &packed.hidden_states) < golden::TOLERANCE);
    }
}

#[test]
fn attention_rows_sum_to_one() {
    let model = load(&tiny_bert());
    for words in tiny_golden().sentences {
        let sentence = encode(&model, &words);
        let tokens = sentence.ids.len();
        for row in forward(model.encoder.as_ref(), vec![sentence])[0].attentions.chunks_exact(tokens) {
            let sum: f64 = row.iter().map(|&weight| f64::from(weight)).sum();
            assert!((sum - 1.0).abs() < 1e-6, "a row sums to {sum}");
        }
    }
}

#[test]
fn hidden_states_are_those_of_candle_transformers() {
    let folder = tiny_bert();
    let model = load(&folder);
    let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let config: bert::Config = serde_json::from_str(&config).unwrap();
    let weights = std::fs::read(folder.join("model.safetensors")).unwrap();
    let weights = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu).unwrap();
    let oracle = bert::BertModel::load(weights, &config).unwrap();
    for words in tiny_golden().sentences {
        let sentence = encode(&model, &words);
        let ids = Tensor::new(sentence.ids.as_slice(), &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let expected = oracle.forward(&ids, &ids.zeros_like().unwrap(), None).unwrap();
        let expected = expected.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let all = forward(model.encoder.as_ref(), vec![sentence]).remove(0).hidden_states;
        let difference = largest_difference(&all[all.len() - expected.len()..], &expected);
        assert!(difference <= golden::TOLERANCE, "differs by {difference}");
    }
}
