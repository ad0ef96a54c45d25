//! Labels of attention heads by the target of their attention. Targets are fixed offsets (`previous-token`, `next-token`,
//! `offset:k`, `self`, `local`), special tokens, punctuation or the first token (`separator`, `first-special`, `first-token`,
//! `punctuation`), or all tokens (`broad`).

use anstyle::AnsiColor;

use crate::sequences::fold::roles::MAX_OFFSET;
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::labels::{
    Assessment, Detector, Evidence, LabelStyle, Parameter, ThresholdBound, VerbPhrase, assess, assess_any,
};
use crate::study::metrics::explanation::Explanation;

const MIN_OFFSET_ARGMAX: Threshold = Threshold::rule(
    "offset_argmax",
    0.9,
    "smallest `offset_argmax` of a positional label; Voita et al. 2019, section 5.1: 90 %",
);
const MIN_OFFSET_MASS: Threshold = Threshold::rule(
    "offset_mass",
    0.5,
    "`offset_mass` above which a head has a positional label; Clark et al. 2019, released notebook: 0.5",
);
const MIN_SELF_MASS: Threshold = Threshold::rule("self_mass", 0.5, "`offset_mass[\"0\"]` above which a head is `self`");
const MIN_WINDOW_MASS: Threshold = Threshold::rule("window_mass", 0.5, "`window_mass` above which a head is `local`");

const POSITIONAL_THRESHOLDS: &[&Threshold] = &[&MIN_OFFSET_ARGMAX, &MIN_OFFSET_MASS];

const OFFSET_CHANCE: &str = "chance.offset_mass[k]: 1/v on average, for both rules";
const OFFSET_SOURCE: &str = "0.9 of the argmax: Voita et al. 2019, section 5.1. \
    0.5 of the mass: the released notebook of Clark et al. 2019.";

pub(super) const PREVIOUS_TOKEN_DETECTOR: Detector = Detector {
    thresholds: POSITIONAL_THRESHOLDS,
    phrase: VerbPhrase::Fixed("attends to the token before"),
    style: LabelStyle::new(Some("prev"), AnsiColor::Blue),
    assess: |evidence, policy| assess_offset_label("previous-token", -1, evidence, policy).into_iter().collect(),
    ..Detector::new_role(Explanation {
        name: "previous-token",
        measures: "The head attends to the token before.",
        formula: "offset_argmax[-1] >= {offset_argmax} or offset_mass[-1] > {offset_mass}",
        chance: OFFSET_CHANCE,
        source: OFFSET_SOURCE,
        caveats: "The token before may also be the head of the word in the tree, or the first part of a split word: \
            compare the syntactic scores with their offset baseline.",
    })
};

pub(super) const NEXT_TOKEN_DETECTOR: Detector = Detector {
    thresholds: POSITIONAL_THRESHOLDS,
    phrase: VerbPhrase::Fixed("attends to the token after"),
    style: LabelStyle::new(Some("next"), AnsiColor::Cyan),
    assess: |evidence, policy| assess_offset_label("next-token", 1, evidence, policy).into_iter().collect(),
    ..Detector::new_role(Explanation {
        name: "next-token",
        measures: "The head attends to the token after.",
        formula: "offset_argmax[1] >= {offset_argmax} or offset_mass[1] > {offset_mass}",
        chance: OFFSET_CHANCE,
        source: OFFSET_SOURCE,
        caveats: "The token after may also be the head of the word in the tree, as for most determiners and \
            adjectives of English: compare the syntactic scores with their offset baseline.",
    })
};

/// Returns the offsets `k` that have a label `offset:k`, at least 2 tokens to either side. Offsets -1, 0 and 1 have
/// labels with names.
fn far_offsets() -> impl Iterator<Item = i32> {
    (-MAX_OFFSET..=MAX_OFFSET).filter(|offset| offset.abs() >= 2)
}

pub(super) const OFFSET_DETECTOR: Detector = Detector {
    thresholds: POSITIONAL_THRESHOLDS,
    parameter: Parameter::OneOf("offset", || far_offsets().map(|k| k.to_string()).collect()),
    phrase: VerbPhrase::Fixed("attends to the token at offset {}"),
    style: LabelStyle::new(None, AnsiColor::Blue),
    assess: |evidence, policy| {
        far_offsets().filter_map(|k| assess_offset_label(&format!("offset:{k}"), k, evidence, policy)).collect()
    },
    ..Detector::new_role(Explanation {
        name: "offset:k",
        measures: "The head attends to the token k places away, 2 <= |k| <= 8; negative is to the left.",
        formula: "offset_argmax[k] >= {offset_argmax} or offset_mass[k] > {offset_mass}",
        chance: OFFSET_CHANCE,
        source: "The rules of previous-token and next-token, at other distances.",
        caveats: "Only tokens with a token k places away count, so in short sentences a large k rests on few tokens.",
    })
};

