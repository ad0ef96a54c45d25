//! An analysis as a whole: what can be asked of a model, the passes that its studies need, and the results of their sums.

pub mod askable;
pub mod plan;
pub mod presets;
pub mod results;
#[cfg(test)]
mod simulation;
