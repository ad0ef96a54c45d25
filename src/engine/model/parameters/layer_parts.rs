//! The parts of layers and prediction heads: linear layers and norms.

use anyhow::{Result, ensure};

use crate::model::families::{EmbeddingRow, Markup, PlainTextConstant};
use crate::model::weights::Tensors;

/// A linear layer: `W x + b`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Linear {
    /// Weight matrix, `[outputs, inputs]` row-major.
    pub weight: Vec<f32>,
    /// Bias of each output, `[outputs]`.
    pub bias: Vec<f32>,
}

/// The parameters of a layer norm or RMS norm; all norms of a model are of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// Factor of each dimension, `[width]`.
    pub weight: Vec<f32>,
    /// Shift of each dimension, `[width]`.
    pub bias: Vec<f32>,
}

impl Linear {
    /// Loads the linear layer `name` of `shape` `[outputs, inputs]`. Its bias is 0 unless `biased`.
    pub(super) fn load(tensors: &impl Tensors, name: &str, shape: [usize; 2], biased: bool) -> Result<Self> {
        let weight = tensors.tensor(&format!("{name}.weight"), &shape)?;
        Ok(Self { weight, bias: load_bias(tensors, name, shape[0], biased)? })
    }

    /// As [`Linear::load`], for weights that are stored as `[inputs, outputs]`.
    pub(super) fn load_transposed(tensors: &impl Tensors, name: &str, shape: [usize; 2], biased: bool) -> Result<Self> {
        let [outputs, inputs] = shape;
        let stored = tensors.tensor(&format!("{name}.weight"), &[inputs, outputs])?;
        let weight = (0..outputs).flat_map(|output| stored[output..].iter().step_by(outputs)).copied().collect();
        Ok(Self { weight, bias: load_bias(tensors, name, outputs, biased)? })
    }

    /// Concatenates the outputs of linear layers that have the same inputs.
    pub(super) fn stack<const N: usize>(parts: [Self; N]) -> Self {
        let mut all = Self::default();
        for Self { weight, bias } in parts {
            all.weight.extend(weight);
            all.bias.extend(bias);
        }
        all
    }

    /// Returns a layer that keeps only the given `outputs` (row numbers of the weight), in the given order.
    pub(super) fn select_outputs(&self, outputs: impl Iterator<Item = usize>) -> Self {
        let inputs = self.weight.len() / self.bias.len();
        let mut selected = Self::default();
        for output in outputs {
            selected.weight.extend_from_slice(&self.weight[output * inputs..][..inputs]);
            selected.bias.push(self.bias[output]);
        }
        selected
    }

    /// Extends the outputs from the `present` attention heads (ascending) to all `heads`; outputs of absent heads are
    /// zeros.
    pub(super) fn with_outputs_for_all_heads(self, present: &[usize], heads: usize) -> Self {
        if present.len() == heads {
            return self;
        }
        let (size, inputs) = (self.bias.len() / present.len(), self.weight.len() / self.bias.len());
        let weight = spread_over_heads(&self.weight, present, (heads, size * inputs));
        Self { weight, bias: spread_over_heads(&self.bias, present, (heads, size)) }
    }

    /// Extends the inputs from the `present` attention heads (ascending) to all `heads`; weights of absent heads'
    /// inputs are zeros.
    pub(super) fn with_inputs_for_all_heads(self, present: &[usize], heads: usize) -> Self {
        if present.len() == heads {
            return self;
        }
        let inputs = self.weight.len() / self.bias.len();
        let rows = self.weight.chunks_exact(inputs);
        let weight = rows.flat_map(|row| spread_over_heads(row, present, (heads, inputs / present.len()))).collect();
        Self { weight, ..self }
    }

    /// Loads a grouped convolution of width 1, `[outputs, inputs / groups, 1]`, as a linear layer. Weights between different
    /// groups are 0.
    pub(super) fn load_grouped(tensors: &impl Tensors, name: &str, shape: [usize; 2], groups: usize) -> Result<Self> {
        let [outputs, inputs] = shape;
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
    /// Loads the norm `name`, `[width]`. Its bias is 0 unless `biased`.
    pub(super) fn load(tensors: &impl Tensors, name: &str, width: usize, biased: bool) -> Result<Self> {
        let weight = tensors.tensor(&format!("{name}.weight"), &[width])?;
        Ok(Self { weight, bias: load_bias(tensors, name, width, biased)? })
    }
}

/// Spreads the values of the present heads, `size` each, over all heads, with zeros for the others.
fn spread_over_heads(values: &[f32], present: &[usize], (heads, size): (usize, usize)) -> Vec<f32> {
    let mut all = vec![0.0; heads * size];
    for (head_values, head) in values.chunks_exact(size).zip(present) {
        all[head * size..][..size].copy_from_slice(head_values);
    }
    all
}

/// Loads the bias of the part `name`, `[outputs]`; zeros unless `biased`.
fn load_bias(tensors: &impl Tensors, name: &str, outputs: usize, biased: bool) -> Result<Vec<f32>> {
    if biased { tensors.tensor(&format!("{name}.bias"), &[outputs]) } else { Ok(vec![0.0; outputs]) }
}

/// Computes the constant that a family adds to the embedding of every token of plain text, `[width]`.
pub(super) fn load_plain_text_constant(
    tensors: &impl Tensors,
    names: &PlainTextConstant,
    width: usize,
) -> Result<Vec<f32>> {
    match names {
        PlainTextConstant::Rows(rows) => sum_table_rows(tensors, rows, width),
        PlainTextConstant::Markup(markup) => {
            let Markup { empty_path: none, width: unit, inner, inner_width, output } = markup;
            let path =
                none.iter().map(|rows| sum_table_rows(tensors, rows, *unit)).collect::<Result<Vec<_>>>()?.concat();
            let mut hidden = apply_linear(&Linear::load(tensors, inner, [*inner_width, path.len()], true)?, &path);
            hidden.iter_mut().for_each(|value| *value = value.max(0.0));
            Ok(apply_linear(&Linear::load(tensors, output, [width, *inner_width], true)?, &hidden))
        }
    }
}

/// Sums rows of embedding tables, `[width]`; fails if a table has another shape.
fn sum_table_rows(tensors: &impl Tensors, rows: &[EmbeddingRow], width: usize) -> Result<Vec<f32>> {
    let mut sum = vec![0.0; width];
    for EmbeddingRow { table, rows, row } in rows {
        ensure!(row < rows, "{table} has {rows} rows, and the one of plain text is row {row}, counted from 0");
        let values = tensors.tensor(&format!("{table}.weight"), &[*rows, width])?;
        sum.iter_mut().zip(&values[row * width..]).for_each(|(sum, value)| *sum += value);
    }
    Ok(sum)
}

/// Applies a linear layer: `W x + b`.
fn apply_linear(Linear { weight, bias }: &Linear, x: &[f32]) -> Vec<f32> {
    let product = |(row, bias): (&[f32], &f32)| row.iter().zip(x).fold(*bias, |sum, (w, x)| w.mul_add(*x, sum));
    weight.chunks_exact(x.len()).zip(bias).map(product).collect()
}
