//! How far removing a head shifts the attention of later heads (docs/methodology/edges.md).

mod section;
mod sums;
mod view;

use itertools::Itertools;

use crate::passes::pass::{CorpusPortion, ModelWeights, Pass};
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Term, VerdictRule,
};
use section::{EdgesReport, UNTRAINED_SEED};
use sums::EdgeSums;

pub struct EdgesStudy;

impl Study for EdgesStudy {
    type Section = EdgesReport;

    const CARD: Card = Card {
        name: "edges",
        removes_heads: true,
        former_name: Some("dependence"),
        question: "Which later heads look elsewhere without each head?",
        needs: "any model of several layers and any corpus in files: a pass over a sample for each head, half of \
            them of an untrained model",
        verdicts: VERDICTS,
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["edges"],
        tables: &["edges"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = |weights| Pass { weights, portion: CorpusPortion::Sample, ..Pass::PLAIN };
        vec![
            PassSpec::new(pass(ModelWeights::Trained), |subject| EdgeSums {
                is_direct: true,
                ..EdgeSums::new(subject.grid)
            }),
            PassSpec::new(pass(ModelWeights::UntrainedSharp { seed: UNTRAINED_SEED }), |subject| {
                EdgeSums::new(subject.grid)
            }),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let (sums, untrained) = observed.all_sums().collect_tuple().expect("a pass of either model");
        (Estimates::without_metrics(context.grid.head_count()), EdgesReport::new(sums, untrained, context))
    }
}

const VERDICTS: &[VerdictRule] = &[VerdictRule {
    verdict: "an edge `above` chance",
    statistic: "`excess`, of edges with a shift of at least 0.0001",
    margin: "the 95th percentile of an untrained model's that attends as sharply, taken as known",
    test_family: "all such edges whose excess is above it",
    min_evidence: "{min_queries} tokens in {min_sentences} sentences",
    printed: "excess with its interval, q, the percentile",
}];

const CAVEATS: &[Caveat] = &[Caveat {
    id: "edges-total",
    text: "An edge says how far a head looks elsewhere without another, through whatever lies between, not that it reads \
            what that one writes, nor what for; and it depends on what stands for the head.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<EdgesReport>(labelling.section).tokens > 0,
}];

const TERMS: &[Term] = &[
    Term {
        name: "shift",
        other_names: &["edge", "edges", "upstream", "downstream"],
        meaning: "Of an edge from an earlier head to a later one, of the study `edges`: how far the attention of the later \
            head is from what it was when the earlier one is removed, as squared Hellinger distance, from 0 to 1, through \
            whatever lies between. The earlier head is upstream of the later one.",
        page: "edges.md",
    },
    Term {
        name: "excess",
        other_names: &["above"],
        meaning: "Of an edge: how far the logarithm of its shift is above what the earlier head does to all heads of the layer and \
            what all heads of the earlier layer do to the later head. An edge is above if that is surely more than 95 % of the edges of \
            an untrained model have, and its shift is at least 0.0001.",
        page: "edges.md",
    },
    Term {
        name: "ratio",
        other_names: &["direct", "mediated", "direct edge"],
        meaning: "Of an edge: its direct shift over its shift. The direct shift is that of the later head when all other heads and \
            feed-forward blocks write what they wrote and only the residual stream, normalised anew, lacks the earlier head. It is no share: \
            above 1, what lies between opposes it. Edges of a ratio below 0.5 are drawn as mediated.",
        page: "edges.md",
    },
    Term {
        name: "chain",
        other_names: &["chains"],
        meaning: "Heads in a row: each has its strongest downstream edge to the next, and the next its strongest upstream edge from \
            it, all of them above.",
        page: "edges.md",
    },
];

#[cfg(test)]
mod tests;
