//! Labels: a policy over metrics. One file per family of labels, and [`DETECTORS`], the one table that lists them.
//!
//! To add a label: write a [`Detector`] in the file of its family (or a new one), and add it to the table.
//! `headscope explain`, docs/detectors.md and the report follow from the table.

mod broad;
mod delimiter;
mod explain;
pub mod policy;
mod positional;
mod syntactic;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::bootstrap::Interval;
use crate::studies::dependency::sums::Direction;
use crate::studies::metrics::{Comparison, Measurements, Metrics, RelationMetrics};

pub use explain::{Explanation, closest, explanations, find, markdown};
pub use policy::Policy;

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
    pub metrics: &'a Metrics<Measured>,
    /// Every relation, with every head's accuracy.
    pub relations: &'a [RelationMetrics],
}

/// A number with what it is to be read beside.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// What was measured.
    pub score: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// The chance level, or the baseline that it is held against.
    pub baseline: Option<f64>,
}

/// How a head stands to a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// The label, and the score with which the rule fires or does not.
    pub label: Label,
    /// Whether the rule fires.
    pub fires: bool,
    /// Whether it would fire at the upper end of the interval.
    pub may_fire: bool,
}

/// A label of a head with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// The label.
    pub label: String,
    /// What was measured.
    pub score: f64,
    /// The 95 % interval of the score; null where no two blocks could be resampled.
    pub ci95: Option<Interval>,
    /// The chance level of the score, or the baseline that it is held against.
    pub baseline: Option<f64>,
    /// What the score must reach.
    pub threshold: f64,
    /// How far the score is beyond the threshold, in units of `1 - threshold`.
    pub margin: f64,
    /// The rule.
    pub rule: String,
    /// Whether the rule fails somewhere in the interval: another corpus of the kind might not give the label.
    pub borderline: bool,
    /// The direction, where the label has one.
    pub direction: Option<Direction>,
    /// The head against the offset baseline: of a syntactic label, null for others.
    pub versus_offset: Option<Comparison>,
}

/// A label that a head does not have, and how far off it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Near {
    /// The label.
    pub label: String,
    /// What was measured.
    pub score: f64,
    /// The 95 % interval of the score.
    pub ci95: Option<Interval>,
    /// What it would have to reach.
    pub threshold: f64,
    /// The difference; not above 0 where only significance is lacking.
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
    /// For a head without a label the two that are nearest, nearest first; fewer if fewer rules are on.
    pub nearest: Vec<Near>,
}

/// How many labels an unlabelled head is told to be near to.
const NEAREST: usize = 2;

/// Labels every head; `[layers * heads]`.
#[must_use]
pub fn label(measured: &Measurements, policy: &Policy) -> Vec<Verdict> {
    let Measurements { heads, ci95, chance, relations, .. } = measured;
    let verdict = |place: usize| {
        let metrics = heads[place]
            .zip_map(&ci95[place], |&score, &ci95| Measured { score, ci95, baseline: None })
            .zip_map(chance, |&measured, &baseline| Measured { baseline, ..measured });
        Verdict::new(&Evidence { place, metrics: &metrics, relations }, policy)
    };
    (0..heads.len()).map(verdict).collect()
}

