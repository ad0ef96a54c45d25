//! How far the model's output moves without each head (METHODOLOGY, "Drift").

mod figure;
mod metrics;
mod section;

use std::ops::RangeInclusive;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Portion};
use crate::studies::ablation::drifts::Moved;
use crate::studies::ablation::removal::{EachHead, RemovalSums};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Keys;
use crate::study::section::{Section, section};
use crate::study::show::figure::Figure;
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject, columns};
use metrics::{METRICS, values};
use section::{DriftReport, DriftSection};

/// The drifts without each head and without any.
type DriftSums = RemovalSums<EachHead, Moved>;

/// How far the output moves without each head.
pub struct OutputDrift;

impl Study for OutputDrift {
    fn card(&self) -> &'static Card {
        &Card {
            name: "drift",
            question: "How far do the last hidden states move without each head?",
            needs: "any model and any corpus in files, read twice more: as many passes over a sample of its sentences as half of \
                the heads, and two",
            by_default: false,
            settings_key: None,
        }
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { portion: Portion::Sample, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(DriftSums::new(subject.grid, EachHead))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<DriftSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn range(&self, _: &str) -> RangeInclusive<f64> {
        0.0..=2.0
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &DriftSums = observer::sums(observed[0].sums);
        let blocks = sums.blocks().with_total();
        let of_head = |number: Option<usize>, place: usize| values(blocks.at(number), Some(place));
        let of_chance = |number: Option<usize>| values(blocks.at(number), None);
        let estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        let drift = DriftReport::new(sums, &estimates, context);
        (estimates, Box::new(DriftSection { drift }))
    }

    fn figures(&self, found: &dyn Section, _: &Policy) -> Vec<Figure> {
        figure::figures(&section::<DriftSection>(found).drift)
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("drift", generator.subschema_for::<DriftReport>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<DriftSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const NO_WORTH: Caveat = Caveat {
            id: "drift-no-worth",
            text: "Drift says how far the output turns without a head, not whether that is for better or worse, nor for what: no \
                task is measured; and it depends on what stands for the head.",
            about: About::Meaning,
        };
        let moved = section::<DriftSection>(judged.section).drift.tokens > 0;
        if moved { vec![&NO_WORTH] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests;
