//! Forward passes over a corpus, and what was observed in them.

pub mod ablation;
pub mod beforehand;
pub mod choice;
pub mod contexts;
pub mod control;
pub mod countable;
pub mod counting;
pub mod derivatives;
pub mod identity;
pub mod merge;
pub mod observation;
pub mod observer;
pub mod partial;
pub mod pass;
pub mod run;
mod showing;
pub mod trials;
pub mod turns;
pub mod workers;
