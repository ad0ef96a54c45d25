//! An encoder's parameters: the one definition of the architecture, for every encoder that runs it.
//!
//! All families are BERT's encoder (Vaswani et al. 2017, Devlin et al. 2019): embeddings, then layers of attention and
//! feed-forward blocks, each with a residual and a layer normalisation after it, or before it ("pre-norm",
//! Xiong et al. 2020). What differs is optional here.

mod parts;
mod plain_text;
mod prediction;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;

use super::config::{Config, DISTANCE_BUCKETS, PositionEmbedding};
use super::families::{Architecture, Groups, Names};
use super::weights::Tensors;
use crate::system::parallel::{all_cores, in_parallel};

pub use parts::{LayerNorm, Linear};
pub use prediction::{Objective, PredictionHead};

/// The embeddings, and what leads from them to the first layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// `[vocab, embedding width]`
    pub words: Arc<Vec<f32>>,
    /// `[max_positions, embedding width]`; `None` if positions are relative. Each row includes the constant that a
    /// family adds to every token of plain text.
    pub positions: Option<Vec<f32>>,
    /// `[segments, embedding width]`; `None` in a family without segments.
    pub segments: Option<Vec<f32>>,
    /// Over their sum; `None` where the layers see to it.
    pub norm: Option<LayerNorm>,
    /// `[hidden, embedding width]`, after the normalisation; `None` where embeddings are as wide as hidden states.
    pub projection: Option<Linear>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Query, key and value one after the other, `[3 * hidden, hidden]`: one product instead of three.
    pub query_key_value: Linear,
    /// `[2 * max_positions - 1, head_dim]`: an embedding of each distance, query less key, the most negative one first;
    /// `None` unless positions are relative. All heads share it.
    pub distances: Option<Vec<f32>>,
    /// After the heads.
    pub attention_output: Linear,
    /// Over the sum with the residual; pre-norm, of what goes to the heads.
    pub attention_norm: LayerNorm,
    /// Before the activation.
    pub intermediate: Linear,
    /// After the activation.
    pub output: Linear,
    /// Over the sum with the residual; pre-norm, of what goes to `intermediate`.
    pub output_norm: LayerNorm,
}

impl Embeddings {
    fn load(tensors: &impl Tensors, Architecture { config, names, family }: &Architecture) -> Result<Self> {
        let width = config.embedding_width();
        let name = |kind: &str| format!("embeddings.{kind}_embeddings.weight");
        let table = |kind: &str, rows: usize| tensors.tensor(&name(kind), &[rows, width]);
        let decoder = family.masked_lm.decoder;
        // A checkpoint may store tied embeddings once, under either name.
        let words = if config.tie_word_embeddings && !tensors.has_tensor(&name("word")) && tensors.has_tensor(decoder) {
            tensors.tensor(decoder, &[config.vocab_size, width])?
        } else {
            table("word", config.vocab_size)?
        };
        let absolute = config.position_embedding_type == PositionEmbedding::Absolute;
        let mut positions = absolute.then(|| table("position", config.max_position_embeddings)).transpose()?;
        if let (Some(positions), Some(constant)) = (&mut positions, &names.plain_text) {
            let constant = plain_text::load(tensors, constant, width)?;
            for row in positions.chunks_exact_mut(width) {
                row.iter_mut().zip(&constant).for_each(|(value, constant)| *value += constant);
            }
        }
        let segments = (config.type_vocab_size > 0).then(|| table("token_type", config.type_vocab_size)).transpose()?;
        let norm = names.embedding_norm.map(|name| LayerNorm::load(tensors, name, width)).transpose()?;
        let projection = names.projection.map(|name| Linear::load(tensors, name, config.hidden_size, width));
        Ok(Self { words: Arc::new(words), positions, segments, norm, projection: projection.transpose()? })
    }
}

impl Layer {
    fn load(tensors: &impl Tensors, config: &Config, names: &Names, stem: &str) -> Result<Self> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let name = |part: &str| format!("{stem}.{part}");
        let linear = |part, outputs, inputs, groups: fn(&Groups) -> usize| match &names.convolutions {
            Some(convolutions) => Linear::grouped(tensors, &name(part), outputs, inputs, groups(convolutions)),
            None => Linear::load(tensors, &name(part), outputs, inputs),
        };
        let names = names.parts;
        let norm = |part| LayerNorm::load(tensors, &name(part), hidden);
        let mut query_key_value =
            Linear { weight: Vec::with_capacity(3 * hidden * hidden), bias: Vec::with_capacity(3 * hidden) };
        let groups: [fn(&Groups) -> usize; 3] =
            [|of| of.query_key_value[0], |of| of.query_key_value[1], |of| of.query_key_value[2]];
        for (part, groups) in names.query_key_value.into_iter().zip(groups) {
            let next = linear(part, hidden, hidden, groups)?;
            query_key_value.weight.extend(next.weight);
            query_key_value.bias.extend(next.bias);
        }
        let relative = config.position_embedding_type != PositionEmbedding::Absolute;
        let distances = names.distances.filter(|_| relative).map(|part| {
            let shape = [2 * config.max_position_embeddings - 1, config.head_dim()];
            tensors.tensor(&name(&format!("{part}.weight")), &shape)
        });
        Ok(Self {
            query_key_value,
            distances: distances.transpose()?,
            attention_output: linear(names.attention_output, hidden, hidden, |of| of.attention_output)?,
            attention_norm: norm(names.attention_norm)?,
            intermediate: linear(names.intermediate, wide, hidden, |of| of.intermediate)?,
            output: linear(names.output, hidden, wide, |of| of.output)?,
            output_norm: norm(names.output_norm)?,
        })
    }

    fn linear_layers(&mut self) -> [&mut Linear; 4] {
        [&mut self.query_key_value, &mut self.attention_output, &mut self.intermediate, &mut self.output]
    }
}

