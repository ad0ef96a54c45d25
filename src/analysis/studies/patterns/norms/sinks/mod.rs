//! Labels `sink:…`: types of heads that attend mostly to a sink (such as the first token), told apart by what their output
//! contains.

use anstyle::AnsiColor;

use super::observe::SINK_NAMES;
use crate::stats::block_test::Estimate;
use crate::stats::interval::Interval;
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::labels::{Assessment, Detector, Evidence, LabelStyle, MeasuredScore, VerbPhrase, assess_all};
use crate::study::metrics::explanation::Explanation;

const MAX_NO_OP_PART: Threshold = Threshold::rule(
    "sink_no_op_part",
    0.2,
    "largest `sink_part` of `sink:no-op`, of either sign: of a head that writes little, a fifth of it is next to nothing",
);
const MAX_NO_OP_OUTPUT: Threshold = Threshold::rule(
    "sink_no_op_output",
    0.3,
    "largest `output_share` of `sink:no-op`: removing a head moves the last hidden states about as the square of its \
        output_share (docs/methodology/norms.md), so that such a head moves them a tenth as much as the mean head of its layer",
);
const PARKED_PART_BOUND: Threshold = Threshold::rule(
    "sink_parked_part",
    0.5,
    "largest `sink_part` of `sink:parked`, of either sign, and smallest of the types after it: less, or more, than half of \
        what the head writes",
);
const CONSTANT_SHARE_BOUND: Threshold = Threshold::rule(
    "sink_same",
    0.5,
    "smallest `sink_constant_share` of `sink:constant`, and `sink_sentence_share` of `sink:broadcast`: more than \
        all other parts together",
);

const SINK_PART_CHANCE: &str = "chance.sink_part of the head: uniform attention over its own values";
const NOT_NEEDED_CAVEAT: &str = "It does not say that the model can do without the head (docs/LIMITS.md).";
const VALUE_BIAS_CAVEAT: &str = "The value bias, which is written whatever is attended to, is left out.";

pub(super) const NO_OP_DETECTOR: Detector = Detector {
    thresholds: &[&MAX_NO_OP_PART, &MAX_NO_OP_OUTPUT],
    phrase: VerbPhrase::Fixed("writes next to nothing"),
    style: LabelStyle::new(Some("no-op"), AnsiColor::Yellow),
    assess: |evidence, policy| assess_sink_type("sink:no-op", (evidence, policy), SinkLabelRules::no_op_conditions),
    ..Detector::new_role(Explanation {
        name: "sink:no-op",
        measures: "The head attends to a sink and writes next to nothing.",
        formula: "a label first-special, first-token, separator or punctuation, |sink_part| <= {sink_no_op_part} and output_share <= {sink_no_op_output}",
        chance: "chance.sink_part of the head; output_share is 1 if all heads of a layer write alike",
        source: "The claim of Clark et al. 2019, section 3.2, and Bondarenko et al. 2023: attention to delimiters is a way to do \
            nothing. Output beside the other heads of the layer: after Sandoval-Segura et al. 2026.",
        caveats: NOT_NEEDED_CAVEAT,
    })
};

pub(super) const PARKED_DETECTOR: Detector = Detector {
    thresholds: &[&PARKED_PART_BOUND],
    phrase: VerbPhrase::Fixed("takes what it writes from other tokens"),
    style: LabelStyle::new(Some("parked"), AnsiColor::Yellow),
    assess: |evidence, policy| assess_sink_type("sink:parked", (evidence, policy), SinkLabelRules::parked_conditions),
    ..Detector::new_role(Explanation {
        name: "sink:parked",
        measures: "The head's attention is on a sink; what it writes comes from elsewhere.",
        formula: "a label first-special, first-token, separator or punctuation, |sink_part| <= {sink_parked_part}, and not sink:no-op",
        chance: SINK_PART_CHANCE,
        source: "The claim of Kobayashi et al. 2020, section 4: the vectors of such tokens are small, so that what is added up \
            comes from elsewhere. Their norms do not tell what cancels; sink_part does.",
        caveats: VALUE_BIAS_CAVEAT,
    })
};

pub(super) const OPPOSED_DETECTOR: Detector = Detector {
    thresholds: &[&PARKED_PART_BOUND],
    phrase: VerbPhrase::Fixed("writes against what the sink holds"),
    style: LabelStyle::new(Some("oppos"), AnsiColor::Yellow),
    assess: |evidence, policy| assess_sink_type("sink:opposed", (evidence, policy), SinkLabelRules::opposed_conditions),
    ..Detector::new_role(Explanation {
        name: "sink:opposed",
        measures: "What the head takes from a sink is against what it writes: the rest of its attention outweighs it.",
        formula: "a label first-special, first-token, separator or punctuation, and sink_part <= -{sink_parked_part}",
        chance: SINK_PART_CHANCE,
        source: "Defined here: a sink that is taken from the output is neither parked nor what is written.",
        caveats: VALUE_BIAS_CAVEAT,
    })
};

