//! The user's links that all heads together hold: the model of the parser among the candidates of a source, and contact
//! prediction of undirected types (docs/methodology/parser.md).

mod kept;
mod measure;
mod models;
pub mod section;
pub mod sums;

#[cfg(test)]
mod tests;
