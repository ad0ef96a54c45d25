//! Labels of how an attention head chooses its keys: `chooses:special`, `chooses:position`, `chooses:token`. A head has at most
//! one of them.
//!
//! The metrics `rebuilt.position_token` and `context` have no labels. They add up to 1, so one of them is at least 0.5 in
//! every head that has them, also with random weights. A large value does not show that anything was learned.

use anstyle::AnsiColor;

use super::metrics::REBUILT_OVER_SPECIAL_METRIC;
use super::rebuilt::{POSITION_VARIANT, SPECIAL_VARIANT, TOKEN_VARIANT, VARIANTS};
use super::section::{Choice, MIN_LEAD_OVER_SPECIAL, MIN_REBUILT_SHARE};
use crate::study::labels::evidence::{LABEL_Q, MarginTest};
use crate::study::labels::{
    Assessment, Detector, Evidence, Label, LabelStyle, MeasuredScore, Policy, ThresholdBound, VerbPhrase, assess,
};
use crate::study::metrics::explanation::{DEFINED_HERE, Explanation};

const CAVEATS: &str = "It says by what queries and keys meet, not to what a head attends, and not that the model's output depends on it. \
    It is no role, and never the primary label. No head of layer 0 has it: that layer reads tokens and positions alone.";
const CHANCE: &str = "0: even attention has rebuilt 0";

/// Share of a head's distance from uniform attention that is restored by the replaced inputs of `variant`, an index in
/// [`VARIANTS`].
fn rebuilt_share(evidence: &Evidence<'_>, variant: usize) -> MeasuredScore {
    evidence.metric("rebuilt", Some(VARIANTS[variant]))
}

/// Whether the head is in layer 0. Inputs of layer 0 consist of token and position alone, so every label would hold by
/// construction.
fn is_first_layer(evidence: &Evidence<'_>) -> bool {
    let heads = &evidence.section::<Choice>().heads;
    heads.get(evidence.place).is_some_and(|head| head.place.layer == 0)
}

/// Assesses `chooses:position` or `chooses:token`. The variant's share must be the larger one (position or token), reach the
/// threshold, and exceed the share of special tokens by the margin. The label's score is the share; its p-value is the larger of
/// both tests (Berger 1982).
fn assess_single_part(label: &str, variant: usize, evidence: &Evidence<'_>, policy: &Policy) -> Option<Assessment> {
    let (name, least) = (VARIANTS[variant], policy.rule(&MIN_REBUILT_SHARE));
    let measured = rebuilt_share(evidence, variant);
    let share = assess(label, &format!("rebuilt.{name}"), measured, ThresholdBound::AtLeast, least)?;
    let lead = evidence.metric(REBUILT_OVER_SPECIAL_METRIC, Some(name));
    let lead = assess(
        label,
        &format!("{REBUILT_OVER_SPECIAL_METRIC}.{name}"),
        lead,
        ThresholdBound::AtLeast,
        policy.rule(&MIN_LEAD_OVER_SPECIAL),
    )?;
    let other = if variant == POSITION_VARIANT { TOKEN_VARIANT } else { POSITION_VARIANT };
    let [special, other] = [SPECIAL_VARIANT, other].map(|other| rebuilt_share(evidence, other).score);
    // A tie goes to position.
    let is_larger = if variant == POSITION_VARIANT { measured.score >= other } else { measured.score > other };
    let is_special = special.zip(least).is_some_and(|(share, least)| ThresholdBound::AtLeast.is_met(share, least));
    let fires = share.meets_rule && lead.meets_rule && is_larger && !is_special && !is_first_layer(evidence);
    let p = share.label.test.p.zip(lead.label.test.p).map(|(share, lead)| share.max(lead));
    let rule = format!("{} and {}", share.label.rule, lead.label.rule);
    let test = MarginTest { p, ..share.label.test };
    Some(Assessment { meets_rule: fires, label: Label { rule, test, ..share.label }, ..share })
}

pub const LABELS: &[Detector] = &[
    Detector {
        thresholds: &[&MIN_REBUILT_SHARE, &LABEL_Q],
        is_role: false,
        phrase: VerbPhrase::Fixed("goes by which tokens are special"),
        style: LabelStyle::new(Some("special"), AnsiColor::Yellow),
        assess: |evidence, policy| {
            let score = rebuilt_share(evidence, SPECIAL_VARIANT);
            let assessment = assess(
                "chooses:special",
                "rebuilt.special",
                score,
                ThresholdBound::AtLeast,
                policy.rule(&MIN_REBUILT_SHARE),
            );
            let of_layer = |assessment: Assessment| Assessment {
                meets_rule: assessment.meets_rule && !is_first_layer(evidence),
                ..assessment
            };
            assessment.into_iter().map(of_layer).collect()
        },
        ..Detector::new_role(Explanation {
            name: "chooses:special",
            measures: "The head attends as if all tokens of text were alike: it goes by which tokens are special.",
            formula: "rebuilt.special >= {chooses_rebuilt}, firm if q <= {label_q}; not in layer 0",
            chance: CHANCE,
            source: DEFINED_HERE,
            caveats: CAVEATS,
        })
    },
    Detector {
        thresholds: &[&MIN_REBUILT_SHARE, &MIN_LEAD_OVER_SPECIAL, &LABEL_Q],
        is_role: false,
        phrase: VerbPhrase::Fixed("goes by where tokens stand"),
        style: LabelStyle::new(Some("position"), AnsiColor::Cyan),
        assess: |evidence, policy| {
            assess_single_part("chooses:position", POSITION_VARIANT, evidence, policy).into_iter().collect()
        },
        ..Detector::new_role(Explanation {
            name: "chooses:position",
            measures: "The head goes by where tokens stand.",
            formula: "rebuilt.position >= {chooses_rebuilt} and at least rebuilt.token, and rebuilt_over_special.position >= \
                {chooses_over_special}, firm if q <= {label_q}; not in layer 0, not chooses:special",
            chance: CHANCE,
            source: DEFINED_HERE,
            caveats: CAVEATS,
        })
    },
    Detector {
        thresholds: &[&MIN_REBUILT_SHARE, &MIN_LEAD_OVER_SPECIAL, &LABEL_Q],
        is_role: false,
        phrase: VerbPhrase::Fixed("goes by which tokens there are"),
        style: LabelStyle::new(Some("token"), AnsiColor::Magenta),
        assess: |evidence, policy| {
            assess_single_part("chooses:token", TOKEN_VARIANT, evidence, policy).into_iter().collect()
        },
        ..Detector::new_role(Explanation {
            name: "chooses:token",
            measures: "The head goes by which tokens there are.",
            formula: "rebuilt.token >= {chooses_rebuilt} and more than rebuilt.position, and rebuilt_over_special.token >= \
                {chooses_over_special}, firm if q <= {label_q}; not in layer 0, not chooses:special",
            chance: CHANCE,
            source: DEFINED_HERE,
            caveats: CAVEATS,
        })
    },
];
