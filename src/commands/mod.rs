//! The commands, one file each, and the command line that they are read from.

pub mod analyze;
pub mod cli;
pub mod diff;
pub mod maps;
pub mod options;
pub mod relabel;
