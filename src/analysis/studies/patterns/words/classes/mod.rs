//! Study `classes`: attention to user-defined classes of words, or to tokens of a small vocabulary
//! (docs/methodology/classes.md).

mod measure;
mod section;
mod sums;
#[cfg(test)]
mod tests;

use anstyle::AnsiColor;

use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::Pass;
use crate::study::labels::content::{CONTENT_MASS, thresholds};
use crate::study::labels::{Detector, LabelStyle, Parameter, VerbPhrase};
use crate::study::{Card, Estimates, EstimationContext, Explanation, ObservedPasses, PassSpec, Study};
use measure::measure_classes;
use section::ClassesSection;
use sums::ClassesSums;

/// Study `classes`: which user-defined classes of words each head attends to.
pub struct WordClasses;

impl Study for WordClasses {
    type Section = ClassesSection;

    const CARD: Card = Card {
        name: "classes",
        question: "Which classes of words (yours, or the tokens of a small vocabulary) does each head attend to?",
        needs: "words with classes: `classes` of JSON lines, or a column with --classes; or a model with at most 100 \
            tokens",
        is_default: true,
        controls: &ControlKind::ALL,
        labels: &[CLASS_DETECTOR],
        tables: &["classes", "classes_by_head"],
        options: &["classes"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new_by_class(Pass::PLAIN, |subject, visibility| {
            ClassesSums::new(subject.grid, visibility, subject.from_token).with_key(subject.class_column)
        })]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByLayerClass<ClassesSums> = observed.first_sums();
        (Estimates::without_metrics(context.grid.head_count()), measure_classes(sums, context))
    }
}

const CLASS_DETECTOR: Detector = Detector {
    thresholds: &thresholds(&CONTENT_MASS),
    parameter: Parameter::Keyed("class"),
    phrase: VerbPhrase::Fixed("attends to words of the class {}"),
    style: LabelStyle::new(None, AnsiColor::BrightMagenta),
    assess: |evidence, policy| {
        let ClassesSection { classes, .. } = evidence.section();
        classes.iter().filter_map(|class| class.assess(&class.by_head[evidence.place], policy)).collect()
    },
    ..Detector::new_role(Explanation {
        name: "class:<key>=<class>",
        measures: "The head attends to words of one class: of the user's own, or by their token in a vocabulary of at most 100.",
        formula: "class_mass_over_chance[p] >= {content_mass} and class_mass_over_position[p] >= 0, firm if q <= {label_q}",
        chance: "even attention, and the head's own preference for offsets: the score is what it is above the one that it is less \
            far above",
        source: "As `tag:<UPOS>`; heads that look for one residue: Vig et al. 2021.",
        caveats: "The class may be a by-product of something else that such words have in common, such as their places. Punctuation is \
            no class by its token: the label `punctuation` is for it.",
    })
};
