//! The parts that layers and heads are made of.

use anyhow::Result;

use crate::model::weights::Tensors;

/// A linear layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// `[outputs, inputs]`
    pub weight: Vec<f32>,
    /// `[outputs]`
    pub bias: Vec<f32>,
}

/// A layer normalisation.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// `[width]`
    pub weight: Vec<f32>,
    /// `[width]`
    pub bias: Vec<f32>,
}

impl Linear {
    pub(super) fn load(tensors: &impl Tensors, name: &str, outputs: usize, inputs: usize) -> Result<Self> {
        Ok(Self {
            weight: tensors.tensor(&format!("{name}.weight"), &[outputs, inputs])?,
            bias: tensors.tensor(&format!("{name}.bias"), &[outputs])?,
        })
    }
}

impl LayerNorm {
    pub(super) fn load(tensors: &impl Tensors, name: &str, width: usize) -> Result<Self> {
        Ok(Self {
            weight: tensors.tensor(&format!("{name}.weight"), &[width])?,
            bias: tensors.tensor(&format!("{name}.bias"), &[width])?,
        })
    }
}
