//! Labels of heads that attend to special tokens or punctuation: `separator`, `first-special`, `punctuation`.

use super::{Bound, Detector, Evidence, Explanation, assess};

const SOURCE: &str = "0.6: the released notebook of Clark et al. 2019.";
const NO_OP: &str = "Much attention to special tokens may be a way of doing nothing \
    (Clark et al. 2019, section 3.2; Kobayashi et al. 2020): the value vectors there tend to be small.";

pub(super) const SEPARATOR: Detector = Detector {
    explanation: Explanation {
        name: "separator",
        measures: "The head attends to the separators ([SEP], </s>).",
        formula: "separator_mass > 0.6",
        chance: "chance.separator_mass: the number of separators over n",
        threshold: "separator_mass = 0.6",
        source: SOURCE,
        caveats: NO_OP,
    },
    assess: |Evidence { metrics, .. }, policy| {
        assess("separator", "separator_mass", metrics.separator_mass, Bound::Above, policy.separator_mass)
            .into_iter()
            .collect()
    },
};

pub(super) const FIRST_SPECIAL: Detector = Detector {
    explanation: Explanation {
        name: "first-special",
        measures: "The head attends to the first special token of the sequence ([CLS], <s>).",
        formula: "first_special_mass > 0.6",
        chance: "chance.first_special_mass: 1/n on average",
        threshold: "first_special_mass = 0.6",
        source: SOURCE,
        caveats: NO_OP,
    },
    assess: |Evidence { metrics, .. }, policy| {
        assess(
            "first-special",
            "first_special_mass",
            metrics.first_special_mass,
            Bound::Above,
            policy.first_special_mass,
        )
        .into_iter()
        .collect()
    },
};

pub(super) const PUNCTUATION: Detector = Detector {
    explanation: Explanation {
        name: "punctuation",
        measures: "The head attends to punctuation.",
        formula: "punctuation_mass > 0.6",
        chance: "chance.punctuation_mass: the share of tokens that are punctuation",
        threshold: "punctuation_mass = 0.6",
        source: SOURCE,
        caveats: "A corpus without punctuation cannot show it. Symbols such as $ and + are no punctuation in Unicode.",
    },
    assess: |Evidence { metrics, .. }, policy| {
        assess("punctuation", "punctuation_mass", metrics.punctuation_mass, Bound::Above, policy.punctuation_mass)
            .into_iter()
            .collect()
    },
};
