//! dependency.
pub mod sums;
