//! An encoder's parameters. Every family is stored as BERT's encoder (Vaswani et al. 2017, Devlin et al. 2019). Each block has
//! a norm after it, or before it ("pre-norm", Xiong et al. 2020). A bias that a family lacks is 0.

mod classifier;
mod disentangled;
mod heads;
mod layer_parts;
mod position_bias;
mod prediction;

use std::sync::Arc;

use anyhow::Result;
use itertools::Itertools;

use super::config::{Config, PositionEmbedding, Rotary};
use super::families::architecture::Architecture;
use super::families::{ConvolutionGroups, EmbeddingNames, Intermediate, PositionBiasNames, TensorNames};
use super::grid::HeadPlace;
use super::weights::Tensors;
use crate::system::parallel::{core_count, parallel_map};

pub use classifier::{ClassLabels, ClassifiedUnit, Classifier};
pub use disentangled::DisentangledTerms;
pub use layer_parts::{Linear, Norm};
pub use position_bias::PositionBias;
pub use prediction::{Objective, PredictionHead, Transform};

/// Embeddings of a model, before its first layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// Word embeddings, `[vocab, embedding width]`.
    pub words: Arc<Vec<f32>>,
    /// Position embeddings, `[max_positions, embedding width]`; `None` unless positions are absolute. The embedding of
    /// plain text ([`PlainTextConstant`](super::families::PlainTextConstant)), if the family has one, is already added
    /// to each row.
    pub positions: Option<Vec<f32>>,
    /// Segment embeddings, `[segments, embedding width]`; `None` in a family without segments.
    pub segments: Option<Vec<f32>>,
    /// Norm of the sum of word, position and segment embeddings; `None` if the model does not normalise this sum.
    pub norm: Option<Norm>,
    /// Linear layer after the norm, `[hidden, embedding width]`; `None` if embeddings are as wide as hidden states.
    pub projection: Option<Linear>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Query, key and value projections, stacked, `[3 * heads * head_dim, hidden]`; shared keys and values are copied for each
    /// head.
    pub query_key_value: Linear,
    /// Norms of `[queries, keys]` before rotation: within each head, `[head_dim]`, or over all heads, `[heads * head_dim]`.
    pub query_key_norms: Option<[Norm; 2]>,
    /// Rotation of queries and keys by their positions; `None` without rotary positions.
    pub rotary: Option<Arc<RotaryAngles>>,
    /// `[2 * max_positions - 1, head_dim]`: an embedding of each distance, query less key, if positions are relative.
    pub distances: Option<Vec<f32>>,
    /// DeBERTa's score terms between distances and the content of either token; `None` in other families.
    pub disentangled: Option<DisentangledTerms>,
    /// Bias that each attention head adds to its scores by distance; `None` in families without one.
    pub position_bias: Option<Arc<PositionBias>>,
    /// Output projection of the attention heads.
    pub attention_output: Linear,
    /// Norm of the sum of attention output and residual stream; in pre-norm layers, of the heads' input. `None` without a norm.
    pub attention_norm: Option<Norm>,
    /// The linear layer before the feed-forward activation. In a gated linear unit, its outputs are the gate, then the part
    /// that the gate multiplies.
    pub intermediate: Linear,
    /// The linear layer after the feed-forward activation.
    pub output: Linear,
    /// Norm of the sum of feed-forward output and residual stream. In pre-norm layers, it normalises the input of
    /// `intermediate` instead.
    pub output_norm: Norm,
    /// Norms of the outputs of `[attention block, feed-forward block]`, before they are added to the residual stream.
    pub block_output_norms: Option<[Norm; 2]>,
}

/// The rotation of queries and keys by their positions.
#[derive(Clone, Debug, PartialEq)]
pub struct RotaryAngles {
    /// The angle per position, in radians, for each pair of dimensions `i` and `i + frequencies.len()` of a head.
    pub frequencies: Vec<f32>,
    /// Factor of all cosines and sines.
    pub factor: f32,
}

