//! The parts of a run that `analyze`, `merge` and `batch` share.

pub mod observe;
pub mod outputs;
pub mod parts;
pub mod resume;
pub mod write_report;
