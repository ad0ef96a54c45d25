//! The forward pass: packs in, each head's attention over each sentence out.

use anyhow::{Result, ensure};
use candle_core::{D, DType, Device, IndexOp, Tensor};
use candle_nn::Module;
use candle_nn::ops::softmax_last_dim;
use candle_transformers::models::with_tracing;

use super::bert::{self, Bert};
use super::config::{Activation, Config};
use crate::attention::AttentionView;
use crate::pack::Pack;

/// What looks at a forward pass, layer by layer.
pub trait Visitor {
    /// One head's attention over the `sentence`-th of the pack; the view ends with the call.
    fn attention(&mut self, sentence: usize, view: AttentionView<'_>);

    /// Whether [`Visitor::hidden_states`] is to be called.
    fn wants_hidden_states(&self) -> bool {
        false
    }

    /// The hidden states of the pack's tokens, `[tokens, hidden]` flat: of the embeddings as layer 0,
    /// then after each layer from 1, numbered as in transformers' `hidden_states`.
    fn hidden_states(&mut self, _layer: usize, _states: &[f32]) {}
}

/// An encoder that lends out its attention.
pub trait Encoder: Send + Sync {
    /// Runs a pack through all layers.
    ///
    /// # Errors
    ///
    /// If a token id or a position has no embedding, or the hidden states stop being finite.
    fn forward(&self, pack: &Pack, visitor: &mut dyn Visitor) -> Result<()>;
}

/// BERT in candle tensors: runs on any device, can be differentiated, and is short enough to check by eye.
pub struct TensorEncoder {
    device: Device,
    heads: usize,
    activation: Activation,
    words: Tensor,
    positions: Tensor,
    segments: Tensor,
    norm: with_tracing::LayerNorm,
    layers: Vec<TensorLayer>,
}

struct TensorLayer {
    query_key_value: with_tracing::Linear,
    attention_output: with_tracing::Linear,
    attention_norm: with_tracing::LayerNorm,
    intermediate: with_tracing::Linear,
    output: with_tracing::Linear,
    output_norm: with_tracing::LayerNorm,
}

impl TensorEncoder {
    /// An encoder over `parameters`, on the device they are on.
    #[must_use]
    pub fn new(parameters: &Bert, config: &Config) -> Self {
        let linear =
            |part: &bert::Linear| with_tracing::Linear::from_weights(part.weight.clone(), Some(part.bias.clone()));
        let norm = |part: &bert::LayerNorm| {
            with_tracing::LayerNorm::new(part.weight.clone(), part.bias.clone(), config.layer_norm_eps)
        };
        let layer = |part: &bert::Layer| TensorLayer {
            query_key_value: linear(&part.query_key_value),
            attention_output: linear(&part.attention_output),
            attention_norm: norm(&part.attention_norm),
            intermediate: linear(&part.intermediate),
            output: linear(&part.output),
            output_norm: norm(&part.output_norm),
        };
        let embeddings = &parameters.embeddings;
        Self {
            device: embeddings.words.device().clone(),
            heads: config.num_attention_heads,
            activation: config.hidden_act,
            words: embeddings.words.clone(),
            positions: embeddings.positions.clone(),
            segments: embeddings.segments.clone(),
            norm: norm(&embeddings.norm),
            layers: parameters.layers.iter().map(layer).collect(),
        }
    }

    /// Word, position and segment embeddings, summed and normalised: `[tokens, hidden]`.
    fn embed(&self, pack: &Pack) -> Result<Tensor> {
        let mut ids = Vec::with_capacity(pack.tokens());
        let mut positions = Vec::with_capacity(pack.tokens());
        let mut segments = Vec::with_capacity(pack.tokens());
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
    fn attend(
        &self,
        number: usize,
        layer: &TensorLayer,
        states: &Tensor,
        pack: &Pack,
        visitor: &mut dyn Visitor,
    ) -> Result<Tensor> {
        let (tokens, hidden) = states.dims2()?;
        let head_dim = hidden / self.heads;
        // [3, heads, tokens, head_dim]
        let projected = layer
            .query_key_value
            .forward(states)?
            .reshape((tokens, 3, self.heads, head_dim))?
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
            for (head, weights) in weights.chunks_exact(span.len() * span.len()).enumerate() {
                visitor.attention(sentence, AttentionView::new(number, head, span.len(), weights));
            }
            contexts.push(attention.matmul(&value)?.transpose(0, 1)?.reshape((span.len(), hidden))?);
        }
        Ok(Tensor::cat(&contexts, 0)?)
    }

    fn activate(&self, states: &Tensor) -> candle_core::Result<Tensor> {
        match self.activation {
            Activation::Gelu => states.gelu_erf(),
            Activation::GeluNew => states.gelu(),
            Activation::Relu => states.relu(),
        }
    }
}

impl Encoder for TensorEncoder {
    fn forward(&self, pack: &Pack, visitor: &mut dyn Visitor) -> Result<()> {
        let mut states = self.embed(pack)?;
        show(&states, 0, visitor)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let context = self.attend(number, layer, &states, pack, visitor)?;
            let attended = layer.attention_norm.forward(&(layer.attention_output.forward(&context)? + &states)?)?;
            let wide = self.activate(&layer.intermediate.forward(&attended)?)?;
            states = layer.output_norm.forward(&(layer.output.forward(&wide)? + &attended)?)?;
            show(&states, number + 1, visitor)?;
        }
        // One NaN anywhere reaches the sum: later layers only spread it.
        let sum = states.to_dtype(DType::F64)?.sum(D::Minus1)?.sum_all()?.to_scalar::<f64>()?;
        ensure!(
            sum.is_finite(),
            "the hidden states of the last layer are not finite: the weights are damaged or overflow in float32"
        );
        Ok(())
    }
}

fn show(states: &Tensor, layer: usize, visitor: &mut dyn Visitor) -> Result<()> {
    if visitor.wants_hidden_states() {
        visitor.hidden_states(layer, &states.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(())
}
