//! The commands, one file or folder each, and the parser of the command line (`cli`).

pub mod analyze;
pub mod batch;
pub mod cli;
pub mod corpora;
pub mod explain;
mod keys;
pub mod merge;
pub mod reporting;
pub mod saved;
pub mod sentences;
