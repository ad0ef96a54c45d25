//! Study `similarity`: which attention heads are alike in attention and in outputs (docs/methodology/similarity.md).

mod batches;
mod compare;
mod measure;
mod report;
mod section;
mod sums;
mod weights;

use crate::passes::pass::Pass;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, Labelling, ObservedPasses, PassSpec, Study, Term,
    UpstreamResults,
};
use report::Similarity;
use sums::SimilaritySums;

pub struct HeadSimilarity;

impl Study for HeadSimilarity {
    type Section = Similarity;

    const CARD: Card = Card {
        name: "similarity",
        former_name: Some("likeness"),
        question: "Which heads are the same?",
        needs: "any corpus",
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["similarity-map", "similarity-tree"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| SimilaritySums::new(subject.grid, subject.classes))]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        (Estimates::without_metrics(context.grid.head_count()), Similarity::new(observed.first_sums(), context))
    }

    fn upstream_results(
        &self,
        observed: &ObservedPasses<'_>,
        section: &Self::Section,
        _labels: &Labelling<'_>,
    ) -> UpstreamResults {
        let clusters = section.kept_clusters(observed.first_sums::<SimilaritySums>().grid);
        UpstreamResults { clusters, ..UpstreamResults::default() }
    }
}

const TERMS: &[Term] = &[
    Term {
        name: "distance",
        other_names: &["hellinger", "widest", "median_distance"],
        meaning: "Of two heads, of the study `similarity`: the Hellinger distance of their attention, from 0 if they give all tokens the \
            same weights to 1 if no token gets weight from both. Of a cluster `widest` is the largest distance of two of its heads.",
        page: "similarity.md",
    },
    Term {
        name: "CKA",
        other_names: &["cka", "mean_cka"],
        meaning: "How alike what two heads write is: 1 if it is the same but for a rotation and a factor, 0 if the one has nothing to \
            do with the other. It has no bias, so it may be a little below 0.",
        page: "similarity.md",
    },
    Term {
        name: "cluster",
        other_names: &["clusters", "together", "from_even", "nearer_than_even"],
        meaning: "Heads that look alike: joined at a mean distance of at most half of the median of all pairs. `together` is the share \
            of resamples in which all of them are in one cluster. A cluster is kept if that is at least 80 % and its heads are shown to be \
            nearer to each other than to even attention (`from_even`, `nearer_than_even`).",
        page: "similarity.md",
    },
    Term {
        name: "disagreement",
        other_names: &["subspace", "position", "output"],
        meaning: "How much the heads of a layer differ in values, weights and contexts (Li et al. 2018): -1 if not at all.",
        page: "similarity.md",
    },
    Term {
        name: "composition",
        other_names: &["above_random"],
        meaning: "How much of what a head writes a head of a later layer would read, by their weights alone, less what two matrices \
            turned at random have: a hint.",
        page: "similarity.md",
    },
];

#[cfg(test)]
mod simulation;
const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "similarity-not-function",
        text: "Heads that look alike need not do the same: what they read out and who reads it may differ. The CKA of what \
            they write is over random tokens of nearby sentences, and large components decide it.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| downcast_section::<Similarity>(labelling.section).tokens > 0,
    },
    Caveat {
        id: "composition-hints",
        text: "Composition scores are of weights alone: layer normalisations and feed-forward blocks lie between heads, so \
            they are hints, not findings.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| downcast_section::<Similarity>(labelling.section).weights.is_some(),
    },
];

#[cfg(test)]
mod tests;
