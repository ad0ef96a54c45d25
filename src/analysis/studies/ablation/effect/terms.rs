//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "helpful",
    also: &["harmful", "negligible", "undecided"],
    meaning: "What comes of removing a head, of the study `effect`: without a helpful one the loss of masked tokens rises, \
            without a harmful one it falls, both beyond chance; of a negligible one the change is surely below a hundredth \
            of what all heads together are worth, and below half of an equal share of it; of an undecided one none of these \
            can be said. A helpful or harmful head can be negligible as well.",
    page: "effect.md",
}];
