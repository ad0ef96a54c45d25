//! Metrics: ratios of exact sums, with intervals and chance levels.

pub mod by_block;
pub mod estimates;
pub mod explanation;
pub mod metric;
pub(super) mod named;
pub mod number;
pub mod pseudo_values;
pub mod unit;
