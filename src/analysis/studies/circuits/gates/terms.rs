//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "fitted gates",
    also: &["price", "starts", "do the task together"],
    meaning: "A gate from 0 to 1 stands between a head and what replaces a removed one: 1 is the head, 0 the replacement. The gates of all \
            heads are fitted together, so that the loss and the price of open gates are least; a whole head costs the band of `negligible`. \
            There are five starts in each half of the sample. A fit keeps a head whose gate is .5 or more. The set of a half has the heads \
            that four of its five fits keep; it is scored alone on the other half.",
    page: "gates.md",
}];
