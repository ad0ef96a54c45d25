//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "carries",
    also: &["corrupted", "restores", "needed", "opposes", "gap"],
    meaning: "A head carries the answer of a task from a text to where it is predicted if its contexts alone restore more than 5 % of what \
            a corruption of the text destroys, and destroy more than 5 % when they come from the corrupted text. With the first alone it \
            restores, with the second alone it is needed; it opposes where either is below -5 %. The gap is what the corruption destroys.",
    page: "interchange.md",
}];
