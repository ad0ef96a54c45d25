//! trees.
pub mod sums;
