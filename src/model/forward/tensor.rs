//! The encoder in candle tensors: runs on any device, can be differentiated, and is short enough to check by eye.

use anyhow::Result;
use candle_core::{Device, IndexOp, Tensor};
use candle_nn::Module;
use candle_nn::ops::softmax_last_dim;
use candle_transformers::models::with_tracing::{LayerNorm, Linear};

use super::{Encoder, Scratch, Visitor, check_finite, check_indices};
use crate::model::config::{Activation, Config, PositionEmbedding};
use crate::model::forward::attention::AttentionView;
use crate::model::parameters::{self, Parameters, PositionBias};
use crate::sequences::pack::Pack;

/// The readable encoder.
pub struct TensorEncoder {
    device: Device,
    config: Config,
    words: Tensor,
    positions: Option<Tensor>,
    segments: Option<Tensor>,
    norm: LayerNorm,
    projection: Option<Linear>,
    /// `[buckets, heads]`
    position_bias: Option<Tensor>,
    layers: Vec<Layer>,
    /// Which of `layers` each layer of the model is.
    order: Vec<usize>,
}

struct Layer {
    query_key_value: Linear,
    /// `[2 * max_positions - 1, head_dim]`
    distances: Option<Tensor>,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
}

impl TensorEncoder {
    /// An encoder with a copy of the parameters on `device`.
    ///
    /// # Errors
    ///
    /// If the device has no room for them.
    pub fn new(parameters: &Parameters, device: &Device) -> Result<Self> {
        let Parameters { config, embeddings, position_bias, layers, order } = parameters;
        let table = |values: &Vec<f32>, width: usize| {
            Tensor::from_slice(values.as_slice(), (values.len() / width, width), device)
        };
        let width = config.embedding_width();
        let row = |values: &[f32]| Tensor::from_slice(values, values.len(), device);
        let linear = |part: &parameters::Linear| -> Result<Linear> {
            let (outputs, inputs) = (part.bias.len(), part.weight.len() / part.bias.len());
            let weight = Tensor::from_slice(&part.weight, (outputs, inputs), device)?;
            Ok(Linear::from_weights(weight, Some(row(&part.bias)?)))
        };
        let norm = |part: &parameters::LayerNorm| -> Result<LayerNorm> {
            Ok(LayerNorm::new(row(&part.weight)?, row(&part.bias)?, config.layer_norm_eps))
        };
        let layer = |part: &parameters::Layer| -> Result<Layer> {
            Ok(Layer {
                query_key_value: linear(&part.query_key_value)?,
                distances: part.distances.as_ref().map(|values| table(values, config.head_dim())).transpose()?,
                attention_output: linear(&part.attention_output)?,
                attention_norm: norm(&part.attention_norm)?,
                intermediate: linear(&part.intermediate)?,
                output: linear(&part.output)?,
                output_norm: norm(&part.output_norm)?,
            })
        };
        Ok(Self {
            device: device.clone(),
            config: config.clone(),
            words: table(&embeddings.words, width)?,
            positions: embeddings.positions.as_ref().map(|values| table(values, width)).transpose()?,
            segments: embeddings.segments.as_ref().map(|values| table(values, width)).transpose()?,
            norm: norm(&embeddings.norm)?,
            projection: embeddings.projection.as_ref().map(linear).transpose()?,
            position_bias: position_bias
                .as_ref()
                .map(|bias| table(&bias.weight, config.num_attention_heads))
                .transpose()?,
            layers: layers.iter().map(layer).collect::<Result<_>>()?,
            order: order.clone(),
        })
    }

    /// The rows of a table.
    fn rows(&self, table: &Tensor, indices: Vec<u32>) -> candle_core::Result<Tensor> {
        let count = indices.len();
        table.index_select(&Tensor::from_vec(indices, count, &self.device)?, 0)
    }

