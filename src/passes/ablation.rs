//! How heads are removed in turn: what stands for them, and in which sentences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How heads are removed in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ablation {
    /// What stands for the context of a removed head.
    pub removal: Replacement,
    /// So many variants of each sentence have words masked: 1, or up to 7, in which every word is masked once.
    #[schemars(range(min = 1, max = 7))]
    pub phases: u8,
    /// Of at most so many sentences of the corpus, chosen evenly.
    #[schemars(range(min = 1))]
    pub sample: u64,
}

/// The most sentences unless something else is asked for.
///
/// Each goes through the model as often as there are heads: 500 of 25 tokens through BERT-base are 75 passes over 12,500
/// tokens, a matter of minutes, with some 1,700 masked tokens.
pub const DEFAULT_SAMPLE: u64 = 500;

impl Default for Ablation {
    fn default() -> Self {
        Self { removal: Replacement::Mean, phases: 1, sample: DEFAULT_SAMPLE }
    }
}

/// What stands for the context of a removed head, at every position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// Its mean over the positions of the same class in the sentences at hand, in the model as it is.
    Mean,
    /// Zeros.
    Zero,
}

impl Replacement {
    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Zero => "zero",
        }
    }
}
