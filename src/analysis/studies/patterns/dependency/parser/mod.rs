//! The dependency tree that all heads together hold: the attention-only probe of Clark et al. 2019
//! (docs/methodology/parser.md).

mod fit;
mod graph;
mod lexical;
mod measure;
mod minimise;
mod newton;
mod section;
mod sentence;
mod sums;
mod tally;
mod terms;

use crate::passes::pass::{Pass, Portion, Weights};
use crate::studies::patterns::dependency::sums::DependencySums;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::section;
use crate::study::{Card, Caveat, CaveatSubject, Observed, PassSpec, Study, Subject};
use section::{ParserReport, ParserSection};
use sums::ParserSums;
use terms::TERMS;

/// The tree that can be read out of all heads together.
pub struct AttentionParser;

/// The seed of the untrained model.
const SEED: u64 = 0;

impl Study for AttentionParser {
    type Section = ParserSection;

    const CARD: Card = Card {
        name: "parser",
        question: "How many heads of words in the dependency tree can be read out of the attention of all heads together?",
        needs: "a corpus with dependency trees in files, read twice more: two passes over a sample, and fits on its halves \
            and quarters",
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["parser"],
        tables: &["parsers", "parser_relations", "parser_layers"],
        of_language: true,
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        let sample = |weights| Pass { weights, portion: Portion::Sample, ..Pass::PLAIN };
        let words = |subject: &Subject<'_>| ParserSums::new(subject.grid, subject.classes.clone(), subject.from);
        let with_embeddings = move |subject: &Subject<'_>| words(subject).with_embeddings();
        let arcs = |subject: &Subject<'_>| DependencySums::new(subject.grid, subject.classes.clone(), subject.from);
        vec![
            PassSpec::new(sample(Weights::Trained), with_embeddings),
            PassSpec::new(sample(Weights::Fresh { seed: SEED }), words),
            PassSpec::new(sample(Weights::Trained), arcs),
        ]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let [trained, untrained] = observed.each().collect::<Vec<_>>()[..] else {
            unreachable!("a pass of either model")
        };
        let parser = ParserReport::new(trained, untrained, observed.sums(), context);
        (Estimates::none(context.grid.count()), ParserSection { parser })
    }
}

/// The limits of what the study shows.
const CAVEATS: &[Caveat] = &[Caveat {
    id: "parser-read-not-used",
    text: "A parser on attention shows how much of a treebank's trees can be read out of all heads together with labelled sentences \
            to learn from, not that the model has such trees or uses them: an accuracy depends on the annotation scheme, and weights of \
            heads that look alike can be exchanged for each other.",
    about: CaveatSubject::Meaning,
    applies: |labelling| section::<ParserSection>(labelling.section).parser.none.is_none(),
}];

#[cfg(test)]
mod tests;
