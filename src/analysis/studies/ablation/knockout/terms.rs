//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "used",
    also: &["knockout"],
    meaning: "Of a syntactic label, by the study `knockout`: masked words are harder to predict once the head's weights on their partner \
            and on a word as far away are exchanged, beyond chance.",
    page: "knockout.md",
}];
