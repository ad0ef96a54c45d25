//! Bounds on memory and time for tokenizer files from any source. A file is checked before the library builds a tokenizer from
//! it (`file.rs`). The cost of a step on a text is checked before the step runs (`steps.rs`).

mod file;
mod steps;

pub(super) use file::{
    ensure_bounded_file, ensure_short_added_tokens, ensure_short_replacements, ensure_short_tokens, ensure_small_trie,
};
pub(super) use steps::{BoundedModel, BoundedNormalizer, BoundedPreTokenizer, Tokenizer};

#[cfg(test)]
mod tests;
