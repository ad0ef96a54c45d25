//! The encoder against PyTorch, against candle's own BERT, and against itself.

#[path = "support/golden.rs"]
mod golden;
mod support;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert;
use golden::{Golden, attention_alone, check_parity, encode, forward, largest_difference, load, of_ids};
use headscope::model::config::{Activation, Config, PositionEmbedding};
use headscope::model::forward::attention::AttentionView;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::tensor::TensorEncoder;
use headscope::model::forward::{Encoder, Scratch, Visitor};
use headscope::model::parameters::{Embeddings, Layer, LayerNorm, Linear, Parameters, PositionBias};
use headscope::model::weights::Checkpoint;
use headscope::sequences::encode::Sequence;
use headscope::sequences::pack::Pack;
use proptest::prelude::*;
use support::{fixture, opened, tiny_bert};

fn tiny_golden() -> Golden {
    Golden::read(&fixture("goldens/tiny-bert.safetensors"))
}

#[test]
fn attention_and_hidden_states_are_those_of_pytorch() {
    check_parity(&load(&tiny_bert()), &tiny_golden());
}

/// The readable encoder of the tiny model.
fn tensor_encoder() -> TensorEncoder {
    let architecture = support::architecture(&tiny_bert());
    let checkpoint = Checkpoint::open(opened(&[tiny_bert().join("model.safetensors")]), "bert.").unwrap();
    TensorEncoder::new(&Parameters::load(&checkpoint, &architecture).unwrap(), &Device::Cpu).unwrap()
}

#[test]
fn the_readable_encoder_agrees_with_pytorch_too() {
    let mut model = load(&tiny_bert());
    model.encoder = Box::new(tensor_encoder());
    check_parity(&model, &tiny_golden());
}

/// What the property test chooses of an encoder.
#[derive(Clone, Debug)]
struct Choice {
    heads: usize,
    head_dim: usize,
    /// The parameters of each layer, by number: the same number twice is a shared layer.
    order: Vec<usize>,
    wide: usize,
    embedding_size: Option<usize>,
    activation: Activation,
    positions: PositionEmbedding,
    position_bias: bool,
    padding: Option<u32>,
    segments: bool,
    seed: u64,
}

const VOCABULARY: usize = 50;
const POSITIONS: usize = 75;

impl Choice {
    fn any() -> impl Strategy<Value = Self> {
        use PositionEmbedding::{Absolute, RelativeKey, RelativeKeyQuery};
        let activations = vec![Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu];
        // Hidden states are at least 8 wide: the normalisation of a few values that happen to be nearly equal magnifies
        // rounding without bound, in either encoder.
        let sizes = (1..5_usize, 8..40_usize, 1..100_usize, prop::option::of(8..50_usize));
        let order = prop::sample::select(vec![vec![0], vec![0, 1], vec![0, 0, 0], vec![1, 0, 1]]);
        let positions = prop::sample::select(vec![Absolute, RelativeKey, RelativeKeyQuery]);
        let padding = prop::option::of(0..4_u32);
        let activation = prop::sample::select(activations);
        let rest = (activation, positions, any::<bool>(), padding, any::<bool>(), any::<u64>());
        (sizes, order, rest).prop_map(|((heads, head_dim, wide, embedding_size), order, rest)| {
            let (activation, positions, position_bias, padding, segments, seed) = rest;
            // No family has both.
            let positions = if position_bias { Absolute } else { positions };
            Self {
                heads,
                head_dim,
                order,
                wide,
                embedding_size,
                activation,
                positions,
                position_bias,
                padding,
                segments,
                seed,
            }
        })
    }

