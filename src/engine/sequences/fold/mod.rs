//! Attention between tokens folded to attention between words, between tokens of text, and to classes of tokens.

pub mod even;
pub mod roles;
pub mod row_scales;
pub mod text;
pub mod units;
pub mod words;
