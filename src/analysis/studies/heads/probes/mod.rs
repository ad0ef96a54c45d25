//! Study `probes`: linear discriminants that read a word's class from the contexts of an attention head
//! (docs/methodology/probes.md).

mod classifiers;
mod fit;
mod measure;
mod pack;
mod scores;
mod section;
mod sums;

use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Subject, Term,
    VerdictRule,
};
use fit::Probes;
use pack::PROBE_NEEDS;
use scores::ProbeScores;
use section::ProbesSection;
use sums::ProbeSums;

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
        needs_language: true,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let scores = |subject: &Subject<'_>| {
            let sums = subject.first_stage_sums.all_sums::<ProbeSums>().next();
            let probes = sums.map_or_else(Probes::default, |sums| Probes::new(sums, subject.threads));
            ProbeScores::new(subject.grid, subject.probes, probes)
        };
        vec![
            PassSpec::new(Pass::PLAIN, |subject| ProbeSums::new(subject.grid, subject.probes)),
            PassSpec::new(Pass::PLAIN, scores).in_second_stage_from_kept(PROBE_NEEDS, |_| true),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let probes = measure::measure_tasks(observed.first_sums(), observed.first_sums(), context);
        (Estimates::without_metrics(context.grid.head_count()), ProbesSection { probes })
    }
}

const TERMS: &[Term] = &[
    Term {
        name: "adds",
        other_names: &["mean_gain", "best_gain"],
        meaning: "Of a head, in the study `probes`: its gain is more than one point by the block test: its output says more of the \
            word than a linear reading of the word's embedding does, and no more than that. The gain is the share of words that a linear \
            discriminant gets right on the word embedding and the head's output together, less the share on the embedding alone.",
        page: "probes.md",
    },
    Term {
        name: "selectivity",
        other_names: &["control task"],
        meaning: "Of a head, in the study `probes`: the share of words that a discriminant on the head's output gets right, less that \
            for a control task, in which every form has a class at random: what is beyond knowing the form.",
        page: "probes.md",
    },
    Term {
        name: "majority",
        other_names: &["form", "embedding", "neighbours", "input"],
        meaning: "What probes are read beside: the most frequent class, the most frequent class of the word's form, and discriminants \
            on the word embedding, on that with the embeddings of both neighbours, and on what goes into the layer.",
        page: "probes.md",
    },
];

#[cfg(test)]
mod simulation;
const VERDICTS: &[VerdictRule] = &[VerdictRule {
    verdict: "adds",
    statistic: "`gain`: the accuracy on embedding and output together less that on the embedding alone",
    margin: "more than 0.01, one-sided",
    test_family: "all heads of one task whose gain is above 0.01",
    min_evidence: "{min_queries} words in {min_sentences} sentences",
    printed: "gain with its interval, q; where an untrained control runs, the largest gain there",
}];

const CAVEATS: &[Caveat] = &[Caveat {
    id: "probes-read-not-used",
    text: "A probe shows what can be read out of a head's output by a linear classifier, not that the model uses it, nor \
            that the head put it there: it may have been in what went into the layer. A gain is more than a linear reading of the \
            word's embedding finds, and no more: what is not linear in that may say as much.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<ProbesSection>(labelling.section).probes.iter().any(|task| task.words > 0),
}];

#[cfg(test)]
mod tests;
