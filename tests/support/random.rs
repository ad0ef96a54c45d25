//! Random encoders of every supported shape, with random sentences and random interventions.

#![allow(dead_code, reason = "each test crate uses a part")]

use std::sync::Arc;

use headscope::model::config::{
    Activation, BlockPlan, Config, DistanceRowMap, EmbeddingScale, NormKind, PositionEmbedding, Rotary, RotaryScaling,
};
use headscope::model::forward::batch::TokenClass;
use headscope::model::forward::gates::{Gate, Gates};
use headscope::model::grid::visibility::{LayerClasses, Visibility};
use headscope::model::parameters::{
    DisentangledTerms, Embeddings, Layer, Linear, Norm, Parameters, PositionBias, PredictionHead, RotaryAngles,
    Transform,
};
use headscope::sequences::sequence::Sequence;
use proptest::prelude::*;

use crate::golden::of_ids;

/// Pseudo-random numbers by `SplitMix64` (Steele et al. 2014). Any well-mixed generator would do here.
pub struct Numbers(pub u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed >> 40
    }

    /// A value from -1 to 1.
    pub fn value(&mut self) -> f32 {
        self.next() as f32 / (1_u64 << 23) as f32 - 1.0
    }

    /// Values from -`scale` to `scale`.
    pub fn values(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.value() * scale).collect()
    }

    /// A number from 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap() % end
    }
}

/// The shape and the options of a random encoder with a masked-LM head.
#[derive(Clone, Debug)]
pub struct RandomEncoder {
    pub heads: usize,
    pub head_dim: usize,
    /// The index of each layer's parameters. A repeated index is a shared layer.
    pub order: Vec<usize>,
    pub wide: usize,
    pub embedding_size: Option<usize>,
    pub activation: Activation,
    pub positions: PositionEmbedding,
    pub position_bias: Bias,
    /// Whether the scores have terms between content and distance: `[keys, queries]` of the distances.
    pub disentangled: Option<[bool; 2]>,
    /// Number of a head's dimensions that rotate; 0 for none.
    pub rotary: usize,
    /// Keys that queries see in even layers. In odd layers, queries see all keys.
    pub visibility: Visibility,
    /// Norms of queries and keys: per head (`true`) or over all heads together (`false`).
    pub query_key_norms: Option<bool>,
    /// Whether the outputs of blocks are normalised, in pre-norm layers.
    pub write_norms: bool,
    pub norm: NormKind,
    pub gated: bool,
    /// Width of the hidden states, if it may differ from the width of all heads together.
    pub hidden: Option<usize>,
    pub score_scale: Option<f64>,
    pub embedding_scale: EmbeddingScale,
    pub padding: Option<u32>,
    pub segments: bool,
    pub blocks: BlockPlan,
    /// Whether the input of the first layer's heads is normalised, in pre-norm layers.
    pub first_norm: bool,
    pub embedding_norm: bool,
    pub tied: bool,
    /// Whether the masked-LM head has a layer before the product with the token vectors.
    pub transform: bool,
    /// Width of an untied masked-LM head.
    pub output_embedding_size: Option<usize>,
    pub seed: u64,
}

/// The bias that the distance of two tokens adds to their score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    None,
    /// One table of buckets that all layers share.
    Buckets,
    /// Buckets for so few distances that most distances fall into the last bucket.
    FewBuckets,
    Slopes,
}

pub const VOCABULARY: usize = 50;
const POSITIONS: usize = 75;

impl RandomEncoder {
    /// A plain encoder with three layers of two heads.
    pub fn plain(seed: u64) -> Self {
        Self {
            heads: 2,
            head_dim: 8,
            order: vec![0, 1, 2],
            wide: 24,
            embedding_size: None,
            activation: Activation::Gelu,
            positions: PositionEmbedding::Absolute,
            position_bias: Bias::None,
            disentangled: None,
            rotary: 0,
            visibility: Visibility::ALL,
            query_key_norms: None,
            write_norms: false,
            norm: NormKind::Layer,
            gated: false,
            hidden: None,
            score_scale: None,
            embedding_scale: EmbeddingScale::One,
            padding: None,
            segments: true,
            blocks: BlockPlan::Post,
            first_norm: true,
            embedding_norm: true,
            tied: true,
            transform: true,
            output_embedding_size: None,
            seed,
        }
    }

