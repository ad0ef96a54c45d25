//! Parameters as tensors.

use anyhow::Result;
use candle_core::{D, DType, Device, Module, Tensor};

use super::linear::LinearLayer;
use crate::model::config::Activation;
use crate::model::parameters;

/// One layer.
pub(super) struct Layer {
    pub query_key_value: LinearLayer,
    /// `[2 * max_positions - 1, head_dim]`
    pub distances: Option<Tensor>,
    pub attention_output: LinearLayer,
    pub attention_norm: LayerNorm,
    pub intermediate: LinearLayer,
    pub output: LinearLayer,
    pub output_norm: LayerNorm,
}

/// The prediction head.
pub(super) struct PredictionHead {
    pub dense: LinearLayer,
    pub activation: Activation,
    pub norm: Option<LayerNorm>,
    pub decoder: LinearLayer,
    pub classes: usize,
}

/// Layer normalisation over the last dimension, of operations that have derivatives.
pub(super) struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    epsilon: f64,
}

impl Module for LayerNorm {
    fn forward(&self, states: &Tensor) -> candle_core::Result<Tensor> {
        let centred = states.broadcast_sub(&states.mean_keepdim(D::Minus1)?)?;
        let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + self.epsilon)?.sqrt()?;
        centred.broadcast_div(&deviation)?.broadcast_mul(&self.weight)?.broadcast_add(&self.bias)
    }
}

/// Copies parameters to a device.
pub(super) struct Loader<'a> {
    pub device: &'a Device,
    pub precision: DType,
    /// The epsilon of layer normalisations.
    pub epsilon: f64,
}

impl Loader<'_> {
    /// `[rows, width]`
    pub fn table(&self, values: &[f32], width: usize) -> Result<Tensor> {
        let tensor = Tensor::from_slice(values, (values.len() / width, width), self.device)?;
        Ok(tensor.to_dtype(self.precision)?)
    }

    fn row(&self, values: &[f32]) -> Result<Tensor> {
        Ok(Tensor::from_slice(values, values.len(), self.device)?.to_dtype(self.precision)?)
    }

    pub fn linear(&self, part: &parameters::Linear) -> Result<LinearLayer> {
        let inputs = part.weight.len() / part.bias.len();
        Ok(LinearLayer::new(self.table(&part.weight, inputs)?, self.row(&part.bias)?))
    }

    pub fn norm(&self, part: &parameters::LayerNorm) -> Result<LayerNorm> {
        Ok(LayerNorm { weight: self.row(&part.weight)?, bias: self.row(&part.bias)?, epsilon: self.epsilon })
    }

    pub fn layer(&self, part: &parameters::Layer, head_dim: usize) -> Result<Layer> {
        Ok(Layer {
            query_key_value: self.linear(&part.query_key_value)?,
            distances: part.distances.as_ref().map(|values| self.table(values, head_dim)).transpose()?,
            attention_output: self.linear(&part.attention_output)?,
            attention_norm: self.norm(&part.attention_norm)?,
            intermediate: self.linear(&part.intermediate)?,
            output: self.linear(&part.output)?,
            output_norm: self.norm(&part.output_norm)?,
        })
    }

    /// `words` are the word embeddings, which the head may share.
    pub fn prediction(&self, head: &parameters::PredictionHead, words: &Tensor) -> Result<PredictionHead> {
        let decoder = match &head.decoder {
            Some(values) => self.table(values, head.dense.bias.len())?,
            None => words.clone(),
        };
        Ok(PredictionHead {
            dense: self.linear(&head.dense)?,
            activation: head.activation,
            norm: head.norm.as_ref().map(|norm| self.norm(norm)).transpose()?,
            decoder: LinearLayer::new(decoder, self.row(&head.bias)?),
            classes: head.bias.len(),
        })
    }
}
