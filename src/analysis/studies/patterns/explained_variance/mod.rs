//! Explained attention: how much of a head's attention all known cues explain together, how much each adds, and the
//! residual (docs/methodology/explained-variance.md).

mod cues;
mod least_squares;
mod metrics;
mod observe;
mod places;
mod section;
mod sentence;
mod shares;
mod sums;
#[cfg(test)]
mod tests;

use crate::passes::observer::by_class::ByClass;
use crate::passes::pass::Pass;
use crate::stats::blocks::WithTotal;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::{Card, Counts, Observed, PassSpec, Study, columns};
use metrics::{ExplainedInputs, FIXED_PLACES, METRICS};
use section::{ExplainedSection, Summed};
use shares::{of_all_layers, shares};
use sums::ExplainedSums;

/// How much of each head's attention known cues explain.
pub struct Explained;

impl Study for Explained {
    type Section = ExplainedSection;

    const CARD: Card = Card {
        name: "explained-variance",
        allows_absent_heads: true,
        formerly: Some("explained"),
        question: "How much of each head's attention do all known cues explain together, what does each add, and how much is \
            left?",
        needs: "any corpus; parts of speech, trees and counts of tokens are cues where there are any",
        by_default: true,
        counts: Counts::Useful,
        metrics: || metric::listed(METRICS),
        labels: &[FIXED_PLACES],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::by_class(Pass::PLAIN, |subject, visibility| ExplainedSums::new(subject.grid, visibility))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByClass<ExplainedSums> = observed.sums();
        let classes = sums.map(|sums| (shares(sums, context), sums.blocks.with_total(), sums.places.with_total()));
        let inputs = |class: &_, head: Option<usize>, block: Option<usize>| {
            let (shares, blocks, places): &(_, WithTotal<_>, WithTotal<_>) = class;
            let places = [places.total(), places.at(block)];
            ExplainedInputs { shares, sums: blocks.at(block), places, head, block }.values()
        };
        let of_head =
            |block: Option<usize>, place: usize| inputs(classes.of_layer(context.grid.at(place).0), Some(place), block);
        let of_chance = |block: Option<usize>, class: usize| inputs(&classes.each()[class], None, block);
        let estimates = Estimates::by_class(&columns(self), context, sums.classes(), of_head, of_chance);
        let all = of_all_layers(&classes.map(|(shares, ..)| shares), context.grid);
        (estimates, ExplainedSection { explained_variance: Summed::new(&all, |place| context.has(place)) })
    }
}
