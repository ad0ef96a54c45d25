//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[
    Term {
        name: "adds",
        also: &["mean_gain", "best_gain"],
        meaning: "Of a head, in the study `probes`: its gain is more than one point by the block test: its output says more of the \
            word than a linear reading of the word's embedding does, and no more than that. The gain is the share of words that a linear \
            discriminant gets right on the word embedding and the head's output together, less the share on the embedding alone.",
        page: "probes.md",
    },
    Term {
        name: "selectivity",
        also: &["control task"],
        meaning: "Of a head, in the study `probes`: the share of words that a discriminant on the head's output gets right, less that \
            for a control task, in which every form has a class at random: what is beyond knowing the form.",
        page: "probes.md",
    },
    Term {
        name: "majority",
        also: &["form", "embedding", "neighbours", "input"],
        meaning: "What probes are read beside: the most frequent class, the most frequent class of the word's form, and discriminants \
            on the word embedding, on that with the embeddings of both neighbours, and on what goes into the layer.",
        page: "probes.md",
    },
];
