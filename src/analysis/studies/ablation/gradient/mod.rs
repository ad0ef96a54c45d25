//! Effect of each head to first order: derivatives of the loss of masked tokens by the heads' gates (METHODOLOGY,
//! "Gradients").

mod metrics;
mod section;
mod sums;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Phases, Portion, Sequences};
use crate::study::metrics::by_block::ByBlock;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Keys;
use crate::study::section::{Section, section};
use crate::study::upstream::{Ranking, UpstreamResults};
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject, columns};
use metrics::{METRICS, values};
use section::{GradientSection, Gradients};
use sums::GradientSums;

/// How the loss changes with the first bit of each head that goes.
pub struct Gradient;

impl Study for Gradient {
    fn card(&self) -> &'static Card {
        &Card {
            name: "gradient",
            question: "What does the model lose with the first small part of each head?",
            needs: "a model with a masked-LM head or that of a discriminator, and any corpus in files, read twice more: a pass forward and one backward over a \
                sample of its sentences, one at a time, and a second copy of the weights in memory",
            by_default: false,
            settings_key: None,
        }
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass {
            sequences: Sequences::Corrupted(Phases::Asked),
            portion: Portion::Sample,
            derivatives: true,
            ..Pass::PLAIN
        }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(GradientSums::new(subject.grid))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<GradientSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &GradientSums = observer::sums(observed[0].sums);
        let blocks = sums.blocks().with_total();
        let of_head = |number: Option<usize>, place: usize| values(blocks.at(number), Some(place));
        let of_chance = |number: Option<usize>| values(blocks.at(number), None);
        let mut estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        for metric in METRICS {
            let of = |block: usize, head: Option<usize>| (metric.value)(blocks.at(Some(block)), head);
            let by_block = ByBlock::new(
                context.grid.count(),
                |head, block| of(block, Some(head)).numerator(),
                |block| of(block, None).denominator(),
            );
            estimates = estimates.with_blocks(metric.explanation.name, by_block);
        }
        let gradient = Gradients::new(sums, observed[0].left_out, &estimates, context);
        (estimates, Box::new(GradientSection { gradient }))
    }

    fn found(&self, observed: &[Observed<'_>], _: &Judged<'_>) -> UpstreamResults {
        let sums: &GradientSums = observer::sums(observed[0].sums);
        let even = &sums.blocks().folds()[0];
        let of_head = |head| (METRICS[0].value)(even, Some(head)).value();
        let scores: Option<Vec<f64>> = (0..even.sizes.len()).map(of_head).collect();
        let rankings = scores.map(|scores| Ranking::rising("gradient", &scores)).into_iter().collect();
        UpstreamResults { rankings, ..UpstreamResults::default() }
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("gradient", generator.subschema_for::<Gradients>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<GradientSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const FIRST_STEP: Caveat = Caveat {
            id: "gradient-first-step",
            text: "A gradient says what goes with the first small part of a head, not with all of it: where the model is sure it is \
                nearly 0, and of the two measures only the first-order effect has a sign.",
            about: About::Meaning,
        };
        let measured = section::<GradientSection>(judged.section).gradient.masked_tokens > 0;
        if measured { vec![&FIRST_STEP] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests;
