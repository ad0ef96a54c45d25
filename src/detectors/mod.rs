//! Labels: a policy over metrics. One file per family of labels, and [`DETECTORS`], the one table that lists them.
//!
//! To add a label: write a [`Detector`] in the file of its family (or a new one), and add it to the table.
//! `headscope explain`, docs/detectors.md and the report follow from the table.

mod broad;
mod delimiter;
mod explain;
mod positional;
mod syntactic;

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Serialize;

use crate::metrics::{HeadMetrics, Measurements, RelationMetrics};
use crate::observe::dependency::Direction;

pub use explain::{Explanation, closest, explanations, find, markdown};

/// All detectors, in the order in which ties between labels are broken.
pub const DETECTORS: &[Detector] = &[
    positional::PREVIOUS_TOKEN,
    positional::NEXT_TOKEN,
    positional::OFFSET,
    positional::SELF,
    positional::LOCAL,
    delimiter::SEPARATOR,
    delimiter::FIRST_SPECIAL,
    delimiter::PUNCTUATION,
    broad::BROAD,
    syntactic::SYNTACTIC,
];

/// The label of a head that has no other.
pub const UNLABELLED: &str = "unlabelled";

/// The thresholds of all labels: the one place where they are set. Printed in every report.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Policy {
    /// Smallest `offset_argmax` of a positional label (Voita et al. 2019, section 5.1: 90 %).
    pub offset_argmax: f64,
    /// `offset_mass` above which a head has a positional label (Clark et al. 2019, released notebook: 0.5).
    pub offset_mass: f64,
    /// `offset_mass["0"]` above which a head is `self`.
    pub self_mass: f64,
    /// `window_mass` above which a head is `local`.
    pub window_mass: f64,
    /// `separator_mass` above which a head is `separator` (Clark et al. 2019, released notebook: 0.6).
    pub separator_mass: f64,
    /// `first_special_mass` above which a head is `first-special` (Clark et al. 2019, released notebook: 0.6).
    pub first_special_mass: f64,
    /// `punctuation_mass` above which a head is `punctuation` (Clark et al. 2019, released notebook: 0.6).
    pub punctuation_mass: f64,
    /// `entropy_ratio` above which a head is `broad` (3.8 nats in the notebook of Clark et al. 2019, of ln 128).
    pub entropy_ratio: f64,
    /// Smallest accuracy above the offset baseline of a syntactic label, as a share
    /// (Voita et al. 2019, section 5.2: 10 %, taken as percentage points).
    pub syntactic_margin: f64,
    /// Fewest scored words of a syntactic label.
    pub syntactic_min_count: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            offset_argmax: 0.9,
            offset_mass: 0.5,
            self_mass: 0.5,
            window_mass: 0.5,
            separator_mass: 0.6,
            first_special_mass: 0.6,
            punctuation_mass: 0.6,
            entropy_ratio: 0.8,
            syntactic_margin: 0.1,
            syntactic_min_count: 100,
        }
    }
}

/// One label, or one family of labels that differ in a parameter.
pub struct Detector {
    /// What `explain` and the docs say of it.
    pub explanation: Explanation,
    /// How close a head comes to the label. All that could fire is returned, fired or not.
    pub assess: fn(&Evidence<'_>, &Policy) -> Vec<Assessment>,
}

/// What is known of one head.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The head's place in lists of all heads.
    pub place: usize,
    /// Its metrics.
    pub metrics: &'a HeadMetrics,
    /// Their chance levels.
    pub chance: &'a HeadMetrics,
    /// Every relation, with every head's accuracy.
    pub relations: &'a [RelationMetrics],
}

/// How a head stands to a label.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// Whether the rule fires, and with what.
    pub label: Label,
    /// Whether the head has the label.
    pub fires: bool,
}

