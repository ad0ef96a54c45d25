//! Studies that repeat a published analysis by its own definitions.

pub mod clark2019;
