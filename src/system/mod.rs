//! The machine and the process: input and output files, the terminal, threads, vectors, interrupts, and what the binary brings.

pub mod boxed;
mod claims;
pub mod contained;
pub mod counted;
pub mod described;
pub mod digest;
pub mod failure;
pub mod input;
pub mod interrupt;
pub mod json;
pub mod lanes;
pub mod output;
pub mod parallel;
pub mod processor;
pub mod progress;
pub mod terminal;
