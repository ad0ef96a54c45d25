//! Study `segments`: attention within and between the sentences of a pair, and its pattern (docs/methodology/segments.md).

mod design;
mod labels;
mod metrics;
mod sums;

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::{Pass, Sequences};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::section::{Section, View, ViewContext, stored};
use crate::study::{Card, Caveat, CaveatSubject, ObservedPasses, PassSpec, Study, columns};
use crate::system::counts::{format_count, plural};
use metrics::{METRICS, chance_levels, metric_values};
use sums::SegmentSums;

pub struct Segments;

impl Study for Segments {
    type Section = Pairs;

    const CARD: Card = Card {
        name: "segments",
        allows_absent_heads: true,
        question: "Of two sentences as a pair, which heads keep within one, and what pattern has their attention?",
        needs: "any corpus, read once more, two sentences at a time",
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        labels: &[labels::SEGMENT_BLOCK_DETECTOR, labels::PATTERN_CLASS_DETECTOR],
        caveats: CAVEATS,
        // The share that noise would explain is subtracted, so about half of the heads without a pattern are below 0.
        range: |metric| if metric == "same_segment_share" { 0.0..=1.0 } else { f64::NEG_INFINITY..=1.0 },
        is_share_metric: |metric| metric == "same_segment_share",
        needs_language: true,
        decoder_refusal: Some("is not made for pairs of texts between separators, which the study looks at"),
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new_by_class(
            Pass { sequences: Sequences::SentencePairs, ..Pass::PLAIN },
            |subject, visibility| SegmentSums::new(subject.grid, visibility),
        )]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByLayerClass<SegmentSums> = observed.first_sums();
        let classes = sums.map(|sums| sums.blocks.with_total());
        let of_head = |block: Option<usize>, place: usize| {
            let sums = classes.for_layer(context.grid.layer_and_head(place).0).sums(block);
            metric_values(&sums.exposure, &sums.heads[place])
        };
        let of_chance =
            |block: Option<usize>, class: usize| chance_levels(&classes.values()[class].sums(block).exposure);
        let exposures = classes.values().iter().map(|blocks| &blocks.total().exposure);
        let (pairs, unseen) = exposures
            .fold((0, 0), |(pairs, unseen), exposure| (exposure.pairs.max(pairs), exposure.unseen.max(unseen)));
        let (unseen, sentences_left_out) = (NonZeroU64::new(unseen), observed.left_out_sentences());
        let section = Pairs { pairs, unseen, sentences_left_out };
        (Estimates::new_by_class(&columns(self), context, sums.classes(), of_head, of_chance), section)
    }
}

/// Counts of pairs of sentences that were encoded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "a key of the report")]
pub struct Pairs {
    /// Number of pairs of sentences.
    pairs: u64,
    /// Number of pairs left out in the layers with the narrowest window: their queries do not see the pair in full. Absent if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    unseen: Option<NonZeroU64>,
    /// Number of encoded sentences that are in no pair: without a partner in their document, or in a pair of more than
    /// `settings.max_tokens` tokens.
    sentences_left_out: u64,
}

stored!(Pairs as segments);

impl Section for Pairs {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        let Pairs { pairs, unseen, sentences_left_out } = *self;
        let hidden = unseen.map_or_else(String::new, |unseen| {
            format!("In layers with a window, {unseen} of them are left out: not every query sees every key.\n")
        });
        let left_out = match sentences_left_out {
            0 => String::new(),
            count => {
                let (sentences, is) = (format_count(count, "sentence"), plural(&count, "is", "are"));
                format!("; {sentences} {is} in no pair (no partner in the document, or too long together)")
            }
        };
        View::from_summary(format!("Pairs of sentences: {pairs}{left_out}.\n{hidden}"))
    }
}

const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "segment-pairs",
        text: "`segment-block` is about two sentences as a pair, with special tokens between them and, of most models, \
            other segment ids: not about the bounds of sentences in running text.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| labelling.has_label(|label| label.starts_with("segment-block")),
    },
    Caveat {
        id: "classes-by-rule",
        text: "The classes go by how much of the variation columns, offsets and sentences explain, not by how maps look: \
            shares of classes by the classifier of Kovaleva et al. are of another measure and of fine-tuned models.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| labelling.has_label(|label| label.starts_with("class:")),
    },
];

#[cfg(test)]
mod tests;
