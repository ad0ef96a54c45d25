//! Commands on saved reports.

pub mod cite;
pub mod compare;
pub mod confirm;
pub mod export;
pub mod gate;
pub mod numbers;
pub mod prune;
pub mod show;
pub mod sides;
