//! Studies: questions asked of every head, one folder each.
//!
//! [`registry::STUDIES`] lists all studies. A study's folder holds its passes, its exact and mergeable sums, its
//! metrics with intervals and chance levels, its labels with their thresholds, its section of the report and its lines
//! of the summary. [`crate::study`] is the contract that all of them keep.

pub mod ablation;
pub mod circuits;
pub mod heads;
pub mod patterns;
pub mod registry;
pub mod replication;