impl RotaryAngles {
    /// Yields (cosine, sine) of each dimension pair's rotation angle at a position, both multiplied by `self.factor`.
    pub fn cosines_and_sines(&self, position: usize) -> impl Iterator<Item = (f32, f32)> + '_ {
        self.frequencies.iter().map(move |&frequency| {
            let (sine, cosine) = (position as f32 * frequency).sin_cos();
            (cosine * self.factor, sine * self.factor)
        })
    }
}

/// Tensor name of the embeddings that an encoder and its decoder share.
const SHARED_NAME: &str = "shared";

/// Alternatives to [`SHARED_NAME`] in checkpoints that store the shared embeddings under another name: `(tensor name,
/// whether it holds output embeddings)`. Output embeddings are used only if input and output embeddings are tied.
const SHARED_EMBEDDINGS: [(&str, bool); 3] =
    [("encoder.embed_tokens.weight", false), ("decoder.embed_tokens.weight", false), ("lm_head.weight", true)];

impl Embeddings {
    fn load(
        tensors: &impl Tensors,
        Architecture { config, family, .. }: &Architecture,
        names: &TensorNames,
    ) -> Result<Self> {
        let width = config.embedding_width();
        let name = |table: &str| format!("{table}.weight");
        let table = |kind: &str, rows: usize| tensors.tensor(&name(kind), &[rows, width]);
        let EmbeddingNames { words, positions, segments } = names.embeddings;
        let (tied, is_absent) = (config.tie_word_embeddings, !tensors.has_tensor(&name(words)));
        // A checkpoint may store tied embeddings once, under either name.
        let decoders = family.token_heads.iter().map(|head| head.decoder).filter(|_| tied);
        // Embeddings that an encoder and a decoder share may be stored once, under either's name.
        let shared = SHARED_EMBEDDINGS.iter().filter(|(_, is_output)| words == SHARED_NAME && (tied || !is_output));
        let mut others = decoders.chain(shared.map(|(name, _)| *name)).filter(|_| is_absent);
        let words = match others.find(|name| tensors.has_tensor(name)) {
            Some(other) => tensors.tensor(other, &[config.vocab_size, width])?,
            None => table(words, config.vocab_size)?,
        };
        let absolute = config.position_embedding_type == PositionEmbedding::Absolute;
        let mut positions = absolute.then(|| table(positions, config.max_position_embeddings)).transpose()?;
        if let (Some(positions), Some(constant)) = (&mut positions, &names.plain_text) {
            let constant = layer_parts::load_plain_text_constant(tensors, constant, width)?;
            for row in positions.chunks_exact_mut(width) {
                row.iter_mut().zip(&constant).for_each(|(value, constant)| *value += constant);
            }
        }
        let segments = (config.type_vocab_size > 0).then(|| table(segments, config.type_vocab_size)).transpose()?;
        let norm = names.embedding_norm.map(|name| names.norm(tensors, name, width)).transpose()?;
        let projection = names.projection.map(|name| Linear::load(tensors, name, [config.hidden_size, width], true));
        Ok(Self { words: Arc::new(words), positions, segments, norm, projection: projection.transpose()? })
    }
}

impl TensorNames {
    /// Loads the linear layer `name`, from weights in the family's orientation.
    fn linear(&self, tensors: &impl Tensors, name: &str, shape: [usize; 2], biased: bool) -> Result<Linear> {
        let load = if self.is_transposed { Linear::load_transposed } else { Linear::load };
        load(tensors, name, shape, biased)
    }

