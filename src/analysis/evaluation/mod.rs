//! An analysis as a whole: which passes its studies need, and what their sums come to.

pub mod plan;
pub mod presets;
pub mod results;
#[cfg(test)]
mod simulation;