pub(super) const CONSTANT_DETECTOR: Detector = Detector {
    thresholds: &[&PARKED_PART_BOUND, &CONSTANT_SHARE_BOUND],
    phrase: VerbPhrase::Fixed("writes what the sink holds, the same in every sentence"),
    style: LabelStyle::new(Some("const"), AnsiColor::Yellow),
    assess: |evidence, policy| {
        assess_sink_type("sink:constant", (evidence, policy), SinkLabelRules::constant_conditions)
    },
    ..Detector::new_role(Explanation {
        name: "sink:constant",
        measures: "The head writes what a sink holds, and that is the same in every sentence.",
        formula: "a label first-special, first-token, separator or punctuation, sink_part >= {sink_parked_part} and sink_constant_share >= {sink_same}",
        chance: SINK_PART_CHANCE,
        source: "The claim of Sun et al. 2024: sinks act as a bias of the attention's output.",
        caveats: "A bias may matter, too. The value bias itself is left out.",
    })
};

pub(super) const BROADCAST_DETECTOR: Detector = Detector {
    thresholds: &[&PARKED_PART_BOUND, &CONSTANT_SHARE_BOUND],
    phrase: VerbPhrase::Fixed("writes what the sink holds, the same for all tokens of a sentence"),
    style: LabelStyle::new(Some("broadc"), AnsiColor::Yellow),
    assess: |evidence, policy| {
        assess_sink_type("sink:broadcast", (evidence, policy), SinkLabelRules::broadcast_conditions)
    },
    ..Detector::new_role(Explanation {
        name: "sink:broadcast",
        measures: "The head writes what a sink holds, and that is the same for all tokens of a sentence but not for all \
            sentences.",
        formula: "a label first-special, first-token, separator or punctuation, sink_part >= {sink_parked_part} and sink_sentence_share >= {sink_same}",
        chance: SINK_PART_CHANCE,
        source: "The claim of Fesser et al. 2026, of images: sinks gather something about the input and hand it to all tokens.",
        caveats: "The length of a sentence is enough to tell it from others.",
    })
};

pub(super) const USED_DETECTOR: Detector = Detector {
    thresholds: &[&PARKED_PART_BOUND, &CONSTANT_SHARE_BOUND],
    phrase: VerbPhrase::Fixed("writes what the sink holds, in amounts that differ from token to token"),
    style: LabelStyle::new(Some("used"), AnsiColor::Yellow),
    assess: |evidence, policy| assess_sink_type("sink:used", (evidence, policy), SinkLabelRules::used_conditions),
    ..Detector::new_role(Explanation {
        name: "sink:used",
        measures: "The head writes what a sink holds, and how much differs from token to token.",
        formula: "a label first-special, first-token, separator or punctuation, sink_part >= {sink_parked_part}, sink_constant_share <= {sink_same} and sink_sentence_share <= {sink_same}",
        chance: SINK_PART_CHANCE,
        source: "Defined here: what is left when the other types are not it.",
        caveats: VALUE_BIAS_CAVEAT,
    })
};

/// One attention head and its sink, for the conditions of the `sink:…` labels.
struct SinkLabelRules<'a> {
    /// The head's sink, one of [`SINK_NAMES`]: if the head has several of these labels, the one with the highest score.
    sink: &'static str,
    evidence: &'a Evidence<'a>,
    policy: &'a Policy,
}

/// Condition of a label: name of the metric, its measured value, and the minimum that fulfils the condition.
type Condition = (String, MeasuredScore, Option<f64>);

