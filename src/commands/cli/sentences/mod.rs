//! `headscope view` and `headscope maps`: the attention of chosen sentences.

mod arguments;
pub mod maps;
pub mod view;
