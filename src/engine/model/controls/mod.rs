//! Control models derived from a trained model: null models that differ from it only in the property under test.

pub mod rotated;
pub mod sharp;
