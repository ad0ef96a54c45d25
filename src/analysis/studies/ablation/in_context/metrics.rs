//! The metrics of in-context copying, of heads as they are and of heads that are removed, and the label of heads that copy.

use anstyle::AnsiColor;

use super::copying::{CopiesBlock, HeadCopies};
use super::sums::CopyLosses;
use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::Threshold;
use crate::study::labels::{Assessment, Bound, Detector, LabelStyle, Parameter, Phrase, assess};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, Keys, Metric};

/// How much of the gain goes away without a head; of `None` nothing.
pub fn effect(losses: &CopyLosses, head: Option<usize>) -> Fraction {
    let lost = head.map_or(0.0, |head| losses.gain(None) - losses.gain(Some(head)));
    Fraction::new(lost, losses.tokens() as f64).over(losses.tokens(), losses.copies[1].sentences)
}

/// How much more the second copy loses without a head; of `None` nothing. A head that only makes the first copy worse to predict
/// takes none of the gain: without it the first copy gets better, and the second stays.
pub fn copy_effect(losses: &CopyLosses, head: Option<usize>) -> Fraction {
    let second = |variant: Option<usize>| losses.losses(variant)[1];
    let lost = head.map_or(0.0, |head| second(Some(head)) - second(None));
    Fraction::new(lost, losses.tokens() as f64).over(losses.tokens(), losses.copies[1].sentences)
}

pub fn copying_values(block: &CopiesBlock, head: Option<usize>) -> Vec<Fraction> {
    let all = HeadCopies { queries: block.queries, sequences: block.sequences, ..HeadCopies::default() };
    let sums = head.map_or(&all, |head| &block.heads[head]);
    let value = |metric: &CopyingMetric| {
        let of = if metric.explanation.name == "copy_scored" { &all } else { sums };
        let above = match metric.chance.filter(|_| head.is_none()) {
            Some(chance) => chance(sums) * of.queries as f64,
            None => (metric.value)(sums),
        };
        Fraction::new(above, of.queries as f64).over(of.queries, of.sequences)
    };
    COPYING_METRICS.iter().map(value).collect()
}

/// A metric of the sums of a head: what is above the line; of chance, the value.
type CopyingMetric = Metric<fn(&HeadCopies) -> f64>;

const DIRECT: &str = "Direct effects: Elhage et al. 2021 (transformer-circuits.pub); of induction heads on what they copy: Olsson et al. 2022 \
    (arXiv:2209.11895), there by the change of the logit.";
const DIRECT_CAVEATS: &str = "By the direct path alone. Over the queries of `copy_scored`. Null where logits are not linear in what heads \
    write (a layer behind the final norm, norms of what is written).";

pub const COPYING_METRICS: &[CopyingMetric] = &[
    Metric {
        explanation: Explanation {
            name: "copy_logit",
            measures: "How much what the head writes raises the logit of the token that it attends to most, beyond the other tokens of the \
                copy.",
            formula: "copy_logit = mean over queries i of the second copy of random tokens of D(t) - mean of D over the other tokens of the \
                copy, t the token of largest weight; D(t) = <o_i, g * u_t> / s_i, o_i the output of the head, u_t the vector of the token \
                in the head that predicts, g and s_i weights and scale of the final norm, both centred where that is LayerNorm",
            chance: "0: the token is raised as others are",
            source: DIRECT,
            caveats: DIRECT_CAVEATS,
        },
        keys: Keys::Single,
        value: |sums| sums.logit.value(),
        chance: Some(|_| 0.0),
    },
    Metric {
        explanation: Explanation {
            name: "copy_rank",
            measures: "The share of the other tokens of the copy whose logit the head raises less than that of the token that it attends to \
                most.",
            formula: "copy_rank = mean over the same queries of the share of the other tokens of the copy with a smaller D, equal ones half",
            chance: "0.5: the token is raised as others are",
            source: "Defined here: against the mean of the whole vocabulary a head that writes a constant seems to copy.",
            caveats: DIRECT_CAVEATS,
        },
        keys: Keys::Single,
        value: |sums| sums.rank.value(),
        chance: Some(|_| 0.5),
    },
    Metric {
        explanation: Explanation {
            name: "copy_scored",
            measures: "The share of the queries of the second copy whose largest weight is on another token of text: those that `copy_logit` \
                and `copy_rank` are over.",
            formula: "copy_scored = queries of the second copy whose largest weight is on another token of text / queries of the second copy",
            chance: "none",
            source: "Defined here.",
            caveats: "A head that rests on the first token is scored on few queries.",
        },
        keys: Keys::Single,
        value: |sums| sums.queries as f64,
        chance: Some(|_| f64::NAN),
    },
];