pub(super) const SELF_TOKEN_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_SELF_MASS],
    phrase: VerbPhrase::Fixed("attends to the token itself"),
    style: LabelStyle::new(None, AnsiColor::Blue),
    assess: |evidence, policy| evidence.assess_above("self", "offset_mass", Some("0"), policy.rule(&MIN_SELF_MASS)),
    ..Detector::new_role(Explanation {
        name: "self",
        measures: "The head attends to the token itself.",
        formula: "offset_mass[0] > {self_mass}",
        chance: "chance.offset_mass[0]: 1/v on average",
        source: "The mass rule of the other positional labels, at offset 0.",
        caveats: "A head that attends to its own token passes on what the residual connection passes on anyway.",
    })
};

pub(super) const LOCAL_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_WINDOW_MASS],
    phrase: VerbPhrase::Fixed("attends to the two tokens on either side"),
    style: LabelStyle::new(None, AnsiColor::Blue),
    assess: |evidence, policy| {
        let local = evidence.assess_above("local", "window_mass", None, policy.rule(&MIN_WINDOW_MASS));
        let detectors = [PREVIOUS_TOKEN_DETECTOR, NEXT_TOKEN_DETECTOR, OFFSET_DETECTOR];
        let positional: Vec<Assessment> =
            detectors.iter().flat_map(|detector| (detector.assess)(evidence, policy)).collect();
        local.into_iter().map(|local| local.excluding_labels(&positional)).collect()
    },
    ..Detector::new_role(Explanation {
        name: "local",
        measures: "The head attends to the two tokens on either side, without a preference for one place.",
        formula: "window_mass > {window_mass} and no label previous-token, next-token or offset:k",
        chance: "chance.window_mass: a little under 4/v",
        source: "The mass rule of the positional labels, over a window of two.",
        caveats: "The chance level is high in short sentences: read the score beside it.",
    })
};

/// Assesses a label of attention to the token at `offset`: by the most attended token, or by attention mass.
fn assess_offset_label(label: &str, offset: i32, evidence: &Evidence<'_>, policy: &Policy) -> Option<Assessment> {
    let rule = |metric: &str, bound: ThresholdBound, threshold: &Threshold| {
        let measured = evidence.metric(metric, Some(&offset.to_string()));
        assess(label, &format!("{metric}[{offset}]"), measured, bound, policy.rule(threshold))
    };
    let argmax = rule("offset_argmax", ThresholdBound::AtLeast, &MIN_OFFSET_ARGMAX);
    assess_any(argmax.into_iter().chain(rule("offset_mass", ThresholdBound::Above, &MIN_OFFSET_MASS)))
}

const MIN_SEPARATOR_MASS: Threshold = Threshold::rule(
    "separator_mass",
    0.6,
    "`separator_mass` above which a head is `separator`; Clark et al. 2019, released notebook: 0.6",
);
const MIN_FIRST_SPECIAL_MASS: Threshold = Threshold::rule(
    "first_special_mass",
    0.6,
    "`first_special_mass` above which a head is `first-special`; Clark et al. 2019, released notebook: 0.6",
);
const MIN_FIRST_TOKEN_MASS: Threshold = Threshold::rule(
    "first_token_mass",
    0.6,
    "`first_token_mass` above which a head of a decoder is `first-token`: the threshold of `first-special`",
);
const MIN_PUNCTUATION_MASS: Threshold = Threshold::rule(
    "punctuation_mass",
    0.6,
    "`punctuation_mass` above which a head is `punctuation`; Clark et al. 2019, released notebook: 0.6",
);
const MIN_ENTROPY_RATIO: Threshold = Threshold::rule(
    "entropy_ratio",
    0.8,
    "`entropy_ratio` above which a head is `broad`; 3.8 nats in the notebook of Clark et al. 2019, of ln 128",
);

/// Names of the labels of attention to special or first tokens. A head may attend to these tokens in order to write nothing
/// (no-op).
pub(super) const NO_OP_CANDIDATES: [&str; 3] = [
    SEPARATOR_DETECTOR.explanation.name,
    FIRST_SPECIAL_DETECTOR.explanation.name,
    FIRST_TOKEN_DETECTOR.explanation.name,
];

