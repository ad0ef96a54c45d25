//! Attention over pairs of sentences: within the sentence, and by which pattern (METHODOLOGY, "Segments").

mod design;
mod labels;
mod metrics;
mod sums;

use std::ops::RangeInclusive;

use anyhow::Result;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Sequences};
use crate::study::labels::Detector;
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Keys;
use crate::study::section::Section;
use crate::study::show::summary::Summary;
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject, columns};
use crate::system::counted::{counted, plural};
use metrics::{METRICS, SegmentInputs};
use sums::SegmentSums;

/// Which heads keep within a sentence, and what pattern their attention has.
pub struct Segments;

impl Study for Segments {
    fn card(&self) -> &'static Card {
        &Card {
            name: "segments",
            question: "Of two sentences as a pair, which heads keep within one, and what pattern has their attention?",
            needs: "any corpus, read once more: a pass of its own over its sentences, two by two",
            by_default: false,
            settings_key: None,
        }
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { sequences: Sequences::SentencePairs, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(SegmentSums::new(subject.grid))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<SegmentSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn range(&self, metric: &str) -> RangeInclusive<f64> {
        // What noise would explain is taken off, so that without a pattern half of them are below 0.
        if metric == "same_segment_share" { 0.0..=1.0 } else { f64::NEG_INFINITY..=1.0 }
    }

    fn detectors(&self) -> &'static [Detector] {
        const { &[labels::SEGMENT_BLOCK, labels::CLASS] }
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &SegmentSums = observer::sums(observed[0].sums);
        let blocks = sums.blocks().with_total();
        let of_head = |number: Option<usize>, place: usize| {
            let block = blocks.at(number);
            SegmentInputs::new(&block.exposure, &block.heads[place]).values()
        };
        let of_chance = |number: Option<usize>| SegmentInputs::chances(&blocks.at(number).exposure);
        let section = SegmentsSection {
            segments: Pairs { pairs: blocks.total().exposure.pairs, sentences_left_out: observed[0].left_out },
        };
        (Estimates::new(&columns(self), context, of_head, of_chance), Box::new(section))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("segments", generator.subschema_for::<Pairs>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<SegmentsSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const PAIRS: Caveat = Caveat {
            id: "segment-pairs",
            text: "`segment-block` is about two sentences as a pair, with special tokens between them and, of most models, \
                other segment ids: not about the bounds of sentences in running text.",
            about: About::Meaning,
        };
        const CLASSES: Caveat = Caveat {
            id: "classes-by-rule",
            text: "The classes go by how much of the variation columns, offsets and sentences explain, not by how maps look: \
                shares of classes by the classifier of Kovaleva et al. are of another measure and of fine-tuned models.",
            about: About::Meaning,
        };
        let of = |start: &'static str| judged.has_label(|label| label.starts_with(start));
        let caveats = [("segment-block", &PAIRS), ("class:", &CLASSES)];
        caveats.into_iter().filter(|(label, _)| of(label)).map(|(_, caveat)| caveat).collect()
    }
}

/// The section `segments` of the report.
#[derive(Deserialize)]
struct SegmentsSection {
    segments: Pairs,
}

/// Pairs of sentences that were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Pairs {
    /// Pairs of sentences.
    pairs: u64,
    /// Sentences that were encoded and are in no pair: without a partner in their document, or in a pair of more than
    /// `settings.max_tokens` tokens.
    sentences_left_out: u64,
}

impl Section for SegmentsSection {
    fn entries(&self) -> Vec<(&'static str, &dyn erased_serde::Serialize)> {
        vec![("segments", &self.segments)]
    }

    fn summary(&self, _: &Policy) -> Summary {
        let Pairs { pairs, sentences_left_out } = self.segments;
        let are = plural(&sentences_left_out, "is", "are");
        let left_out = format!("{} {are}", counted(sentences_left_out, "sentence"));
        format!(
            "Sentences as pairs: {pairs}; {left_out} in none, without a partner in {} document or too long together.\n",
            plural(&sentences_left_out, "its", "their")
        )
        .into()
    }
}

#[cfg(test)]
mod tests;