    pub fn any() -> impl Strategy<Value = Self> {
        use PositionEmbedding::{Absolute, RelativeKey, RelativeKeyQuery};
        let activations =
            vec![Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu, Activation::QuickGelu];
        // Hidden states have at least 8 values. The normalisation of a few nearly equal values magnifies rounding
        // without bound, in either encoder.
        let sizes = (1..5_usize, 8..40_usize, 1..100_usize, prop::option::of(8..50_usize));
        let order = prop::sample::select(vec![vec![0], vec![0, 1], vec![0, 0, 0], vec![1, 0, 1]]);
        let positions = prop::sample::select(vec![Absolute, RelativeKey, RelativeKeyQuery, PositionEmbedding::None]);
        let bias = prop::sample::select(vec![Bias::None, Bias::None, Bias::Buckets, Bias::FewBuckets, Bias::Slopes]);
        let norm = prop::sample::select(vec![NormKind::Layer, NormKind::RootMeanSquare]);
        let scale = prop::sample::select(vec![
            EmbeddingScale::One,
            EmbeddingScale::Constant(1.5),
            EmbeddingScale::WithoutMasks { mask: 7 },
        ]);
        // None, half or all of a head's dimensions rotate, rounded down to an even number.
        let keys = (0..3_usize, prop::option::of(any::<bool>()), any::<bool>(), prop::option::of(0.05..0.3));
        let parts = (norm, any::<bool>(), scale, any::<bool>(), prop::option::of(8..60_usize));
        let padding = prop::option::of(0..4_u32);
        let activation = prop::sample::select(activations);
        let rest = (activation, positions, bias, padding, any::<bool>(), any::<u64>());
        let plans = prop::sample::select(vec![BlockPlan::Post, BlockPlan::Pre, BlockPlan::Parallel]);
        let norms = (plans, any::<bool>());
        // The masked-LM head is tied, or has its own width, or has the width of the input.
        let head = prop::option::of(prop::option::of(8..50_usize));
        let disentangled = (prop::option::of(any::<[bool; 2]>()), any::<bool>());
        let farthest = || prop::option::of(0..12_usize);
        let window = (farthest(), farthest()).prop_map(|(before, after)| Visibility { before, after });
        let visibility = prop_oneof![3 => window, 1 => Just(Visibility::CAUSAL)];
        (sizes, order, rest, norms, head, keys, parts, (disentangled, visibility)).prop_map(
            |((heads, head_dim, wide, embedding_size), order, rest, norms, head, keys, parts, key_parts)| {
                let (disentangled, visibility) = key_parts;
                let (rotary, query_key_norms, first_norm, score_scale) = keys;
                // A first layer that runs again would read sums that grow without bound, so its input is normalised.
                let first_norm = first_norm || order.iter().filter(|&&place| place == 0).count() > 1;
                let (norm, gated, embedding_scale, transform, hidden) = parts;
                let (disentangled, write_norms) = disentangled;
                let (activation, positions, position_bias, padding, segments, seed) = rest;
                let (blocks, embedding_norm) = norms;
                // No architecture family has both a position bias and relative positions.
                let positions =
                    if position_bias != Bias::None && positions.is_relative() { Absolute } else { positions };
                Self {
                    heads,
                    head_dim,
                    order,
                    wide,
                    embedding_size,
                    activation,
                    positions,
                    position_bias,
                    disentangled: disentangled.filter(|_| position_bias == Bias::None && !positions.is_relative()),
                    rotary: head_dim / 2 * rotary / 2 * 2,
                    visibility,
                    query_key_norms,
                    write_norms: write_norms && blocks.is_pre_norm(),
                    norm,
                    gated,
                    hidden,
                    score_scale,
                    embedding_scale,
                    padding,
                    segments,
                    blocks,
                    first_norm,
                    embedding_norm,
                    tied: head.is_none(),
                    // Without that layer, the product takes the hidden states themselves.
                    transform: transform || embedding_size.is_some() || head.flatten().is_some(),
                    output_embedding_size: head.flatten(),
                    seed,
                }
            },
        )
    }

