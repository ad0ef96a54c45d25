//! The norms of what each head writes, and the heads whose attention rests on a sink (METHODOLOGY, "Norms and sinks").

mod head_sums;
mod metrics;
pub mod observe;
mod shares;
mod sinks;
mod sums;

use anyhow::Result;

use crate::passes::observer::{self, Observer, observer_of, sums};
use crate::study::labels::Detector;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Keys;
use crate::study::section::{Nothing, Section};
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject, columns};
use crate::system::parallel::in_parallel;
use metrics::{METRICS, NormInputs};
use shares::Shares;
use sums::AllNorms;

/// How much each head writes, and where it comes from.
pub struct Norms;

impl Study for Norms {
    fn card(&self) -> &'static Card {
        &Card {
            name: "norms",
            question: "How much does each head write, and is its attention to sinks more than a way to park it?",
            needs: "any corpus; the types of sinks also need the study `attention`",
            by_default: false,
            settings_key: None,
        }
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(AllNorms::new(subject.grid))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<AllNorms>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn detectors(&self) -> &'static [Detector] {
        const { &[sinks::NO_OP, sinks::PARKED, sinks::CONSTANT, sinks::BROADCAST, sinks::USED] }
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &AllNorms = sums(observed[0].sums);
        let (grid, blocks) = (context.grid, sums.blocks().with_total());
        let shares = in_parallel(context.threads, 0..grid.count(), |place| Shares::new(sums, blocks.total(), place));
        let seen = |number: Option<usize>, place: usize| {
            NormInputs::new((number, blocks.at(number), blocks.total()), grid, place, &shares[place])
        };
        let of_head = |number: Option<usize>, place: usize| seen(number, place).values();
        // What chance is depends on the head; what the metrics rest on does not.
        let of_chance = |number: Option<usize>| of_head(number, 0).iter().map(metric::Fraction::unknown).collect();
        let chance = (0..grid.count()).map(|place| seen(None, place).chances());
        let estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        (estimates.with_own_chance(&columns(self), chance), Box::new(Nothing))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const SINK_TYPES: Caveat = Caveat {
            id: "sink-types",
            text: "The type of a sink says how much of what the head writes comes from there and whether it differs, \
                not whether the model needs it: a constant part may matter, and an output that is small for its layer too.",
            about: About::Meaning,
        };
        if judged.has_label(|label| label.starts_with(sinks::FAMILY)) { vec![&SINK_TYPES] } else { Vec::new() }
    }
}
