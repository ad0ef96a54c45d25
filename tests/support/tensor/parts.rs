//! Model parameters as tensors.

use std::sync::Arc;

use anyhow::Result;
use candle_core::{D, DType, Device, Module, Tensor};

use super::linear::LinearLayer;
use headscope::model::config::{Activation, DistanceRowMap, NormKind};
use headscope::model::parameters::{self, PositionBias, RotaryAngles};

pub(super) struct Layer {
    pub query_key_value: LinearLayer,
    pub query_key_norms: Option<[Norm; 2]>,
    pub rotary: Option<Arc<RotaryAngles>>,
    /// `[2 * max_positions - 1, head_dim]`
    pub distances: Option<Tensor>,
    pub disentangled: Option<Disentangled>,
    pub position_bias: Option<Arc<PositionBias>>,
    pub attention_output: LinearLayer,
    pub attention_norm: Option<Norm>,
    pub intermediate: LinearLayer,
    pub output: LinearLayer,
    pub output_norm: Norm,
    pub write_norms: Option<[Norm; 2]>,
}

/// Terms of the scores between content and distance.
pub(super) struct Disentangled {
    /// `[heads, head_dim, places]`
    pub keys: Option<Tensor>,
    /// `[heads, head_dim, places]`
    pub queries: Option<Tensor>,
    pub places: DistanceRowMap,
}

pub(super) struct PredictionHead {
    pub transform: Option<Transform>,
    pub decoder: LinearLayer,
    pub classes: usize,
    /// The bound of the logits.
    pub cap: Option<f64>,
}

/// The layer between the hidden states and the vectors of the classes.
pub(super) struct Transform {
    pub dense: LinearLayer,
    pub activation: Activation,
    pub norm: Option<Norm>,
}

/// Normalisation over the last dimension, built from operations that have derivatives.
pub(super) struct Norm {
    weight: Tensor,
    bias: Tensor,
    kind: NormKind,
    epsilon: f64,
}

impl Norm {
    /// Number of values that are normalised together.
    pub fn width(&self) -> usize {
        self.weight.elem_count()
    }
}

impl Norm {
    /// The contribution of the summand `part` to the normalised `whole`. The contributions of all summands and the bias
    /// add up to the normalised sum.
    pub fn of_part(&self, part: &Tensor, whole: &Tensor) -> candle_core::Result<Tensor> {
        let deviation = (self.centred(whole)?.sqr()?.mean_keepdim(D::Minus1)? + self.epsilon)?.sqrt()?;
        self.centred(part)?.broadcast_div(&deviation)?.broadcast_mul(&self.weight)
    }

    fn centred(&self, states: &Tensor) -> candle_core::Result<Tensor> {
        match self.kind {
            NormKind::Layer => states.broadcast_sub(&states.mean_keepdim(D::Minus1)?),
            NormKind::RootMeanSquare => Ok(states.clone()),
        }
    }
}

impl Module for Norm {
    fn forward(&self, states: &Tensor) -> candle_core::Result<Tensor> {
        self.of_part(states, states)?.broadcast_add(&self.bias)
    }
}

/// Copies parameters to a device.
pub(super) struct Loader<'a> {
    pub device: &'a Device,
    pub precision: DType,
    /// The kind of the normalisations, and their epsilon.
    pub norms: (NormKind, f64),
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

    pub fn norm(&self, part: &parameters::Norm) -> Result<Norm> {
        let (kind, epsilon) = self.norms;
        Ok(Norm { weight: self.row(&part.weight)?, bias: self.row(&part.bias)?, kind, epsilon })
    }

    fn norms(&self, parts: Option<&[parameters::Norm; 2]>) -> Result<Option<[Norm; 2]>> {
        let both = |[first, second]: &[parameters::Norm; 2]| Ok([self.norm(first)?, self.norm(second)?]);
        parts.map(both).transpose()
    }

    pub fn layer(&self, part: &parameters::Layer, head_dim: usize) -> Result<Layer> {
        Ok(Layer {
            query_key_value: self.linear(&part.query_key_value)?,
            query_key_norms: self.norms(part.query_key_norms.as_ref())?,
            rotary: part.rotary.clone(),
            distances: part.distances.as_ref().map(|values| self.table(values, head_dim)).transpose()?,
            disentangled: part.disentangled.as_ref().map(|part| self.disentangled(part, head_dim)).transpose()?,
            position_bias: part.position_bias.clone(),
            attention_output: self.linear(&part.attention_output)?,
            attention_norm: part.attention_norm.as_ref().map(|norm| self.norm(norm)).transpose()?,
            intermediate: self.linear(&part.intermediate)?,
            output: self.linear(&part.output)?,
            output_norm: self.norm(&part.output_norm)?,
            write_norms: self.norms(part.block_output_norms.as_ref())?,
        })
    }

    fn disentangled(&self, part: &parameters::DisentangledTerms, head_dim: usize) -> Result<Disentangled> {
        let rows = part.distance_rows.rows();
        let by_head = |table: &Vec<f32>| -> Result<Tensor> {
            let heads = table.len() / rows / head_dim;
            let table = self.table(table, heads * head_dim)?.reshape((rows, heads, head_dim))?;
            Ok(table.permute((1, 2, 0))?.contiguous()?)
        };
        Ok(Disentangled {
            keys: part.position_keys.as_ref().map(by_head).transpose()?,
            queries: part.position_queries.as_ref().map(by_head).transpose()?,
            places: part.distance_rows,
        })
    }

    /// `words` are the word embeddings, which the prediction head may share.
    pub fn prediction(&self, head: &parameters::PredictionHead, words: &Tensor) -> Result<PredictionHead> {
        let classes = head.bias.len();
        let decoder = match &head.decoder {
            Some(values) => self.table(values, values.len() / classes)?,
            None => words.clone(),
        };
        let transform = |part: &parameters::Transform| -> Result<_> {
            Ok(Transform {
                dense: self.linear(&part.dense)?,
                activation: part.activation,
                norm: part.norm.as_ref().map(|norm| self.norm(norm)).transpose()?,
            })
        };
        Ok(PredictionHead {
            transform: head.transform.as_ref().map(transform).transpose()?,
            decoder: LinearLayer::new(decoder, self.row(&head.bias)?),
            classes,
            cap: head.cap.map(f64::from),
        })
    }
}
