//! Links named by the user, read out of all attention heads together. The parser's model chooses among the candidates of a
//! source; contact prediction finds undirected links (docs/methodology/parser.md).

mod kept;
mod measure;
mod models;
pub mod section;
pub mod sums;

#[cfg(test)]
mod tests;
