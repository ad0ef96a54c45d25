//! Labels of heads that attend by word class and meaning: `tag:<UPOS>`, `same-tag`, `similar-words`, `same-token`.

use anstyle::AnsiColor;

use crate::corpus::Upos;
use crate::studies::content::{CONTENT_Q, Content, Family};
use crate::studies::explanation::Explanation;
use crate::studies::label::{Detector, Parameter, Shown};
use crate::studies::policy::Threshold;

const CONTENT_MASS: Threshold = Threshold::rule(
    "content_mass",
    0.1,
    "how far above uniform attention the mass of a label by what a head attends to is: ten points, as Voita et al. 2019 \
        ask of syntactic heads over their baseline",
);
const SIMILARITY_GAIN: Threshold = Threshold::rule(
    "similarity_gain",
    0.25,
    "`similarity_gain` above which a head is `similar-words`, in standard deviations of the likeness of its keys",
);

pub(super) const TAG_FAMILY: Family = Family { name: "tag", margin: &CONTENT_MASS };
pub(super) const SAME_TAG_FAMILY: Family = Family { name: "same-tag", margin: &CONTENT_MASS };
pub(super) const SIMILAR_FAMILY: Family = Family { name: "similar-words", margin: &SIMILARITY_GAIN };
pub(super) const SAME_TOKEN_FAMILY: Family = Family { name: "same-token", margin: &CONTENT_MASS };

/// The families of all labels.
pub(super) const FAMILIES: &[Family] = &[TAG_FAMILY, SAME_TAG_FAMILY, SIMILAR_FAMILY, SAME_TOKEN_FAMILY];

const MASS_THRESHOLDS: &[&Threshold] = &[&CONTENT_MASS, &CONTENT_Q];

const fn shown(code: Option<&'static str>) -> Shown {
    Shown { code, colour: AnsiColor::BrightMagenta, in_controls: false }
}

/// Whether a head can be labelled by going to words of this class: punctuation has a label of its own.
pub(super) fn is_labelled(tag: Upos) -> bool {
    tag != Upos::Punct
}

const BOTH_BASELINES: &str = "Two baselines: uniform attention, and a head with the same preference for offsets that is \
    blind otherwise";

pub(super) const TAG: Detector = Detector {
    explanation: Explanation {
        name: "tag:<UPOS>",
        measures: "The head attends to words of one universal part of speech.",
        formula: "tag_mass[p] > chance + {content_mass} and > 1.25 tag_mass_expected[p], both with q <= {content_q}",
        chance: "chance.tag_mass[p], and the head's own tag_mass_expected[p]",
        source: "Heads by word class: Vig & Belinkov 2019, section 4.3.",
        caveats: "The class may be a by-product of something else that such words have in common, such as being rare. \
            Punctuation has a label of its own.",
    },
    thresholds: MASS_THRESHOLDS,
    parameter: Parameter::Of("tag", |tag| Upos::of(tag).is_some_and(is_labelled)),
    shown: shown(None),
    assess: |evidence, policy| Content::assess(evidence, &TAG_FAMILY, policy),
};

pub(super) const SAME_TAG: Detector = Detector {
    explanation: Explanation {
        name: "same-tag",
        measures: "The head attends from a word to others of its own part of speech.",
        formula: "same_tag_mass > chance + {content_mass} and > 1.25 same_tag_mass_expected, both with q <= {content_q}",
        chance: "chance.same_tag_mass, and the head's own same_tag_mass_expected",
        source: BOTH_BASELINES,
        caveats: "A head that goes to the same token, or to one frequent class, does this as well.",
    },
    thresholds: MASS_THRESHOLDS,
    parameter: Parameter::None,
    shown: shown(None),
    assess: |evidence, policy| Content::assess(evidence, &SAME_TAG_FAMILY, policy),
};

pub(super) const SIMILAR_WORDS: Detector = Detector {
    explanation: Explanation {
        name: "similar-words",
        measures: "The head attends to tokens whose word embedding is like that of the query.",
        formula: "similarity_gain > {similarity_gain} and > 1.25 similarity_gain_expected, both with q <= {content_q}",
        chance: "0, and the head's own similarity_gain_expected",
        source: BOTH_BASELINES,
        caveats: "Likeness is that of the model's own word embeddings, which are alike in spelling and frequency, too.",
    },
    thresholds: &[&SIMILARITY_GAIN, &CONTENT_Q],
    parameter: Parameter::None,
    shown: shown(Some("similar")),
    assess: |evidence, policy| Content::assess(evidence, &SIMILAR_FAMILY, policy),
};

pub(super) const SAME_TOKEN: Detector = Detector {
    explanation: Explanation {
        name: "same-token",
        measures: "The head attends from a token to its other occurrences in the sentence.",
        formula: "same_token_mass > chance + {content_mass} and > 1.25 same_token_mass_expected, both with q <= {content_q}",
        chance: "chance.same_token_mass, and the head's own same_token_mass_expected",
        source: "On text, the duplicate-token heads of Wang et al. 2022, section 3.",
        caveats: "Most of what is there again is commas and articles: compare same_word_token_mass.",
    },
    thresholds: MASS_THRESHOLDS,
    parameter: Parameter::None,
    shown: shown(None),
    assess: |evidence, policy| Content::assess(evidence, &SAME_TOKEN_FAMILY, policy),
};
