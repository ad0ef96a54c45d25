//! The sums that a family adds to the embeddings of every token of plain text.

use anyhow::{Result, ensure};

use super::parts::Linear;
use crate::model::families::{Markup, PlainText, TableRow};
use crate::model::weights::Tensors;

/// The sum that every token gets, `[width]`.
pub(super) fn load(tensors: &impl Tensors, plain_text: &PlainText, width: usize) -> Result<Vec<f32>> {
    match plain_text {
        PlainText::Rows(rows) => sum(tensors, rows, width),
        PlainText::Markup(markup) => {
            let Markup { none, width: unit, inner, inner_width, output } = markup;
            let mut path = Vec::with_capacity(none.len() * unit);
            for rows in none {
                path.extend(sum(tensors, rows, *unit)?);
            }
            let mut hidden = apply(&Linear::load(tensors, inner, *inner_width, path.len(), true)?, &path);
            hidden.iter_mut().for_each(|value| *value = value.max(0.0));
            Ok(apply(&Linear::load(tensors, output, width, *inner_width, true)?, &hidden))
        }
    }
}

/// The sum of rows of tables, `[width]`.
fn sum(tensors: &impl Tensors, rows: &[TableRow], width: usize) -> Result<Vec<f32>> {
    let mut sum = vec![0.0; width];
    for TableRow { table, rows, row } in rows {
        ensure!(row < rows, "{table} has {rows} rows, and the one of plain text is row {row}, counted from 0");
        let values = tensors.tensor(&format!("{table}.weight"), &[*rows, width])?;
        sum.iter_mut().zip(&values[row * width..]).for_each(|(sum, value)| *sum += value);
    }
    Ok(sum)
}

/// `W x + b`.
fn apply(Linear { weight, bias }: &Linear, x: &[f32]) -> Vec<f32> {
    let product = |(row, bias): (&[f32], &f32)| row.iter().zip(x).fold(*bias, |sum, (w, x)| w.mul_add(*x, sum));
    weight.chunks_exact(x.len()).zip(bias).map(product).collect()
}
