//! The ways to make one vector of the last hidden states of a text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the last hidden states of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Their mean over tokens of text, where the model does not say how.
    Text,
    /// Their mean over all tokens.
    Mean,
    /// The first token's.
    First,
    /// The largest value of each dimension.
    Max,
    /// The last token's.
    Last,
}

impl Pooling {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Text => "the mean over tokens of text, since the model does not say how to pool",
            Self::Mean => "the mean over all tokens",
            Self::First => "the first token",
            Self::Max => "the largest value of each dimension",
            Self::Last => "the last token",
        }
    }
}
