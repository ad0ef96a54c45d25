//! Links of the user's own, as studies score them: their sources with candidates and targets, what heads and rules choose, and pairs
//! of words (docs/methodology/links.md).

pub mod block;
pub mod choice;
pub mod key;
pub mod pairs;
pub mod rules;
pub mod sources;
