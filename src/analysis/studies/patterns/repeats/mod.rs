//! Study `repeats`: attention to the other occurrence of a token in repeated random sequences (docs/methodology/repeats.md).

mod copying;
mod labels;
mod metrics;
mod sums;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::visibility::Visibility;
use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::{Pass, Sequences};
use crate::sequences::derived::repeats::RepeatVariant;
use crate::stats::blocks::Merge;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::section::{Section, View, ViewContext, downcast_section, stored};
use crate::study::{Card, Caveat, CaveatSubject, ObservedPasses, PassSpec, Study, Subject, columns};
use crate::system::counts::format_count;
use metrics::{METRICS, RepeatInputs};
use sums::RepeatSums;

/// Study `repeats`: which heads find another occurrence of a token.
pub struct RepeatedTokens;

impl Study for RepeatedTokens {
    type Section = Made;

    const CARD: Card = Card {
        name: "repeats",
        allows_absent_heads: true,
        question: "Which heads find the same token again, what came after or before it, or what a mask stands for?",
        needs: "no corpus: 64 sequences of random tokens of the vocabulary, and 512 with a mask, about 31,000 tokens",
        is_default_on_decoders: true,
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        is_share_metric: |metric| ["random_offset", "head_detector"].contains(&metric),
        labels: &[
            labels::DUPLICATE_TOKEN_DETECTOR,
            labels::INDUCTION_DETECTOR,
            labels::INDUCTION_MIRROR_DETECTOR,
            labels::MASKED_COPY_DETECTOR,
        ],
        caveats: CAVEATS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        // Plain copies, and copies with a masked token. Both passes have equal weights: one computes the copying scores.
        let pass = |repeats: RepeatVariant| {
            let make = move |subject: &Subject<'_>, visibility: Visibility| {
                let mut sums = RepeatSums::new(subject.grid, visibility);
                sums.weighs = repeats == RepeatVariant::Plain;
                sums
            };
            PassSpec::new_by_class(Pass { sequences: Sequences::Repeats(repeats), ..Pass::PLAIN }, make)
        };
        [RepeatVariant::Plain, RepeatVariant::Masked].map(pass).into()
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        // Merges the passes into one: their kinds of keys are disjoint.
        let mut passes = observed.all_sums::<ByLayerClass<RepeatSums>>();
        let mut both = passes.next().expect("at least one pass").clone();
        passes.for_each(|sums| both.merge(sums));
        let classes = both.map(|sums| (sums, sums.blocks.with_total()));
        let of_head = |block: Option<usize>, place: usize| {
            let (sums, blocks) = classes.for_layer(context.grid.layer_and_head(place).0);
            let sums_of_block = blocks.sums(block);
            let copying = sums.copying.get(place).copied().flatten().filter(|_| block.is_none());
            RepeatInputs { exposure: &sums_of_block.exposure, sums: &sums_of_block.heads[place], copying }
                .metric_values()
        };
        let of_chance = |block: Option<usize>, class: usize| {
            RepeatInputs::chance_levels(&classes.values()[class].1.sums(block).exposure, block.is_none())
        };
        // Every class counts every sequence.
        let [plain, masked] = classes.values()[0].1.total().exposure.sequences;
        (Estimates::new_by_class(&columns(self), context, both.classes(), of_head, of_chance), Made { plain, masked })
    }
}

/// Number of sequences of random tokens that the run made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    /// Number of sequences whose tokens occur twice; 0 if the vocabulary has fewer than 4 words, or the model too few positions.
    plain: u64,
    /// Number of sequences whose tokens occur twice, with one token of the second copy masked; also 0 if there is no mask token.
    masked: u64,
}

stored!(Made as repeats);

impl Section for Made {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        let Made { plain, masked } = *self;
        View::from_summary(match (plain, masked) {
            (0, _) => {
                "No sequences of random tokens: the vocabulary has too few words, or the model too few positions.\n"
                    .to_owned()
            }
            (_, 0) => format!(
                "Repeated random tokens: {}; none masked, since there is no mask token.\n",
                format_count(plain, "sequence")
            ),
            _ => format!(
                "Repeated random tokens: {}, and {masked} with a mask in the second copy.\n",
                format_count(plain, "sequence")
            ),
        })
    }
}

const CAVEATS: &[Caveat] = &[Caveat {
    id: "repeats-identity",
    text: "Random tokens that come twice test whether a head finds the same token; \
            only with the token masked does it take the context to find it.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<Made>(labelling.section).plain > 0,
}];

#[cfg(test)]
mod tests;
