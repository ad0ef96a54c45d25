//! Attention between tokens folded to attention between words, between tokens of text, and to classes of tokens.

pub mod even;
pub mod lifts;
pub mod roles;
pub mod text;
pub mod units;
pub mod words;