    /// Loads the norm `name`; adds 1 to its weights in families whose norms do so.
    fn norm(&self, tensors: &impl Tensors, name: &str, width: usize) -> Result<Norm> {
        let mut norm = Norm::load(tensors, name, width, self.biases.norms)?;
        if self.norms_add_one {
            norm.weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok(norm)
    }
}

/// Parameters that several layers use; they are loaded once.
struct SharedParameters {
    /// Rotation of queries and keys, by layer number.
    rotary: Vec<Option<Arc<RotaryAngles>>>,
    position_bias: Option<Arc<PositionBias>>,
    /// Table of distance embeddings, `[rows, hidden]`, which each layer projects to position keys and queries; `None`
    /// without disentangled attention.
    distance_embeddings: Option<Vec<f32>>,
}

impl SharedParameters {
    fn load(tensors: &impl Tensors, config: &Config, names: &TensorNames) -> Result<Self> {
        let heads = config.num_attention_heads;
        let position_bias = match names.position_bias {
            Some(PositionBiasNames::Buckets { table, in_each_layer: false, rows, buckets, longest_distance }) => {
                Some(PositionBias::load(tensors, table, [rows, heads], [buckets, longest_distance])?)
            }
            Some(PositionBiasNames::Slopes) => Some(PositionBias::from_head_count(heads)),
            Some(PositionBiasNames::Buckets { in_each_layer: true, .. }) | None => None,
        };
        let stored = names.frequencies.iter().find(|name| tensors.has_tensor(name));
        let angles = |rotary: &Rotary| -> Result<_> {
            let (frequencies, factor) = rotary.frequencies();
            let frequencies = match &stored {
                Some(name) => tensors.tensor(name, &[frequencies.len()])?,
                None => frequencies,
            };
            Ok(Arc::new(RotaryAngles { frequencies, factor }))
        };
        let rotary = config.rotary.iter().map(|rotary| rotary.as_ref().map(angles).transpose());
        let distance_embeddings =
            names.disentangled.as_ref().map(|names| disentangled::load_distance_embeddings(tensors, names, config));
        Ok(Self {
            rotary: rotary.collect::<Result<_>>()?,
            position_bias: position_bias.map(Arc::new),
            distance_embeddings: distance_embeddings.transpose()?,
        })
    }
}

impl Layer {
    /// Loads layer `number` of the model, whose tensor names begin with `stem`.
    fn load(
        tensors: &impl Tensors,
        (config, names): (&Config, &TensorNames),
        shared: &SharedParameters,
        (number, stem): (usize, &str),
    ) -> Result<Self> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let name = |part: &str| format!("{stem}.{part}");
        let linear = |part, shape, biased, groups: fn(&ConvolutionGroups) -> usize| match &names.convolutions {
            Some(convolutions) => Linear::load_grouped(tensors, &name(part), shape, groups(convolutions)),
            None => names.linear(tensors, &name(part), shape, biased),
        };
        let (parts, biases) = (names.layer_parts, names.biases);
        let norm = |part: &str, width| names.norm(tensors, &name(part), width);
        let distances = parts.distances.filter(|_| config.position_embedding_type.is_relative()).map(|part| {
            let shape = [2 * config.max_position_embeddings - 1, config.head_dim()];
            tensors.tensor(&name(&format!("{part}.weight")), &shape)
        });
        let (heads, width) = (config.num_attention_heads, config.heads_width());
        let present = config.present_heads(number);
        let both = |[first, second]: [&str; 2], width| -> Result<_> { Ok([norm(first, width)?, norm(second, width)?]) };
        let query_key_norms = parts.query_key_norms.map(|parts| both(parts, config.head_dim()));
        let write_norms = parts.block_output_norms.map(|parts| both(parts, hidden));
        let position_bias = match names.position_bias {
            Some(PositionBiasNames::Buckets { table, in_each_layer: true, rows, buckets, longest_distance }) => {
                Some(Arc::new(PositionBias::load(tensors, &name(table), [rows, heads], [buckets, longest_distance])?))
            }
            _ => shared.position_bias.clone(),
        };
        let projection = |part: &str, biased| Linear::load(tensors, &name(part), [width, hidden], biased);
        let disentangled = names.disentangled.as_ref().zip(shared.distance_embeddings.as_ref());
        let disentangled =
            disentangled.map(|(names, embeddings)| DisentangledTerms::load(embeddings, names, projection));
        let wider = config.feed_forward_width();
        let inner = |part, outputs| linear(part, [outputs, hidden], biases.intermediate, |of| of.intermediate);
        let intermediate = match parts.intermediate {
            Intermediate::Plain(part) | Intermediate::GateFirst(part) => inner(part, wider)?,
            Intermediate::GateSecond(part) => {
                inner(part, wider)?.select_outputs((wider / 2..wider).chain(0..wider / 2))
            }
            Intermediate::Gated(both) => {
                let [gate, multiplied] = both.map(|part| inner(part, wide));
                Linear::stack([gate?, multiplied?])
            }
        };
        let attended = [hidden, present.len() * config.head_dim()];
        Ok(Self {
            query_key_value: heads::load(tensors, (config, names), &present, &name)?,
            query_key_norms: query_key_norms.transpose()?,
            rotary: shared.rotary.get(number).cloned().flatten(),
            distances: distances.transpose()?,
            disentangled: disentangled.transpose()?,
            position_bias,
            attention_output: linear(parts.attention_output, attended, biases.attention_output, |of| {
                of.attention_output
            })?
            .with_inputs_for_all_heads(&present, heads),
            attention_norm: (number > 0 || names.has_first_norm)
                .then(|| norm(parts.attention_norm, hidden))
                .transpose()?,
            intermediate,
            output: linear(parts.output, [hidden, wide], biases.output, |of| of.output)?,
            output_norm: norm(parts.output_norm, hidden)?,
            block_output_norms: write_norms.transpose()?,
        })
    }

