//! Forward passes over a corpus, and their observations.

pub mod ablation;
pub mod control;
pub mod gate_fits;
pub mod kept;
pub mod observation;
pub mod observer;
pub mod pass;
pub mod run;
pub mod setup;
