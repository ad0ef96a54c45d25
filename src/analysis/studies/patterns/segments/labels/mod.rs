//! Labels of the study `segments`: `segment-block`, and the five pattern classes of Kovaleva et al. 2019.

use anstyle::AnsiColor;

use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::{Policy, Range, Threshold, Value};
use crate::study::labels::{
    Assessment, Detector, Evidence, LabelStyle, MeasuredScore, Parameter, ThresholdBound, VerbPhrase, assess,
};
use crate::study::metrics::explanation::Explanation;

const MIN_SEGMENT_R2: Threshold = Threshold::rule(
    "segment_r2",
    0.25,
    "smallest `segment_r2` of `segment-block`; chosen here: a head that attends evenly to the text of its own sentence \
        has 0.41 or more with sentences of 3 tokens and more, though offsets come first",
);

pub(super) const SEGMENT_BLOCK_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_SEGMENT_R2, &LABEL_Q],
    phrase: VerbPhrase::Fixed("attends, in a pair of sentences, to the sentence of the query"),
    style: LabelStyle::new(Some("seg"), AnsiColor::Green),
    assess: |evidence, policy| {
        let measured = evidence.metric("segment_r2", None);
        assess("segment-block", "segment_r2", measured, ThresholdBound::AtLeast, policy.rule(&MIN_SEGMENT_R2))
            .into_iter()
            .collect()
    },
    ..Detector::new_role(Explanation {
        name: "segment-block",
        measures: "Of two sentences that are encoded as a pair, the head attends to the query's own.",
        formula: "segment_r2 >= {segment_r2}, by blocks of pairs, q <= {label_q}",
        chance: "0: columns and offsets come first, and what noise would explain is taken off",
        source: "The block pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1, by a rule of ours.",
        caveats: "A pair has special tokens between its sentences, and of most models other segment ids on either side: \
            it says nothing of the bounds of sentences in running text.",
    })
};

/// Creates a threshold for the pattern classes. It is off unless the preset `kovaleva2019` sets it.
const fn class_threshold(name: &'static str, about: &'static str) -> Threshold {
    Threshold { name, range: Range::Rule, default: Value::Off, meaning: about }
}

const MIN_COLUMN_R2: Threshold = class_threshold(
    "class_column_r2",
    "smallest `column_r2` of `class:vertical`: in the preset kovaleva2019 0.5, most of the variation",
);

const MIN_OFFSET_R2: Threshold = class_threshold(
    "class_offset_r2",
    "smallest `offset_r2` of `class:diagonal`: in the preset kovaleva2019 0.5, most of the variation",
);

const MIN_R2_OF_EACH: Threshold = class_threshold(
    "class_both_r2",
    "smallest `column_r2` and smallest `offset_r2` of `class:vertical+diagonal`: in the preset kovaleva2019 0.25 each, \
        most of the variation together",
);

const MIN_BLOCK_R2: Threshold = class_threshold(
    "class_segment_r2",
    "smallest `segment_r2` of `class:block`: in the preset kovaleva2019 0.25, as of `segment-block`",
);

/// Names of the pattern classes, in the order in which their rules are tried. The last has all attention heads that meet no
/// rule.
const PATTERN_CLASSES: [&str; 5] = ["vertical+diagonal", "vertical", "diagonal", "block", "heterogeneous"];

pub(super) const PATTERN_CLASS_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_COLUMN_R2, &MIN_OFFSET_R2, &MIN_R2_OF_EACH, &MIN_BLOCK_R2],
    parameter: Parameter::OneOf("class", || PATTERN_CLASSES.map(str::to_owned).to_vec()),
    phrase: VerbPhrase::Fixed("has the pattern `{}` over pairs of sentences"),
    style: LabelStyle::new(None, AnsiColor::Green),
    assess: assess_classes,
    ..Detector::new_role(Explanation {
        name: "class:<pattern>",
        measures: "The pattern of the head's attention over pairs of sentences: vertical, diagonal, both, block, or \
            heterogeneous, one of them for every head; given by --preset kovaleva2019 alone.",
        formula: "the first that fits: class:vertical+diagonal: column_r2 >= class_both_r2 and offset_r2 >= class_both_r2; \
            class:vertical: column_r2 >= class_column_r2; class:diagonal: offset_r2 >= class_offset_r2; class:block: \
            segment_r2 >= class_segment_r2; class:heterogeneous: none of these",
        chance: "0 of each; an untrained head has a class as well",
        source: "Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1: there by a classifier that was trained on 400 maps \
            annotated by hand, of fine-tuned models; the rules are ours.",
        caveats: "Classes describe, they are not tested. A pattern that the eye sees in some maps may explain little of \
            the variation of all.",
    })
};

/// Assesses an attention head for all pattern classes. A class applies only if no earlier class does.
fn assess_classes(evidence: &Evidence<'_>, policy: &Policy) -> Vec<Assessment> {
    let [column, offset, segment] = ["column_r2", "offset_r2", "segment_r2"].map(|name| evidence.metric(name, None));
    let weaker = if column.score <= offset.score { column } else { offset };
    let rules = [
        ("min(column_r2, offset_r2)", weaker, &MIN_R2_OF_EACH),
        ("column_r2", column, &MIN_COLUMN_R2),
        ("offset_r2", offset, &MIN_OFFSET_R2),
        ("segment_r2", segment, &MIN_BLOCK_R2),
    ];
    let name = |class: &str| format!("class:{class}");
    let assessed = PATTERN_CLASSES.iter().zip(rules).filter_map(|(class, (metric, measured, threshold))| {
        assess(&name(class), metric, measured, ThresholdBound::AtLeast, policy.rule(threshold))
    });
    let rules: Vec<Assessment> = assessed.collect();
    // A class excludes those after it.
    let mut assessed: Vec<Assessment> =
        rules.iter().enumerate().map(|(place, rule)| rule.clone().excluding_labels(&rules[..place])).collect();
    let explained = [column, offset, segment].map(|measured| measured.score.map(f64::abs));
    if let ([Some(column), Some(offset), Some(segment)], false) = (explained, rules.is_empty()) {
        let remainder = MeasuredScore { score: Some(1.0 - column - offset - segment), ..MeasuredScore::default() };
        let heterogeneous = assess(&name(PATTERN_CLASSES[4]), "", remainder, ThresholdBound::AtLeast, Some(0.0));
        assessed.extend(heterogeneous.map(|mut heterogeneous| {
            // The only condition is that no other class holds.
            (heterogeneous.meets_rule, heterogeneous.label.test.p) = (true, Some(0.0));
            "no other class".clone_into(&mut heterogeneous.label.rule);
            heterogeneous.excluding_labels(&rules)
        }));
    }
    assessed
}

#[cfg(test)]
mod tests;
