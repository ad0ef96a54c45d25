//! Labels of heads that attend to a fixed place relative to the token: `previous-token`, `next-token`,
//! `offset:k`, `self`, `local`.

use anstyle::AnsiColor;

use crate::sequences::fold::roles::MAX_OFFSET;
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::labels::{Assessment, Bound, Detector, Evidence, LabelStyle, Parameter, Phrase, assess, assess_any};
use crate::study::metrics::explanation::Explanation;

const OFFSET_ARGMAX: Threshold = Threshold::rule(
    "offset_argmax",
    0.9,
    "smallest `offset_argmax` of a positional label; Voita et al. 2019, section 5.1: 90 %",
);
const OFFSET_MASS: Threshold = Threshold::rule(
    "offset_mass",
    0.5,
    "`offset_mass` above which a head has a positional label; Clark et al. 2019, released notebook: 0.5",
);
const SELF_MASS: Threshold = Threshold::rule("self_mass", 0.5, "`offset_mass[\"0\"]` above which a head is `self`");
const WINDOW_MASS: Threshold = Threshold::rule("window_mass", 0.5, "`window_mass` above which a head is `local`");

/// The thresholds of every label at one offset.
const AT_OFFSET: &[&Threshold] = &[&OFFSET_ARGMAX, &OFFSET_MASS];

const fn shown(code: Option<&'static str>, colour: AnsiColor) -> LabelStyle {
    LabelStyle { code, colour, in_controls: false }
}

const OFFSET_CHANCE: &str = "chance.offset_mass[k]: 1/v on average, for both rules";
const OFFSET_SOURCE: &str = "0.9 of the argmax: Voita et al. 2019, section 5.1. \
    0.5 of the mass: the released notebook of Clark et al. 2019.";

pub(super) const PREVIOUS_TOKEN: Detector = Detector {
    explanation: Explanation {
        name: "previous-token",
        measures: "The head attends to the token before.",
        formula: "offset_argmax[-1] >= {offset_argmax} or offset_mass[-1] > {offset_mass}",
        chance: OFFSET_CHANCE,
        source: OFFSET_SOURCE,
        caveats: "The token before may also be the head of the word in the tree, or the first part of a split word: \
            compare the syntactic scores with their offset baseline.",
    },
    thresholds: AT_OFFSET,
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to the token before"),
    shown: shown(Some("prev"), AnsiColor::Blue),
    assess: |evidence, policy| offset("previous-token", -1, evidence, policy).into_iter().collect(),
};

pub(super) const NEXT_TOKEN: Detector = Detector {
    explanation: Explanation {
        name: "next-token",
        measures: "The head attends to the token after.",
        formula: "offset_argmax[1] >= {offset_argmax} or offset_mass[1] > {offset_mass}",
        chance: OFFSET_CHANCE,
        source: OFFSET_SOURCE,
        caveats: "The token after may also be the head of the word in the tree, as for most determiners and \
            adjectives of English: compare the syntactic scores with their offset baseline.",
    },
    thresholds: AT_OFFSET,
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to the token after"),
    shown: shown(Some("next"), AnsiColor::Cyan),
    assess: |evidence, policy| offset("next-token", 1, evidence, policy).into_iter().collect(),
};

/// The offsets of `offset:k`: the offsets of the neighbours have labels of their own.
fn farther() -> impl Iterator<Item = i32> {
    (-MAX_OFFSET..=MAX_OFFSET).filter(|offset| offset.abs() >= 2)
}

pub(super) const OFFSET: Detector = Detector {
    explanation: Explanation {
        name: "offset:k",
        measures: "The head attends to the token k places away, 2 <= |k| <= 8; negative is to the left.",
        formula: "offset_argmax[k] >= {offset_argmax} or offset_mass[k] > {offset_mass}",
        chance: OFFSET_CHANCE,
        source: "The rules of previous-token and next-token, at other distances.",
        caveats: "Only tokens with a token k places away count, so in short sentences a large k rests on few tokens.",
    },
    thresholds: AT_OFFSET,
    is_role: true,
    parameter: Parameter::OneOf("offset", || farther().map(|k| k.to_string()).collect()),
    phrase: Phrase::Fixed("attends to the token at offset {}"),
    shown: shown(None, AnsiColor::Blue),
    assess: |evidence, policy| farther().filter_map(|k| offset(&format!("offset:{k}"), k, evidence, policy)).collect(),
};

pub(super) const SELF: Detector = Detector {
    explanation: Explanation {
        name: "self",
        measures: "The head attends to the token itself.",
        formula: "offset_mass[0] > {self_mass}",
        chance: "chance.offset_mass[0]: 1/v on average",
        source: "The mass rule of the other positional labels, at offset 0.",
        caveats: "A head that attends to its own token passes on what the residual connection passes on anyway.",
    },
    thresholds: &[&SELF_MASS],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to the token itself"),
    shown: shown(None, AnsiColor::Blue),
    assess: |evidence, policy| evidence.above("self", "offset_mass", Some("0"), policy.rule(&SELF_MASS)),
};

pub(super) const LOCAL: Detector = Detector {
    explanation: Explanation {
        name: "local",
        measures: "The head attends to the two tokens on either side, without a preference for one place.",
        formula: "window_mass > {window_mass} and no label previous-token, next-token or offset:k",
        chance: "chance.window_mass: a little under 4/v",
        source: "The mass rule of the positional labels, over a window of two.",
        caveats: "The chance level is high in short sentences: read the score beside it.",
    },
    thresholds: &[&WINDOW_MASS],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to the two tokens on either side"),
    shown: shown(None, AnsiColor::Blue),
    assess: |evidence, policy| {
        let local = evidence.above("local", "window_mass", None, policy.rule(&WINDOW_MASS));
        let others = [PREVIOUS_TOKEN, NEXT_TOKEN, OFFSET];
        let single: Vec<Assessment> = others.iter().flat_map(|other| (other.assess)(evidence, policy)).collect();
        local.into_iter().map(|local| local.where_none_of(&single)).collect()
    },
};

/// The two rules of the label at one offset.
fn offset(label: &str, offset: i32, evidence: &Evidence<'_>, policy: &Policy) -> Option<Assessment> {
    let rule = |metric: &str, bound: Bound, threshold: &Threshold| {
        let measured = evidence.metric(metric, Some(&offset.to_string()));
        assess(label, &format!("{metric}[{offset}]"), measured, bound, policy.rule(threshold))
    };
    let argmax = rule("offset_argmax", Bound::AtLeast, &OFFSET_ARGMAX);
    assess_any(argmax.into_iter().chain(rule("offset_mass", Bound::Above, &OFFSET_MASS)))
}
