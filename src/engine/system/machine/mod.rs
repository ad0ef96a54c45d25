//! The machine that the process runs on: its memory and its vector instructions.

pub mod memory;
pub mod processor;