const SPECIAL_MASS_SOURCE: &str = "0.6: the released notebook of Clark et al. 2019.";
const NO_OP_CAVEAT: &str = "Much attention to special tokens may be a way of doing nothing \
    (Clark et al. 2019, section 3.2; Kobayashi et al. 2020): the value vectors there tend to be small.";

pub(super) const SEPARATOR_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_SEPARATOR_MASS],
    phrase: VerbPhrase::Fixed("attends to separators"),
    style: LabelStyle::new(Some("sep"), AnsiColor::Yellow),
    assess: |evidence, policy| {
        evidence.assess_above("separator", "separator_mass", None, policy.rule(&MIN_SEPARATOR_MASS))
    },
    ..Detector::new_role(Explanation {
        name: "separator",
        measures: "The head attends to the separators ([SEP], </s>).",
        formula: "separator_mass > {separator_mass}",
        chance: "chance.separator_mass: the number of separators over v",
        source: SPECIAL_MASS_SOURCE,
        caveats: NO_OP_CAVEAT,
    })
};

pub(super) const FIRST_SPECIAL_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_FIRST_SPECIAL_MASS],
    phrase: VerbPhrase::Fixed("attends to the first special token"),
    style: LabelStyle::new(Some("first"), AnsiColor::Yellow),
    assess: |evidence, policy| {
        evidence.assess_above("first-special", "first_special_mass", None, policy.rule(&MIN_FIRST_SPECIAL_MASS))
    },
    ..Detector::new_role(Explanation {
        name: "first-special",
        measures: "The head attends to the first special token of the sequence ([CLS], <s>).",
        formula: "first_special_mass > {first_special_mass}",
        chance: "chance.first_special_mass: 1/v on average",
        source: SPECIAL_MASS_SOURCE,
        caveats: NO_OP_CAVEAT,
    })
};

pub(super) const FIRST_TOKEN_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_FIRST_TOKEN_MASS],
    phrase: VerbPhrase::Fixed("attends to the first token"),
    style: LabelStyle::new(Some("bos"), AnsiColor::Yellow),
    assess: |evidence, policy| {
        evidence.assess_above("first-token", "first_token_mass", None, policy.rule(&MIN_FIRST_TOKEN_MASS))
    },
    ..Detector::new_role(Explanation {
        name: "first-token",
        measures: "The head of a decoder attends to the first token, special or not.",
        formula: "first_token_mass > {first_token_mass}",
        chance: "chance.first_token_mass: 1/v on average",
        source: "Attention sinks: Xiao et al. 2024, section 3.1. 0.6 is the threshold of first-special.",
        caveats: "Much attention to the first token may be a way of doing nothing (Xiao et al. 2024; Gu et al. 2025). \
            Where the tokenizer puts no special token first, it is a word, and attention to the word is not told apart \
            from attention to the place.",
    })
};

pub(super) const PUNCTUATION_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_PUNCTUATION_MASS],
    phrase: VerbPhrase::Fixed("attends to punctuation"),
    style: LabelStyle::new(None, AnsiColor::Yellow),
    assess: |evidence, policy| {
        evidence.assess_above("punctuation", "punctuation_mass", None, policy.rule(&MIN_PUNCTUATION_MASS))
    },
    ..Detector::new_role(Explanation {
        name: "punctuation",
        measures: "The head attends to punctuation.",
        formula: "punctuation_mass > {punctuation_mass}",
        chance: "chance.punctuation_mass: the share of tokens that are punctuation",
        source: SPECIAL_MASS_SOURCE,
        caveats: "A corpus without punctuation cannot show it. Symbols such as $ and + are no punctuation in Unicode.",
    })
};

pub(super) const BROAD_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_ENTROPY_RATIO],
    is_role: false,
    phrase: VerbPhrase::Fixed("spreads its attention over the whole sequence"),
    style: LabelStyle::new(None, AnsiColor::Magenta),
    assess: |evidence, policy| evidence.assess_above("broad", "entropy_ratio", None, policy.rule(&MIN_ENTROPY_RATIO)),
    ..Detector::new_role(Explanation {
        name: "broad",
        measures: "The head spreads its attention over the whole sequence.",
        formula: "entropy_ratio > {entropy_ratio}",
        chance: "1: uniform attention. A randomly initialised head is close to it too.",
        source: "Clark et al. 2019 take 3.8 nats on sequences of 128 tokens: 3.8 / ln 128 = 0.78.",
        caveats: "This is the one label that a head without any preference has: \
            it says that no preference was found, not that broadness was learned.",
    })
};
