//! The sequences that go through the model, made of the sentences of a corpus, and the part of them that a shard takes.

pub mod counts;
pub mod derived;
pub mod fold;
pub mod frame;
pub mod pack;
pub mod reading;
pub mod sample;
pub mod sequence;
pub mod shard;
pub mod span;
pub mod tally;
#[doc(hidden)]
pub mod test_support;
pub mod tokenize;
