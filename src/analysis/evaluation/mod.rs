//! An analysis as a whole: the passes that its studies need, and the results of their sums.

pub mod plan;
pub mod presets;
pub mod results;
#[cfg(test)]
mod simulation;