    /// The model configuration of this shape.
    pub fn config(&self) -> Config {
        let hidden = self.hidden.unwrap_or(self.heads * self.head_dim);
        let rotary = (self.rotary > 0).then_some(Rotary {
            theta: 100.0,
            dims: self.rotary,
            scaling: RotaryScaling::Yarn {
                factor: 2.0,
                attention: 1.1,
                fast: 4.0,
                slow: 1.0,
                original: 60.0,
                truncate: true,
            },
        });
        let visibility: Vec<Visibility> =
            (0..self.order.len()).map(|layer| if layer % 2 == 0 { self.visibility } else { Visibility::ALL }).collect();
        Config {
            vocab_size: VOCABULARY,
            hidden_size: hidden,
            num_hidden_layers: self.order.len(),
            num_attention_heads: self.heads,
            intermediate_size: self.wide,
            hidden_act: self.activation,
            max_position_embeddings: POSITIONS,
            embedding_size: self.embedding_size,
            output_embedding_size: self.output_embedding_size,
            head_size: Some(self.head_dim),
            score_scale: self.score_scale,
            blocks: self.blocks,
            norm: self.norm,
            gated: self.gated,
            embedding_scale: self.embedding_scale,
            position_embedding_type: self.positions,
            padding: self.padding,
            rotary: self.order.iter().map(|_| rotary.clone()).collect(),
            visibility: LayerClasses::new(&visibility),
            type_vocab_size: if self.segments { 2 } else { 0 },
            layer_norm_eps: 1e-12,
            initializer_range: 0.02,
            tie_word_embeddings: self.tied,
            ..Config::default()
        }
    }

    /// Random parameters of this shape.
    pub fn parameters(&self) -> Parameters {
        let mut numbers = Numbers(self.seed);
        let values = &mut |count: usize, scale: f32| numbers.values(count, scale);
        // RMS norms have no bias.
        let shift = if self.norm == NormKind::Layer { 1.0 } else { 0.0 };
        let heads_width = self.heads * self.head_dim;
        let (hidden, wide) = (self.hidden.unwrap_or(heads_width), self.wide);
        let width = self.embedding_size.unwrap_or(hidden);
        let config = self.config();
        let (absolute, relative) = (self.positions == PositionEmbedding::Absolute, self.positions.is_relative());
        // Scores get a standard deviation near 1 at every width.
        let scale = 1.7 / (hidden as f32).sqrt();
        let embeddings = Embeddings {
            words: Arc::new(values(VOCABULARY * width, scale)),
            positions: absolute.then(|| values(POSITIONS * width, scale)),
            segments: self.segments.then(|| values(2 * width, scale)),
            norm: self.embedding_norm.then(|| Norm { weight: vec![1.0; width], bias: values(width, shift * scale) }),
            projection: self.embedding_size.map(|_| Linear {
                weight: values(hidden * width, 1.7 / (width as f32).sqrt()),
                bias: values(hidden, 0.3),
            }),
        };
        let mut buckets = |buckets, furthest| {
            let weight = values(buckets * self.heads, 1.0);
            PositionBias::Buckets { weight, buckets, longest_distance: furthest }
        };
        let position_bias = match self.position_bias {
            Bias::None => None,
            Bias::Buckets => Some(buckets(32, 128)),
            Bias::FewBuckets => Some(buckets(8, 12)),
            Bias::Slopes => Some(PositionBias::from_head_count(self.heads)),
        };
        let position_bias = position_bias.map(Arc::new);
        let angles = config.rotary[0].as_ref().map(|rotary| {
            let (frequencies, factor) = rotary.frequencies();
            Arc::new(RotaryAngles { frequencies, factor })
        });
        let mut layer = |place| {
            let mut linear = |outputs: usize, inputs: usize| Linear {
                weight: values(outputs * inputs, scale),
                bias: values(outputs, 0.3),
            };
            let query_key_value = linear(3 * heads_width, hidden);
            let attention_output = linear(hidden, heads_width);
            let intermediate = linear(if self.gated { 2 * wide } else { wide }, hidden);
            let output = linear(hidden, wide);
            let distances = relative.then(|| values((2 * POSITIONS - 1) * self.head_dim, 0.5));
            let mut norm = || Norm { weight: vec![1.0; hidden], bias: values(hidden, shift * scale) };
            let (attention_norm, output_norm) = (norm(), norm());
            let write_norms = self.write_norms.then(|| [norm(), norm()]);
            let disentangled = self.disentangled.map(|there| {
                let [keys, queries] = there.map(|there| there.then(|| values(16 * heads_width, 0.5)));
                DisentangledTerms {
                    position_keys: keys,
                    position_queries: queries,
                    distance_rows: DistanceRowMap { span: 8, buckets: Some(8), longest_distance: 30 },
                }
            });
            let none = self.blocks.is_pre_norm() && !self.first_norm && place == 0;
            let query_key_norms = self.query_key_norms.map(|per_head| {
                let width = if per_head { self.head_dim } else { heads_width };
                [1.5, 0.5].map(|weight| Norm { weight: vec![weight; width], bias: values(width, shift * 0.3) })
            });
            Layer {
                query_key_value,
                query_key_norms,
                rotary: angles.clone(),
                distances,
                disentangled,
                position_bias: position_bias.clone(),
                attention_output,
                attention_norm: (!none).then_some(attention_norm),
                intermediate,
                output,
                output_norm,
                block_output_norms: write_norms,
            }
        };
        let stored = self.order.iter().max().unwrap() + 1;
        let layers = (0..stored).map(&mut layer).collect();
        let final_norm =
            self.blocks.is_pre_norm().then(|| Norm { weight: vec![1.0; hidden], bias: values(hidden, shift * scale) });
        let width = self.output_embedding_size.unwrap_or(width);
        let prediction = PredictionHead {
            transform: self.transform.then(|| Transform {
                dense: Linear { weight: values(width * hidden, scale), bias: values(width, 0.3) },
                activation: self.activation,
                norm: Some(Norm { weight: vec![1.0; width], bias: values(width, shift * scale) }),
            }),
            decoder: (!self.tied).then(|| values(VOCABULARY * width, scale)),
            bias: values(VOCABULARY, 0.3),
            // Half of the seeds get a cap that is low enough to bound some logits.
            cap: self.seed.is_multiple_of(2).then_some(1.0),
        };
        let order = self.order.clone();
        Parameters { config, embeddings, layers, layer_indices: order, final_norm, prediction: Some(prediction) }
    }

