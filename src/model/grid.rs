//! The heads of a model, and their names.

use serde::{Deserialize, Serialize};

/// How many layers, and heads in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadGrid {
    /// Layers.
    pub layers: usize,
    /// Heads per layer.
    pub heads: usize,
}

impl HeadGrid {
    /// The number of all heads.
    #[must_use]
    pub fn count(self) -> usize {
        self.layers * self.heads
    }

    /// The place of a head in a list of all heads, layer by layer.
    #[must_use]
    pub fn index(self, layer: usize, head: usize) -> usize {
        layer * self.heads + head
    }

    /// Layer and head at a place in that list.
    #[must_use]
    pub fn at(self, index: usize) -> (usize, usize) {
        (index / self.heads, index % self.heads)
    }
}

/// `L7H9`: layer 7, head 9, both counted from 0.
#[must_use]
pub fn head_name(layer: usize, head: usize) -> String {
    format!("L{layer}H{head}")
}
