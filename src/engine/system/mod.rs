//! The machine and the process: input and output files, the terminal, threads, vectors, interrupts, and what the binary brings.

pub mod boxed;
pub mod contained;
pub mod counted;
pub mod errors;
pub mod files;
pub mod interrupt;
pub mod json;
pub mod machine;
pub mod parallel;
pub mod printable;
pub mod progress;
pub mod similar;
pub mod terminal;
pub mod time_limit;
