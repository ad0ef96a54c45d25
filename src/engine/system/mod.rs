//! The machine and the process: files, terminal, threads, vector instructions, interrupts, and the data embedded in the binary.

pub mod counts;
pub mod embedded;
pub mod errors;
pub mod files;
pub mod interrupt;
pub mod json;
pub mod machine;
pub mod panics;
pub mod parallel;
pub mod printable;
pub mod progress;
pub mod terminal;
pub mod time_limit;
