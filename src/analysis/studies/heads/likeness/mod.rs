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
use report::Likeness;
use section::LikenessSection;
use show::terms::TERMS;
use sums::LikenessSums;

/// The similarity of heads in where they look and what they write.
pub struct HeadLikeness;

impl Study for HeadLikeness {
    type Section = LikenessSection;

    const CARD: Card = Card {
        name: "likeness",
        question: "Which heads are the same?",
        needs: "any corpus; where `effect` or `drift` run, too, what happens without the heads of a cluster is measured when \
            they are over",
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["likeness-map", "likeness-tree"],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| LikenessSums::new(subject.grid))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &LikenessSums = observed.sums();
        let likeness = Likeness::new(sums, context);
        (Estimates::none(context.grid.count()), LikenessSection { likeness })
    }

    fn upstream(&self, observed: &Observed<'_>, section: &Self::Section, _labels: &Labelling<'_>) -> UpstreamResults {
        let sums: &LikenessSums = observed.sums();
        let clusters = section.likeness.kept(sums.grid);
        UpstreamResults { clusters, ..UpstreamResults::default() }
    }
}

#[cfg(test)]
mod simulation;
/// The limits of what the study shows.
const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "likeness-not-function",
        text: "Heads that look alike need not do the same: what they read out and who reads it may differ. The CKA of what \
            they write is over random tokens of nearby sentences, and large components decide it.",
        about: CaveatSubject::Meaning,
        applies: |labelling| section::<LikenessSection>(labelling.section).likeness.tokens > 0,
    },
    Caveat {
        id: "composition-hints",
        text: "Composition scores are of weights alone: layer normalisations and feed-forward blocks lie between heads, so \
            they are hints, not findings.",
        about: CaveatSubject::Meaning,
        applies: |labelling| section::<LikenessSection>(labelling.section).likeness.weights.is_some(),
    },
];

#[cfg(test)]
mod tests;
