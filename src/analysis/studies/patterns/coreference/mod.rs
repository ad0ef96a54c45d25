//! Coreference: how often a head's attention points from a mention of an entity to an earlier one
//! (docs/methodology/coreference.md).

mod anaphors;
mod metrics;
mod section;
mod sums;

use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByClass;
use crate::passes::pass::{Pass, Sequences};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::section::section;
use crate::study::{Card, Caveat, CaveatSubject, Observed, PassSpec, Study, columns};
use metrics::{COREFERENCE, CoreferenceInputs, METRICS, best_baselines};
use section::{Coreference, CoreferenceSection};
use sums::CoreferenceSums;

/// The heads that find what a word refers back to.
pub struct Antecedents;

impl Study for Antecedents {
    type Section = CoreferenceSection;

    const CARD: Card = Card {
        name: "coreference",
        question: "Which heads attend from a mention of an entity to an earlier one, better than nearness, the same lemma or \
            agreement find it?",
        needs: "a corpus with `Entity=` annotation, read twice",
        in_first_run: true,
        controls: &ControlKind::ALL,
        metrics: || metric::listed(METRICS),
        labels: &[COREFERENCE],
        caveats: CAVEATS,
        range: |metric| if metric == "coreference_accuracy" { 0.0..=1.0 } else { -1.0..=1.0 },
        is_share: |metric| metric == "coreference_accuracy",
        figures: &["coreference"],
        tables: &["coreference"],
        of_language: true,
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::by_class(Pass { sequences: Sequences::Windows, ..Pass::PLAIN }, |subject, visibility| {
            CoreferenceSums::new(subject.grid, visibility, subject.from)
        })]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByClass<CoreferenceSums> = observed.sums();
        let classes = sums.map(|sums| {
            let blocks = sums.blocks.with_total();
            let best = best_baselines(blocks.total());
            (blocks, best, sums.visibility)
        });
        let of_head = |number: Option<usize>, place: usize| {
            let (blocks, best, visibility) = classes.of_layer(context.grid.at(place).0);
            CoreferenceInputs::head((blocks.at(number), *visibility), *best, place).values()
        };
        let of_chance = |number: Option<usize>, class: usize| {
            let (blocks, best, visibility) = &classes.each()[class];
            CoreferenceInputs::chance((blocks.at(number), *visibility), *best).values()
        };
        let section = CoreferenceSection { coreference: Coreference::new(sums, context) };
        (Estimates::by_class(&columns(self), context, sums.classes(), of_head, of_chance), section)
    }
}

const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "no-entities",
        text: "No word of the corpus has an entity annotated: no coreference label could be tested.",
        about: CaveatSubject::Certainty,
        applies: |labelling| section::<CoreferenceSection>(labelling.section).coreference.mentions == 0,
    },
    Caveat {
        id: "given-mentions",
        text: "The mentions that coreference chooses from are those of the annotation: that a head finds them by itself is not \
            shown.",
        about: CaveatSubject::Meaning,
        applies: |labelling| section::<CoreferenceSection>(labelling.section).coreference.mentions > 0,
    },
];

#[cfg(test)]
mod tests;
