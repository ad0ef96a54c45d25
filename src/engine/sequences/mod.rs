//! From sentences of a corpus to what goes through the model, and which part of it a shard takes.

pub mod counts;
pub mod derived;
pub mod fold;
pub mod frame;
pub mod pack;
pub mod sample;
pub mod sequence;
pub mod shard;
pub mod tally;
#[doc(hidden)]
pub mod test_support;
pub mod tokenize;
