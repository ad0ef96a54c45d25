//! headscope: labels for every attention head of a pretrained transformer, with the evidence.
//!
//! [`commands::cli`] turns arguments into the validated options of a command. [`evaluation::plan`] lists the passes that the
//! studies need. [`model::forward`] runs over the [`sequences`] of a [`corpus`], and [`passes`] adds up its activations.
//! [`evaluation::results`] turns the sums into metrics and labels. [`report`] holds the outcome, and [`export`] writes it.
//! docs/ARCHITECTURE.md describes the data flow in full.

pub use headscope_analysis::{evaluation, report, studies, study};
pub use headscope_engine::{corpus, linalg, model, passes, sequences, stats, system};

pub mod commands;
pub mod export;
