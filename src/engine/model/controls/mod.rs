//! Control models derived from a trained model: nulls that differ from it only in the property in question.

pub mod rotated;
pub mod sharp;
