//! Explained attention: how much of a head's attention all known cues explain together, how much each adds, and the
//! residual (METHODOLOGY, "What explains a head").

mod cues;
mod least_squares;
mod metrics;
mod observe;
mod section;
mod sentence;
mod shares;
mod sums;
#[cfg(test)]
mod tests;

use crate::passes::pass::Pass;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::{Card, Counts, Observed, PassSpec, Study, columns};
use metrics::{ExplainedInputs, METRICS};
use section::{ExplainedSection, Summed};
use shares::shares;
use sums::ExplainedSums;

/// How much of each head's attention known cues explain.
pub struct Explained;

impl Study for Explained {
    type Section = ExplainedSection;

    const CARD: Card = Card {
        name: "explained",
        question: "How much of each head's attention do all known cues explain together, what does each add, and how much is \
            left?",
        needs: "any corpus; parts of speech, trees and counts of tokens are cues where there are any",
        by_default: true,
        counts: Counts::Useful,
        metrics: || metric::listed(METRICS),
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| ExplainedSums::new(subject.grid))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ExplainedSums = observed.sums();
        let shares = shares(sums, context);
        let blocks = sums.blocks.with_total();
        let seen = |block: Option<usize>, head: Option<usize>| {
            ExplainedInputs { shares: &shares, sums: blocks.at(block), head, block }.values()
        };
        let of_head = |block: Option<usize>, place: usize| seen(block, Some(place));
        let of_chance = |block: Option<usize>| seen(block, None);
        let estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        (estimates, ExplainedSection { explained: Summed::new(&shares) })
    }
}
