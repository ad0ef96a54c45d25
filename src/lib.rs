//! headscope: labels for every attention head of a pretrained transformer, with the evidence.
//!
//! The pipeline goes in one direction; the output of each stage is the input of the next:
//!
//! 1. [`commands::cli`] turns arguments into the validated options of a command, which stand next to it.
//! 2. [`model`] finds the files, reads the weights and the tokenizer, and identifies the model.
//! 3. [`evaluation::plan`] lists the passes that the studies need, each once.
//! 4. [`corpus`] reads sentences, with words, gold trees and annotations where the format has them.
//! 5. [`sequences`] makes token ids of a sentence, counts what cannot be encoded and why, and packs whole sequences
//!    side by side, without padding.
//! 6. [`model::forward`] runs layer by layer and shows each head's attention over each sequence, and the other
//!    activations that are needed.
//! 7. [`passes`] adds them to sums per block of sentences; the sums of a whole run are a [`passes::observation`], which
//!    the shards of a corpus add up to.
//! 8. [`evaluation::results`] divides the sums, estimates their uncertainty with [`stats`], and turns metrics into labels
//!    by a [`study::labels::policy`].
//! 9. [`report`] holds the outcome, [`export`] writes it.
//!
//! Each command in [`commands`] is its part of this list as code; [`system`] is the base of all of them.

pub use headscope_analysis::{evaluation, report, studies, study};
pub use headscope_engine::{corpus, linalg, model, passes, sequences, stats, system};

pub mod commands;
pub mod export;
