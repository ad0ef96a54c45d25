//! Sequences that are made from sentences: pairs, windows, shuffled words, masked or replaced tokens, and repeats.

pub mod corrupted;
pub mod pairs;
pub mod repeats;
pub mod sentence_pairs;
pub mod shuffle;
pub mod task;
pub mod windows;
