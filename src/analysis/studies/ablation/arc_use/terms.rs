//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "used",
    also: &["use_of_arcs"],
    meaning: "Of a syntactic label, by the study `use`: masked words are harder to predict without the head's weight to their \
            partner than without an equal weight elsewhere, beyond chance.",
    section: "Use of an arc",
}];
