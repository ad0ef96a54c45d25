//! The weights of a model before training, drawn as its architecture family initialises them.

use anyhow::{Result, bail, ensure};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal, Uniform};
use sha2::{Digest, Sha256};

use super::families::{WeightDistribution, WeightInitialisation};
use super::weights::Tensors;

/// Parameters as transformers initialises them (`_init_weights` of each family): random matrices, biases of 0, and norm weights
/// by family. transformers also zeroes the embedding of the padding token, which occurs in no input of this program.
pub struct InitialWeights {
    seed: u64,
    /// Scale of matrices for which the family sets no other scale.
    range: f32,
    /// Distribution of matrices and value of norm weights in the model's architecture family.
    initialisation: WeightInitialisation,
}

impl InitialWeights {
    /// Prepares initial parameters that `seed` determines. `range` (`initializer_range`) is the scale of each matrix for which
    /// the family sets no other scale. Fails if a scale is not positive, or a normal distribution is truncated within one
    /// standard deviation.
    #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
    pub fn new(range: f64, seed: u64, mut fresh: WeightInitialisation, norms_add_one: bool) -> Result<Self> {
        let positive = |number: f64| number.is_finite() && number > 0.0;
        ensure!(positive(range), "initializer_range is {range}: a small positive number is expected");
        if let WeightDistribution::TruncatedNormal(cutoff) = fresh.distribution {
            ensure!(cutoff >= 1.0, "initializer_cutoff_factor is {cutoff}: a number of 1 or more is expected");
        }
        if let Some((part, scale)) = fresh.scales.iter().find(|(_, scale)| !positive(*scale)) {
            bail!("{part}: config.json gives fresh weights the scale {scale}, a positive number is expected");
        }
        if norms_add_one {
            fresh.norms = 0.0;
        }
        Ok(Self { seed, range: range as f32, initialisation: fresh })
    }

    /// Draws `count` weights of the matrix `name`, with the scale that the family has for this name.
    #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
    fn draw_matrix(&self, name: &str, count: usize, random: ChaCha8Rng) -> Result<Vec<f32>> {
        let override_scale = self.initialisation.scales.iter().find(|(part, _)| name.contains(part));
        let scale = override_scale.map_or(self.range, |(_, scale)| *scale as f32);
        let largest = match self.initialisation.distribution {
            WeightDistribution::Uniform => {
                return Ok(Uniform::new_inclusive(-scale, scale)?.sample_iter(random).take(count).collect());
            }
            WeightDistribution::TruncatedNormal(cutoff) => cutoff as f32 * scale,
            WeightDistribution::Normal => f32::INFINITY,
        };
        let samples = Normal::new(0.0, scale)?.sample_iter(random);
        Ok(samples.filter(|value| value.abs() <= largest).take(count).collect())
    }
}

impl Tensors for InitialWeights {
    /// Draws a tensor. `seed` and the tensor's name seed the random numbers, so that the order of calls does not matter.
    #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let count = shape.iter().product();
        if shape.len() == 1 {
            return Ok(vec![if name.ends_with("bias") { 0.0 } else { self.initialisation.norms as f32 }; count]);
        }
        let seed = Sha256::digest(format!("{} {name}", self.seed));
        self.draw_matrix(name, count, ChaCha8Rng::from_seed(seed.into()))
    }

    /// Whether a tensor can be drawn: true for every name except rotary frequencies, which are no weights.
    fn has_tensor(&self, name: &str) -> bool {
        !name.ends_with("inv_freq")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_normal_and_vectors_constant() {
        let initial = InitialWeights::new(0.02, 3, WeightInitialisation::default(), false).unwrap();
        assert_eq!(initial.tensor("a.LayerNorm.weight", &[2]).unwrap(), [1.0, 1.0]);
        assert_eq!(["a.bias", "a.q_bias"].map(|name| initial.tensor(name, &[2]).unwrap()), [[0.0, 0.0]; 2]);
        let adding_one = InitialWeights::new(0.02, 3, WeightInitialisation::default(), true).unwrap();
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
    fn families_draw_their_own_way() {
        let of = |fresh: &WeightInitialisation, name: &str| {
            let values =
                InitialWeights::new(0.02, 3, fresh.clone(), false).unwrap().tensor(name, &[100, 1000]).unwrap();
            let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            let variance = values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>() / 1e5;
            (variance.sqrt(), largest)
        };
        let near = |found: f64, expected: f64| (found - expected).abs() < 0.02 * expected;
        // A normal distribution that is cut at two standard deviations has 0.8796 of its deviation left.
        let distribution = WeightDistribution::TruncatedNormal(2.0);
        let cut = WeightInitialisation { distribution, scales: vec![("Wo", 0.005)], ..WeightInitialisation::default() };
        let (deviation, largest) = of(&cut, "layers.0.attn.Wo.weight");
        assert!(near(deviation, 0.8796 * 0.005) && largest <= 0.01, "{deviation} {largest}");
        assert!(near(of(&cut, "layers.0.attn.Wqkv.weight").0, 0.8796 * 0.02));
        let uniform =
            WeightInitialisation { distribution: WeightDistribution::Uniform, ..WeightInitialisation::default() };
        let (deviation, largest) = of(&uniform, "a.weight");
        assert!(near(deviation, 0.02 / 3.0_f64.sqrt()) && largest <= 0.02, "{deviation} {largest}");
    }

    #[test]
    fn tensors_differ_by_name_and_seed_only() {
        let draw = |seed, name| {
            InitialWeights::new(0.02, seed, WeightInitialisation::default(), false)
                .unwrap()
                .tensor(name, &[2, 8])
                .unwrap()
        };
        assert_eq!(draw(1, "a.weight"), draw(1, "a.weight"));
        assert_ne!(draw(1, "a.weight"), draw(1, "b.weight"));
        assert_ne!(draw(1, "a.weight"), draw(2, "a.weight"));
        assert!(InitialWeights::new(0.0, 1, WeightInitialisation::default(), false).is_err());
    }

    #[test]
    fn numbers_that_no_distribution_has() {
        let error = |fresh| InitialWeights::new(0.02, 1, fresh, false).err().unwrap().to_string();
        let cut = WeightInitialisation {
            distribution: WeightDistribution::TruncatedNormal(0.5),
            ..WeightInitialisation::default()
        };
        assert_eq!(error(cut), "initializer_cutoff_factor is 0.5: a number of 1 or more is expected");
        let none = WeightInitialisation { scales: vec![("shared", 0.0)], ..WeightInitialisation::default() };
        assert_eq!(error(none), "shared: config.json gives fresh weights the scale 0, a positive number is expected");
    }
}