/// How many labels of each family there are, by the name under which it is explained; a family without any has 0.
///
/// # Panics
///
/// If a label is of no family that is explained.
#[must_use]
pub fn count(verdicts: &[Verdict]) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> =
        DETECTORS.iter().map(|detector| (detector.explanation.name.to_owned(), 0)).collect();
    for label in verdicts.iter().flat_map(|verdict| &verdict.labels) {
        let family = find(&label.label).expect("every label is explained").name;
        *counts.get_mut(family).expect("labels come from detectors") += 1;
    }
    counts
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
    fn from(Label { label, score, ci95, threshold, rule, .. }: Label) -> Self {
        Self { label, score, ci95, threshold, shortfall: threshold - score, rule }
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

impl Bound {
    fn holds(self, score: f64, threshold: f64) -> bool {
        match self {
            Self::AtLeast => score >= threshold - ROUNDING,
            Self::Above => score > threshold,
        }
    }
}

/// Holds a score against `threshold`; `metric` is its name in the rule. `None` if there is no score, or the rule is off.
fn assess(label: &str, metric: &str, measured: Measured, bound: Bound, threshold: Option<f64>) -> Option<Assessment> {
    let Measured { score, ci95, baseline } = measured;
    let (score, threshold) = (score?, threshold?);
    let sign = match bound {
        Bound::AtLeast => ">=",
        Bound::Above => ">",
    };
    // A threshold of 1 or more leaves no room to exceed it; such a label is its own limit.
    let room = 1.0 - threshold;
    let margin = if room > 0.0 { (score - threshold) / room } else { (score - threshold).min(0.0) };
    let label = Label {
        label: label.to_owned(),
        score,
        ci95,
        baseline,
        threshold,
        margin,
        rule: format!("{metric} {sign} {threshold}"),
        // Without an interval there is nothing to be sure by.
        borderline: ci95.is_none_or(|interval| !bound.holds(interval.low(), threshold)),
        direction: None,
        versus_offset: None,
    };
    let may_fire = bound.holds(ci95.map_or(score, Interval::high), threshold);
    Some(Assessment { label, fires: bound.holds(score, threshold), may_fire })
}

/// Of several rules for one label the one with the largest margin, a rule that fires before one that does not.
///
/// The label is borderline only if none of its rules fires over the whole of its interval.
fn best(assessments: impl IntoIterator<Item = Assessment>) -> Option<Assessment> {
    let assessments: Vec<Assessment> = assessments.into_iter().collect();
    let firm = assessments.iter().any(|assessment| assessment.fires && !assessment.label.borderline);
    let may_fire = assessments.iter().any(|assessment| assessment.may_fire);
    let rank = |a: &Assessment, b: &Assessment| -> Ordering {
        a.fires.cmp(&b.fires).then(a.label.margin.total_cmp(&b.label.margin))
    };
    // The first of equals.
    let mut best = assessments.into_iter().reduce(|best, next| if rank(&next, &best).is_gt() { next } else { best })?;
    best.label.borderline = !firm;
    best.may_fire = may_fire;
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::significance::mcnemar;
    use crate::studies::metrics::{
        ByDirection, HeadAccuracy, HeadIntervals, HeadMetrics, OffsetBaseline, RelationIntervals,
    };

    fn verdict(metrics: HeadMetrics, relations: Vec<RelationMetrics>) -> Verdict {
        verdict_within(metrics, HeadIntervals::default(), relations)
    }

    fn verdict_within(metrics: HeadMetrics, ci95: HeadIntervals, relations: Vec<RelationMetrics>) -> Verdict {
        verdict_by(&Policy::default(), metrics, ci95, relations)
    }

    fn verdict_by(
        policy: &Policy,
        metrics: HeadMetrics,
        ci95: HeadIntervals,
        relations: Vec<RelationMetrics>,
    ) -> Verdict {
        let (chance, chance_ci95) = (HeadMetrics::default(), HeadIntervals::default());
        let mut measured = Measurements { heads: vec![metrics], ci95: vec![ci95], chance, chance_ci95, relations };
        measured.correct(policy.syntactic_min_count);
        label(&measured, policy).remove(0)
    }

    /// The verdict by the definitions of Voita et al. 2019.
    fn by_voita2019(metrics: HeadMetrics, relations: Vec<RelationMetrics>) -> Verdict {
        verdict_by(&Policy::voita2019(), metrics, HeadIntervals::default(), relations)
    }

    fn labels(metrics: HeadMetrics) -> Vec<String> {
        verdict(metrics, Vec::new()).labels.into_iter().map(|label| label.label).collect()
    }

    fn offset(offset: i32, argmax: f64, mass: f64) -> HeadMetrics {
        let mut metrics = HeadMetrics::default();
        *metrics.offset_argmax.at_mut(offset) = Some(argmax);
        *metrics.offset_mass.at_mut(offset) = Some(mass);
        metrics
    }

    /// A relation of `count` words whose best offset has `baseline` hits and whose one head has `hits`, `both` of them
    /// where the offset is right too; the interval of the difference is half a tenth to either side.
    fn relation(count: u64, baseline: u64, hits: [u64; 2], both: [u64; 2]) -> RelationMetrics {
        let share = |hits: u64| hits as f64 / count as f64;
        let comparison = |direction: usize| {
            let difference = share(hits[direction]) - share(baseline);
            let (head_only, offset_only) = (hits[direction] - both[direction], baseline - both[direction]);
            let ci95 = Some(Interval(difference - 0.05, difference + 0.05));
            Comparison { difference, ci95, head_only, offset_only, p: mcnemar(head_only, offset_only), q: None }
        };
        let accuracy = ByDirection { dependent_to_head: share(hits[0]), head_to_dependent: share(hits[1]) };
        let versus_offset = ByDirection { dependent_to_head: comparison(0), head_to_dependent: comparison(1) };
        RelationMetrics {
            relation: "obj".to_owned(),
            count,
            layer: 0,
            head: 0,
            direction: Direction::DependentToHead,
            accuracy: share(hits[0]),
            heldout_accuracy: None,
            baseline: OffsetBaseline { offset: 1, accuracy: share(baseline), heldout_accuracy: None },
            ci95: RelationIntervals::default(),
            versus_offset: comparison(0),
            by_head: vec![HeadAccuracy { layer: 0, head: 0, accuracy, ci95: ByDirection::default(), versus_offset }],
        }
    }

    /// The labels of a head that is right wherever the baseline is, as far as it is right at all.
    fn syntactic(count: u64, baseline: u64, hits: [u64; 2]) -> Vec<String> {
        let relation = relation(count, baseline, hits, hits.map(|hits| hits.min(baseline)));
        verdict(HeadMetrics::default(), vec![relation]).labels.into_iter().map(|label| label.label).collect()
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
    fn a_syntactic_label_is_significant() {
        let labels = |both| verdict(HeadMetrics::default(), vec![relation(100, 30, [40, 0], [both, 0])]).labels;
        // Ten words of its own against none: 2^-10. Forty against thirty: 0.14.
        let label = labels(30).remove(0);
        assert_eq!(label.rule, "accuracy(obj, dep->head) >= 0.4 and q <= 0.05");
        let Comparison { head_only, offset_only, p, q, .. } = label.versus_offset.unwrap();
        assert_eq!((head_only, offset_only), (10, 0));
        assert!((p * 1024.0 - 1.0).abs() < 1e-12);
        // Of two tests, one for each direction.
        assert!((q.unwrap() * 512.0 - 1.0).abs() < 1e-12);
        assert_eq!(labels(0), []);
    }

    #[test]
    fn without_a_bound_on_q_a_syntactic_label_is_ten_points() {
        // Forty against thirty, never on the same word: not significant, as above.
        let label = by_voita2019(HeadMetrics::default(), vec![relation(100, 30, [40, 0], [0, 0])]).labels.remove(0);
        assert_eq!((label.label.as_str(), label.rule.as_str()), ("syntactic:obj", "accuracy(obj, dep->head) >= 0.4"));
        assert!(label.versus_offset.unwrap().q.unwrap() > 0.05);
        // 0.1 more than the offset, but between 0.05 and 0.15: the interval decides as ever.
        assert!(label.borderline);
        let short = by_voita2019(HeadMetrics::default(), vec![relation(100, 30, [39, 0], [30, 0])]);
        assert_eq!((short.labels, short.nearest[0].label.as_str()), (Vec::new(), "syntactic:obj"));
        assert_eq!(short.nearest[0].rule, "accuracy(obj, dep->head) >= 0.4");
    }

    #[test]
    fn a_rule_that_is_off_gives_neither_a_label_nor_a_near_one() {
        let all = |share: f64| HeadMetrics {
            window_mass: Some(share),
            separator_mass: Some(share),
            first_special_mass: Some(share),
            punctuation_mass: Some(share),
            entropy_ratio: Some(share),
            ..offset(0, share, share)
        };
        for share in [0.95, 0.4] {
            let found = by_voita2019(all(share), Vec::new());
            assert_eq!((found.primary.as_str(), found.labels, found.nearest), (UNLABELLED, Vec::new(), Vec::new()));
        }
        // The rule of the argmax alone is left of the two.
        assert_eq!(by_voita2019(offset(-1, 0.9, 0.0), Vec::new()).labels[0].rule, "offset_argmax[-1] >= 0.9");
        let near = by_voita2019(offset(-1, 0.89, 0.99), Vec::new()).nearest;
        assert_eq!(near.iter().map(|near| near.rule.as_str()).collect::<Vec<_>>(), ["offset_argmax[-1] >= 0.9"]);
        // With the other rule alone it is the other way round.
        let policy = Policy { offset_argmax: None, ..Policy::default() };
        let by_mass = |mass| verdict_by(&policy, offset(1, 1.0, mass), HeadIntervals::default(), Vec::new());
        assert_eq!(by_mass(0.5).primary, UNLABELLED);
        assert_eq!(by_mass(0.51).labels[0].rule, "offset_mass[1] > 0.5");
    }

    #[test]
    fn a_label_is_borderline_unless_its_whole_interval_is_on_its_side() {
        let separator = |low: f64| {
            let metrics = HeadMetrics { separator_mass: Some(0.7), ..HeadMetrics::default() };
            let ci95 = HeadIntervals { separator_mass: Some(Interval(low, 0.8)), ..HeadIntervals::default() };
            verdict_within(metrics, ci95, Vec::new()).labels.remove(0).borderline
        };
        assert!(!separator(0.61));
        assert!(separator(0.6));
        // Without an interval nothing is sure.
        assert!(verdict(offset(-1, 0.95, 0.0), Vec::new()).labels[0].borderline);
        // 45 against 30 of 100 words: the difference is 0.1 to 0.2. 44: 0.09 to 0.19.
        let syntactic = |hits: u64| {
            let relation = relation(100, 30, [hits, 0], [30, 0]);
            verdict(HeadMetrics::default(), vec![relation]).labels.remove(0).borderline
        };
        assert!(!syntactic(45));
        assert!(syntactic(44));
    }

    #[test]
    fn a_label_with_two_rules_is_borderline_if_neither_is_sure() {
        let previous = |argmax: Interval, mass: Interval| {
            let mut ci95 = HeadIntervals::default();
            *ci95.offset_argmax.at_mut(-1) = Some(argmax);
            *ci95.offset_mass.at_mut(-1) = Some(mass);
            verdict_within(offset(-1, 0.95, 0.6), ci95, Vec::new()).labels.remove(0)
        };
        // The margins are 0.05 / 0.1 and 0.1 / 0.5: the first rule is reported.
        let sure_by_the_other = previous(Interval(0.85, 0.99), Interval(0.55, 0.65));
        assert_eq!(sure_by_the_other.rule, "offset_argmax[-1] >= 0.9");
        assert!(!sure_by_the_other.borderline);
        assert!(previous(Interval(0.85, 0.99), Interval(0.45, 0.75)).borderline);
    }

    #[test]
    fn local_is_borderline_where_a_label_at_one_offset_is_possible() {
        let local = |argmax: Interval| {
            let metrics = HeadMetrics { window_mass: Some(0.9), ..offset(1, 0.85, 0.4) };
            let mut ci95 = HeadIntervals { window_mass: Some(Interval(0.8, 0.95)), ..HeadIntervals::default() };
            *ci95.offset_argmax.at_mut(1) = Some(argmax);
            let label = verdict_within(metrics, ci95, Vec::new()).labels.remove(0);
            assert_eq!(label.label, "local");
            label.borderline
        };
        assert!(!local(Interval(0.8, 0.89)));
        assert!(local(Interval(0.8, 0.9)));
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