    /// Copies the layer with its queries and keys, `width` values each, multiplied by `factor`, so that query–key products
    /// scale with `factor` squared. If queries and keys are normalised, the norms' weights are scaled instead. Position queries
    /// and keys of disentangled attention are scaled as well.
    #[must_use]
    pub fn scale_queries_and_keys(&self, factor: f32, width: usize) -> Self {
        let mut layer = self.clone();
        let scale = |values: &mut [f32]| values.iter_mut().for_each(|value| *value *= factor);
        if let Some(norms) = &mut layer.query_key_norms {
            norms.iter_mut().flat_map(|Norm { weight, bias }| [weight, bias]).for_each(|values| scale(values));
        } else {
            let Linear { weight, bias } = &mut layer.query_key_value;
            let inputs = weight.len() / bias.len();
            scale(&mut weight[..2 * width * inputs]);
            scale(&mut bias[..2 * width]);
        }
        if let Some(terms) = &mut layer.disentangled {
            [&mut terms.position_keys, &mut terms.position_queries].into_iter().flatten().for_each(|part| scale(part));
        }
        layer
    }

    /// Whether queries and keys are normalised or rotated, so that the bias of the keys does not cancel in the softmax.
    pub fn transforms_keys(&self) -> bool {
        self.rotary.is_some() || self.query_key_norms.is_some()
    }

    /// Whether an attention head of width `size` writes a constant: its weights in the value or the output projection are all
    /// 0.
    ///
    /// Attention rows sum to one, so a head without value weights writes its value bias everywhere, and a head without output
    /// weights writes nothing. Its queries and keys may be intact, so that its attention looks like that of other heads.
    /// `PrunedWeights` writes models with such heads.
    fn is_constant_head(&self, head: usize, size: usize) -> bool {
        let are_zero = |weights: &[f32]| weights.iter().all(|weight| *weight == 0.0);
        // Queries, keys and values are stacked, each with a copy for every head.
        let width = self.query_key_value.bias.len() / 3;
        let inputs = self.query_key_value.weight.len() / (3 * width);
        let values = &self.query_key_value.weight[(2 * width + head * size) * inputs..][..size * inputs];
        let mut outputs = self.attention_output.weight.chunks_exact(width);
        are_zero(values) || outputs.all(|row| are_zero(&row[head * size..][..size]))
    }

    /// Returns the linear layers: to queries, keys and values; attention output; feed-forward input; feed-forward output.
    fn linear_layers(&mut self) -> [&mut Linear; 4] {
        [&mut self.query_key_value, &mut self.attention_output, &mut self.intermediate, &mut self.output]
    }
}