    /// Random gates and patched rows of all kinds. Some heads stay untouched.
    pub fn interventions(&self, sentences: &[Sequence]) -> Gates {
        let mut numbers = Numbers(!self.seed);
        let mut gates = Gates::default();
        for layer in 0..self.order.len() {
            for head in 0..self.heads {
                let replacement = std::array::from_fn(|_| numbers.values(self.head_dim, 1.0));
                match numbers.below(6) {
                    0 => gates.set_gate(layer, head, Gate::from_factor(0.0)),
                    1 => gates.set_gate(layer, head, Gate::from_factor(numbers.value())),
                    2 => gates.set_gate(layer, head, Gate::from_replacement(replacement)),
                    3 => gates.set_gate(
                        layer,
                        head,
                        Gate { keep: numbers.value(), replacement: Some(replacement.into()) },
                    ),
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
                        gates.patch_rows(layer, head, sequence, rows.into());
                    }
                }
            }
        }
        gates
    }
}

/// Sentences of these lengths, in tokens.
pub fn sentences(lengths: &[usize]) -> Vec<Sequence> {
    let sentence = |(index, &tokens): (u64, &usize)| {
        let ids: Vec<u32> =
            (0..tokens).map(|token| u32::try_from((token * 7 + tokens) % VOCABULARY).unwrap()).collect();
        let segments: Vec<u32> = (0..tokens).map(|token| u32::from(token > tokens / 2)).collect();
        of_ids(index, &ids, &segments)
    };
    (0..).zip(lengths).map(sentence).collect()
}

/// A class for each token, cycling through all classes.
pub fn classes(sentences: &[Sequence]) -> Vec<TokenClass> {
    let tokens = sentences.iter().map(|sentence| sentence.ids.len()).sum();
    TokenClass::ALL.into_iter().cycle().take(tokens).collect()
}

/// The last, the first and the middle position of each sentence.
pub fn predicted(sentences: &[Sequence]) -> Vec<Vec<usize>> {
    let positions = |sentence: &Sequence| {
        let n = sentence.ids.len();
        vec![n - 1, 0, n / 2]
    };
    sentences.iter().map(positions).collect()
}
