//! The units of metrics, and the differences in them that are none.

use schemars::JsonSchema;
use serde::Serialize;

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Shares and other pure numbers of their size: accuracies, masses, cosines, ratios, and what these differ by.
    Shares,
    /// Entropies and losses.
    Nats,
    /// Distances between tokens.
    Tokens,
}

/// A value for each unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PerUnit<T> {
    /// Value for shares and other pure numbers of their size.
    pub shares: T,
    /// Value for entropies and losses.
    pub nats: T,
    /// Value for distances between tokens.
    pub tokens: T,
}

impl<T: Copy> PerUnit<T> {
    pub fn all(value: T) -> Self {
        Self { shares: value, nats: value, tokens: value }
    }

    pub fn of(&self, unit: Unit) -> T {
        match unit {
            Unit::Shares => self.shares,
            Unit::Nats => self.nats,
            Unit::Tokens => self.tokens,
        }
    }

    pub fn of_mut(&mut self, unit: Unit) -> &mut T {
        match unit {
            Unit::Shares => &mut self.shares,
            Unit::Nats => &mut self.nats,
            Unit::Tokens => &mut self.tokens,
        }
    }
}

/// The differences up to which two models are the same but for the precision of their weights.
///
/// Round numbers about the largest differences between a model and the same in bfloat16 (each weight rounded to 8 bits, to the
/// nearest), or above them, over EWT dev and GUM dev: all-MiniLM-L6-v2 by default, `box:small` also with norms, repeats, segments,
/// similarity, effect, gradient and output-shift. Shares: .0053 (`sentence_share` of a sink), .0050 (`explained_alone`), and of
/// 30,992 three above .005; nats: .0099 (`loss_effect_by_class`), .0096 (`entropy`); tokens: .0052 (`mean_distance`). `compare` says of
/// none of these pairs that anything changed.
/// Weights in f16 make a ninth of these differences in the median, and 1e-7 of each weight as noise, as another order of
/// additions makes, up to 4e-7 (`offset_argmax`, which counts: 4e-5). A run that is resumed makes none.
pub const SAME_MODEL: PerUnit<f64> = PerUnit { shares: 0.005, nats: 0.02, tokens: 0.02 };
