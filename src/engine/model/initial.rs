//! The weights of a model before training, by its family's own initialisation.

use anyhow::{Result, ensure};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use sha2::{Digest, Sha256};

use super::weights::Tensors;

/// Parameters as transformers initialises BERT and its relatives (`_init_weights`): matrices, embeddings
/// among them, are drawn from a normal distribution around 0; of vectors, biases are 0 and the weights of layer
/// normalisations 1.
///
/// transformers also zeroes the embedding of the padding token, which no sentence here has.
pub struct Initial {
    seed: u64,
    normal: Normal<f32>,
    /// The weights of normalisations: 0 where the model adds 1 to them.
    of_norms: f32,
}

impl Initial {
    /// Matrices with the standard deviation `range`, `initializer_range` in `config.json`.
    /// Fails if that is no standard deviation.
    #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
    pub fn new(range: f64, seed: u64, norms_add_one: bool) -> Result<Self> {
        ensure!(range.is_finite() && range > 0.0, "initializer_range is {range}: a small positive number is expected");
        let of_norms = if norms_add_one { 0.0 } else { 1.0 };
        Ok(Self { seed, normal: Normal::new(0.0, range as f32)?, of_norms })
    }
}

impl Tensors for Initial {
    /// Each tensor has random numbers of its own, by the seed and its name, whatever the order in which they are asked.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let count = shape.iter().product();
        if shape.len() == 1 {
            return Ok(vec![if name.split('.').next_back() == Some("bias") { 0.0 } else { self.of_norms }; count]);
        }
        let seed = Sha256::digest(format!("{} {name}", self.seed));
        let random = ChaCha8Rng::from_seed(seed.into());
        Ok(self.normal.sample_iter(random).take(count).collect())
    }

    /// Every name counts as present, because nothing is stored; but frequencies of rotary positions, which are no weights.
    fn has_tensor(&self, name: &str) -> bool {
        !name.ends_with("inv_freq")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_normal_and_vectors_constant() {
        let initial = Initial::new(0.02, 3, false).unwrap();
        assert_eq!(initial.tensor("a.LayerNorm.weight", &[2]).unwrap(), [1.0, 1.0]);
        assert_eq!(initial.tensor("a.bias", &[2]).unwrap(), [0.0, 0.0]);
        let adding_one = Initial::new(0.02, 3, true).unwrap();
        assert_eq!(adding_one.tensor("a.norm.weight", &[2]).unwrap(), [0.0, 0.0]);
        assert!(initial.has_tensor("a.weight") && !initial.has_tensor("rotary_embeddings.inv_freq"));
        let values = initial.tensor("a.weight", &[100, 1000]).unwrap();
        let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / 1e5;
        let variance = values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / 1e5;
        // The mean of 100 000 draws has a standard error of 0.02 / 316, their deviation one of 0.02 / 447.
        assert!(mean.abs() < 5.0 * 0.02 / 316.0, "{mean}");
        assert!((variance.sqrt() - 0.02).abs() < 5.0 * 0.02 / 447.0, "{variance}");
    }

    #[test]
    fn tensors_differ_by_name_and_seed_only() {
        let draw = |seed, name| Initial::new(0.02, seed, false).unwrap().tensor(name, &[2, 8]).unwrap();
        assert_eq!(draw(1, "a.weight"), draw(1, "a.weight"));
        assert_ne!(draw(1, "a.weight"), draw(1, "b.weight"));
        assert_ne!(draw(1, "a.weight"), draw(2, "a.weight"));
        assert!(Initial::new(0.0, 1, false).is_err());
    }
}
