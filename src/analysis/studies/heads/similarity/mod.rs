//! Similarity of heads: where they look, and what they write (docs/methodology/similarity.md).

mod batches;
mod clusters;
mod compare;
mod disagreement;
mod measure;
mod pairs;
mod report;
mod section;
pub mod show;
mod sums;
mod weights;

use crate::passes::pass::Pass;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::section;
use crate::study::upstream::UpstreamResults;
use crate::study::{Card, Caveat, CaveatSubject, Labelling, Observed, PassSpec, Study};
use report::Similarity;
use section::SimilaritySection;
use show::terms::TERMS;
use sums::SimilaritySums;

/// The similarity of heads in where they look and what they write.
pub struct HeadSimilarity;

impl Study for HeadSimilarity {
    type Section = SimilaritySection;

    const CARD: Card = Card {
        name: "similarity",
        formerly: Some("likeness"),
        question: "Which heads are the same?",
        needs: "any corpus",
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["similarity-map", "similarity-tree"],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| SimilaritySums::new(subject.grid, subject.classes))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &SimilaritySums = observed.sums();
        let similarity = Similarity::new(sums, context);
        (Estimates::none(context.grid.count()), SimilaritySection { similarity })
    }

    fn upstream(&self, observed: &Observed<'_>, section: &Self::Section, _labels: &Labelling<'_>) -> UpstreamResults {
        let sums: &SimilaritySums = observed.sums();
        let clusters = section.similarity.kept(sums.grid);
        UpstreamResults { clusters, ..UpstreamResults::default() }
    }
}

#[cfg(test)]
mod simulation;
/// The limits of what the study shows.
const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "similarity-not-function",
        text: "Heads that look alike need not do the same: what they read out and who reads it may differ. The CKA of what \
            they write is over random tokens of nearby sentences, and large components decide it.",
        about: CaveatSubject::Meaning,
        applies: |labelling| section::<SimilaritySection>(labelling.section).similarity.tokens > 0,
    },
    Caveat {
        id: "composition-hints",
        text: "Composition scores are of weights alone: layer normalisations and feed-forward blocks lie between heads, so \
            they are hints, not findings.",
        about: CaveatSubject::Meaning,
        applies: |labelling| section::<SimilaritySection>(labelling.section).similarity.weights.is_some(),
    },
];

#[cfg(test)]
mod tests;
