//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[
    Term {
        name: "shift",
        also: &["edge", "edges", "upstream", "downstream"],
        meaning: "Of an edge from an earlier head to a later one, of the study `edges`: how far the attention of the later \
            head is from what it was when the earlier one is removed, as squared Hellinger distance, from 0 to 1, through \
            whatever lies between. The earlier head is upstream of the later one.",
        page: "edges.md",
    },
    Term {
        name: "excess",
        also: &["above"],
        meaning: "Of an edge: how far the logarithm of its shift is above what the earlier head does to all heads of the layer and \
            what all heads of the earlier layer do to the later head. An edge is above if that is surely more than 95 % of the edges of \
            an untrained model have, and its shift is at least 0.0001.",
        page: "edges.md",
    },
    Term {
        name: "ratio",
        also: &["direct", "mediated", "direct edge"],
        meaning: "Of an edge: its direct shift over its shift. The direct shift is that of the later head when all other heads and \
            feed-forward blocks write what they wrote and only the residual stream, normalised anew, lacks the earlier head. It is no share: \
            above 1, what lies between opposes it. Edges of a ratio below 0.5 are drawn as mediated.",
        page: "edges.md",
    },
    Term {
        name: "chain",
        also: &["chains"],
        meaning: "Heads of which each has its strongest downstream edge to the next, and the next its strongest upstream edge from \
            it, all of them above.",
        page: "edges.md",
    },
];
