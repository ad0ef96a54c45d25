//! Links named by the user: their sources, the choices of attention heads and rules, and pairs of words
//! (docs/methodology/links.md).

pub mod block;
pub mod choice;
pub mod key;
pub mod pairs;
pub mod rules;
pub mod sources;
