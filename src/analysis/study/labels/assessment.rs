//! The assessment of a head by the rule of a label: its score compared with a threshold, and the test of the difference.

use std::cmp::Ordering;

use itertools::Itertools;

use super::evidence::{Direction, LABEL_Q, MarginTest};
use super::label::{Label, MeasuredScore, margin};
use super::policy::Policy;
use crate::stats::block_test::TAIL_SHARE;
use crate::stats::significance::q_values_above_margin;

/// The assessment of a head for a label: its score, its test, and whether the rule of the label is met.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// The label, with the score that the rule compares with the threshold.
    pub label: Label,
    /// Whether the score meets the rule of the label, whether or not significantly.
    pub meets_rule: bool,
    /// One-sided p-value for the true score being below the threshold; small values are evidence that the rule
    /// fails.
    pub p_below_threshold: Option<f64>,
    /// Whether the rule would be met by the largest possible score, 1.
    pub is_attainable: bool,
}

/// Whether a score must reach its threshold, or exceed it.
#[derive(Clone, Copy)]
pub enum ThresholdBound {
    AtLeast,
    Above,
}

/// Tolerance for a share that equals its threshold, which rounding may put below it. `76/210` is `55/210 + 0.1`,
/// but not in f64. Different shares of fewer than 10^9 words differ by more.
const THRESHOLD_TOLERANCE: f64 = 1e-12;

impl ThresholdBound {
    /// Whether a score meets the rule.
    pub fn is_met(self, score: f64, threshold: f64) -> bool {
        match self {
            Self::AtLeast => score >= threshold - THRESHOLD_TOLERANCE,
            Self::Above => score > threshold,
        }
    }
}

/// Compares a score with `threshold`; `number` is the score's name in the rule. `None` if there is no score, or the
/// rule is off.
///
/// [`correct_for_multiple_tests`] separates firm labels from borderline ones once all heads are assessed.
pub fn assess(
    label: &str,
    number: &str,
    measured: MeasuredScore,
    bound: ThresholdBound,
    threshold: Option<f64>,
) -> Option<Assessment> {
    let MeasuredScore { score, ci95, baseline, estimate } = measured;
    let (score, threshold) = (score?, threshold?);
    let sign = match bound {
        ThresholdBound::AtLeast => ">=",
        ThresholdBound::Above => ">",
    };
    let test = MarginTest {
        standard_error: estimate.map(|estimate| estimate.standard_error),
        p: estimate.map(|estimate| estimate.p_above(threshold)),
        q: None,
    };
    let label = Label {
        label: label.to_owned(),
        number: number.to_owned(),
        score,
        ci95,
        baseline,
        threshold,
        margin: margin(score, threshold),
        rule: format!("{number} {sign} {}", threshold_text(threshold)),
        borderline: true,
        test,
        ..Label::default()
    };
    // No score is above 1.
    let (fires, attainable) = (bound.is_met(score, threshold), bound.is_met(1.0, threshold));
    let p_below_threshold = estimate.map(|estimate| estimate.p_below(threshold));
    Some(Assessment { label, meets_rule: fires, p_below_threshold, is_attainable: attainable })
}

/// Formats a threshold. A threshold of at least 0.01 gets at most 3 decimals, since the sum of a baseline and a margin
/// has many meaningless digits.
fn threshold_text(threshold: f64) -> String {
    let (exact, rounded) = (threshold.to_string(), format!("{threshold:.3}"));
    if exact.len() > rounded.len() && threshold.abs() >= 0.01 { rounded } else { exact }
}

/// Assesses a label that requires each of several scores to reach its threshold; `scores` has `(metric, score,
/// threshold)`. The score with the smallest margin represents the label.
///
/// The p-value is the largest of the scores' p-values (intersection–union test, Berger 1982). `None` if a score is
/// missing, or a rule is off.
pub fn assess_all(
    label: &str,
    scores: impl IntoIterator<Item = (String, MeasuredScore, Option<f64>)>,
) -> Option<Assessment> {
    let assess_one = |(metric, measured, threshold): (String, MeasuredScore, Option<f64>)| {
        assess(label, &metric, measured, ThresholdBound::AtLeast, threshold)
    };
    let assessments: Vec<Assessment> = scores.into_iter().map(assess_one).collect::<Option<_>>()?;
    let rule = assessments.iter().map(|assessment| &assessment.label.rule).join(" and ");
    let fires = assessments.iter().all(|assessment| assessment.meets_rule);
    let attainable = assessments.iter().all(|assessment| assessment.is_attainable);
    let largest_p =
        assessments.iter().map(|assessment| assessment.label.test.p).reduce(|a, b| Some(a?.max(b?))).flatten();
    let p_below_threshold = bonferroni_min(assessments.iter().map(|assessment| assessment.p_below_threshold));
    let weakest = assessments.into_iter().min_by(|a, b| a.label.margin.total_cmp(&b.label.margin))?;
    // A rule that fails is shown as its condition farthest from the threshold.
    let rule = if fires { rule } else { weakest.label.rule.clone() };
    let label = Label { rule, test: MarginTest { p: largest_p, ..weakest.label.test }, ..weakest.label };
    Some(Assessment { label, meets_rule: fires, p_below_threshold, is_attainable: attainable })
}

