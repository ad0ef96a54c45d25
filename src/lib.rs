//! headscope: what each attention head of a pretrained BERT does, with the evidence.
//!
//! The pipeline, one direction, each stage's output the next one's input:
//!
//! 1. [`commands::cli`] turns arguments into the validated options of a command, which stand next to it.
//! 2. [`model`] finds the files, reads the weights and the tokenizer, and says which model this is.
//! 3. [`studies::plan`] lists the passes that the studies want, each once.
//! 4. [`corpus`] reads sentences, with words, gold trees and annotations where the format has them.
//! 5. [`sequences`] makes token ids of a sentence, counts what cannot be encoded and why, and packs whole sequences
//!    side by side, without padding.
//! 6. [`model::forward`] runs layer by layer and lends each head's attention over each sequence, and what else is
//!    needed.
//! 7. [`passes`] adds what observers see to sums per block of sentences; those of a whole run are a
//!    [`passes::observation`], which shards of a corpus add up to.
//! 8. [`studies::findings`] divides the sums, with [`stats`] to say how sure the ratios are, and turns metrics into
//!    labels by a [`studies::policy`].
//! 9. [`report`] holds the outcome, [`export`] writes it.
//!
//! Each command in [`commands`] is its part of this list as code; [`system`] is what all of them stand on.

pub use headscope_analysis::{evaluation, report, studies, study};
pub use headscope_engine::{corpus, linalg, model, passes, sequences, stats, system};

pub mod commands;
pub mod export;
