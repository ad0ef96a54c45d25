//! Study `examples`: the best, a typical and the worst sentence for each head's label (docs/methodology/examples.md).

mod section;
mod sums;

use crate::model::forward::visitor::Needs;
use crate::passes::pass::Pass;
use crate::study::{Card, Estimates, EstimationContext, Observed, PassSpec, Study, Subject};
use section::Examples;
use sums::ExampleSums;

pub struct ExampleSentences;

/// Text that stands for a special token in drawings: the first of `tokens` that is in the vocabulary, else `otherwise`.
fn special_token_text(subject: &Subject<'_>, tokens: [&str; 2], otherwise: &str) -> String {
    tokens.into_iter().find(|token| (subject.token_id)(token).is_some()).unwrap_or(otherwise).to_owned()
}

impl Study for ExampleSentences {
    type Section = Examples;

    const CARD: Card = Card {
        name: "examples",
        question: "Which sentences show what the labels say?",
        needs: "a corpus in files, read once more when the labels are known; the report then holds sentences of the corpus",
        figures: &["examples:HEAD"],
        options: &["show-example"],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        let make = |subject: &Subject<'_>| {
            let special = [
                special_token_text(subject, ["[CLS]", "<s>"], "[first]"),
                special_token_text(subject, ["[SEP]", "</s>"], "[separator]"),
            ];
            let (classes, aims) = (subject.classes.clone(), subject.found.aims.clone());
            ExampleSums::new(subject.grid, classes, subject.from, aims, special)
        };
        vec![PassSpec::new(Pass::PLAIN, make).following_kept(Needs::ATTENTION, sums::may_be_shown)]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        (Estimates::none(context.grid.count()), Examples::new(observed.sums(), context.grid))
    }
}

#[cfg(test)]
mod tests;
