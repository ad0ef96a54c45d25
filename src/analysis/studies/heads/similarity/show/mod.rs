//! The figures of the study and its lines of the summary.

pub mod figure;
pub mod summary;
