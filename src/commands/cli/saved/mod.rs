//! The arguments of commands on saved reports.

pub mod compare;
pub mod export;
pub mod prune;
pub mod show;
pub mod sides;
