//! Uncertainty of numbers: intervals by resampling blocks of sentences, and tests of heads against their baselines.
//!
//! docs/METHODOLOGY.md, "Uncertainty", has the assumptions of each.

pub mod block_test;
pub mod blocks;
pub mod bootstrap;
pub mod difference;
pub mod exact;
pub mod ranks;
pub mod significance;
pub mod surprisal;
