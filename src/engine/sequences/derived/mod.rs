//! Sequences that are derived from those of a corpus: pairs, windows, shuffled words, masked or replaced tokens, repeats.

pub mod corrupted;
pub mod pairs;
pub mod repeats;
pub mod sentence_pairs;
pub mod shuffle;
pub mod windows;
