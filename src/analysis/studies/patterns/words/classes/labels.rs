//! Labels of heads that attend to words of a class: `class:<key>=<class>`.

use anstyle::AnsiColor;

use super::section::{ClassHead, ClassMetrics, ClassesSection, Ratio};
use crate::stats::block_test::Scale;
use crate::study::labels::content::{CONTENT_MASS, TIMES_EXPECTED, assess_leads, thresholds};
use crate::study::labels::evidence::EvidenceGap;
use crate::study::labels::policy::Policy;
use crate::study::labels::{Assessment, Detector, LabelStyle, Measured, Parameter, Phrase};
use crate::study::metrics::explanation::Explanation;

/// How a head stands to the label of a class; `None` where that rests on too little.
pub(super) fn of_class(class: &ClassMetrics, head: &ClassHead, policy: &Policy) -> Option<Assessment> {
    if EvidenceGap::of(&class.queries, policy).is_some() {
        return None;
    }
    let measured = |ratio: &Ratio, baseline: Option<f64>| Measured {
        score: ratio.value,
        ci95: ratio.ci95,
        baseline,
        estimate: ratio
            .value
            .zip(ratio.standard_error)
            .and_then(|(value, standard_error)| class.queries.estimate(value, standard_error, Scale::Real)),
    };
    let blind = head.chance.map(|chance| (1.0 - TIMES_EXPECTED) * chance);
    let leads = [measured(&head.over_chance, Some(0.0)), measured(&head.over_position, blind)];
    let name = class.title();
    assess_leads(&format!("class:{name}"), ("class_mass", Some(&name)), leads, policy.rule(&CONTENT_MASS))
}

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
        classes.iter().filter_map(|class| of_class(class, &class.by_head[evidence.place], policy)).collect()
    },
};
