//! Probes: the information in a head's output, read by linear discriminants on its contexts (docs/methodology/probes.md).

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
use crate::study::verdict_rule::VerdictRule;
use crate::study::{Card, Caveat, CaveatSubject, Observed, PassSpec, Study, Subject};
use fit::Probes;
use pack::NEEDS;
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
        question: "What can be read out of a head's output about a word, beyond a linear reading of its embedding?",
        needs: "a corpus with UPOS tags or dependency trees in files, read twice",
        controls: &[ControlKind::RandomInit],
        verdicts: VERDICTS,
        caveats: CAVEATS,
        terms: TERMS,
        options: &["probe"],
        of_language: true,
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
            PassSpec::new(Pass::PLAIN, scores).following_kept(NEEDS, |_| true),
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
/// The rule by which a head adds to the word.
const VERDICTS: &[VerdictRule] = &[VerdictRule {
    verdict: "adds",
    statistic: "`gain`: the accuracy on embedding and output together less that on the embedding alone",
    margin: "more than 0.01, one-sided",
    family: "all heads of one task whose gain is above 0.01",
    least: "{min_queries} words in {min_sentences} sentences",
    printed: "gain with its interval, q; where an untrained control runs, the largest gain there",
}];

/// The limits of what the study shows.
const CAVEATS: &[Caveat] = &[Caveat {
    id: "probes-read-not-used",
    text: "A probe shows what can be read out of a head's output by a linear classifier, not that the model uses it, nor \
            that the head put it there: it may have been in what went into the layer. A gain is more than a linear reading of the \
            word's embedding finds, and no more: what is not linear in that may say as much.",
    about: CaveatSubject::Meaning,
    applies: |labelling| section::<ProbesSection>(labelling.section).probes.iter().any(|task| task.words > 0),
}];

#[cfg(test)]
mod tests;
