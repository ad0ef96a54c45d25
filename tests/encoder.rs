//! The encoder against PyTorch, against candle's own BERT, and against itself.

#[path = "support/golden.rs"]
mod golden;
mod support;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert;
use golden::{Golden, check_parity, encode, forward, largest_difference, load};
use headscope::attention::AttentionView;
use headscope::encode::{Encoded, TokenKind};
use headscope::model::bert::{Bert, Embeddings, Layer, LayerNorm, Linear};
use headscope::model::config::{Activation, Config};
use headscope::model::encoder::{Encoder, Scratch, Visitor};
use headscope::model::packed::PackedEncoder;
use headscope::model::tensor::TensorEncoder;
use headscope::model::weights::Checkpoint;
use headscope::pack::Pack;
use proptest::prelude::*;
use support::{fixture, tiny_bert};

fn tiny_golden() -> Golden {
    Golden::read(&fixture("goldens/tiny-bert.safetensors"))
}

#[test]
fn attention_and_hidden_states_are_those_of_pytorch() {
    check_parity(&load(&tiny_bert()), &tiny_golden());
}

/// The readable encoder of the tiny model.
fn tensor_encoder() -> TensorEncoder {
    let (_, config) = Config::read(&tiny_bert().join("config.json")).unwrap();
    let mut checkpoint = Checkpoint::open(&tiny_bert().join("model.safetensors")).unwrap();
    TensorEncoder::new(&Bert::load(&mut checkpoint, &config).unwrap(), &Device::Cpu).unwrap()
}

#[test]
fn the_readable_encoder_agrees_with_pytorch_too() {
    let mut model = load(&tiny_bert());
    model.encoder = Box::new(tensor_encoder());
    check_parity(&model, &tiny_golden());
}

/// A BERT of the given shape with random weights.
fn random_bert(heads: usize, head_dim: usize, layers: usize, wide: usize, activation: Activation, seed: u64) -> Bert {
    let mut state = seed;
    let mut values = |count: usize, scale: f32| -> Vec<f32> {
        let mut next = || {
            // SplitMix64 (Steele et al. 2014): any sequence of well-mixed numbers does here.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next() * scale).collect()
    };
    let hidden = heads * head_dim;
    let config = Config {
        vocab_size: 50,
        hidden_size: hidden,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        intermediate_size: wide,
        hidden_act: activation,
        max_position_embeddings: 70,
        type_vocab_size: 2,
        layer_norm_eps: 1e-12,
    };
    // Scores with a standard deviation near 1, whatever the width.
    let scale = 1.7 / (hidden as f32).sqrt();
    let mut linear =
        |outputs: usize, inputs: usize| Linear { weight: values(outputs * inputs, scale), bias: values(outputs, 0.3) };
    let layer = |linear: &mut dyn FnMut(usize, usize) -> Linear| Layer {
        query_key_value: linear(3 * hidden, hidden),
        attention_output: linear(hidden, hidden),
        attention_norm: norm(linear, hidden),
        intermediate: linear(wide, hidden),
        output: linear(hidden, wide),
        output_norm: norm(linear, hidden),
    };
    fn norm(linear: &mut dyn FnMut(usize, usize) -> Linear, hidden: usize) -> LayerNorm {
        LayerNorm { weight: vec![1.0; hidden], bias: linear(hidden, 1).bias }
    }
    let embeddings = Embeddings {
        words: linear(50, hidden).weight,
        positions: linear(70, hidden).weight,
        segments: linear(2, hidden).weight,
        norm: norm(&mut linear, hidden),
    };
    Bert { layers: (0..layers).map(|_| layer(&mut linear)).collect(), config, embeddings }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Two executors of one definition agree on whatever shape there is.
    ///
    /// Hidden states are at least 8 wide: the normalisation of a few values that happen to be nearly equal magnifies
    /// rounding without bound, in either encoder.
    #[test]
    fn both_encoders_agree(
        heads in 1..5_usize,
        head_dim in 8..40_usize,
        layers in 1..4_usize,
        wide in 1..100_usize,
        activation in prop::sample::select(vec![Activation::Gelu, Activation::GeluNew, Activation::Relu]),
        lengths in prop::collection::vec(1..70_usize, 1..6),
        seed in any::<u64>(),
    ) {
        let bert = random_bert(heads, head_dim, layers, wide, activation, seed);
        let sentence = |(index, tokens): (u64, usize)| Encoded {
            index,
            ids: (0..tokens).map(|token| u32::try_from((token * 7 + tokens) % 50).unwrap()).collect(),
            segments: (0..tokens).map(|token| u32::from(token > tokens / 2)).collect(),
            kinds: vec![TokenKind::Text; tokens],
            words: Vec::new(),
            tree: None,
        };
        let sentences: Vec<Encoded> = (0..).zip(lengths).map(sentence).collect();
        let slow = forward(&TensorEncoder::new(&bert, &Device::Cpu).unwrap(), sentences.clone());
        let fast = forward(&PackedEncoder::new(bert), sentences);
        for (slow, fast) in slow.iter().zip(&fast) {
            let attention = largest_difference(&slow.attentions, &fast.attentions);
            prop_assert!(attention <= golden::TOLERANCE, "attention differs by {attention:e}");
            // Hidden states are not bounded by 1 as attention is.
            let hidden = largest_difference(&slow.hidden_states, &fast.hidden_states);
            prop_assert!(hidden <= 5.0 * golden::TOLERANCE, "hidden states differ by {hidden:e}");
        }
    }
}

#[test]
fn entropies_from_the_softmax_are_those_of_the_weights() {
    struct Check(usize);
    impl Visitor for Check {
        fn attention(&mut self, _sentence: usize, view: AttentionView<'_>) {
            let bare = AttentionView::new(view.layer, view.head, view.tokens(), view.weights());
            for query in 0..view.tokens() {
                assert!((view.entropy(query) - bare.entropy(query)).abs() < 1e-5);
                self.0 += 1;
            }
        }
    }
    let model = load(&tiny_bert());
    let sentence = encode(&model, &tiny_golden().sentences[1]);
    let rows = sentence.ids.len() * model.grid().count();
    let mut check = Check(0);
    model.encoder.forward(&Pack { sentences: vec![sentence] }, &mut Scratch::default(), &mut check).unwrap();
    assert_eq!(check.0, rows);
}

#[test]
fn ids_without_embeddings_are_refused() {
    let model = load(&tiny_bert());
    let sentence = encode(&model, &["the".to_owned()]);
    let error = |sentence: Encoded| {
        let pack = Pack { sentences: vec![sentence] };
        struct Ignore;
        impl Visitor for Ignore {
            fn attention(&mut self, _sentence: usize, _view: AttentionView<'_>) {}
        }
        let forward = |encoder: &dyn Encoder| encoder.forward(&pack, &mut Scratch::default(), &mut Ignore).unwrap_err();
        assert_eq!(forward(&tensor_encoder()).to_string(), forward(model.encoder.as_ref()).to_string());
        forward(model.encoder.as_ref()).to_string()
    };
    let ids = Encoded { ids: vec![2, 196, 3], ..sentence.clone() };
    assert_eq!(error(ids), "sentence 0 has token id 196, the model 196 token embeddings");
    let segments = Encoded { segments: vec![0, 2, 0], ..sentence };
    assert_eq!(error(segments), "sentence 0 has segment 2, the model 2 segment embeddings");
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
