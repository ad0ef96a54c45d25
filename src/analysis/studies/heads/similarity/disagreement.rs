//! How much the heads of a layer disagree, by the three measures of Li et al. 2018 (arXiv:1810.10183, section 3.2).

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use crate::linalg::lanes::shifted_dot;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::Values;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;

/// Sums over rows of the mean over all pairs of heads of a layer, with themselves too: what the paper takes the negative of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    pub subspace: ExactSum,
    pub position: ExactSum,
    pub output: ExactSum,
}

merge_fields!(Disagreement { subspace, position, output });

/// The heads of one layer over one sequence, added up: the mean of all pairs is the squared length of the mean.
#[derive(Debug, Default)]
pub struct LayerSums {
    /// `[rows, tokens]`: the weights of all heads.
    weights: Vec<f32>,
    /// `[rows, head_dim]`: their values, each scaled to length 1.
    values: Vec<f32>,
    /// `[rows, head_dim]`: their contexts, likewise.
    contexts: Vec<f32>,
}

impl LayerSums {
    /// Adds a head; `contexts` are without the value bias, which is added here.
    pub fn add(&mut self, rows: &[usize], attention: AttentionView<'_>, values: Values<'_>, contexts: Rows<'_>) {
        let width = values.bias.len();
        self.weights.resize(rows.len() * attention.tokens(), 0.0);
        self.values.resize(rows.len() * width, 0.0);
        self.contexts.resize(rows.len() * width, 0.0);
        for (&row, sums) in rows.iter().zip(self.weights.chunks_exact_mut(attention.tokens())) {
            add(attention.row(row), sums);
        }
        let vectors = self.values.chunks_exact_mut(width).zip(self.contexts.chunks_exact_mut(width));
        for (&row, (of_values, of_contexts)) in rows.iter().zip(vectors) {
            add_direction(values.rows.row(row), values.bias, of_values);
            // Weights sum to 1: the bias of the values is that of their mean.
            add_direction(contexts.row(row), values.bias, of_contexts);
        }
    }

    /// The disagreements of this many heads; the sums are empty afterwards.
    pub fn finish(&mut self, heads: usize) -> Disagreement {
        let mut take = |of: fn(&mut Self) -> &mut Vec<f32>| {
            let sums = of(self);
            let squares = sums.iter().map(|&sum| f64::from(sum).powi(2)).sum::<f64>();
            sums.clear();
            let mut sum = ExactSum::default();
            sum += squares / (heads * heads) as f64;
            sum
        };
        Disagreement {
            subspace: take(|sums| &mut sums.values),
            position: take(|sums| &mut sums.weights),
            output: take(|sums| &mut sums.contexts),
        }
    }
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn add(values: &[f32], sums: &mut [f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Adds `vector + bias`, scaled to length 1; a vector of zeros has no direction and adds nothing.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn add_direction(vector: &[f32], bias: &[f32], sums: &mut [f32]) {
    let square = shifted_dot(vector, bias, vector, bias);
    if square > 0.0 {
        let scale = square.sqrt().recip();
        for ((sum, value), bias) in sums.iter_mut().zip(vector).zip(bias) {
            *sum += (value + bias) * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disagreement_by_hand() {
        // Two heads, one row: values (3, 4) and (4, -3) with a bias of (1, 0) taken off, weights (1, 0) and (0.5, 0.5).
        let mut layer = LayerSums::default();
        for (weights, value) in [([0.0, 0.0, 1.0, 0.0], [2.0, 4.0]), ([0.0, 0.0, 0.5, 0.5], [3.0, -3.0])] {
            let rows = [[0.0; 2], value].concat();
            let rows = Rows::new(&rows, 2);
            let attention = AttentionView::new(0, 0, 2, &weights);
            layer.add(&[1], attention, Values { rows, bias: &[1.0, 0.0] }, rows);
        }
        let found = layer.finish(2);
        // The cosine is 0 between them and 1 with themselves; products of weights 1, 0.5, 0.5 and 0.5.
        assert!((found.subspace.value() - 0.5).abs() < 1e-6 && (found.output.value() - 0.5).abs() < 1e-6);
        assert!((found.position.value() - 2.5 / 4.0).abs() < 1e-6);
        assert!(layer.values.is_empty());
    }
}
