//! Control models derived from a trained model: null models that differ from it only in the property under test.

pub mod matched_sharpness;
pub mod rotated_outputs;
