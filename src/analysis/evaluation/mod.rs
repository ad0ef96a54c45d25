//! An analysis as a whole: the passes that its studies need, and the results of their sums.

#[cfg(test)]
mod even_heads;
pub mod plan;
pub mod presets;
pub mod results;
#[cfg(test)]
mod simulation;
