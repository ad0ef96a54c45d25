//! Studies: questions asked of every head, one folder each.
//!
//! [`all::STUDIES`] is the table of them. A study's folder holds the passes it looks at, its exact and mergeable sums,
//! its metrics with intervals and chance, its labels with their thresholds, its section of the report and its words for
//! the summary; the files here are what they have in common.

pub mod aim;
pub mod all;
pub mod arc_use;
pub mod attention;
pub mod by_block;
pub mod clark2019;
pub mod clusters;
pub mod content;
pub mod coreference;
pub mod cosines;
pub mod dependence;
pub mod dependency;
pub mod drift;
pub mod drifts;
pub mod effect;
pub mod estimates;
pub mod evidence;
pub mod examples;
pub mod explained;
pub mod explanation;
pub mod figure;
pub mod findings;
pub mod found;
pub mod frequency;
pub mod gradient;
pub mod label;
pub mod likeness;
pub mod losses;
pub mod metric;
pub mod norms;
pub mod number;
pub mod plan;
pub mod policy;
pub mod position;
pub mod presets;
pub mod probes;
pub mod pruning;
pub mod pseudo_values;
pub mod repeats;
pub mod roots;
pub mod section;
pub mod segments;
#[cfg(test)]
mod simulation;
pub mod spectra;
pub mod study;
pub mod summary;
pub mod table;
pub mod terms;
pub mod tracked;
pub mod trees;
pub mod wording;
pub mod words;
