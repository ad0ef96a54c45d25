//! What explains a head: how much of its attention all known cues explain together, what each adds, and what is left
//! (METHODOLOGY, "What explains a head").

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

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Keys;
use crate::study::section::Section;
use crate::study::{Card, Counts, Observed, Study, Subject, columns};
use metrics::{ExplainedInputs, METRICS};
use section::{ExplainedSection, Summed};
use shares::shares;
use sums::ExplainedSums;

/// How much of each head's attention known cues explain.
pub struct Explained;

impl Study for Explained {
    fn card(&self) -> &'static Card {
        &Card {
            name: "explained",
            question: "How much of each head's attention do all known cues explain together, what does each add, and how much is \
                left?",
            needs: "any corpus; parts of speech, trees and counts of tokens are cues where there are any",
            by_default: true,
            settings_key: None,
        }
    }

    fn counts(&self) -> Counts {
        Counts::Useful
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(ExplainedSums::new(subject.grid))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<ExplainedSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &ExplainedSums = observer::sums(observed[0].sums);
        let shares = shares(sums, context);
        let blocks = sums.blocks().with_total();
        let seen = |block: Option<usize>, head: Option<usize>| {
            ExplainedInputs { shares: &shares, sums: blocks.at(block), head, block }.values()
        };
        let of_head = |block: Option<usize>, place: usize| seen(block, Some(place));
        let of_chance = |block: Option<usize>| seen(block, None);
        let estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        (estimates, Box::new(ExplainedSection { explained: Summed::new(&shares) }))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("explained", generator.subschema_for::<Summed>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<ExplainedSection>(report)?))
    }
}
