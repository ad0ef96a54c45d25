//! The arguments of commands on saved reports.

pub mod compare;
pub mod show;
