//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[
    Term {
        name: "distance",
        also: &["hellinger", "widest", "median_distance"],
        meaning: "Of two heads, of the study `similarity`: the Hellinger distance of their attention, from 0 if they give all tokens the \
            same weights to 1 if no token gets weight from both. Of a cluster `widest` is the largest distance of two of its heads.",
        page: "similarity.md",
    },
    Term {
        name: "CKA",
        also: &["cka", "mean_cka"],
        meaning: "How alike what two heads write is: 1 if it is the same but for a rotation and a factor, 0 if the one has nothing to \
            do with the other. It has no bias, so it may be a little below 0.",
        page: "similarity.md",
    },
    Term {
        name: "cluster",
        also: &["clusters", "together", "from_even", "nearer_than_even"],
        meaning: "Heads that look alike: joined at a mean distance of at most half of the median of all pairs. `together` is the share \
            of resamples in which all of them are in one cluster. Kept are those of at least 80 % whose heads are shown to be nearer to \
            each other than to even attention (`from_even`, `nearer_than_even`).",
        page: "similarity.md",
    },
    Term {
        name: "disagreement",
        also: &["subspace", "position", "output"],
        meaning: "How much the heads of a layer differ in values, weights and contexts (Li et al. 2018): -1 if not at all.",
        page: "similarity.md",
    },
    Term {
        name: "composition",
        also: &["above_random"],
        meaning: "How much of what a head writes a head of a later layer would read, by their weights alone, less what two matrices \
            turned at random have: a hint.",
        page: "similarity.md",
    },
];
