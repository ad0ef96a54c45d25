//! The gold tree in the maximum spanning tree of a head's attention (docs/methodology/trees.md).

pub mod spanning;
mod sums;

use crate::passes::pass::Pass;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::{Fraction, Keys, Metric};
use crate::study::section::NoSection;
use crate::study::{Card, Observed, PassSpec, Study, columns};
use sums::{TreeCounts, TreeSums};

/// How much of the gold tree is in each head's attention.
pub struct Trees;

/// A metric of the counts of a block, and of the place of a head.
type TreeMetric = Metric<fn(&TreeCounts, usize) -> Fraction>;

const METRICS: &[TreeMetric] = &[Metric {
    explanation: Explanation {
        name: "uuas",
        measures: "How much of the undirected gold tree is in the maximum spanning tree of the head's attention.",
        formula: "share of gold edges in the maximum spanning tree over max(W, W^T), punctuation and roots left out; in a decoder \
            W is over that of the even head",
        chance: "the chain of adjacent words (chance.uuas)",
        source: "Undirected unlabelled attachment score: Klein & Manning 2004; from attention: Raganato & Tiedemann 2018.",
        caveats: "The chain of neighbours already has about two edges in five of English.",
    },
    keys: Keys::Single,
    value: |counts, head| Fraction::new(counts.hits[head] as f64, counts.edges as f64),
    chance: Some(|counts, _| {
        Fraction::new(counts.chain_hits as f64, counts.edges as f64).over(counts.edges, counts.sentences)
    }),
}];

impl Study for Trees {
    type Section = NoSection;

    const CARD: Card = Card {
        name: "trees",
        allows_absent_heads: true,
        question: "How much of the gold tree is in the spanning tree of each head's attention?",
        needs: "a corpus with dependency trees",
        by_default: true,
        metrics: || metric::listed(METRICS),
        range: |_| 0.0..=1.0,
        is_share: |_| true,
        of_language: true,
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| TreeSums::new(subject.grid, subject.classes.clone(), subject.from))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &TreeSums = observed.sums();
        let blocks = sums.blocks.with_total();
        let of_head = |number: Option<usize>, place: usize| {
            METRICS.iter().map(|metric| (metric.value)(blocks.at(number), place)).collect()
        };
        let of_chance = |number: Option<usize>| {
            METRICS.iter().map(|metric| metric.chance.unwrap_or(metric.value)(blocks.at(number), 0)).collect()
        };
        (Estimates::new(&columns(self), context, of_head, of_chance), NoSection)
    }
}
