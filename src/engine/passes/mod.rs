//! Forward passes over a corpus: what runs, the observers that see it, and the sums that result.

pub mod ablation;
pub mod control;
pub mod gate_fits;
pub mod kept;
pub mod observation;
pub mod observer;
pub mod pass;
pub mod run;
pub mod setup;
