//! Glossary terms of `headscope compare`, which compares two analyses.

use super::terms::Term;

/// Glossary terms of `headscope compare`, in the order in which a reader of its summary meets them.
pub const COMPARISON_TERMS: &[Term] = &[
    Term {
        name: "kept",
        other_names: &["labels kept", "heads a"],
        meaning: "Of a label in `compare`: it is firm in both analyses; of a head: some label is, and none was lost or gained. In \
            the table of families `heads a` and `b` count the heads with a firm label, and the columns after them labels. In \
            the control of shuffled words: the head has its label without the order of words too.",
        page: "comparing.md",
    },
    Term {
        name: "lost",
        other_names: &["gained"],
        meaning: "Of a label: it is firm in the first analysis and significantly below its threshold in the second; gained is the other way round. `compare --numbers` \
            also asks that the number that the label rests on differs. Of a head in `compare`: it lost a label and has no firm \
            one any more, or gained one and had none.",
        page: "comparing.md",
    },
    Term {
        name: "could not tell",
        other_names: &["could_not_tell", "untold", "doubt"],
        meaning: "Of a label in `compare`: neither kept nor lost nor gained, since it is borderline on one side, or not significantly below the threshold there, or \
            there is too little text to test it. A label that is firm on one side only is listed as such; one that is firm on \
            neither is no change of anything. More text decides more of them.",
        page: "comparing.md",
    },
    Term {
        name: "significantly below",
        other_names: &["out_of_reach", "within_reach", "not significantly below", "standing"],
        meaning: "How a head without a label stands to it: significantly below the threshold where the one-sided test at 2.5 % shows that \
            (`out_of_reach`); not significantly below where the score is below and the test does not show it, or another label of the head excludes this one (`within_reach`): more text might give the label.",
        page: "comparing.md",
    },
    Term {
        name: "changed",
        other_names: &[],
        meaning: "Of a head in `compare`: a label was lost or gained, and it has a firm one in both analyses. Of a number in \
            `compare --numbers`: \
            it differs by more than the tolerance, with a q of at most `--rate`. In the JSON of either: anything was.",
        page: "comparing.md",
    },
    Term {
        name: "kappa",
        other_names: &["Cohen's kappa", "kappa of heads", "agreement"],
        meaning: "How far two analyses agree on heads beyond chance (Cohen 1960): (share - expected) / (1 - expected), 1 where they \
            agree on all, 0 where on no more than by chance; `-` where one side puts all heads into one category.",
        page: "comparing.md",
    },
    Term {
        name: "one_sided",
        other_names: &["firm on one side only", "no-longer-firm"],
        meaning: "Labels that are firm in one analysis and not in the other, while it is not shown that they were lost or gained.",
        page: "comparing.md",
    },
    Term {
        name: "matched",
        other_names: &["partner", "partners", "halves_agree", "moved"],
        meaning: "Of heads of two models: paired by `headscope match`, by how alike they attend over one text; each is compared with its \
            partner, and not with the head at its place.",
        page: "comparing.md",
    },
    Term {
        name: "confirmed",
        other_names: &["confirmed in", "robust", "elsewhere", "predicted above threshold"],
        meaning: "Of a firm label in `confirm`: its rule holds over another corpus too, with a small enough q. It is robust where the \
            prediction interval of its score less its threshold, over at least five other corpora, is above 0.",
        page: "confirm.md",
    },
    Term {
        name: "budget",
        other_names: &["can go together", "all-heads"],
        meaning: "How much the loss may rise, or the share right may fall, when heads go: `prune --budget 1%` writes the model without those \
            that can go within it.",
        page: "pruning.md",
    },
];
