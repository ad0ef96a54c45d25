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

    /// A convolution of width 1 in groups, whose weights are `[outputs, inputs / groups, 1]`, as the linear layer it is:
    /// each output has weights of 0 for the inputs of other groups.
    pub(super) fn grouped(
        tensors: &impl Tensors,
        name: &str,
        outputs: usize,
        inputs: usize,
        groups: usize,
    ) -> Result<Self> {
        let (rows, columns) = (outputs / groups, inputs / groups);
        let blocks = tensors.tensor(&format!("{name}.weight"), &[outputs, columns, 1])?;
        let mut weight = vec![0.0; outputs * inputs];
        for (output, (row, block)) in weight.chunks_exact_mut(inputs).zip(blocks.chunks_exact(columns)).enumerate() {
            row[output / rows * columns..][..columns].copy_from_slice(block);
        }
        Ok(Self { weight, bias: tensors.tensor(&format!("{name}.bias"), &[outputs])? })
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
