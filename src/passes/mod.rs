//! Forward passes over a corpus, and what was observed in them.

pub mod control;
pub mod merge;
pub mod observation;
pub mod partial;
pub mod run;
pub mod workers;
