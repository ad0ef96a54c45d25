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

/// A normalisation, by the function that the model has for all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// `[width]`
    pub weight: Vec<f32>,
    /// `[width]`
    pub bias: Vec<f32>,
}

impl Linear {
    pub(super) fn load(
        tensors: &impl Tensors,
        name: &str,
        outputs: usize,
        inputs: usize,
        biased: bool,
    ) -> Result<Self> {
        Ok(Self {
            weight: tensors.tensor(&format!("{name}.weight"), &[outputs, inputs])?,
            bias: bias(tensors, name, outputs, biased)?,
        })
    }

    /// As above, for weights that are stored as `[inputs, outputs]`.
    pub(super) fn load_transposed(
        tensors: &impl Tensors,
        name: &str,
        outputs: usize,
        inputs: usize,
        biased: bool,
    ) -> Result<Self> {
        let stored = tensors.tensor(&format!("{name}.weight"), &[inputs, outputs])?;
        let weight = (0..outputs).flat_map(|output| stored[output..].iter().step_by(outputs)).copied().collect();
        Ok(Self { weight, bias: bias(tensors, name, outputs, biased)? })
    }

    /// The outputs of several layers of the same inputs, one after the other.
    pub(super) fn stacked<const N: usize>(parts: [Self; N]) -> Self {
        let mut all = Self { weight: Vec::new(), bias: Vec::new() };
        for Self { weight, bias } in parts {
            all.weight.extend(weight);
            all.bias.extend(bias);
        }
        all
    }

    /// Some of its outputs, in this order.
    pub(super) fn select(&self, outputs: impl Iterator<Item = usize>) -> Self {
        let inputs = self.weight.len() / self.bias.len();
        let mut selected = Self { weight: Vec::new(), bias: Vec::new() };
        for output in outputs {
            selected.weight.extend_from_slice(&self.weight[output * inputs..][..inputs]);
            selected.bias.push(self.bias[output]);
        }
        selected
    }

    /// So many heads of outputs, of which these, ascending, are what it has, and the others are zeros.
    pub(super) fn with_outputs_of(self, present: &[usize], heads: usize) -> Self {
        if present.len() == heads {
            return self;
        }
        let (size, inputs) = (self.bias.len() / present.len(), self.weight.len() / self.bias.len());
        let weight = spread(&self.weight, present, (heads, size * inputs));
        Self { weight, bias: spread(&self.bias, present, (heads, size)) }
    }

    /// The same of inputs.
    pub(super) fn with_inputs_of(self, present: &[usize], heads: usize) -> Self {
        if present.len() == heads {
            return self;
        }
        let inputs = self.weight.len() / self.bias.len();
        let rows = self.weight.chunks_exact(inputs);
        let weight = rows.flat_map(|row| spread(row, present, (heads, inputs / present.len()))).collect();
        Self { weight, ..self }
    }

    /// The second half of its outputs before the first.
    pub(super) fn halves_exchanged(&self) -> Self {
        let outputs = self.bias.len();
        self.select((outputs / 2..outputs).chain(0..outputs / 2))
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

impl Norm {
    pub(super) fn load(tensors: &impl Tensors, name: &str, width: usize, biased: bool) -> Result<Self> {
        Ok(Self {
            weight: tensors.tensor(&format!("{name}.weight"), &[width])?,
            bias: bias(tensors, name, width, biased)?,
        })
    }
}

/// Values of all heads, `size` each, from those of the heads that are present; zeros for the others.
fn spread(values: &[f32], present: &[usize], (heads, size): (usize, usize)) -> Vec<f32> {
    let mut all = vec![0.0; heads * size];
    for (of_head, head) in values.chunks_exact(size).zip(present) {
        all[head * size..][..size].copy_from_slice(of_head);
    }
    all
}

/// The bias of a part that has one, or zeros.
fn bias(tensors: &impl Tensors, name: &str, outputs: usize, biased: bool) -> Result<Vec<f32>> {
    if biased { tensors.tensor(&format!("{name}.bias"), &[outputs]) } else { Ok(vec![0.0; outputs]) }
}
