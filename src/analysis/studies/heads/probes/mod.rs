//! Probes: the information in a head's output, read by linear discriminants on its contexts (METHODOLOGY, "Probes").

mod classifiers;
mod discriminant;
mod fit;
mod measure;
mod moments;
mod pack;
mod scores;
mod section;
mod sums;
mod task;

use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::section;
use crate::study::{Card, Caveat, CaveatSubject, Observed, PassSpec, Study, Subject};
use fit::Probes;
use scores::ProbeScores;
use section::ProbesSection;
use sums::ProbeSums;
use terms::TERMS;

/// The information that a linear probe reads from each head.
pub struct LinearProbes;

impl Study for LinearProbes {
    type Section = ProbesSection;

    const CARD: Card = Card {
        name: "probes",
        question: "What can be read out of a head's output about a word, beyond the word itself?",
        needs: "a corpus with UPOS tags or dependency trees in files, read twice: one pass more, and two thirds of one for the \
            sums",
        controls: &[ControlKind::RandomInit],
        caveats: CAVEATS,
        terms: TERMS,
        options: &["probe"],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        let scores = |subject: &Subject<'_>| {
            let sums = subject.own.each::<ProbeSums>().next();
            let probes = sums.map_or_else(Probes::default, |sums| Probes::new(sums, subject.threads));
            ProbeScores::new(subject.grid, subject.probes, probes)
        };
        vec![
            PassSpec::new(Pass::PLAIN, |subject| ProbeSums::new(subject.grid, subject.probes)),
            PassSpec::new(Pass::PLAIN, scores).following(),
        ]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let probes = measure::tasks(observed.sums(), observed.sums(), context);
        (Estimates::none(context.grid.count()), ProbesSection { probes })
    }
}

#[cfg(test)]
mod simulation;
mod terms;
/// The limits of what the study shows.
const CAVEATS: &[Caveat] = &[Caveat {
    id: "probes-read-not-used",
    text: "A probe shows what can be read out of a head's output by a linear classifier, not that the model uses it, nor \
            that the head put it there: it may have been in what went into the layer.",
    about: CaveatSubject::Meaning,
    applies: |labelling| section::<ProbesSection>(labelling.section).probes.iter().any(|task| task.words > 0),
}];

#[cfg(test)]
mod tests;
