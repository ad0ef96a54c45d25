//! `headscope view` and `headscope maps`: the attention of chosen sentences.

pub mod maps;
pub mod view;
mod wanted;
