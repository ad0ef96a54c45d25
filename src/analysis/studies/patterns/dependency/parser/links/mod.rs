//! User-defined links, predicted from all attention heads together. The parser's model chooses among the candidates of a
//! source. Contact prediction finds undirected links (docs/methodology/parser.md).

mod kept_links;
mod measure;
mod models;
pub mod section;
pub mod sums;

#[cfg(test)]
mod tests;