/// A label of a head with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Label {
    /// The label.
    pub label: String,
    /// What was measured.
    pub score: f64,
    /// The chance level of the score, or the baseline that it is held against.
    pub baseline: Option<f64>,
    /// What the score must reach.
    pub threshold: f64,
    /// How far the score is beyond the threshold, in units of `1 - threshold`.
    pub margin: f64,
    /// The rule.
    pub rule: String,
    /// The direction, where the label has one.
    pub direction: Option<Direction>,
}

/// A label that a head does not have, and how far off it is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Near {
    /// The label.
    pub label: String,
    /// What was measured.
    pub score: f64,
    /// What it would have to reach.
    pub threshold: f64,
    /// The difference.
    pub shortfall: f64,
    /// The rule.
    pub rule: String,
}

/// The verdict on one head.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The label with the largest margin, or [`UNLABELLED`].
    pub primary: String,
    /// All labels, by falling margin.
    pub labels: Vec<Label>,
    /// For a head without a label the two that are nearest, nearest first.
    pub nearest: Vec<Near>,
}

/// How many labels an unlabelled head is told to be near to.
const NEAREST: usize = 2;

/// Labels every head; `[layers * heads]`.
#[must_use]
pub fn label(measured: &Measurements, policy: &Policy) -> Vec<Verdict> {
    let Measurements { heads, chance, relations } = measured;
    let verdict =
        |(place, metrics): (usize, &HeadMetrics)| Verdict::new(&Evidence { place, metrics, chance, relations }, policy);
    heads.iter().enumerate().map(verdict).collect()
}

impl Verdict {
    fn new(evidence: &Evidence<'_>, policy: &Policy) -> Self {
        let assessed: Vec<Assessment> =
            DETECTORS.iter().flat_map(|detector| (detector.assess)(evidence, policy)).collect();
        let (fired, missed): (Vec<_>, Vec<_>) = assessed.into_iter().partition(|assessment| assessment.fires);
        // Sorting is stable: equal margins stay in the order of the table.
        let by_margin = |a: &Label, b: &Label| b.margin.total_cmp(&a.margin);
        let mut labels: Vec<Label> = fired.into_iter().map(|assessment| assessment.label).collect();
        labels.sort_by(by_margin);
        let mut nearest: Vec<Label> = missed.into_iter().map(|assessment| assessment.label).collect();
        nearest.sort_by(by_margin);
        nearest.truncate(if labels.is_empty() { NEAREST } else { 0 });
        Self {
            primary: labels.first().map_or(UNLABELLED, |label| label.label.as_str()).to_owned(),
            nearest: nearest.into_iter().map(Near::from).collect(),
            labels,
        }
    }
}

impl From<Label> for Near {
    fn from(Label { label, score, threshold, rule, .. }: Label) -> Self {
        Self { label, score, threshold, shortfall: threshold - score, rule }
    }
}

/// Whether a score has to reach its threshold or to pass it.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast,
    Above,
}

/// A share that is exactly at its threshold may come out this much below it: `76/210` is `55/210 + 0.1`,
/// but not in f64. Shares of fewer than 10^9 words that differ at all differ by more.
const ROUNDING: f64 = 1e-12;

/// Holds `score` against `threshold`; `metric` is its name in the rule. `None` if there is no score.
fn assess(
    label: &str,
    metric: &str,
    score: Option<f64>,
    baseline: Option<f64>,
    bound: Bound,
    threshold: f64,
) -> Option<Assessment> {
    let score = score?;
    let (fires, sign) = match bound {
        Bound::AtLeast => (score >= threshold - ROUNDING, ">="),
        Bound::Above => (score > threshold, ">"),
    };
    // A threshold of 1 or more leaves no room to exceed it; such a label is its own limit.
    let room = 1.0 - threshold;
    let margin = if room > 0.0 { (score - threshold) / room } else { (score - threshold).min(0.0) };
    let label = Label {
        label: label.to_owned(),
        score,
        baseline,
        threshold,
        margin,
        rule: format!("{metric} {sign} {threshold}"),
        direction: None,
    };
    Some(Assessment { label, fires })
}

