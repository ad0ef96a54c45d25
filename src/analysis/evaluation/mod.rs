//! One analysis: the studies that apply to a model, the passes that they request, and the results from the sums.

pub mod askable;
pub mod plan;
pub mod presets;
pub mod results;
#[cfg(test)]
mod simulation;