/// All parameters of an encoder and, if loaded, its prediction head.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    pub config: Config,
    pub embeddings: Embeddings,
    /// The stored layers; parameters that several layers of the model share are stored once.
    pub layers: Vec<Layer>,
    /// Index in `layers` for each layer of the model, bottom-up.
    pub layer_indices: Vec<usize>,
    /// The norm after the last layer in pre-norm models; `None` if each layer normalises its own output.
    pub final_norm: Option<Norm>,
    /// The prediction head; `None` unless a run needs it.
    pub prediction: Option<PredictionHead>,
}

impl Parameters {
    /// Returns (final norm, prediction head) if the head multiplies the norm's output by the token vectors, without layers
    /// between. `None` otherwise.
    pub fn direct_prediction_head(&self) -> Option<(&Norm, &PredictionHead)> {
        let is_as_wide = |head: &&PredictionHead| head.decoder.is_some() || self.embeddings.projection.is_none();
        let head = self.prediction.as_ref().filter(|head| head.transform.is_none()).filter(is_as_wide)?;
        self.final_norm.as_ref().map(|norm| (norm, head))
    }

    /// Loads the parameters of a model of `architecture`, layers in parallel.
    /// Fails if a tensor is missing, has another shape, or holds a value that is not finite.
    pub fn load(tensors: &impl Tensors, architecture: &Architecture) -> Result<Self> {
        let config = &architecture.config;
        let names = architecture.names.matching_spelling(|name| tensors.has_tensor(name));
        // Shared parts are small and read first, so that a mismatch is found at once.
        let shared = SharedParameters::load(tensors, config, names)?;
        let norm = |name| names.norm(tensors, name, config.hidden_size);
        let final_norm = names.final_norm.map(norm).transpose()?;
        let embeddings = Embeddings::load(tensors, architecture, names)?;
        let all_stems = names.layers.iter().map(String::as_str);
        let stems: Vec<(usize, &str)> = all_stems.clone().enumerate().unique_by(|(_, stem)| *stem).collect();
        let order = all_stems.filter_map(|stem| stems.iter().position(|(_, known)| *known == stem)).collect();
        let layers = parallel_map(core_count(), stems, |layer| Layer::load(tensors, (config, names), &shared, layer));
        let layers = layers.into_iter().collect::<Result<_>>()?;
        Ok(Self { config: config.clone(), embeddings, layers, layer_indices: order, final_norm, prediction: None })
    }

    /// Adds the prediction head for `objective`. Fails as [`Parameters::load`].
    pub fn with_prediction(self, tensors: &impl Tensors, of: &Architecture, objective: Objective) -> Result<Self> {
        Ok(Self { prediction: Some(PredictionHead::load(tensors, of, objective)?), ..self })
    }

    /// Yields every linear layer once, except the class vectors of the prediction head.
    pub fn linear_layers(&mut self) -> impl Iterator<Item = &mut Linear> {
        let layers = self.layers.iter_mut().flat_map(Layer::linear_layers);
        let transform = self.prediction.as_mut().and_then(|head| head.transform.as_mut());
        layers.chain(&mut self.embeddings.projection).chain(transform.map(|transform| &mut transform.dense))
    }

    /// Lists the attention heads whose output is the same constant at every position. Heads that the checkpoint lacks are left
    /// out.
    pub fn constant_heads(&self) -> Vec<HeadPlace> {
        let size = self.config.head_dim();
        let places = self.layers().enumerate().flat_map(|(number, layer)| {
            let present = self.config.present_heads(number).into_iter();
            let constant = present.filter(move |&head| layer.is_constant_head(head, size));
            constant.map(move |head| HeadPlace { layer: number, head })
        });
        places.collect()
    }

    /// Yields the layers of the model, bottom-up; shared layers occur several times.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.layer_indices.iter().map(|&place| &self.layers[place])
    }
}
