//! From sentences of a corpus to what goes through the model, and which part of it a shard takes.

pub mod pack;
pub mod pairs;
pub mod sequence;
pub mod shard;
pub mod shuffle;
pub mod tally;
pub mod tokenize;
pub mod words;

/// All of these by the path that they had together.
pub mod encode {
    pub use super::sequence::{GoldArc, Sequence, TokenKind};
    pub use super::tally::{FileTally, SkipReason, Tally};
    pub use super::tokenize::{SentenceTokenizer, Tokenized};
}
