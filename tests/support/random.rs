//! Random encoders of every shape there is, random sentences for them, and random interventions.

#![allow(dead_code, reason = "each test crate uses a part")]

use std::sync::Arc;

use headscope::model::config::{Activation, Config, PositionEmbedding};
use headscope::model::forward::batch::TokenClass;
use headscope::model::forward::gates::{Gate, Gates};
use headscope::model::parameters::{Embeddings, Layer, LayerNorm, Linear, Parameters, PositionBias, PredictionHead};
use headscope::sequences::sequence::Sequence;
use proptest::prelude::*;

use crate::golden::of_ids;

/// A sequence of numbers: `SplitMix64` (Steele et al. 2014), for any well-mixed ones do here.
pub struct Numbers(pub u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed >> 40
    }

    /// From -1 to 1.
    pub fn value(&mut self) -> f32 {
        self.next() as f32 / (1_u64 << 23) as f32 - 1.0
    }

    /// From -`scale` to `scale`.
    pub fn values(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.value() * scale).collect()
    }

    /// From 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap() % end
    }
}

/// The shape and the options of a random encoder with a masked-LM head.
#[derive(Clone, Debug)]
pub struct RandomEncoder {
    pub heads: usize,
    pub head_dim: usize,
    /// The parameters of each layer, by number: the same number twice is a shared layer.
    pub order: Vec<usize>,
    pub wide: usize,
    pub embedding_size: Option<usize>,
    pub activation: Activation,
    pub positions: PositionEmbedding,
    pub position_bias: bool,
    pub padding: Option<u32>,
    pub segments: bool,
    /// Whether layers normalise what goes into their blocks, and what comes out of the last of them.
    pub pre_norm: bool,
    pub embedding_norm: bool,
    pub tied: bool,
    /// Width of the masked-LM head where it is not tied.
    pub output_embedding_size: Option<usize>,
    pub seed: u64,
}

pub const VOCABULARY: usize = 50;
const POSITIONS: usize = 75;

impl RandomEncoder {
    /// An encoder of three layers of two heads, as plain as can be.
    pub fn plain(seed: u64) -> Self {
        Self {
            heads: 2,
            head_dim: 8,
            order: vec![0, 1, 2],
            wide: 24,
            embedding_size: None,
            activation: Activation::Gelu,
            positions: PositionEmbedding::Absolute,
            position_bias: false,
            padding: None,
            segments: true,
            pre_norm: false,
            embedding_norm: true,
            tied: true,
            output_embedding_size: None,
            seed,
        }
    }

