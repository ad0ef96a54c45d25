//! Links of the user's own: their sources, what heads and rules choose, and pairs of words (docs/methodology/links.md).

pub mod block;
pub mod choice;
pub mod key;
pub mod pairs;
pub mod rules;
pub mod sources;
