//! The gain of a decoder from having read the same tokens before, and what each head has in it (METHODOLOGY, "In-context copying").

mod figure;
mod metrics;
mod section;
mod sums;

use crate::passes::pass::{Pass, Portion, Sequences};
use crate::sequences::derived::repeats::Repeats;
use crate::studies::ablation::removal::EachHead;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::metrics::unit::Unit;
use crate::study::section::section;
use crate::study::verdict_rule::VerdictRule;
use crate::study::{Card, Caveat, CaveatSubject, Observed, PassSpec, Study, columns};
use metrics::{METRICS, values};
use section::{Gain, InContextSection};
use sums::CopySums;

/// The heads that a decoder copies by.
pub struct InContext;

impl Study for InContext {
    type Section = InContextSection;

    const CARD: Card = Card {
        name: "in-context",
        question: "How much better does a decoder predict tokens that it has read before, and by which heads?",
        needs: "a decoder with the head that predicts the next token; no corpus: 64 sequences of random tokens, as many passes over \
            them as half of the heads, and two",
        of_decoders: true,
        metrics: || metric::listed(METRICS),
        unit: |_| Unit::Nats,
        caveats: CAVEATS,
        figures: &["in-context"],
        verdicts: VERDICTS,
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        let sequences = Sequences::Repeats(Repeats::Predicted);
        vec![PassSpec::new(Pass { sequences, portion: Portion::Sample, ..Pass::PLAIN }, |subject| {
            CopySums::new(subject.grid, EachHead)
        })]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &CopySums = observed.sums();
        let blocks = sums.blocks.with_total();
        let of_head = |number: Option<usize>, place: usize| values(blocks.at(number), Some(place));
        let of_chance = |number: Option<usize>| values(blocks.at(number), None);
        let estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        let in_context = Gain::new(sums, &estimates, context);
        (estimates, InContextSection { in_context })
    }
}

const VERDICTS: &[VerdictRule] = &[VerdictRule {
    verdict: "a head has a part in copying",
    statistic: "`in_context_effect`",
    margin: "0, from both sides",
    family: "all heads",
    least: "10 sequences",
    printed: "effect with its interval, q",
}];

/// The limits of what the study shows.
const CAVEATS: &[Caveat] = &[Caveat {
    id: "in-context-random",
    text: "The gain from having read the same tokens is measured on random tokens, where copying is all that helps; on text a \
            decoder has other ways, and a head without an effect may stand in for another.",
    about: CaveatSubject::Meaning,
    applies: |labelling| section::<InContextSection>(labelling.section).in_context.tokens > 0,
}];

#[cfg(test)]
mod tests;
