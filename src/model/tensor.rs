//! BERT in candle tensors: runs on any device, can be differentiated, and is short enough to check by eye.

use anyhow::Result;
use candle_core::{Device, IndexOp, Tensor};
use candle_nn::Module;
use candle_nn::ops::softmax_last_dim;
use candle_transformers::models::with_tracing::{LayerNorm, Linear};

use super::bert::{self, Bert};
use super::config::{Activation, Config};
use super::encoder::{Encoder, Scratch, Visitor, check_finite, check_indices};
use crate::attention::AttentionView;
use crate::pack::Pack;

/// The readable encoder.
pub struct TensorEncoder {
    device: Device,
    config: Config,
    words: Tensor,
    positions: Tensor,
    segments: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

struct Layer {
    query_key_value: Linear,
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
    pub fn new(parameters: &Bert, device: &Device) -> Result<Self> {
        let Bert { config, embeddings, layers } = parameters;
        let hidden = config.hidden_size;
        let table = |values: &[f32]| Tensor::from_slice(values, (values.len() / hidden, hidden), device);
        let row = |values: &[f32]| Tensor::from_slice(values, values.len(), device);
        let linear = |part: &bert::Linear| -> Result<Linear> {
            let (outputs, inputs) = (part.bias.len(), part.weight.len() / part.bias.len());
            let weight = Tensor::from_slice(&part.weight, (outputs, inputs), device)?;
            Ok(Linear::from_weights(weight, Some(row(&part.bias)?)))
        };
        let norm = |part: &bert::LayerNorm| -> Result<LayerNorm> {
            Ok(LayerNorm::new(row(&part.weight)?, row(&part.bias)?, config.layer_norm_eps))
        };
        let layer = |part: &bert::Layer| -> Result<Layer> {
            Ok(Layer {
                query_key_value: linear(&part.query_key_value)?,
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
            words: table(&embeddings.words)?,
            positions: table(&embeddings.positions)?,
            segments: table(&embeddings.segments)?,
            norm: norm(&embeddings.norm)?,
            layers: layers.iter().map(layer).collect::<Result<_>>()?,
        })
    }

    /// Word, position and segment embeddings, summed and normalised: `[tokens, hidden]`.
    fn embed(&self, pack: &Pack) -> Result<Tensor> {
        let config = &self.config;
        check_indices(pack, [config.vocab_size, config.max_position_embeddings, config.type_vocab_size])?;
        let (mut ids, mut positions, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        for sentence in &pack.sentences {
            ids.extend_from_slice(&sentence.ids);
            positions.extend(0..u32::try_from(sentence.ids.len())?);
            segments.extend_from_slice(&sentence.segments);
        }
        let rows = |table: &Tensor, indices: Vec<u32>| -> Result<Tensor> {
            let count = indices.len();
            Ok(table.index_select(&Tensor::from_vec(indices, count, &self.device)?, 0)?)
        };
        let sum = ((rows(&self.words, ids)? + rows(&self.positions, positions)?)? + rows(&self.segments, segments)?)?;
        Ok(self.norm.forward(&sum)?)
    }

    /// Self-attention of all sentences of the pack, `[tokens, hidden]` in and out, before the output projection.
    fn attend(&self, number: usize, states: &Tensor, pack: &Pack, visitor: &mut dyn Visitor) -> Result<Tensor> {
        let (tokens, hidden) = states.dims2()?;
        let (heads, head_dim) = (self.config.num_attention_heads, self.config.head_dim());
        // [3, heads, tokens, head_dim]
        let projected = self.layers[number]
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
            let scores = (query.matmul(&key.transpose(1, 2)?)? / (head_dim as f64).sqrt())?;
            let attention = softmax_last_dim(&scores)?;
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
            Activation::GeluNew => states.gelu(),
            Activation::Relu => states.relu(),
        }
    }
}

impl Encoder for TensorEncoder {
    fn forward(&self, pack: &Pack, _: &mut Scratch, visitor: &mut dyn Visitor) -> Result<()> {
        let mut states = self.embed(pack)?;
        show(&states, 0, visitor)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let context = self.attend(number, &states, pack, visitor)?;
            let attended = layer.attention_norm.forward(&(layer.attention_output.forward(&context)? + &states)?)?;
            let wide = self.activate(&layer.intermediate.forward(&attended)?)?;
            states = layer.output_norm.forward(&(layer.output.forward(&wide)? + &attended)?)?;
            show(&states, number + 1, visitor)?;
        }
        check_finite(&states.flatten_all()?.to_vec1::<f32>()?, self.layers.len())
    }
}

fn show(states: &Tensor, layer: usize, visitor: &mut dyn Visitor) -> Result<()> {
    if visitor.wants_hidden_states() {
        visitor.hidden_states(layer, &states.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(())
}
