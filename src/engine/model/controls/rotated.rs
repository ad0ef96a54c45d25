//! A trained model whose heads write into directions at random: each keeps its weights and the lengths and angles of what it writes, but
//! later layers, which were trained with the others, no longer read it (docs/methodology/controls.md).

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sha2::{Digest, Sha256};

use crate::linalg::rotation::rotated;
use crate::model::parameters::Parameters;

/// Turns the output projection of each head by a random rotation of the hidden states, of its own by the seed and the head's place.
pub fn turn_outputs(parameters: &mut Parameters, seed: u64) {
    let (hidden, heads) = (parameters.config.hidden_size, parameters.config.num_attention_heads);
    let (size, width) = (parameters.config.head_dim(), parameters.config.heads_width());
    for (number, layer) in parameters.layers.iter_mut().enumerate() {
        let weights = &mut layer.attention_output.weight;
        for head in 0..heads {
            let digest = Sha256::digest(format!("{seed} rotation L{number}H{head}"));
            let random = ChaCha8Rng::from_seed(digest.into());
            let normal: Vec<f64> = StandardNormal.sample_iter(random).take(hidden * size).collect();
            let at = |row: usize, column: usize| row * width + head * size + column;
            let output = (0..hidden).flat_map(|row| (0..size).map(move |column| (row, column)));
            let own: Vec<f64> = output.clone().map(|(row, column)| f64::from(weights[at(row, column)])).collect();
            let turned = rotated(&own, &normal, [hidden, size]);
            #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
            output.zip(turned).for_each(|((row, column), value)| weights[at(row, column)] = value as f32);
        }
    }
}