/// Of several rules for one label the one with the largest margin, a rule that fires before one that does not.
fn best(assessments: impl IntoIterator<Item = Assessment>) -> Option<Assessment> {
    let rank = |a: &Assessment, b: &Assessment| -> Ordering {
        a.fires.cmp(&b.fires).then(a.label.margin.total_cmp(&b.label.margin))
    };
    // The first of equals.
    assessments.into_iter().reduce(|best, next| if rank(&next, &best).is_gt() { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{ByDirection, HeadAccuracy, OffsetBaseline};

    fn verdict(metrics: HeadMetrics, relations: Vec<RelationMetrics>) -> Verdict {
        let measured = Measurements { heads: vec![metrics], chance: HeadMetrics::default(), relations };
        label(&measured, &Policy::default()).remove(0)
    }

    fn labels(metrics: HeadMetrics) -> Vec<String> {
        verdict(metrics, Vec::new()).labels.into_iter().map(|label| label.label).collect()
    }

    fn offset(offset: i32, argmax: f64, mass: f64) -> HeadMetrics {
        let mut metrics = HeadMetrics::default();
        metrics.offset_argmax.set(offset, argmax);
        metrics.offset_mass.set(offset, mass);
        metrics
    }

    /// A relation of `count` words whose best offset has `baseline` hits and whose one head has `hits`.
    fn relation(name: &str, count: u64, baseline: u64, hits: [u64; 2]) -> RelationMetrics {
        let share = |hits: u64| hits as f64 / count as f64;
        let accuracy = ByDirection { dependent_to_head: share(hits[0]), head_to_dependent: share(hits[1]) };
        RelationMetrics {
            relation: name.to_owned(),
            count,
            layer: 0,
            head: 0,
            direction: Direction::DependentToHead,
            accuracy: share(hits[0]),
            heldout_accuracy: None,
            baseline: OffsetBaseline { offset: 1, accuracy: share(baseline), heldout_accuracy: None },
            by_head: vec![HeadAccuracy { layer: 0, head: 0, accuracy }],
        }
    }

    fn syntactic(count: u64, baseline: u64, hits: [u64; 2]) -> Vec<String> {
        let verdict = verdict(HeadMetrics::default(), vec![relation("obj", count, baseline, hits)]);
        verdict.labels.into_iter().map(|label| label.label).collect()
    }

    /// For every detector of the table metrics on which it fires, and metrics just short of that.
    #[test]
    fn every_detector_fires_at_its_threshold_and_not_below() {
        let with = |change: fn(&mut HeadMetrics)| {
            let mut metrics = HeadMetrics::default();
            change(&mut metrics);
            metrics
        };
        let cases = [
            ("previous-token", offset(-1, 0.9, 0.0), offset(-1, 0.89, 0.5)),
            ("previous-token", offset(-1, 0.0, 0.51), offset(-1, 0.0, 0.5)),
            ("next-token", offset(1, 0.9, 0.0), offset(1, 0.89, 0.5)),
            ("offset:-3", offset(-3, 0.9, 0.0), offset(-3, 0.89, 0.5)),
            ("offset:8", offset(8, 0.0, 0.6), offset(8, 0.0, 0.4)),
            ("self", offset(0, 0.0, 0.51), offset(0, 1.0, 0.5)),
            ("local", with(|m| m.window_mass = Some(0.51)), with(|m| m.window_mass = Some(0.5))),
            ("separator", with(|m| m.separator_mass = Some(0.61)), with(|m| m.separator_mass = Some(0.6))),
            ("first-special", with(|m| m.first_special_mass = Some(0.61)), with(|m| m.first_special_mass = Some(0.6))),
            ("punctuation", with(|m| m.punctuation_mass = Some(0.61)), with(|m| m.punctuation_mass = Some(0.6))),
            ("broad", with(|m| m.entropy_ratio = Some(0.81)), with(|m| m.entropy_ratio = Some(0.8))),
        ];
        let mut covered: Vec<&str> = cases.iter().map(|(name, ..)| *name).collect();
        for (name, fires, does_not) in cases {
            assert_eq!(labels(fires), [name]);
            assert_eq!(labels(does_not), [""; 0], "{name} just below");
        }
        covered.push("syntactic:obj");
        for detector in DETECTORS {
            let name = detector.explanation.name;
            assert!(
                covered.iter().any(|case| find(case).is_some_and(|known| known.name == name)),
                "{name} has no case here"
            );
        }
    }

    #[test]
    fn a_syntactic_label_is_ten_points_above_the_offset_with_enough_words() {
        assert_eq!(syntactic(100, 30, [40, 0]), ["syntactic:obj"]);
        assert_eq!(syntactic(100, 30, [0, 40]), ["syntactic:obj"]);
        assert_eq!(syntactic(100, 30, [39, 39]), [""; 0]);
        assert_eq!(syntactic(99, 0, [99, 0]), [""; 0]);
        // 76/210 is 55/210 + 0.1 exactly, though not in f64.
        assert_eq!(syntactic(210, 55, [76, 0]), ["syntactic:obj"]);
    }

    #[test]
    fn a_baseline_near_one_leaves_no_room_for_a_label() {
        assert_eq!(syntactic(100, 95, [100, 0]), [""; 0]);
        assert_eq!(syntactic(100, 90, [100, 0]), ["syntactic:obj"]);
    }

    #[test]
    fn local_gives_way_to_a_label_at_one_offset() {
        let metrics = HeadMetrics { window_mass: Some(0.9), ..offset(-1, 0.95, 0.7) };
        assert_eq!(labels(metrics), ["previous-token"]);
    }

    #[test]
    fn the_primary_label_has_the_largest_margin_over_its_threshold() {
        // separator: (0.7 - 0.6) / 0.4 = 0.25; broad: (0.95 - 0.8) / 0.2 = 0.75
        let metrics = HeadMetrics { separator_mass: Some(0.7), entropy_ratio: Some(0.95), ..HeadMetrics::default() };
        let verdict = verdict(metrics, Vec::new());
        assert_eq!(verdict.primary, "broad");
        assert_eq!(verdict.labels.iter().map(|label| label.label.as_str()).collect::<Vec<_>>(), ["broad", "separator"]);
        assert!((verdict.labels[0].margin - 0.75).abs() < 1e-12);
        assert_eq!(verdict.nearest, []);
    }

    #[test]
    fn an_unlabelled_head_is_told_what_it_is_near_to() {
        // separator: -0.1 / 0.4 = -0.25; broad: -0.3 / 0.2 = -1.5; punctuation: -0.5 / 0.4 = -1.25
        let metrics = HeadMetrics {
            separator_mass: Some(0.5),
            entropy_ratio: Some(0.5),
            punctuation_mass: Some(0.1),
            ..HeadMetrics::default()
        };
        let verdict = verdict(metrics, Vec::new());
        assert_eq!(verdict.primary, UNLABELLED);
        let near: Vec<(&str, f64)> = verdict.nearest.iter().map(|near| (near.label.as_str(), near.shortfall)).collect();
        assert_eq!(near[0].0, "separator");
        assert!((near[0].1 - 0.1).abs() < 1e-12);
        assert_eq!(near[1].0, "punctuation");
        assert_eq!(near.len(), 2);
    }

    #[test]
    fn explanations_are_complete_and_their_names_differ() {
        let mut names: Vec<&str> = explanations().map(|entry| entry.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for entry in explanations() {
            for text in [entry.measures, entry.formula, entry.chance, entry.source] {
                assert!(!text.is_empty(), "{} is not explained whole", entry.name);
            }
        }
    }

    #[test]
    fn every_metric_of_a_report_is_explained() {
        let metrics = serde_json::to_value(HeadMetrics::default()).unwrap();
        for name in metrics.as_object().unwrap().keys() {
            assert!(find(name).is_some(), "{name} is not explained");
        }
    }
}
