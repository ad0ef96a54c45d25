//! Controls: the analysis repeated without something that labels are thought to rest on (docs/methodology/controls.md).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// The part that is taken away.
    #[serde(rename = "control")]
    pub kind: ControlKind,
    /// The seed of what is random about it.
    pub seed: u64,
}

/// The part that a control takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlKind {
    /// The learned weights: the model is an untrained one.
    RandomInit,
    /// The learned weights, but not how sharply each layer attends.
    RandomSharp,
    /// The reading of heads' outputs by later layers: these outputs are rotated at random.
    Rotated,
    /// The order of words: each sentence's words are shuffled, and their arcs go with them.
    ShuffledWords,
}

impl ControlKind {
    pub const ALL: [Self; 4] = [Self::RandomInit, Self::RandomSharp, Self::Rotated, Self::ShuffledWords];

    /// The name on the command line and in reports.
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
