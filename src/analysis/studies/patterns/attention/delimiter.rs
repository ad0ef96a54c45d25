//! Labels of heads that attend to special tokens, to punctuation or to the first token, or to everything a little: `separator`,
//! `first-special`, `first-token`, `punctuation`, `broad`.

use anstyle::AnsiColor;

use crate::study::labels::policy::Threshold;
use crate::study::labels::{Detector, LabelStyle, Parameter, Phrase};
use crate::study::metrics::explanation::Explanation;

const SEPARATOR_MASS: Threshold = Threshold::rule(
    "separator_mass",
    0.6,
    "`separator_mass` above which a head is `separator`; Clark et al. 2019, released notebook: 0.6",
);
const FIRST_SPECIAL_MASS: Threshold = Threshold::rule(
    "first_special_mass",
    0.6,
    "`first_special_mass` above which a head is `first-special`; Clark et al. 2019, released notebook: 0.6",
);
const FIRST_TOKEN_MASS: Threshold = Threshold::rule(
    "first_token_mass",
    0.6,
    "`first_token_mass` above which a head of a decoder is `first-token`: the threshold of `first-special`",
);
const PUNCTUATION_MASS: Threshold = Threshold::rule(
    "punctuation_mass",
    0.6,
    "`punctuation_mass` above which a head is `punctuation`; Clark et al. 2019, released notebook: 0.6",
);
const ENTROPY_RATIO: Threshold = Threshold::rule(
    "entropy_ratio",
    0.8,
    "`entropy_ratio` above which a head is `broad`; 3.8 nats in the notebook of Clark et al. 2019, of ln 128",
);

/// The labels of attention to special tokens and first ones, which may do nothing.
pub(super) const TO_SPECIAL: [&str; 3] =
    [SEPARATOR.explanation.name, FIRST_SPECIAL.explanation.name, FIRST_TOKEN.explanation.name];

const fn shown(code: Option<&'static str>) -> LabelStyle {
    LabelStyle { code, colour: AnsiColor::Yellow, in_controls: false }
}

const SOURCE: &str = "0.6: the released notebook of Clark et al. 2019.";
const NO_OP: &str = "Much attention to special tokens may be a way of doing nothing \
    (Clark et al. 2019, section 3.2; Kobayashi et al. 2020): the value vectors there tend to be small.";

pub(super) const SEPARATOR: Detector = Detector {
    explanation: Explanation {
        name: "separator",
        measures: "The head attends to the separators ([SEP], </s>).",
        formula: "separator_mass > {separator_mass}",
        chance: "chance.separator_mass: the number of separators over v",
        source: SOURCE,
        caveats: NO_OP,
    },
    thresholds: &[&SEPARATOR_MASS],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to separators"),
    shown: shown(Some("sep")),
    assess: |evidence, policy| evidence.above("separator", "separator_mass", None, policy.rule(&SEPARATOR_MASS)),
};

pub(super) const FIRST_SPECIAL: Detector = Detector {
    explanation: Explanation {
        name: "first-special",
        measures: "The head attends to the first special token of the sequence ([CLS], <s>).",
        formula: "first_special_mass > {first_special_mass}",
        chance: "chance.first_special_mass: 1/v on average",
        source: SOURCE,
        caveats: NO_OP,
    },
    thresholds: &[&FIRST_SPECIAL_MASS],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to the first special token"),
    shown: shown(Some("first")),
    assess: |evidence, policy| {
        evidence.above("first-special", "first_special_mass", None, policy.rule(&FIRST_SPECIAL_MASS))
    },
};

pub(super) const FIRST_TOKEN: Detector = Detector {
    explanation: Explanation {
        name: "first-token",
        measures: "The head of a decoder attends to the first token, special or not.",
        formula: "first_token_mass > {first_token_mass}",
        chance: "chance.first_token_mass: 1/v on average",
        source: "Attention sinks: Xiao et al. 2024, section 3.1. 0.6 is the threshold of first-special.",
        caveats: "Much attention to the first token may be a way of doing nothing (Xiao et al. 2024; Gu et al. 2025). \
            Where the tokenizer puts no special token first, it is a word, and attention to the word is not told apart \
            from attention to the place.",
    },
    thresholds: &[&FIRST_TOKEN_MASS],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to the first token"),
    shown: shown(Some("bos")),
    assess: |evidence, policy| evidence.above("first-token", "first_token_mass", None, policy.rule(&FIRST_TOKEN_MASS)),
};

pub(super) const PUNCTUATION: Detector = Detector {
    explanation: Explanation {
        name: "punctuation",
        measures: "The head attends to punctuation.",
        formula: "punctuation_mass > {punctuation_mass}",
        chance: "chance.punctuation_mass: the share of tokens that are punctuation",
        source: SOURCE,
        caveats: "A corpus without punctuation cannot show it. Symbols such as $ and + are no punctuation in Unicode.",
    },
    thresholds: &[&PUNCTUATION_MASS],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to punctuation"),
    shown: shown(None),
    assess: |evidence, policy| evidence.above("punctuation", "punctuation_mass", None, policy.rule(&PUNCTUATION_MASS)),
};

pub(super) const BROAD: Detector = Detector {
    explanation: Explanation {
        name: "broad",
        measures: "The head spreads its attention over the whole sequence.",
        formula: "entropy_ratio > {entropy_ratio}",
        chance: "1: uniform attention. A randomly initialised head is close to it too.",
        source: "Clark et al. 2019 take 3.8 nats on sequences of 128 tokens: 3.8 / ln 128 = 0.78.",
        caveats: "This is the one label that a head without any preference has: \
            it says that no preference was found, not that broadness was learned.",
    },
    thresholds: &[&ENTROPY_RATIO],
    is_role: false,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("spreads its attention over the whole sequence"),
    shown: LabelStyle { code: None, colour: AnsiColor::Magenta, in_controls: false },
    assess: |evidence, policy| evidence.above("broad", "entropy_ratio", None, policy.rule(&ENTROPY_RATIO)),
};
