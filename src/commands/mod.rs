//! The commands, one file each, and the command line that they are read from.

pub mod analyze;
pub mod batch;
pub mod cite;
pub mod cli;
mod conclude;
pub mod counts;
pub mod diff;
pub mod explain;
pub mod export;
pub mod files;
pub mod index;
pub mod maps;
pub mod merge;
mod observe;
pub mod options;
mod outputs;
mod parts;
pub mod relabel;
mod resume;
mod sentences;
pub mod show;
pub mod view;
