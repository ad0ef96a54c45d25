//! Biases that attention heads add to their scores by the distance between two tokens.

use anyhow::Result;

use crate::model::weights::Tensors;

/// Biases of a layer's attention heads by distance, in families that have them.
#[derive(Clone, Debug, PartialEq)]
pub enum PositionBias {
    /// A learnt bias of each attention head for each bucket of distances (Raffel et al. 2020, section 2.1).
    Buckets {
        /// Bias of each attention head for each bucket of distances, `[buckets, heads]`.
        weight: Vec<f32>,
        /// Number of buckets, half of them for each direction.
        buckets: usize,
        /// Distance, in tokens, from which on all distances share the last bucket of their direction. That bucket may begin at
        /// a shorter distance.
        longest_distance: usize,
    },
    /// ALiBi (Press et al. 2022): subtracts the absolute distance times a slope of the attention head.
    Slopes {
        /// Slope of each attention head, `[heads]`.
        slopes: Vec<f32>,
    },
}

impl PositionBias {
    /// Loads a bias table of shape `[rows, heads]`, whose first rows belong to the buckets. `buckets` is
    /// `[number of buckets, longest distance]`, the fields of [`PositionBias::Buckets`].
    pub(super) fn load(tensors: &impl Tensors, name: &str, shape: [usize; 2], buckets: [usize; 2]) -> Result<Self> {
        let mut weight = tensors.tensor(&format!("{name}.weight"), &shape)?;
        let [buckets, longest_distance] = buckets;
        weight.truncate(buckets * shape[1]);
        Ok(Self::Buckets { weight, buckets, longest_distance })
    }

    /// Computes the slopes of ALiBi for `heads` attention heads. If `heads` is a power of two, head `h`, counted from 1, has
    /// the slope `2^(-8 h / heads)`. Otherwise, all slopes for the next smaller power of two come first, and then slopes 1, 3,
    /// 5, ... for the next larger one (the authors' released code).
    #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
    pub fn from_head_count(heads: usize) -> Self {
        let power = |n: usize, place: usize| (-8.0 * (place + 1) as f64 / n as f64).exp2() as f32;
        let power_of_two = 1 << heads.ilog2();
        let others = (0..heads - power_of_two).map(|place| power(2 * power_of_two, 2 * place));
        Self::Slopes { slopes: (0..power_of_two).map(|place| power(power_of_two, place)).chain(others).collect() }
    }

    /// Returns the score term of the attention head `head` of `heads` at a distance: key position minus query position.
    pub fn score_term(&self, (head, heads): (usize, usize), distance: isize) -> f32 {
        match self {
            Self::Buckets { weight, buckets, longest_distance } => {
                weight[bucket_index(distance, *buckets, *longest_distance) * heads + head]
            }
            Self::Slopes { slopes } => -slopes[head] * distance.unsigned_abs() as f32,
        }
    }
}

/// Bucket of a distance (key position minus query position). Each direction has half of the buckets: half of these for
/// one distance each, the others for logarithmic ranges. The last bucket of a direction also holds all distances from
/// `longest_distance` on.
fn bucket_index(distance: isize, buckets: usize, longest_distance: usize) -> usize {
    let half = buckets / 2;
    let exact = half / 2;
    let n = distance.unsigned_abs();
    let direction = if distance > 0 { half } else { 0 };
    if n < exact {
        return direction + n;
    }
    // In f32 and in this order, as in transformers, because the bound between two buckets may be an integer.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0, and rounded down")]
    let span = {
        let whole = (longest_distance as f64 / exact as f64).ln() as f32;
        ((n as f32 / exact as f32).ln() / whole * (half - exact) as f32) as usize
    };
    direction + exact.saturating_add(span).min(half - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_distances() {
        // Computed with transformers' `MPNetEncoder.relative_position_bucket`.
        let distances = [0, -1, -7, -8, -11, -12, -15, -16, -22, -23, -64, -90, -91, -5000];
        let buckets = [0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 14, 14, 15, 15];
        for (distance, expected) in distances.into_iter().zip(buckets) {
            assert_eq!(bucket_index(distance, 32, 128), expected, "{distance}");
            if distance < 0 {
                assert_eq!(bucket_index(-distance, 32, 128), expected + 16, "{}", -distance);
            }
        }
        assert_eq!([isize::MIN, isize::MAX].map(|distance| bucket_index(distance, 32, 128)), [15, 31]);
    }

    #[test]
    fn slopes_of_heads() {
        let of = |heads| match PositionBias::from_head_count(heads) {
            PositionBias::Slopes { slopes } => slopes,
            PositionBias::Buckets { .. } => unreachable!(),
        };
        assert_eq!(of(2), [1.0 / 16.0, 1.0 / 256.0]);
        // Those of four heads are 2^-2 to 2^-8; of eight, 2^-1 to 2^-8, the first and the third are taken.
        assert_eq!(of(6), [0.25, 0.0625, 0.015_625, 0.003_906_25, 0.5, 0.125]);
        assert_eq!(PositionBias::from_head_count(2).score_term((1, 2), -3), -3.0 / 256.0);
    }
}
