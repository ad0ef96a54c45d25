//! Attention rollout (Abnar & Zuidema 2020, arXiv:2005.00928, section 3): attention of all layers multiplied up.

use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::Visibility;

/// The rollout of every layer, `[layers, tokens, tokens]`, of attention `[layers, heads, tokens, tokens]` over a sentence.
///
/// `R_l = Ã_l R_(l-1)` from the identity on, with `Ã_l` half the mean of the layer's heads and half the identity, which stands for
/// the residual stream. Rows sum to 1.
/// `present` gives how many heads of a layer are there; the others have zeros.
pub fn rollout(attention: &[f32], grid: HeadGrid, present: impl Fn(usize) -> usize, tokens: usize) -> Vec<f32> {
    let of_layer = |(layer, heads): (usize, &[f32])| {
        let sum = |cell: usize| heads.iter().skip(cell).step_by(tokens * tokens).sum::<f32>();
        (0..tokens * tokens).map(|cell| sum(cell) / present(layer) as f32).collect()
    };
    product(attention.chunks_exact(grid.heads * tokens * tokens).enumerate().map(of_layer), tokens)
}

/// The rollout of attention that is even over the keys that each query sees, layer by layer.
pub fn even_rollout(layers: impl Iterator<Item = Visibility>, tokens: usize) -> Vec<f32> {
    let even = |visibility: Visibility| {
        let mut attention = vec![0.0; tokens * tokens];
        for (query, row) in attention.chunks_exact_mut(tokens).enumerate() {
            let keys = visibility.keys(query, tokens);
            let weight = 1.0 / keys.len() as f32;
            row[keys].fill(weight);
        }
        attention
    };
    product(layers.map(even), tokens)
}

/// The products up to each layer of `layers`, `[tokens, tokens]` each, mixed half with the identity.
fn product(layers: impl Iterator<Item = Vec<f32>>, tokens: usize) -> Vec<f32> {
    let mut products: Vec<f32> = Vec::new();
    let mut before: Vec<f32> = (0..tokens * tokens).map(|cell| f32::from(u8::from(cell % (tokens + 1) == 0))).collect();
    for mut mixed in layers {
        mixed.iter_mut().for_each(|weight| *weight *= 0.5);
        mixed.iter_mut().step_by(tokens + 1).for_each(|weight| *weight += 0.5);
        let mut product = vec![0.0; tokens * tokens];
        for (row, weights) in product.chunks_exact_mut(tokens).zip(mixed.chunks_exact(tokens)) {
            for (weight, below) in weights.iter().zip(before.chunks_exact(tokens)) {
                row.iter_mut().zip(below).for_each(|(sum, share)| *sum += weight * share);
            }
        }
        products.extend_from_slice(&product);
        before = product;
    }
    products
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_by_hand() {
        // Two layers of two heads over two tokens. The means are [0 1; 1 0] and [.5 .5; 0 1].
        let first = [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0];
        let second = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
        let found = rollout(&[first, second].concat(), HeadGrid { layers: 2, heads: 2 }, |_| 2, 2);
        // Mixed they are [.5 .5; .5 .5] and [.75 .25; 0 1]; the second times the first is the first.
        assert_eq!(found, [0.5; 8]);
    }

    #[test]
    fn of_a_head_that_looks_at_itself_all_stays() {
        let identity = [1.0, 0.0, 0.0, 1.0];
        let found = rollout(&[identity, identity].concat(), HeadGrid { layers: 2, heads: 1 }, |_| 1, 2);
        assert_eq!(found, [identity, identity].concat());
    }

    #[test]
    fn even_attention_halves_what_stays_with_each_layer() {
        let found = even_rollout([Visibility::ALL; 3].into_iter(), 4);
        for layer in 0..3_u8 {
            let stays = 0.5_f32.powi(i32::from(layer) + 1);
            for (cell, weight) in found[usize::from(layer) * 16..][..16].iter().enumerate() {
                let expected = (1.0 - stays) / 4.0 + if cell % 5 == 0 { stays } else { 0.0 };
                assert!((weight - expected).abs() < 1e-7, "{weight} {expected}");
            }
        }
    }
}
