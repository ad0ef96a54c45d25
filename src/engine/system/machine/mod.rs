//! The machine that the process runs on: its memory and its vectors.

pub mod memory;
pub mod processor;
