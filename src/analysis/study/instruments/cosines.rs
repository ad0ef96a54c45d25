//! Similarity of tokens by the model's input embeddings.

use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::WordEmbeddings;

/// The cosines between the word embeddings of all pairs of tokens, `[tokens, tokens]`. A vector of zeros has a
/// cosine of 0; so does the diagonal, for a token with itself.
pub fn cosines(ids: &[u32], embeddings: &WordEmbeddings) -> Vec<f64> {
    let count = ids.len();
    let rows: Vec<f32> = ids.iter().flat_map(|&id| embeddings.get(id)).copied().collect();
    let rows = Matrix::new(&rows, count, rows.len() / count.max(1));
    let mut products = vec![0.0; count * count];
    multiply(MatrixMut::new(&mut products, count, count), rows, rows.transposed());
    let product = |query: usize, key: usize| f64::from(products[query * count + key]);
    let norms: Vec<f64> = (0..count).map(|token| product(token, token).sqrt()).collect();
    let mut cosines = vec![0.0; count * count];
    for query in 0..count {
        for key in 0..query {
            let lengths = norms[query] * norms[key];
            let cosine = if lengths > 0.0 { product(query, key) / lengths } else { 0.0 };
            cosines[query * count + key] = cosine;
            cosines[key * count + query] = cosine;
        }
    }
    cosines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn cosines_by_hand() {
        // (3, 4), (0, 0), (4, 3), (-6, -8).
        let embeddings = WordEmbeddings::new(Arc::new(vec![3.0, 4.0, 0.0, 0.0, 4.0, 3.0, -6.0, -8.0]), 2);
        let expected = [0.0, 0.96, -1.0, 0.96, 0.0, -0.96, -1.0, -0.96, 0.0];
        for (cosine, expected) in cosines(&[0, 2, 3], &embeddings).into_iter().zip(expected) {
            assert!((cosine - expected).abs() < 1e-7);
        }
        assert_eq!(cosines(&[1, 0], &embeddings), [0.0; 4]);
    }
}
