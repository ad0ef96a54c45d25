//! The units of metrics, and the largest differences in each that do not count as a change.

use schemars::JsonSchema;
use serde::Serialize;

/// Unit of a number that two analyses are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Unit of shares and other dimensionless numbers: accuracies, masses, cosines, ratios, and their differences.
    Shares,
    /// Unit of entropies and losses.
    Nats,
    /// Unit of distances between tokens.
    Tokens,
}

/// A value for each unit of numbers (shares, nats, tokens).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PerUnit<T> {
    /// Value for shares and other dimensionless numbers, such as cosines and ratios.
    pub shares: T,
    /// Value for entropies and losses.
    pub nats: T,
    /// Value for distances between tokens.
    pub tokens: T,
}

impl<T: Copy> PerUnit<T> {
    pub fn uniform(value: T) -> Self {
        Self { shares: value, nats: value, tokens: value }
    }

    pub fn get(&self, unit: Unit) -> T {
        match unit {
            Unit::Shares => self.shares,
            Unit::Nats => self.nats,
            Unit::Tokens => self.tokens,
        }
    }

    pub fn get_mut(&mut self, unit: Unit) -> &mut T {
        match unit {
            Unit::Shares => &mut self.shares,
            Unit::Nats => &mut self.nats,
            Unit::Tokens => &mut self.tokens,
        }
    }
}

/// The largest differences between two models that may come from the precision of their weights alone.
///
/// They are round numbers near or above the largest differences between a model and its bfloat16 version (each weight
/// rounded to 8 bits, to nearest), over EWT dev and GUM dev. The models are all-MiniLM-L6-v2 and `box:small`. Both were
/// run with the default studies, `box:small` also with norms, repeats, segments, similarity, effect, gradient and
/// output-shift.
///
/// Largest differences of shares: .0053 (`sentence_share` of a sink) and .0050 (`explained_alone`); three of 30,992 are
/// above .005. Nats: .0099 (`loss_effect_by_class`), .0096 (`entropy`). Tokens: .0052 (`mean_distance`). `compare`
/// finds no change in any of these pairs.
///
/// Other sources of noise make smaller differences. Weights in f16 make a ninth of them (median). Noise of 1e-7 of each
/// weight, as from another order of additions, makes up to 4e-7 (4e-5 for `offset_argmax`, which counts). A resumed run
/// makes none.
pub const PRECISION_TOLERANCE: PerUnit<f64> = PerUnit { shares: 0.005, nats: 0.02, tokens: 0.02 };
