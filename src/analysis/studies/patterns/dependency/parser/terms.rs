//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[
    Term {
        name: "attention-only probe",
        also: &["ahead", "distances"],
        meaning: "Of the study `parser`: a parser whose score of a word as the head of another is linear in the attention between the \
            two, in both directions and in all heads (Clark et al. 2019, section 5). Attention is ahead of a parser by the share of words \
            that it gets right less the share that the other does; distances are the same parser with nothing but how far two words are \
            apart, and distances and embeddings one that also knows which two words they are.",
        page: "parser.md",
    },
    Term {
        name: "right-branching",
        also: &["best head", "best offset"],
        meaning: "Simple parsers beside it, in the study `parser`: the head of a word is the next word; the word that one attention head \
            attends to most, or that attends most to it; the word at a fixed offset; the nearest word of a word class that goes with the \
            word's own. The last three are chosen on one half of the blocks and scored on the other.",
        page: "parser.md",
    },
    Term {
        name: "links of all heads",
        also: &["lead"],
        meaning: "In the study `parser`, how many targets of links are found by a linear model of the attention between a source and its \
            candidates, in both directions and in all heads. Its lead is over the best model that does not see this attention: distances, \
            word embeddings, rules of place and of classes, an untrained model, chance.",
        page: "parser.md",
    },
    Term {
        name: "contact prediction",
        also: &["separations"],
        meaning: "In the study `parser`, how many of the pairs that a logistic regression on the symmetrised and corrected attention of all \
            heads finds likeliest are linked, for undirected types in encoders (Rao et al. 2021). Separations are how far apart the words of \
            a pair are: the pairs at those that are linked most often stand beside it.",
        page: "parser.md",
    },
];