/// The bias that MPNet adds to the scores of all layers, by head and distance.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionBias {
    /// `[buckets, heads]`
    pub weight: Vec<f32>,
}

impl PositionBias {
    /// The number of buckets that distances are sorted into.
    pub const BUCKETS: usize = DISTANCE_BUCKETS;

    /// The bucket of a distance, key less query (Raffel et al. 2020, as in MPNet): half of the buckets for each
    /// direction. Half of them hold one distance each, 0 to 7, the others ever longer spans, the last all from 91 on.
    pub fn bucket(distance: isize) -> usize {
        const HALF: usize = PositionBias::BUCKETS / 2;
        const EXACT: usize = HALF / 2;
        let n = distance.unsigned_abs();
        let direction = if distance > 0 { HALF } else { 0 };
        if n < EXACT {
            return direction + n;
        }
        // 8 + 8 log_16(n / 8) = 8 + log_2(n^2 / 64), rounded down, which whole numbers do exactly.
        let span = (n.saturating_mul(n) / (EXACT * EXACT)).ilog2() as usize;
        direction + (EXACT + span).min(HALF - 1)
    }
}

/// The parameters of an encoder, without pooler, and with the masked-LM head if a run needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The sizes that the parameters have.
    pub config: Config,
    /// The embeddings.
    pub embeddings: Embeddings,
    /// The bias that all layers add to their scores.
    pub position_bias: Option<PositionBias>,
    /// The layers; one that several layers of the model share is here once.
    pub layers: Vec<Layer>,
    /// The index in `layers` of each layer of the model, bottom-up.
    pub order: Vec<usize>,
    /// The normalisation after the last layer, if layers are pre-norm; `None` if each layer normalises its output.
    pub final_norm: Option<LayerNorm>,
    /// The head by which the model was trained; `None` unless a run needs it.
    pub prediction: Option<PredictionHead>,
}

impl Parameters {
    /// Loads the parameters that `architecture` implies, layers side by side.
    /// Fails if a tensor is missing, has another shape, or holds a value that is not finite.
    pub fn load(tensors: &impl Tensors, architecture: &Architecture) -> Result<Self> {
        let Architecture { config, names, .. } = architecture;
        // Small, and read first: what does not fit is found at once.
        let bias = |(name, rows): (&str, usize)| -> Result<PositionBias> {
            let mut weight = tensors.tensor(&format!("{name}.weight"), &[rows, config.num_attention_heads])?;
            weight.truncate(PositionBias::BUCKETS * config.num_attention_heads);
            Ok(PositionBias { weight })
        };
        let position_bias = names.position_bias.map(bias).transpose()?;
        let final_norm = names.final_norm.map(|name| LayerNorm::load(tensors, name, config.hidden_size)).transpose()?;
        let embeddings = Embeddings::load(tensors, architecture)?;
        let (mut stems, mut order, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for stem in &names.layers {
            let place = *known.entry(stem).or_insert(stems.len());
            if place == stems.len() {
                stems.push(stem.as_str());
            }
            order.push(place);
        }
        let layers = in_parallel(all_cores(), stems, |stem| Layer::load(tensors, config, names, stem));
        let layers = layers.into_iter().collect::<Result<_>>()?;
        Ok(Self { config: config.clone(), embeddings, position_bias, layers, order, final_norm, prediction: None })
    }

    /// Loads the head for `objective` as well.
    /// Fails as [`Parameters::load`]; a checkpoint without such a head lacks its tensors.
    pub fn with_prediction(
        self,
        tensors: &impl Tensors,
        architecture: &Architecture,
        objective: Objective,
    ) -> Result<Self> {
        Ok(Self { prediction: Some(PredictionHead::load(tensors, architecture, objective)?), ..self })
    }

    /// Every linear layer there is, each once; the classes' vectors of the prediction head are none.
    pub fn linear_layers(&mut self) -> impl Iterator<Item = &mut Linear> {
        let layers = self.layers.iter_mut().flat_map(Layer::linear_layers);
        layers.chain(&mut self.embeddings.projection).chain(self.prediction.as_mut().map(|head| &mut head.dense))
    }

    /// The layers of the model, bottom-up.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.order.iter().map(|&place| &self.layers[place])
    }
}

#[cfg(test)]
mod tests {
    use super::PositionBias;

    #[test]
    fn buckets_of_distances() {
        // Computed with transformers' `MPNetEncoder.relative_position_bucket`.
        let distances = [0, -1, -7, -8, -11, -12, -15, -16, -22, -23, -64, -90, -91, -5000];
        let buckets = [0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 14, 14, 15, 15];
        for (distance, bucket) in distances.into_iter().zip(buckets) {
            assert_eq!(PositionBias::bucket(distance), bucket, "{distance}");
            if distance < 0 {
                assert_eq!(PositionBias::bucket(-distance), bucket + 16, "{}", -distance);
            }
        }
        assert_eq!([isize::MIN, isize::MAX].map(PositionBias::bucket), [15, 31]);
    }
}
