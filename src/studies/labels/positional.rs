//! Labels of heads that attend to a fixed place relative to the token: `previous-token`, `next-token`,
//! `offset:k`, `self`, `local`.

use super::{Assessment, Bound, Detector, Evidence, Explanation, Policy, assess, best};
use crate::studies::attention::sums::MAX_OFFSET;

const OFFSET_FORMULA: &str = "offset_argmax[k] >= 0.9 or offset_mass[k] > 0.5";
const OFFSET_CHANCE: &str = "chance.offset_mass[k]: 1/n on average, for both rules";
const OFFSET_SOURCE: &str = "0.9 of the argmax: Voita et al. 2019, section 5.1. \
    0.5 of the mass: the released notebook of Clark et al. 2019.";

pub(super) const PREVIOUS_TOKEN: Detector = Detector {
    explanation: Explanation {
        name: "previous-token",
        measures: "The head attends to the token before.",
        formula: "offset_argmax[-1] >= 0.9 or offset_mass[-1] > 0.5",
        chance: OFFSET_CHANCE,
        threshold: "offset_argmax = 0.9, offset_mass = 0.5",
        source: OFFSET_SOURCE,
        caveats: "The token before may also be the head of the word in the tree, or the first part of a split word: \
            compare the syntactic scores with their offset baseline.",
    },
    assess: |evidence, policy| offset("previous-token", -1, evidence, policy).into_iter().collect(),
};

pub(super) const NEXT_TOKEN: Detector = Detector {
    explanation: Explanation {
        name: "next-token",
        measures: "The head attends to the token after.",
        formula: "offset_argmax[1] >= 0.9 or offset_mass[1] > 0.5",
        chance: OFFSET_CHANCE,
        threshold: "offset_argmax = 0.9, offset_mass = 0.5",
        source: OFFSET_SOURCE,
        caveats: "The token after may also be the head of the word in the tree, as for most determiners and \
            adjectives of English: compare the syntactic scores with their offset baseline.",
    },
    assess: |evidence, policy| offset("next-token", 1, evidence, policy).into_iter().collect(),
};

pub(super) const OFFSET: Detector = Detector {
    explanation: Explanation {
        name: "offset:k",
        measures: "The head attends to the token k places away, 2 <= |k| <= 8; negative is to the left.",
        formula: OFFSET_FORMULA,
        chance: OFFSET_CHANCE,
        threshold: "offset_argmax = 0.9, offset_mass = 0.5",
        source: "The rules of previous-token and next-token, at other distances.",
        caveats: "Only tokens with a token k places away count, so in short sentences a large k rests on few tokens.",
    },
    assess: |evidence, policy| {
        (-MAX_OFFSET..=MAX_OFFSET)
            .filter(|offset| offset.abs() >= 2)
            .filter_map(|k| offset(&format!("offset:{k}"), k, evidence, policy))
            .collect()
    },
};

pub(super) const SELF: Detector = Detector {
    explanation: Explanation {
        name: "self",
        measures: "The head attends to the token itself.",
        formula: "offset_mass[0] > 0.5",
        chance: "chance.offset_mass[0]: 1/n on average",
        threshold: "self_mass = 0.5",
        source: "The mass rule of the other positional labels, at offset 0.",
        caveats: "A head that attends to its own token passes on what the residual connection passes on anyway.",
    },
    assess: |Evidence { metrics, .. }, policy| {
        assess("self", "offset_mass[0]", *metrics.offset_mass.at(0), Bound::Above, policy.self_mass)
            .into_iter()
            .collect()
    },
};

pub(super) const LOCAL: Detector = Detector {
    explanation: Explanation {
        name: "local",
        measures: "The head attends to the two tokens on either side, without a preference for one place.",
        formula: "window_mass > 0.5 and no label previous-token, next-token or offset:k",
        chance: "chance.window_mass: a little under 4/n",
        threshold: "window_mass = 0.5",
        source: "The mass rule of the positional labels, over a window of two.",
        caveats: "The chance level is high in short sentences: read the score beside it.",
    },
    assess: |evidence, policy| {
        let measured = evidence.metrics.window_mass;
        let mut local = assess("local", "window_mass", measured, Bound::Above, policy.window_mass);
        let single: Vec<Assessment> = [PREVIOUS_TOKEN, NEXT_TOKEN, OFFSET]
            .iter()
            .flat_map(|detector| (detector.assess)(evidence, policy))
            .collect();
        if let Some(local) = &mut local {
            // A head that might have a label at one offset is not surely without one.
            local.label.borderline |= single.iter().any(|single| single.may_fire);
        }
        local.filter(|_| !single.iter().any(|single| single.fires)).into_iter().collect()
    },
};

/// The two rules of the label at one offset; of those that fire the one with the larger margin.
fn offset(label: &str, offset: i32, evidence: &Evidence<'_>, policy: &Policy) -> Option<Assessment> {
    let (argmax, mass) = (evidence.metrics.offset_argmax.at(offset), evidence.metrics.offset_mass.at(offset));
    let argmax = assess(label, &format!("offset_argmax[{offset}]"), *argmax, Bound::AtLeast, policy.offset_argmax);
    let mass = assess(label, &format!("offset_mass[{offset}]"), *mass, Bound::Above, policy.offset_mass);
    best(argmax.into_iter().chain(mass))
}
