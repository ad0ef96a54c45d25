//! Study `choice`: how well position and token alone explain each head's attention (docs/methodology/choice.md).
//!
//! A regression predicts each layer's inputs from a token's position and embedding. The head attends once more on the
//! predicted inputs, and the study measures how far this attention is from the actual one.

mod fit;
mod labels;
mod metrics;
mod moments;
mod pack;
mod rebuilt;
mod replaced_inputs;
mod section;
#[cfg(test)]
mod tests;

use crate::model::forward::visitor::Needs;
use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::study::metrics::metric;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Subject, columns,
};
use fit::FoldFit;
use metrics::{ChoiceInputs, METRICS, attends_uniformly};
use moments::InputMoments;
use rebuilt::RebuiltDistanceSums;
use section::Choice;

/// Study `choice`: whether a head selects keys by position, by token, by both, or by context.
pub struct ChoiceStudy;

impl Study for ChoiceStudy {
    type Section = Choice;

    const CARD: Card = Card {
        name: "choice",
        question: "Does each head attend where it does because of where tokens stand, of which tokens they are, or of what the layers \
            below have made of them?",
        needs: "any corpus in files, read twice: in the second pass every head attends seven times",
        runs_on_builtin_corpus: true,
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        range: |metric| match metric {
            "rebuilt" => f64::NEG_INFINITY..=1.0,
            metrics::REBUILT_OVER_SPECIAL_METRIC => f64::NEG_INFINITY..=f64::INFINITY,
            "context" => 0.0..=f64::INFINITY,
            _ => 0.0..=1.0,
        },
        is_share_metric: |metric| metric == "distance_from_even",
        choices: labels::LABELS,
        caveats: CAVEATS,
        figures: &["choice"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let rebuilt = |subject: &Subject<'_>| {
            let moments = subject.first_stage_sums.all_sums::<InputMoments>().next();
            let folds = moments.and_then(|moments| FoldFit::fit_folds(moments, subject.threads));
            RebuiltDistanceSums::new(subject.grid, subject.classes, folds)
        };
        vec![
            PassSpec::new(Pass::PLAIN, |subject| InputMoments::new(subject.grid)),
            PassSpec::new(Pass::PLAIN, rebuilt)
                .in_second_stage_from_kept(Needs { attention_inputs: true, ..Needs::default() }, |_| true),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let (moments, sums): (&InputMoments, &RebuiltDistanceSums) = (observed.first_sums(), observed.first_sums());
        let blocks = sums.blocks.with_total();
        let of_head = |number: Option<usize>, head: usize| {
            let is_uniform = attends_uniformly(blocks.total(), head);
            ChoiceInputs { block: blocks.sums(number), head, is_uniform }.metric_values()
        };
        let of_chance = |number: Option<usize>| metrics::chance_levels(blocks.sums(number));
        (Estimates::new(&columns(self), context, of_head, of_chance), Choice::new(moments, sums, context.grid))
    }
}

const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "context-is-what-is-left",
        text: "What is called context in how a head chooses is what is left: a part that is not linear in the embedding, or belongs to \
            a token at a place, counts as context, and it falls with the size of the corpus. That the model's output depends on how a \
            head chooses is not shown.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| !downcast_section::<Choice>(labelling.section).layers.is_empty(),
    },
    Caveat {
        id: "too-few-tokens-to-choose",
        text: "A half of the corpus has fewer than 10 tokens of text for each dimension of the embeddings: how heads choose was not \
            measured.",
        subject: CaveatSubject::Certainty,
        applies: |labelling| downcast_section::<Choice>(labelling.section).layers.is_empty(),
    },
];
