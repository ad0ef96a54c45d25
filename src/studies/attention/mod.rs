//! attention.
pub mod sums;
