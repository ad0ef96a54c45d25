//! Classes of words of the user's own, or the tokens of a small vocabulary: to which of them each head attends
//! (docs/methodology/classes.md).

mod labels;
mod measure;
mod section;
mod sums;
#[cfg(test)]
mod tests;

use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByClass;
use crate::passes::pass::Pass;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::{Card, Observed, PassSpec, Study};
use measure::measured;
use section::ClassesSection;
use sums::ClassesSums;

/// The classes of the user's own that each head attends to.
pub struct WordClasses;

impl Study for WordClasses {
    type Section = ClassesSection;

    const CARD: Card = Card {
        name: "classes",
        question: "Which classes of words (yours, or the tokens of a small vocabulary) does each head attend to?",
        needs: "words with classes: `classes` of JSON lines, or a column with --classes; or a model with at most 100 \
            tokens",
        by_default: true,
        controls: &ControlKind::ALL,
        labels: &[labels::CLASS],
        tables: &["classes", "classes_by_head"],
        options: &["classes"],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::by_class(Pass::PLAIN, |subject, visibility| {
            ClassesSums::new(subject.grid, visibility, subject.from).asked(subject.classes_from)
        })]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByClass<ClassesSums> = observed.sums();
        (Estimates::none(context.grid.count()), measured(sums, context))
    }
}
