//! Controls: the analysis repeated without one property on which labels could depend (docs/methodology/controls.md).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A control: the analysis repeated with one thing taken away, such as the learned weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// Property that the control takes away.
    #[serde(rename = "control")]
    pub kind: ControlKind,
    /// Seed of the control's random choices.
    pub seed: u64,
}

/// Kind of a control: the property of the model or corpus that it takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlKind {
    /// Takes away the learned weights: the model is an untrained one, with random matrices as before training.
    RandomInit,
    /// Takes away the learned weights, but keeps each layer's sharpness of attention, to which random weights are scaled.
    RandomSharp,
    /// Takes away the match between heads and later layers: the output of each head is rotated at random.
    Rotated,
    /// Takes away the order of words: the words of each sentence are shuffled, and their arcs go with them.
    ShuffledWords,
}

impl ControlKind {
    pub const ALL: [Self; 4] = [Self::RandomInit, Self::RandomSharp, Self::Rotated, Self::ShuffledWords];

    /// The name of the control on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::RandomInit => "random-init",
            Self::RandomSharp => "random-sharp",
            Self::Rotated => "rotated",
            Self::ShuffledWords => "shuffled-words",
        }
    }
}

impl fmt::Display for ControlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