    pub fn any() -> impl Strategy<Value = Self> {
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
        let norms = (any::<bool>(), any::<bool>());
        // Tied, or with a width of its own or the input's.
        let head = prop::option::of(prop::option::of(8..50_usize));
        (sizes, order, rest, norms, head).prop_map(
            |((heads, head_dim, wide, embedding_size), order, rest, norms, head)| {
                let (activation, positions, position_bias, padding, segments, seed) = rest;
                let (pre_norm, embedding_norm) = norms;
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
                    pre_norm,
                    embedding_norm,
                    tied: head.is_none(),
                    output_embedding_size: head.flatten(),
                    seed,
                }
            },
        )
    }

    /// Random parameters of this shape.
    pub fn parameters(&self) -> Parameters {
        let mut numbers = Numbers(self.seed);
        let mut values = |count: usize, scale: f32| numbers.values(count, scale);
        let (hidden, wide) = (self.heads * self.head_dim, self.wide);
        let width = self.embedding_size.unwrap_or(hidden);
        let config = Config {
            vocab_size: VOCABULARY,
            embedding_size: self.embedding_size,
            output_embedding_size: self.output_embedding_size,
            hidden_size: hidden,
            num_hidden_layers: self.order.len(),
            num_attention_heads: self.heads,
            intermediate_size: wide,
            hidden_act: self.activation,
            max_position_embeddings: POSITIONS,
            position_embedding_type: self.positions,
            padding: self.padding,
            full_attention: None,
            type_vocab_size: if self.segments { 2 } else { 0 },
            layer_norm_eps: 1e-12,
            initializer_range: 0.02,
            tie_word_embeddings: self.tied,
        };
        let relative = self.positions != PositionEmbedding::Absolute;
        // Scores with a standard deviation near 1, whatever the width.
        let scale = 1.7 / (hidden as f32).sqrt();
        let embeddings = Embeddings {
            words: Arc::new(values(VOCABULARY * width, scale)),
            positions: (!relative).then(|| values(POSITIONS * width, scale)),
            segments: self.segments.then(|| values(2 * width, scale)),
            norm: self.embedding_norm.then(|| LayerNorm { weight: vec![1.0; width], bias: values(width, scale) }),
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
        let final_norm = self.pre_norm.then(|| LayerNorm { weight: vec![1.0; hidden], bias: values(hidden, scale) });
        let width = self.output_embedding_size.unwrap_or(width);
        let prediction = PredictionHead {
            dense: Linear { weight: values(width * hidden, scale), bias: values(width, 0.3) },
            activation: self.activation,
            norm: Some(LayerNorm { weight: vec![1.0; width], bias: values(width, scale) }),
            decoder: (!self.tied).then(|| values(VOCABULARY * width, scale)),
            bias: values(VOCABULARY, 0.3),
        };
        let order = self.order.clone();
        Parameters { config, embeddings, position_bias, layers, order, final_norm, prediction: Some(prediction) }
    }

    /// Gates and patched rows of all kinds, and heads that are left alone.
    pub fn interventions(&self, sentences: &[Sequence]) -> Gates {
        let mut numbers = Numbers(!self.seed);
        let mut gates = Gates::default();
        for layer in 0..self.order.len() {
            for head in 0..self.heads {
                let replacement = std::array::from_fn(|_| numbers.values(self.head_dim, 1.0));
                match numbers.below(6) {
                    0 => gates.set(layer, head, Gate::scale(0.0)),
                    1 => gates.set(layer, head, Gate::scale(numbers.value())),
                    2 => gates.set(layer, head, Gate::replace(replacement)),
                    3 => gates.set(layer, head, Gate { keep: numbers.value(), replacement: Some(replacement.into()) }),
                    _ => {}
                }
                for (sequence, sentence) in sentences.iter().enumerate() {
                    let n = sentence.ids.len();
                    if numbers.below(3) == 0 {
                        let mut row = || {
                            let weights: Vec<f32> = (0..n).map(|_| numbers.value().abs() + 0.01).collect();
                            let sum: f32 = weights.iter().sum();
                            weights.iter().map(|weight| weight / sum).collect()
                        };
                        let rows = [0, n / 2].map(|query| (query, row()));
                        gates.patch(layer, head, sequence, rows.into());
                    }
                }
            }
        }
        gates
    }
}

/// Sentences of these lengths.
pub fn sentences(lengths: &[usize]) -> Vec<Sequence> {
    let sentence = |(index, &tokens): (u64, &usize)| {
        let ids: Vec<u32> =
            (0..tokens).map(|token| u32::try_from((token * 7 + tokens) % VOCABULARY).unwrap()).collect();
        let segments: Vec<u32> = (0..tokens).map(|token| u32::from(token > tokens / 2)).collect();
        of_ids(index, &ids, &segments)
    };
    (0..).zip(lengths).map(sentence).collect()
}

/// A class for each token, all of them in turn.
pub fn classes(sentences: &[Sequence]) -> Vec<TokenClass> {
    let tokens = sentences.iter().map(|sentence| sentence.ids.len()).sum();
    TokenClass::ALL.into_iter().cycle().take(tokens).collect()
}

/// The first and the last position of each sentence, and one between.
pub fn predicted(sentences: &[Sequence]) -> Vec<Vec<usize>> {
    let positions = |sentence: &Sequence| {
        let n = sentence.ids.len();
        vec![n - 1, 0, n / 2]
    };
    sentences.iter().map(positions).collect()
}