    /// Word, position and segment embeddings, summed, normalised and as wide as the hidden states: `[tokens, hidden]`.
    fn embed(&self, pack: &Pack) -> Result<Tensor> {
        check_indices(pack, &self.config)?;
        let (mut ids, mut positions, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        for sentence in &pack.sentences {
            ids.extend_from_slice(&sentence.ids);
            for row in self.config.position_rows(&sentence.ids) {
                positions.push(u32::try_from(row)?);
            }
            segments.extend_from_slice(&sentence.segments);
        }
        let mut sum = self.rows(&self.words, ids)?;
        for (table, indices) in [(&self.positions, positions), (&self.segments, segments)] {
            if let Some(table) = table {
                sum = (sum + self.rows(table, indices)?)?;
            }
        }
        let normalised = self.norm.forward(&sum)?;
        Ok(match &self.projection {
            Some(projection) => projection.forward(&normalised)?,
            None => normalised,
        })
    }

    /// The scores before the softmax, `[heads, n, n]`, of queries and keys `[heads, n, head_dim]`.
    fn scores(&self, layer: &Layer, query: &Tensor, key: &Tensor) -> Result<Tensor> {
        let (heads, n, head_dim) = query.dims3()?;
        let mut scores = query.matmul(&key.transpose(1, 2)?)?;
        if let Some(distances) = &layer.distances {
            let first = self.config.max_position_embeddings - 1;
            let rows = pairs(n).map(|(query, key)| Ok(u32::try_from(query + first - key)?));
            let embedded = self.rows(distances, rows.collect::<Result<_>>()?)?.reshape((1, n, n, head_dim))?;
            // [heads, n, 1, head_dim] times [1, n, n, head_dim], summed over the last.
            scores = (scores + query.unsqueeze(2)?.broadcast_mul(&embedded)?.sum(3)?)?;
            if self.config.position_embedding_type == PositionEmbedding::RelativeKeyQuery {
                scores = (scores + key.unsqueeze(1)?.broadcast_mul(&embedded)?.sum(3)?)?;
            }
        }
        scores = (scores / (head_dim as f64).sqrt())?;
        if let Some(bias) = &self.position_bias {
            let bucket = |(query, key): (usize, usize)| PositionBias::bucket(key.cast_signed() - query.cast_signed());
            let rows = pairs(n).map(|pair| Ok(u32::try_from(bucket(pair))?));
            scores = (scores + self.rows(bias, rows.collect::<Result<_>>()?)?.t()?.reshape((heads, n, n))?)?;
        }
        Ok(scores)
    }

    /// Self-attention of all sentences of the pack, `[tokens, hidden]` in and out, before the output projection.
    fn attend(&self, number: usize, states: &Tensor, pack: &Pack, visitor: &mut dyn Visitor) -> Result<Tensor> {
        let (tokens, hidden) = states.dims2()?;
        let (heads, head_dim) = (self.config.num_attention_heads, self.config.head_dim());
        // [3, heads, tokens, head_dim]
        let layer = &self.layers[self.order[number]];
        let projected = layer
            .query_key_value
            .forward(states)?
            .reshape((tokens, 3, heads, head_dim))?
            .permute((1, 2, 0, 3))?
            .contiguous()?;
        let mut contexts = Vec::with_capacity(pack.sentences.len());
        for (sentence, span) in pack.spans().enumerate() {
            let part = |which: usize| -> candle_core::Result<Tensor> {
                projected.i(which)?.narrow(1, span.start, span.len())?.contiguous()
            };
            let (query, key, value) = (part(0)?, part(1)?, part(2)?);
            let attention = softmax_last_dim(&self.scores(layer, &query, &key)?)?;
            let weights = attention.flatten_all()?.to_vec1::<f32>()?;
            check_finite(&weights, number)?;
            for (head, weights) in weights.chunks_exact(span.len() * span.len()).enumerate() {
                visitor.attention(sentence, AttentionView::new(number, head, span.len(), weights));
            }
            contexts.push(attention.matmul(&value)?.transpose(0, 1)?.reshape((span.len(), hidden))?);
        }
        Ok(Tensor::cat(&contexts, 0)?)
    }

    fn activate(&self, states: &Tensor) -> candle_core::Result<Tensor> {
        match self.config.hidden_act {
            Activation::Gelu => states.gelu_erf(),
            Activation::GeluTanh => states.gelu(),
            Activation::Relu => states.relu(),
            Activation::Silu => states.silu(),
        }
    }
}

impl Encoder for TensorEncoder {
    fn forward(&self, pack: &Pack, _: &mut Scratch, visitor: &mut dyn Visitor) -> Result<()> {
        let mut states = self.embed(pack)?;
        show(&states, 0, visitor)?;
        for (number, layer) in self.order.iter().map(|&place| &self.layers[place]).enumerate() {
            let context = self.attend(number, &states, pack, visitor)?;
            let attended = layer.attention_norm.forward(&(layer.attention_output.forward(&context)? + &states)?)?;
            let wide = self.activate(&layer.intermediate.forward(&attended)?)?;
            states = layer.output_norm.forward(&(layer.output.forward(&wide)? + &attended)?)?;
            show(&states, number + 1, visitor)?;
        }
        check_finite(&states.flatten_all()?.to_vec1::<f32>()?, self.order.len())
    }
}

/// All pairs of query and key of a sentence.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |query| (0..n).map(move |key| (query, key)))
}

fn show(states: &Tensor, layer: usize, visitor: &mut dyn Visitor) -> Result<()> {
    if visitor.wants_hidden_states() {
        visitor.hidden_states(layer, &states.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(())
}
