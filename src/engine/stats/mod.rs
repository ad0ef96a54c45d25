//! Statistics: exact sums, the jackknife over blocks of sentences, tests and corrections (docs/methodology/verdicts.md).

pub mod agreement;
pub mod assignment;
pub mod block_test;
pub mod blocks;
pub mod box_minimum;
pub mod difference;
pub mod draws;
pub mod exact;
pub mod interval;
pub mod random_effects;
pub mod ranks;
pub mod significance;
pub mod surprisal;
