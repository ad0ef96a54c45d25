//! User-defined links between words: their sources, the targets that attention heads and rules choose, and undirected
//! pairs of words (docs/methodology/links.md).

pub mod block;
pub mod choice;
pub mod key;
pub mod pairs;
pub mod rules;
pub mod sources;
