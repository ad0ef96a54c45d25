//! Dependence of later heads on each head (docs/methodology/edges.md).

mod excess;
mod measure;
mod pairs;
mod section;
mod strongest;
mod sums;
mod terms;
mod untrained;
mod view;

use crate::passes::pass::{Pass, Portion, Weights};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::section;
use crate::study::verdict_rule::VerdictRule;
use crate::study::{Card, Caveat, CaveatSubject, Observed, PassSpec, Study};
use section::{EdgesReport, EdgesSection};
use sums::EdgeSums;
use terms::TERMS;
use untrained::SEED;

/// Edges between heads: the later heads that look elsewhere without an earlier one.
pub struct LaterHeads;

impl Study for LaterHeads {
    type Section = EdgesSection;

    const CARD: Card = Card {
        name: "edges",
        removes_heads: true,
        formerly: Some("dependence"),
        question: "Which later heads look elsewhere without each head?",
        needs: "any model of several layers and any corpus in files: a pass over a sample for each head, half of \
            them of an untrained model",
        verdicts: VERDICTS,
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["edges"],
        tables: &["edges"],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = |weights| Pass { weights, portion: Portion::Sample, ..Pass::PLAIN };
        vec![
            PassSpec::new(pass(Weights::Trained), |subject| EdgeSums::new(subject.grid).with_direct()),
            PassSpec::new(pass(Weights::Sharp { seed: SEED }), |subject| EdgeSums::new(subject.grid)),
        ]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let [sums, untrained] = observed.each().collect::<Vec<_>>()[..] else { unreachable!("a pass of either model") };
        let edges = EdgesReport::new(sums, untrained, context);
        (Estimates::none(context.grid.count()), EdgesSection { edges })
    }
}

/// The rule of `above`.
const VERDICTS: &[VerdictRule] = &[VerdictRule {
    verdict: "an edge `above` chance",
    statistic: "`excess`, of edges with a shift of at least 0.0001",
    margin: "the 95th percentile of an untrained model's that attends as sharply, taken as known",
    family: "all such edges whose excess is above it",
    least: "{min_queries} tokens in {min_sentences} sentences",
    printed: "excess with its interval, q, the percentile",
}];

/// The limits of what the study shows.
const CAVEATS: &[Caveat] = &[Caveat {
    id: "edges-total",
    text: "An edge says how far a head looks elsewhere without another, through whatever lies between, not that it reads \
            what that one writes, nor what for; and it depends on what stands for the head.",
    about: CaveatSubject::Meaning,
    applies: |labelling| section::<EdgesSection>(labelling.section).edges.tokens > 0,
}];

#[cfg(test)]
mod tests;
