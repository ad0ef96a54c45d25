//! Studies: questions asked of every head, one folder each.
//!
//! [`all::STUDIES`] is the table of them. A study's folder holds the passes it looks at, its exact and mergeable sums,
//! its metrics with intervals and chance, its labels with their thresholds, its section of the report and its words for
//! the summary; the files here are what they have in common.

pub mod ablation;
pub mod heads;
pub mod patterns;
pub mod registry;
pub mod replication;
