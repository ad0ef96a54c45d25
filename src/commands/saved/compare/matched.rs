//! How heads were matched, and what agreement comes to without it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::agreement::ShareByChance;

/// How heads were matched, and what agreement comes to where heads of b are in random order within layers.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub struct MatchedHeads {
    /// Heads of a whose partner has another place in b.
    pub moved: usize,
    /// Heads whose partner is the same by either half of the sentences.
    pub halves_agree: usize,
    /// The share of heads with the same first label.
    pub first_label: ShareByChance,
    /// The share of heads with the same firm labels.
    pub firm_labels: ShareByChance,
}
