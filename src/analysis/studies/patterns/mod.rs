//! Studies of attention patterns: to which tokens, words and relations a head attends.

pub mod attention;
pub mod choice;
pub mod coreference;
pub mod dependency;
pub mod explained_variance;
pub mod frequency;
pub mod links;
pub mod norms;
pub mod repeats;
pub mod segments;
pub mod trees;
pub mod words;

#[cfg(test)]
mod tests;
