//! From an observation to reports, as `analyze`, `merge` and `batch` have it in common.

pub mod outputs;
pub mod policy;
pub mod write_report;
