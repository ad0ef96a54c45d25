//! `headscope view`, `headscope maps` and `headscope match`: the attention of chosen sentences.

mod arguments;
pub mod matching;
pub mod view;
