//! Studies that compare attention heads: similarity, linear probes of their outputs, and example sentences.

pub mod examples;
pub mod probes;
pub mod similarity;