pub const METRICS: &[Metric<fn(&CopyLosses, Option<usize>) -> Fraction>] = &[
    Metric {
        explanation: Explanation {
            name: "in_context_effect",
            measures: "How much of what a decoder gains from having read the same tokens before goes away without the head.",
            formula: "in_context_effect = (g - g') / tokens of a copy, in nats; g = the sum of -ln p over the tokens of the first copy \
            less that over the second, each behind the same token, with the head, and g' without it",
            chance: "0: the gain does not go by the head",
            source: "The loss early in the context less that late: Olsson et al. 2022 (arXiv:2209.11895), \"in-context learning score\", \
            there on text; on repeated random tokens and head by head, defined here.",
            caveats: "Other heads can compensate, so that a group may matter of which no head does. It depends on what stands for the \
            head (`settings.ablation`).",
        },
        keys: Keys::Single,
        value: effect,
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "copy_effect",
            measures: "How much more the second copy of random tokens loses without the head.",
            formula: "copy_effect = (L2' - L2) / tokens of a copy, in nats; L2 = the sum of -ln p over the tokens of the second copy with \
            the head, and L2' without it",
            chance: "0: the second copy does not go by the head",
            source: "Defined here.",
            caveats: "Tokens of both copies may cost more without a head that says what any text is like: a part in copying needs \
            `in_context_effect` too.",
        },
        keys: Keys::Single,
        value: copy_effect,
        chance: None,
    },
];

const RANK: Threshold = Threshold::rule(
    "copies_rank",
    0.9,
    "smallest `copy_rank` of `copies`; chosen here: the three induction heads of box:causal have 0.96 to 1.00, its other heads 0.47 \
        to 0.64",
);

pub(super) const COPIES: Detector = Detector {
    explanation: Explanation {
        name: "copies",
        measures: "What the head writes raises the logit of the token that it attends to most above those of other tokens.",
        formula: "copy_rank >= {copies_rank}, firm if q <= {label_q}",
        chance: "0.5",
        source: "Copying as the second half of the definition of induction heads: Olsson et al. 2022 (arXiv:2209.11895); direct effects: \
            Elhage et al. 2021 (transformer-circuits.pub).",
        caveats: "On random tokens that come twice, and by the direct path alone: later heads may undo what it writes. It says nothing of \
            where the head looks; `induction` does.",
    },
    thresholds: &[&RANK, &LABEL_Q],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("raises the logit of the token that it attends to most"),
    shown: LabelStyle { code: Some("copy"), colour: AnsiColor::Magenta, in_controls: false },
    assess: |evidence, policy| {
        let measured = evidence.metric("copy_rank", None);
        let mut assessment = assess("copies", "copy_rank", measured, Bound::AtLeast, policy.rule(&RANK));
        // Of an induction head it is the second half of the definition, and no surer than the first.
        if let Some((Assessment { label, .. }, induction)) = assessment.as_mut().zip(evidence.label("induction")) {
            label.margin = label.margin.min(induction.margin);
            label.rests_on = Some(induction.label.clone());
        }
        assessment.into_iter().collect()
    },
};
