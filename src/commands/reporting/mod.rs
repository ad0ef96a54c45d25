//! Reports from an observation, for `analyze`, `merge` and `batch`.

pub mod outputs;
pub mod policy;
pub mod write_report;
