//! Users' links read out of all heads together: the parser's model over the candidates of a source, and contact prediction for
//! undirected types (docs/methodology/parser.md).

mod kept;
mod measure;
mod models;
pub mod section;
pub mod sums;

#[cfg(test)]
mod tests;
