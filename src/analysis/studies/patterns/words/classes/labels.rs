//! Labels of heads that attend to words of a class: `class:<key>=<class>`.

use anstyle::AnsiColor;

use super::section::ClassesSection;
use crate::study::labels::content::{CONTENT_MASS, thresholds};
use crate::study::labels::{Detector, LabelStyle, Parameter, Phrase};
use crate::study::metrics::explanation::Explanation;

pub(super) const CLASS: Detector = Detector {
    explanation: Explanation {
        name: "class:<key>=<class>",
        measures: "The head attends to words of one class: of the user's own, or by their token in a vocabulary of at most 100.",
        formula: "class_mass_over_chance[p] >= {content_mass} and class_mass_over_position[p] >= 0, firm if q <= {label_q}",
        chance: "even attention, and the head's own preference for offsets: the score is what it is above the one that it is less \
            far above",
        source: "As `tag:<UPOS>`; heads that look for one residue: Vig et al. 2021.",
        caveats: "The class may be a by-product of something else that such words have in common, such as their places. Punctuation is \
            no class by its token: it has a label of its own.",
    },
    thresholds: &thresholds(&CONTENT_MASS),
    is_role: true,
    parameter: Parameter::Keyed("class"),
    phrase: Phrase::Fixed("attends to words of the class {}"),
    shown: LabelStyle { code: None, colour: AnsiColor::BrightMagenta, in_controls: false },
    assess: |evidence, policy| {
        let ClassesSection { classes, .. } = evidence.section();
        classes.iter().filter_map(|class| class.assess(&class.by_head[evidence.place], policy)).collect()
    },
};