    /// Random parameters of this shape.
    fn parameters(&self) -> Parameters {
        let mut state = self.seed;
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
        let (hidden, wide) = (self.heads * self.head_dim, self.wide);
        let width = self.embedding_size.unwrap_or(hidden);
        let config = Config {
            vocab_size: VOCABULARY,
            embedding_size: self.embedding_size,
            hidden_size: hidden,
            num_hidden_layers: self.order.len(),
            num_attention_heads: self.heads,
            intermediate_size: wide,
            hidden_act: self.activation,
            max_position_embeddings: POSITIONS,
            position_embedding_type: self.positions,
            padding: self.padding,
            type_vocab_size: if self.segments { 2 } else { 0 },
            layer_norm_eps: 1e-12,
            initializer_range: 0.02,
        };
        let relative = self.positions != PositionEmbedding::Absolute;
        // Scores with a standard deviation near 1, whatever the width.
        let scale = 1.7 / (hidden as f32).sqrt();
        let embeddings = Embeddings {
            words: values(VOCABULARY * width, scale),
            positions: (!relative).then(|| values(POSITIONS * width, scale)),
            segments: self.segments.then(|| values(2 * width, scale)),
            norm: LayerNorm { weight: vec![1.0; width], bias: values(width, scale) },
            projection: self.embedding_size.map(|_| Linear {
                weight: values(hidden * width, 1.7 / (width as f32).sqrt()),
                bias: values(hidden, 0.3),
            }),
        };
        let position_bias =
            self.position_bias.then(|| PositionBias { weight: values(PositionBias::BUCKETS * self.heads, 1.0) });
        let mut layer = |_| {
            let mut linear = |outputs: usize, inputs: usize| Linear {
                weight: values(outputs * inputs, scale),
                bias: values(outputs, 0.3),
            };
            let query_key_value = linear(3 * hidden, hidden);
            let attention_output = linear(hidden, hidden);
            let intermediate = linear(wide, hidden);
            let output = linear(hidden, wide);
            let distances = relative.then(|| values((2 * POSITIONS - 1) * self.head_dim, 0.5));
            let mut norm = || LayerNorm { weight: vec![1.0; hidden], bias: values(hidden, scale) };
            let (attention_norm, output_norm) = (norm(), norm());
            Layer { query_key_value, distances, attention_output, attention_norm, intermediate, output, output_norm }
        };
        let stored = self.order.iter().max().unwrap() + 1;
        let layers = (0..stored).map(&mut layer).collect();
        Parameters { config, embeddings, position_bias, layers, order: self.order.clone() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Two executors of one definition agree on whatever shape there is.
    #[test]
    fn both_encoders_agree(choice in Choice::any(), lengths in prop::collection::vec(1..70_usize, 1..6)) {
        let parameters = choice.parameters();
        let sentence = |(index, tokens): (u64, usize)| {
            let ids: Vec<u32> = (0..tokens).map(|token| u32::try_from((token * 7 + tokens) % VOCABULARY).unwrap()).collect();
            let segments: Vec<u32> = (0..tokens).map(|token| u32::from(token > tokens / 2)).collect();
            of_ids(index, &ids, &segments)
        };
        let sentences: Vec<Sequence> = (0..).zip(lengths).map(sentence).collect();
        let slow = forward(&TensorEncoder::new(&parameters, &Device::Cpu).unwrap(), sentences.clone());
        let packed = PackedEncoder::new(parameters);
        let fast = forward(&packed, sentences.clone());
        // What nobody asks for is not computed, which changes nothing else.
        for (all, alone) in fast.iter().zip(attention_alone(&packed, sentences)) {
            prop_assert_eq!(&all.attentions, &alone.attentions);
            prop_assert!(alone.hidden_states.is_empty());
        }
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
            let weights: Vec<f32> = view.rows().flatten().copied().collect();
            let bare = AttentionView::new(view.layer, view.head, view.tokens(), &weights);
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
    let error = |sentence: Sequence| {
        let pack = Pack { sentences: vec![sentence] };
        struct Ignore;
        impl Visitor for Ignore {
            fn attention(&mut self, _sentence: usize, _view: AttentionView<'_>) {}
        }
        let forward = |encoder: &dyn Encoder| encoder.forward(&pack, &mut Scratch::default(), &mut Ignore).unwrap_err();
        assert_eq!(forward(&tensor_encoder()).to_string(), forward(model.encoder.as_ref()).to_string());
        forward(model.encoder.as_ref()).to_string()
    };
    let ids = Sequence { ids: vec![2, 196, 3], ..sentence.clone() };
    assert_eq!(error(ids), "sentence 0 has token id 196, the model 196 token embeddings");
    let segments = Sequence { segments: vec![0, 2, 0], ..sentence };
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
