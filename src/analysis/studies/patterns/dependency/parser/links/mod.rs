//! User-defined links, predicted from all attention heads together. A choice model, as in the parser, predicts a
//! source's target among its candidates. Contact prediction finds the linked pairs of undirected types
//! (docs/methodology/parser.md).

mod kept_links;
mod measure;
mod models;
pub mod section;
pub mod sums;

#[cfg(test)]
mod tests;
