//! Study `parser`, the attention-only probe of Clark et al. 2019: a dependency parser on the attention of all heads together.
//! Links named by the user are read out likewise (docs/methodology/parser.md).

mod accuracies;
mod fit;
mod graph;
mod lexical_baseline;
mod links;
mod measure;
mod optimum;
mod section;
mod sentence;
mod sums;

use itertools::Itertools;

use crate::passes::observer::Sums;
use crate::passes::pass::{CorpusPortion, ModelWeights, Pass};
use crate::studies::patterns::dependency::sums::DependencySums;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Subject, Term,
};
use links::section::LinkParserResults;
use links::sums::LinkParserSums;
use section::ParserReport;
use sums::ParserSums;

/// Study `parser`: how well a parser recovers dependency trees from the attention of all heads together.
pub struct AttentionParser;

/// Seed of the untrained model's random weights.
const UNTRAINED_SEED: u64 = 0;

impl Study for AttentionParser {
    type Section = ParserReport;

    const CARD: Card = Card {
        name: "parser",
        question: "How many heads of words in the dependency tree, and targets of links, can be read out of the attention of all heads \
            together?",
        needs: "a corpus with dependency trees or links in files, read twice more: two passes over a sample, and fits on its halves \
            and quarters",
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["parser"],
        tables: &["parsers", "parser_relations", "parser_layers", "parser_links"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let sample = |weights| Pass { weights, portion: CorpusPortion::Sample, ..Pass::PLAIN };
        let words = |subject: &Subject<'_>| ParserSums::new(subject.grid, subject.classes.clone(), subject.from_token);
        let arcs =
            |subject: &Subject<'_>| DependencySums::new(subject.grid, subject.classes.clone(), subject.from_token);
        let links =
            |subject: &Subject<'_>| LinkParserSums::new(subject.grid, subject.classes.clone(), subject.from_token);
        vec![
            PassSpec::new(sample(ModelWeights::Trained), move |subject| words(subject).with_embeddings()),
            PassSpec::new(sample(ModelWeights::Untrained { seed: UNTRAINED_SEED }), words),
            PassSpec::new(sample(ModelWeights::Trained), arcs),
            PassSpec::new(sample(ModelWeights::Trained), move |subject| links(subject).with_embeddings()),
            PassSpec::new(sample(ModelWeights::Untrained { seed: UNTRAINED_SEED }), links),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let [trained, untrained] = sums_of_models(observed);
        let parser = ParserReport::new(trained, untrained, observed.first_sums(), context);
        let [trained, untrained] = sums_of_models(observed);
        let links = LinkParserResults::new(trained, untrained, context);
        let kept_bytes = parser.kept_bytes + links.kept_bytes;
        let parser =
            ParserReport { links: links.types, links_left_out: links.left_out_sequences, kept_bytes, ..parser };
        (Estimates::without_metrics(context.grid.head_count()), parser)
    }
}

/// Returns the sums of type `S` of both models: `[trained, untrained]`.
fn sums_of_models<'a, S: Sums>(observed: &ObservedPasses<'a>) -> [&'a S; 2] {
    observed.all_sums().collect_array().expect("a pass of either model")
}

const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "parser-read-not-used",
        text: "A parser on attention shows how much of a treebank's trees can be read out of all heads together with labelled sentences \
            to learn from, not that the model has such trees or uses them: an accuracy depends on the annotation scheme, and weights of \
            heads that look alike can be exchanged for each other.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| downcast_section::<ParserReport>(labelling.section).none.is_none(),
    },
    Caveat {
        id: "links-read-not-used",
        text: "A model of links on the attention of all heads shows how much of them can be read out with links to learn from, not that the model has such links or uses them: where the links are a matter of which words they join, word embeddings know them too.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| {
            downcast_section::<ParserReport>(labelling.section).links.iter().any(|links| links.none.is_none())
        },
    },
];

const TERMS: &[Term] = &[
    Term {
        name: "attention-only probe",
        other_names: &["ahead", "distances"],
        meaning: "Of the study `parser`: a parser whose score of a word as the head of another is linear in the attention between the \
            two, in both directions and in all heads (Clark et al. 2019, section 5). Attention is ahead of a parser by the share of words \
            that it gets right less the share that the other does; distances are the same parser with nothing but how far two words are \
            apart, and distances and embeddings one that also knows which two words they are.",
        page: "parser.md",
    },
    Term {
        name: "right-branching",
        other_names: &["best head"],
        meaning: "Simple parsers beside it, in the study `parser`: the head of a word is the next word; the word that one attention head \
            attends to most, or that attends most to it; the word at a fixed offset; the nearest word of a word class that goes with the \
            word's own. The last three are chosen on one half of the blocks and scored on the other.",
        page: "parser.md",
    },
    Term {
        name: "links of all heads",
        other_names: &["lead"],
        meaning: "In the study `parser`, how many targets of links are found by a linear model of the attention between a source and its \
            candidates, in both directions and in all heads. Its lead is over the best model that does not see this attention: distances, \
            word embeddings, rules of place and of classes, an untrained model, chance.",
        page: "parser.md",
    },
    Term {
        name: "contact prediction",
        other_names: &["separations"],
        meaning: "In the study `parser`, how many of the pairs that a logistic regression on the symmetrised and corrected attention of all \
            heads finds likeliest are linked, for undirected types in encoders (Rao et al. 2021). Separations are how far apart the words of \
            a pair are: the pairs at those that are linked most often stand beside it.",
        page: "parser.md",
    },
];

#[cfg(test)]
mod tests;
