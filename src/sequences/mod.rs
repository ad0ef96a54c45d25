//! From sentences of a corpus to what goes through the model, and which part of it a shard takes.

pub mod corrupted;
pub mod counts;
pub mod frame;
pub mod pack;
pub mod pairs;
pub mod repeats;
pub mod roles;
pub mod sample;
pub mod sentence_pairs;
pub mod sequence;
pub mod shard;
pub mod shuffle;
pub mod tally;
#[cfg(test)]
pub(crate) mod test_support;
pub mod text;
pub mod tokenize;
pub mod units;
pub mod windows;
pub mod words;
