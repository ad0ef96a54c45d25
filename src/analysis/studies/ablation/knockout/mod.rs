//! Whether the model uses the dependency arcs that its heads are labelled for (docs/methodology/knockout.md).

mod section;
mod sums;

use crate::passes::pass::{CorpusPortion, CorruptedVariants, Pass, Sequences};
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Term, VerdictRule,
};
use section::KnockoutSection;
use sums::KnockoutSums;

pub struct ArcKnockout;

impl Study for ArcKnockout {
    type Section = KnockoutSection;

    const CARD: Card = Card {
        name: "knockout",
        former_name: Some("use"),
        question: "Does the model use the arcs that its heads are labelled for?",
        needs: "a model with a masked-LM head or that of a discriminator, and a corpus with dependency trees in files, read \
            once more when the labels are known",
        builds_on: &["dependency"],
        verdicts: VERDICTS,
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["knockout"],
        tables: &["knockout"],
        needs_language: true,
        decoder_refusal: Some("reads no masked word, whose attention to its partner the study cuts"),
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![
            PassSpec::new(
                Pass {
                    sequences: Sequences::Corrupted(CorruptedVariants::All),
                    portion: CorpusPortion::Sample,
                    ..Pass::PLAIN
                },
                |subject| KnockoutSums {
                    classes: subject.classes.clone(),
                    ..KnockoutSums::new(subject.grid, subject.upstream.claims.clone())
                },
            )
            .in_second_stage(),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        (Estimates::without_metrics(context.grid.head_count()), KnockoutSection::new(observed.first_sums(), context))
    }
}

const VERDICTS: &[VerdictRule] = &[VerdictRule {
    verdict: "`used` of a syntactic label",
    statistic: "loss of the masked query word once the weights on its partner and on a word as far away are exchanged, less that before",
    margin: "0",
    test_family: "all syntactic labels whose `loss_effect` is above it",
    min_evidence: "{min_queries} arcs",
    printed: "`loss_effect` with its interval, q",
}];

const CAVEATS: &[Caveat] = &[Caveat {
    id: "knockout-of-one-weight",
    text: "`used` says that a masked word is harder to predict once this head's weights on its partner and on a word as far \
            away are exchanged. A label without it may still be of use to other words, to other tasks, or beside other \
            heads that do the same.",
    subject: CaveatSubject::Meaning,
    applies: |labels| {
        downcast_section::<KnockoutSection>(labels.section).knockout.iter().any(|label| label.test.used.is_some())
    },
}];

const TERMS: &[Term] = &[Term {
    name: "used",
    other_names: &["knockout"],
    meaning: "Of a syntactic label, by the study `knockout`: masked words are harder to predict once the head's weights on their partner \
            and on a word as far away are exchanged, beyond chance.",
    page: "knockout.md",
}];

#[cfg(test)]
mod tests;
