//! The arguments of commands on saved reports.

pub mod cite;
pub mod compare;
pub mod confirm;
pub mod diff;
pub mod export;
pub mod gate;
pub mod prune;
pub mod relabel;
pub mod show;
pub mod sides;