/// Assesses a label that any one of several rules gives. Its best rule represents the label: rules that are met come
/// first, then rules with smaller p-values.
///
/// The p-value is the smallest of the rules' p-values times the number of rules that are on (Bonferroni). `None` if
/// there is no rule.
pub fn assess_any(rules: impl IntoIterator<Item = Assessment>) -> Option<Assessment> {
    let rules: Vec<Assessment> = rules.into_iter().collect();
    let p_below_threshold = rules.iter().map(|rule| rule.p_below_threshold).reduce(|a, b| Some(a?.max(b?))).flatten();
    let p = bonferroni_min(rules.iter().map(|rule| rule.label.test.p));
    let mut best = best_assessment(rules)?;
    best.label.test.p = p;
    Some(Assessment { p_below_threshold, ..best })
}

/// The smallest of several p-values times their number (Bonferroni). `None` if there is no p-value, or one is
/// missing.
fn bonferroni_min(p: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let p: Vec<f64> = p.collect::<Option<_>>()?;
    Some((p.iter().copied().reduce(f64::min)? * p.len() as f64).min(1.0))
}

impl Assessment {
    /// Restricts a label to heads that have none of the labels `others`. The p-value becomes the largest among its test
    /// and `p_below_threshold` of the other labels (intersection–union test, Berger 1982).
    pub fn excluding_labels<'a>(mut self, others: impl IntoIterator<Item = &'a Self>) -> Self {
        for other in others {
            self.meets_rule &= !other.meets_rule;
            self.label.test.p = self.label.test.p.zip(other.p_below_threshold).map(|(p, failing)| p.max(failing));
        }
        self
    }

    /// One-sided p-value for the score being above the threshold; `None` if the rule is not met.
    fn p_of_met_rule(&self) -> Option<f64> {
        self.label.test.p.filter(|_| self.meets_rule)
    }
}

/// Corrects the tests of one detector's labels for multiple testing. A label with a significant test becomes firm,
/// any other label borderline.
///
/// If the policy has no bound on q-values, a label is firm if its one-sided test is significant at 2.5 %, as its
/// interval shows.
pub fn correct_for_multiple_tests<'a>(assessed: impl IntoIterator<Item = &'a mut Assessment>, policy: &Policy) {
    let assessed: Vec<&mut Assessment> = assessed.into_iter().collect();
    let p: Vec<Option<f64>> = assessed.iter().map(|assessment| assessment.p_of_met_rule()).collect();
    for (assessment, q) in assessed.into_iter().zip(q_values_above_margin(&p)) {
        assessment.label.borderline = !is_significant(assessment.p_of_met_rule(), q, policy);
        assessment.label.test.q = q;
    }
}

/// Whether a head has a firm label in `direction`. `[p, q]` are the p-value of its test and the q-value over the
/// tests of all heads.
pub fn has_firm_label(
    assessed: &[Assessment],
    direction: Direction,
    [p, q]: [Option<f64>; 2],
    policy: &Policy,
) -> bool {
    let fires = assessed.iter().any(|one| one.meets_rule && one.label.direction == Some(direction));
    fires && is_significant(p, q, policy)
}

/// Whether the test of a label is significant, by its q-value. If the policy has no bound on q-values, the p-value
/// decides.
fn is_significant(p: Option<f64>, q: Option<f64>, policy: &Policy) -> bool {
    match policy.rule(&LABEL_Q) {
        Some(most) => q.is_some_and(|q| q <= most),
        None => p.is_some_and(|p| p <= TAIL_SHARE),
    }
}

/// Keeps the best assessment of each label; assessments must be corrected for multiple testing before.
pub fn best_of_each_label(assessed: Vec<Assessment>) -> Vec<Assessment> {
    let mut labels: Vec<(String, Vec<Assessment>)> = Vec::new();
    for assessment in assessed {
        match labels.iter_mut().find(|(label, _)| *label == assessment.label.label) {
            Some((_, same)) => same.push(assessment),
            None => labels.push((assessment.label.label.clone(), vec![assessment])),
        }
    }
    labels.into_iter().filter_map(|(_, same)| best_assessment(same)).collect()
}

/// The best of several assessments of one label. A rule that is met comes first, then a smaller p-value of a met rule,
/// then an [attainable](Assessment::is_attainable) rule, then a larger margin. Ties go to the first.
fn best_assessment(assessments: impl IntoIterator<Item = Assessment>) -> Option<Assessment> {
    let p = |one: &Assessment| one.p_of_met_rule().unwrap_or(1.0);
    let rank = |a: &Assessment, b: &Assessment| -> Ordering {
        (a.meets_rule.cmp(&b.meets_rule))
            .then(p(b).total_cmp(&p(a)))
            .then(a.is_attainable.cmp(&b.is_attainable))
            .then(a.label.margin.total_cmp(&b.label.margin))
    };
    assessments.into_iter().reduce(|best, next| if rank(&next, &best).is_gt() { next } else { best })
}
