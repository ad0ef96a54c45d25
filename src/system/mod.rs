//! The machine and the process: output files, the terminal, threads, vectors, interrupts, and what the binary brings.

pub mod boxed;
pub mod digest;
pub mod interrupt;
pub mod lanes;
pub mod output;
pub mod parallel;
pub mod progress;
pub mod terminal;
