//! Labels of how a head chooses: `chooses:special`, `chooses:position`, `chooses:token`, `chooses:position-token`,
//! `chooses:context`. A head has one of them at most.

use anstyle::AnsiColor;

use super::rebuilt::{POSITION, POSITION_TOKEN, SPECIAL, TOKEN, VARIANTS};
use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::labels::{Assessment, Bound, Detector, Evidence, LabelStyle, Measured, Parameter, Phrase, assess};
use crate::study::metrics::explanation::Explanation;

const REBUILT: Threshold = Threshold::rule(
    "chooses_rebuilt",
    0.9,
    "smallest `rebuilt` of a label of how a head chooses: what is left is a tenth of the distance from even attention",
);
const CONTEXT: Threshold = Threshold::rule(
    "chooses_context",
    0.5,
    "a head with more `context` than this is `chooses:context`: most of its attention follows from no token and no place",
);

const CAVEATS: &str = "It says by what queries and keys meet, not to what a head attends, and not that the model's output depends on it. \
    It is no role, and never the primary label.";
const SOURCE: &str = "Defined here.";
const CHANCE: &str = "0: even attention has rebuilt 0";

const fn shown(code: &'static str, colour: AnsiColor) -> LabelStyle {
    LabelStyle { code: Some(code), colour, in_controls: false }
}

/// The share of a head's attention that comes back from a variant.
fn rebuilt(evidence: &Evidence<'_>, variant: usize) -> Measured {
    evidence.metric("rebuilt", Some(VARIANTS[variant]))
}

/// A label of the share that comes back from a variant, where `is_it` says that no other label stands for the head.
fn chooses(
    label: &str,
    variant: usize,
    (evidence, policy): (&Evidence<'_>, &Policy),
    is_it: impl Fn(&dyn Fn(usize) -> bool) -> bool,
) -> Vec<Assessment> {
    let threshold = policy.rule(&REBUILT);
    let reaches = |variant: usize| {
        let score = rebuilt(evidence, variant).score;
        score.zip(threshold).is_some_and(|(score, threshold)| Bound::AtLeast.holds(score, threshold))
    };
    let metric = format!("rebuilt.{}", VARIANTS[variant]);
    let found = assess(label, &metric, rebuilt(evidence, variant), Bound::AtLeast, threshold);
    found.into_iter().map(|found| Assessment { fires: found.fires && is_it(&reaches), ..found }).collect()
}

/// Whether a head has none of the labels by these shares: what it goes by is then said by its numbers alone.
pub fn is_unlabelled(position_token: f64, policy: &Policy) -> bool {
    let [rebuilt, context] = [&REBUILT, &CONTEXT].map(|threshold| policy.rule(threshold));
    rebuilt.is_none_or(|least| position_token < least) && context.is_none_or(|most| 1.0 - position_token <= most)
}

/// Whether position alone brings back at least as much as the token alone.
fn position_is_more(evidence: &Evidence<'_>) -> bool {
    rebuilt(evidence, POSITION).score >= rebuilt(evidence, TOKEN).score
}

/// The labels, in the order in which they are given.
pub const LABELS: &[Detector] = &[
    Detector {
        explanation: Explanation {
            name: "chooses:special",
            measures: "The head attends as if all tokens of text were alike: it goes by which tokens are special.",
            formula: "rebuilt.special >= {chooses_rebuilt}, firm if q <= {label_q}",
            chance: CHANCE,
            source: SOURCE,
            caveats: CAVEATS,
        },
        thresholds: &[&REBUILT, &LABEL_Q],
        is_role: false,
        parameter: Parameter::None,
        phrase: Phrase::Fixed("goes by which tokens are special"),
        shown: shown("special", AnsiColor::Yellow),
        assess: |evidence, policy| chooses("chooses:special", SPECIAL, (evidence, policy), |_| true),
    },
    Detector {
        explanation: Explanation {
            name: "chooses:position",
            measures: "The head goes by where tokens stand.",
            formula: "rebuilt.position >= {chooses_rebuilt} and at least rebuilt.token, firm if q <= {label_q}; not chooses:special",
            chance: CHANCE,
            source: SOURCE,
            caveats: CAVEATS,
        },
        thresholds: &[&REBUILT, &LABEL_Q],
        is_role: false,
        parameter: Parameter::None,
        phrase: Phrase::Fixed("goes by where tokens stand"),
        shown: shown("position", AnsiColor::Cyan),
        assess: |evidence, policy| {
            let is_more = position_is_more(evidence);
            chooses("chooses:position", POSITION, (evidence, policy), |reaches| is_more && !reaches(SPECIAL))
        },
    },
    Detector {
        explanation: Explanation {
            name: "chooses:token",
            measures: "The head goes by which tokens there are.",
            formula: "rebuilt.token >= {chooses_rebuilt} and more than rebuilt.position, firm if q <= {label_q}; not chooses:special",
            chance: CHANCE,
            source: SOURCE,
            caveats: CAVEATS,
        },
        thresholds: &[&REBUILT, &LABEL_Q],
        is_role: false,
        parameter: Parameter::None,
        phrase: Phrase::Fixed("goes by which tokens there are"),
        shown: shown("token", AnsiColor::Magenta),
        assess: |evidence, policy| {
            let is_more = !position_is_more(evidence);
            chooses("chooses:token", TOKEN, (evidence, policy), |reaches| is_more && !reaches(SPECIAL))
        },
    },
    Detector {
        explanation: Explanation {
            name: "chooses:position-token",
            measures: "The head goes by which token stands where: by neither alone.",
            formula: "rebuilt.position_token >= {chooses_rebuilt}, firm if q <= {label_q}; not chooses:special, chooses:position or \
                chooses:token",
            chance: CHANCE,
            source: SOURCE,
            caveats: CAVEATS,
        },
        thresholds: &[&REBUILT, &LABEL_Q],
        is_role: false,
        parameter: Parameter::None,
        phrase: Phrase::Fixed("goes by which token stands where"),
        shown: shown("both", AnsiColor::Blue),
        assess: |evidence, policy| {
            let others = [SPECIAL, POSITION, TOKEN];
            chooses("chooses:position-token", POSITION_TOKEN, (evidence, policy), |reaches| {
                !others.into_iter().any(reaches)
            })
        },
    },
    Detector {
        explanation: Explanation {
            name: "chooses:context",
            measures: "The head goes by what the layers below have made of the tokens.",
            formula: "context > {chooses_context}, firm if q <= {label_q}; not chooses:special, chooses:position or chooses:token",
            chance: "1: even attention has context 1",
            source: SOURCE,
            caveats: CAVEATS,
        },
        thresholds: &[&CONTEXT, &LABEL_Q],
        is_role: false,
        parameter: Parameter::None,
        phrase: Phrase::Fixed("goes by what the layers below made of the tokens"),
        shown: shown("context", AnsiColor::Green),
        assess: |evidence, policy| {
            let found = assess(
                "chooses:context",
                "context",
                evidence.metric("context", None),
                Bound::Above,
                policy.rule(&CONTEXT),
            );
            let other = evidence.given.iter().any(|given| given.fires);
            found.into_iter().map(|found| Assessment { fires: found.fires && !other, ..found }).collect()
        },
    },
];
