//! Square roots of attention rows, for Hellinger distances between heads.

use multiversion::multiversion;

use crate::model::forward::attention::AttentionView;
use crate::model::grid::visibility::Visibility;

/// Square roots of selected attention rows of several heads over one sequence.
#[derive(Debug, Default)]
pub struct AttentionSquareRoots {
    /// Queries whose attention rows are selected, as indices of tokens, ascending.
    pub rows: Vec<usize>,
    /// Square roots of the attention weights, `[heads, rows, tokens]`, for the heads that were added so far.
    values: Vec<f32>,
}

impl AttentionSquareRoots {
    pub fn new(rows: Vec<usize>) -> Self {
        Self { rows, values: Vec::new() }
    }

    /// Appends the square roots of the next head's rows; `heads` is the number of all heads.
    pub fn push(&mut self, attention: AttentionView<'_>, heads: usize) {
        let size = self.rows.len() * attention.tokens();
        if self.values.is_empty() {
            self.values.reserve_exact(heads * size);
        }
        for &row in &self.rows {
            let from = self.values.len();
            self.values.extend_from_slice(attention.row(row));
            take_square_roots(&mut self.values[from..]);
        }
    }

    /// The square roots of the head at index `place`, `[rows, tokens]`. Panics if the head was not added.
    pub fn head_square_roots(&self, place: usize, tokens: usize) -> &[f32] {
        let size = self.rows.len() * tokens;
        &self.values[place * size..][..size]
    }

    /// Square roots of the attention weights of all added heads, `[heads, rows, tokens]`.
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

/// Sum of the squared Hellinger distances of attention rows from uniform attention. `roots` are the square roots of
/// the rows, `[rows, tokens]`.
pub fn distance_from_uniform(roots: &[f32], rows: &[usize], (visibility, tokens): (Visibility, usize)) -> f64 {
    let row = |(roots, &query): (&[f32], &usize)| {
        let keys = visibility.visible_keys(query, tokens);
        let even = (keys.len() as f64).sqrt().recip();
        roots[keys].iter().map(|&root| (f64::from(root) - even).powi(2)).sum::<f64>() / 2.0
    };
    roots.chunks_exact(tokens).zip(rows).map(row).sum()
}

/// Replaces each weight by its square root.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn take_square_roots(weights: &mut [f32]) {
    weights.iter_mut().for_each(|weight| *weight = weight.sqrt());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_of_rows_by_head() {
        let mut roots = AttentionSquareRoots::new(vec![1]);
        roots.push(AttentionView::new(0, 0, 2, &[9.0, 9.0, 0.25, 0.75]), 2);
        roots.push(AttentionView::new(0, 1, 2, &[9.0, 9.0, 1.0, 0.0]), 2);
        assert_eq!(
            (roots.head_square_roots(0, 2), roots.head_square_roots(1, 2)),
            (&[0.5, 0.75_f32.sqrt()][..], &[1.0, 0.0][..])
        );
        assert_eq!(roots.values().len(), 4);
        // The row (1, 0) is 1 - sqrt(1/2) from (1/2, 1/2), and equal to even attention where it sees the first key alone.
        let distance = |visibility| distance_from_uniform(roots.head_square_roots(1, 2), &[0], (visibility, 2));
        assert!((distance(Visibility::ALL) - (1.0 - 0.5_f64.sqrt())).abs() < 1e-7);
        assert_eq!(distance(Visibility { before: None, after: Some(0) }), 0.0);
    }
}