impl SinkLabelRules<'_> {
    /// Name and measured value of a metric at the head's sink.
    fn sink_metric(&self, metric: &str) -> (String, MeasuredScore) {
        (format!("{metric}[{}]", self.sink), self.evidence.metric(metric, Some(self.sink)))
    }

    /// Condition that a metric is at least the threshold.
    fn at_least(&self, (metric, measured): (String, MeasuredScore), threshold: &Threshold) -> Condition {
        (metric, measured, self.policy.rule(threshold))
    }

    /// Condition that a metric is at most the threshold.
    fn at_most(&self, (metric, measured): (String, MeasuredScore), threshold: &Threshold) -> Condition {
        (format!("1 - {metric}"), one_minus(measured), self.policy.rule(threshold).map(|threshold| 1.0 - threshold))
    }

    /// Conditions that `sink_part`, the share of the head's output from its sink, is at most the threshold in size.
    fn small_sink_part_conditions(&self, threshold: &Threshold) -> [Condition; 2] {
        let (metric, measured) = self.sink_metric("sink_part");
        let minimum = self.policy.rule(threshold).map(|threshold| 1.0 - threshold);
        let lower_bound = (format!("1 + {metric}"), one_minus(negated(measured)), minimum);
        [self.at_most((metric, measured), threshold), lower_bound]
    }

    /// Conditions of `sink:no-op`: the output and its part from the sink are both small.
    fn no_op_conditions(&self) -> Vec<Condition> {
        let output = ("output_share".to_owned(), self.evidence.metric("output_share", None));
        self.small_sink_part_conditions(&MAX_NO_OP_PART)
            .into_iter()
            .chain([self.at_most(output, &MAX_NO_OP_OUTPUT)])
            .collect()
    }

    /// Conditions of `sink:parked`. The list is empty for a head that meets the conditions of `sink:no-op`, the more specific
    /// type.
    fn parked_conditions(&self) -> Vec<Condition> {
        let is_no_op = assess_all("sink:no-op", self.no_op_conditions()).is_some_and(|no_op| no_op.meets_rule);
        if is_no_op { Vec::new() } else { self.small_sink_part_conditions(&PARKED_PART_BOUND).into() }
    }

    /// Condition of `sink:opposed`: the output's part from the sink points against the output.
    fn opposed_conditions(&self) -> Vec<Condition> {
        let (metric, measured) = self.sink_metric("sink_part");
        vec![self.at_least((format!("-{metric}"), negated(measured)), &PARKED_PART_BOUND)]
    }

    /// Condition that a large part of the output comes from the sink.
    fn sink_part_condition(&self) -> Condition {
        self.at_least(self.sink_metric("sink_part"), &PARKED_PART_BOUND)
    }

    /// Conditions of `sink:constant`: the output's part from the sink is large, and equal for all queries.
    fn constant_conditions(&self) -> Vec<Condition> {
        vec![self.sink_part_condition(), self.at_least(self.sink_metric("sink_constant_share"), &CONSTANT_SHARE_BOUND)]
    }

    /// Conditions of `sink:broadcast`: the output's part from the sink is large, and equal within a sentence.
    fn broadcast_conditions(&self) -> Vec<Condition> {
        vec![self.sink_part_condition(), self.at_least(self.sink_metric("sink_sentence_share"), &CONSTANT_SHARE_BOUND)]
    }

    /// Conditions of `sink:used`: the output's part from the sink is large, and differs within sentences.
    fn used_conditions(&self) -> Vec<Condition> {
        let shares = ["sink_constant_share", "sink_sentence_share"];
        let upper_bounds = shares.map(|share| self.at_most(self.sink_metric(share), &CONSTANT_SHARE_BOUND));
        [self.sink_part_condition()].into_iter().chain(upper_bounds).collect()
    }
}

/// Maps score, interval, baseline and estimate by a decreasing function of the form constant minus value.
fn map_decreasing(measured: MeasuredScore, map: fn(f64) -> f64) -> MeasuredScore {
    MeasuredScore {
        score: measured.score.map(map),
        ci95: measured.ci95.map(|ci95| Interval(map(ci95.high()), map(ci95.low()))),
        baseline: measured.baseline.map(map),
        estimate: measured.estimate.map(|estimate| Estimate { value: map(estimate.value), ..estimate }),
    }
}

fn one_minus(measured: MeasuredScore) -> MeasuredScore {
    map_decreasing(measured, |value| 1.0 - value)
}

/// Maps a measured value `x` to `-x`.
fn negated(measured: MeasuredScore) -> MeasuredScore {
    map_decreasing(measured, |value| 0.0 - value)
}

/// Assesses the sink type `label`, such as `sink:no-op`, for a head with a label in [`SINK_NAMES`]. Empty for other heads, or
/// if no condition applies or one cannot be assessed.
fn assess_sink_type<'a>(
    label: &str,
    (evidence, policy): (&'a Evidence<'a>, &'a Policy),
    conditions: fn(&SinkLabelRules<'a>) -> Vec<Condition>,
) -> Vec<Assessment> {
    let sinks = SINK_NAMES.iter().filter_map(|sink| Some((*sink, evidence.given_label(sink)?)));
    let Some((sink, sink_label)) = sinks.max_by(|(_, a), (_, b)| a.score.total_cmp(&b.score)) else {
        return Vec::new();
    };
    let Some(mut assessment) = assess_all(label, conditions(&SinkLabelRules { sink, evidence, policy })) else {
        return Vec::new();
    };
    // The label of the sink is a condition as well. The rule names it first, and the type is at most as certain.
    let test = &mut assessment.label.test;
    test.p = test.p.zip(sink_label.test.p).map(|(p, sink_p)| p.max(sink_p));
    assessment.label.margin = assessment.label.margin.min(sink_label.margin);
    assessment.label.rests_on = Some(sink_label.label.clone());
    assessment.label.rule = format!("{sink} and {}", assessment.label.rule);
    vec![assessment]
}

#[cfg(test)]
mod tests;
