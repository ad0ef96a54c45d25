//! The commands, one file each, and the command line that they are read from.

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
