//! Labels: rules over metrics, each with its evidence, and the verdict on a head.

pub mod content;
pub mod evidence;
pub mod phrase;
pub mod policy;

use std::borrow::Cow;
use std::cmp::Ordering;

use anstyle::AnsiColor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metrics::explanation::Explanation;
use super::metrics::metric::Metrics;
use super::section::Section;
use crate::stats::block_test::Estimate;
use crate::stats::interval::Interval;
use crate::stats::significance::q_of_those_above;
use evidence::{Comparison, Direction, LABEL_Q, MarginTest, Reach, TagComparison, UseTest};
pub use phrase::Phrase;
use policy::{Policy, Range, Threshold};

/// The label of a head that has no other.
pub const UNLABELLED: &str = "unlabelled";

/// How the grid of a summary shows such a head, and its legend.
pub const UNLABELLED_SHOWN: [&str; 2] = [".", "no label"];

/// The mark of a label in the grid whose interval crosses its threshold.
pub const BORDERLINE: &str = "?";

/// The mark of a label in the grid whose first place is uncertain.
pub const TIED: &str = "~";

/// The documentation of [`UNLABELLED`].
pub const NO_LABEL: Explanation = Explanation {
    name: UNLABELLED,
    measures: "No rule fired. The report names the two labels that were nearest and how far off they were.",
    formula: "none of the other labels",
    chance: "not applicable",
    source: "A head without a label is a finding, so it is said.",
    caveats: "It does not mean that the head does nothing: only that nothing that is looked for was found.",
};

/// One label, or one family of labels that differ in a parameter.
pub struct Detector {
    /// Its documentation, for `explain` and the docs.
    pub explanation: Explanation,
    /// Its thresholds.
    pub thresholds: &'static [&'static Threshold],
    /// Whether the label is a role of the head: one that every untrained head has, too, is none.
    pub is_role: bool,
    /// The parameter of a label of this family that has one, such as the relation; of any other label `None`.
    pub parameter: Parameter,
    /// The label as a part of a sentence on the head.
    pub phrase: Phrase,
    /// How the grid of a summary shows it.
    pub shown: LabelStyle,
    /// How close a head comes to the label. All rules that could fire are returned, fired or not.
    pub assess: fn(&Evidence<'_>, &Policy) -> Vec<Assessment>,
}

/// The parameter that distinguishes the labels of a detector.
#[derive(Clone, Copy)]
pub enum Parameter {
    /// There is one label, of the detector's own name.
    None,
    /// Labels are `family:parameter`, with any words for the parameter; some parameters are known.
    Any(&'static str, fn(&str) -> bool),
    /// Labels are `family:parameter`, with one of these.
    OneOf(&'static str, fn() -> Vec<String>),
}

/// How the grid of a summary shows a label.
#[derive(Clone, Copy)]
pub struct LabelStyle {
    /// The label, shortened; `None` if the label itself, or its parameter, is short enough.
    pub code: Option<&'static str>,
    /// Its colour.
    pub colour: AnsiColor,
    /// Whether controls name it even where they have none, because it is what they are run for.
    pub in_controls: bool,
}

impl Detector {
    /// Whether a policy switches one of its rules on.
    pub fn is_on(&self, policy: &Policy) -> bool {
        // The q-value that several families share is no rule by itself.
        let mut rules = self.thresholds.iter().filter(|rule| rule.range == Range::Rule && rule.name != LABEL_Q.name);
        rules.clone().next().is_none() || rules.any(|rule| policy.rule(rule).is_some())
    }

    /// Whether `label` is one of this detector's.
    pub fn gives(&self, label: &str) -> bool {
        match self.parameter {
            Parameter::None => label == self.explanation.name,
            Parameter::Any(..) | Parameter::OneOf(..) => self.parameter_of(label).is_some(),
        }
    }

    /// One of its labels as a part of a sentence on the head.
    pub fn phrase_of(&self, label: &Label) -> String {
        self.phrase.of(label.direction).replace("{}", self.parameter_of(&label.label).unwrap_or_default())
    }

    /// The parameter of a label of this family.
    fn parameter_of<'a>(&self, label: &'a str) -> Option<&'a str> {
        let (name, parameter) = label.split_once(':')?;
        let valid = match self.parameter {
            Parameter::None => false,
            Parameter::Any(family, _) => name == family && !parameter.is_empty(),
            Parameter::OneOf(family, all) => name == family && all().iter().any(|one| one == parameter),
        };
        valid.then_some(parameter)
    }

    /// The label as the grid of a summary shows it: an offset has its sign, as in tables.
    pub fn code<'a>(&self, label: &'a str) -> Cow<'a, str> {
        let code = self.shown.code.or_else(|| self.parameter_of(label)).unwrap_or(label);
        code.parse().map_or(Cow::Borrowed(code), |offset: i32| format!("{offset:+}").into())
    }

    /// The label of this detector that the grid shows as `code`.
    pub fn label_of(&self, code: &str) -> Option<String> {
        let mut labels = match self.parameter {
            Parameter::None => vec![self.explanation.name.to_owned()],
            Parameter::OneOf(family, all) => all().iter().map(|one| format!("{family}:{one}")).collect(),
            Parameter::Any(family, is_known) if is_known(code) => vec![format!("{family}:{code}")],
            Parameter::Any(..) => Vec::new(),
        };
        let place = labels.iter().position(|label| self.code(label) == code)?;
        Some(labels.swap_remove(place))
    }
}

/// The evidence on one head.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The head's place in lists of all heads.
    pub place: usize,
    /// Its metrics.
    pub metrics: &'a Metrics<Measured>,
    /// Its study's other findings.
    pub section: &'a dyn Section,
    /// The assessments of the head by earlier detectors of the table.
    pub given: &'a [Assessment],
}

impl Evidence<'_> {
    /// A metric of the head, at `key` if it has several.
    /// Panics if there is no metric of that name: a detector knows the metrics of its own study.
    pub fn metric(&self, id: &str, key: Option<&str>) -> Measured {
        *self.metrics.get(id, key).expect("a metric of the detector's own study")
    }

    /// A label that the head has by an earlier detector, of any study.
    pub fn label(&self, name: &str) -> Option<&Label> {
        self.given.iter().find(|given| given.fires && given.label.label == name).map(|given| &given.label)
    }
}

/// A number with the numbers that put it into context.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The score that was measured.
    pub score: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// The chance level, or the baseline that it is held against.
    pub baseline: Option<f64>,
    /// The score with its standard error; `None` where it rests on too few blocks.
    pub estimate: Option<Estimate>,
}

/// The outcome of a rule for a head.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// The label, and the score with which the rule fires or does not.
    pub label: Label,
    /// Whether the rule fires: the score is on the good side of the threshold.
    pub fires: bool,
    /// The p-value of the rule not holding: of the score being on the other side of the threshold.
    pub p_of_failing: Option<f64>,
    /// Whether some score could fire the rule.
    pub attainable: bool,
    /// The number that the rule holds against its threshold, as the rule names it.
    pub metric: String,
}

/// A label of a head with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// The label.
    pub label: String,
    /// The score that was measured.
    pub score: f64,
    /// The 95 % interval of the score; null where it rests on fewer than 10 blocks.
    pub ci95: Option<Interval>,
    /// The chance level of the score, or the baseline that it is held against.
    pub baseline: Option<f64>,
    /// The threshold that the score must reach.
    pub threshold: f64,
    /// How far the score is beyond the threshold, in units of `1 - threshold`; of a label that rests on another one, not
    /// more than that one's.
    pub margin: f64,
    /// The rule.
    pub rule: String,
    /// Whether only the estimate is above the threshold, and the test does not show it: another corpus of the kind might not
    /// give the label.
    pub borderline: bool,
    /// Whether it might as well stand first: it is as firm as the first label of the head, and the intervals of their
    /// margins meet. Of the first label false.
    #[serde(default)]
    pub tied: bool,
    /// The label of the head that this one says more of, if it does: it stands after that one, and never ties with it.
    #[serde(default)]
    pub rests_on: Option<String>,
    /// The direction, where the label has one.
    pub direction: Option<Direction>,
    /// The block test of the score against the threshold, which decides whether the label is firm.
    #[serde(default)]
    pub test: MarginTest,
    /// The head against the offset baseline: of a syntactic label, null for others.
    pub versus_offset: Option<Comparison>,
    /// How far a syntactic label reaches; null for others, and where no word of the relation has a UPOS.
    pub beyond: Option<Reach>,
    /// The head against the tag baseline; null as `beyond` is.
    pub versus_tags: Option<TagComparison>,
    /// Whether the model uses the arcs that a syntactic label is about: null unless the study `knockout` tested it.
    #[serde(default)]
    pub knockout: Option<UseTest>,
}

/// A label that a head does not have, and how far off it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Near {
    /// The label.
    pub label: String,
    /// The score that was measured.
    pub score: f64,
    /// The 95 % interval of the score.
    pub ci95: Option<Interval>,
    /// The threshold that it would have to reach.
    pub threshold: f64,
    /// The difference; not above 0 where only significance is lacking.
    pub shortfall: f64,
    /// The rule.
    pub rule: String,
}

/// The verdict on one head.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The first of the labels, or [`UNLABELLED`].
    pub primary: String,
    /// All labels: firm before borderline ones, and among these by falling margin.
    pub labels: Vec<Label>,
    /// The two labels nearest to an unlabelled head, nearest first; fewer if fewer rules are on and can be met.
    pub nearest: Vec<Near>,
}

/// The number of labels that an unlabelled head is listed as near to.
const NEAREST: usize = 2;

impl Verdict {
    /// The verdict that assessments of all detectors, in the order of the tables, come to.
    pub fn new(assessed: Vec<Assessment>) -> Self {
        let (fired, missed): (Vec<_>, Vec<_>) = assessed.into_iter().partition(|assessment| assessment.fires);
        // Sorting is stable: equal margins stay in the order of the table.
        let by_margin = |a: &Label, b: &Label| b.margin.total_cmp(&a.margin);
        let mut labels: Vec<Label> = fired.into_iter().map(|assessment| assessment.label).collect();
        labels.sort_by(|a, b| a.borderline.cmp(&b.borderline).then_with(|| by_margin(a, b)));
        if let Some((first, others)) = labels.split_first_mut() {
            others.iter_mut().for_each(|other| other.tied = other.ties_with(first));
        }
        let attainable = missed.into_iter().filter(|assessment| assessment.attainable);
        let mut nearest: Vec<Label> = attainable.map(|assessment| assessment.label).collect();
        nearest.sort_by(by_margin);
        nearest.truncate(if labels.is_empty() { NEAREST } else { 0 });
        Self {
            primary: labels.first().map_or(UNLABELLED, |label| label.label.as_str()).to_owned(),
            nearest: nearest.into_iter().map(Near::from).collect(),
            labels,
        }
    }
}

impl Label {
    /// Whether another label of the head, which has the larger margin, is no more certain than this one.
    fn ties_with(&self, first: &Self) -> bool {
        let at = |label: &Self, end: fn(Interval) -> f64| margin(label.ci95.map_or(label.score, end), label.threshold);
        let alone = self.rests_on.is_none() && self.borderline == first.borderline;
        alone && at(self, Interval::high) >= at(first, Interval::low)
    }
}

/// How far a score is beyond a threshold, in units of the room above that.
fn margin(score: f64, threshold: f64) -> f64 {
    // A threshold of 1 or more leaves no room to exceed it; such a label is its own limit.
    let room = 1.0 - threshold;
    if room > 0.0 { (score - threshold) / room } else { (score - threshold).min(0.0) }
}

impl From<Label> for Near {
    fn from(Label { label, score, ci95, threshold, rule, .. }: Label) -> Self {
        Self { label, score, ci95, threshold, shortfall: threshold - score, rule }
    }
}

/// Whether a score has to reach its threshold or to pass it.
#[derive(Clone, Copy)]
pub enum Bound {
    /// The score reaches the threshold.
    AtLeast,
    /// The score passes the threshold.
    Above,
}

/// A share that is exactly at its threshold may come out this much below it: `76/210` is `55/210 + 0.1`,
/// but not in f64. Shares of fewer than 10^9 words that differ at all differ by more.
const ROUNDING: f64 = 1e-12;

impl Bound {
    /// Whether a score is on the threshold's good side.
    pub fn holds(self, score: f64, threshold: f64) -> bool {
        match self {
            Self::AtLeast => score >= threshold - ROUNDING,
            Self::Above => score > threshold,
        }
    }

    /// Whether some score is on the threshold's good side: none is above 1.
    fn attainable(self, threshold: f64) -> bool {
        self.holds(1.0, threshold)
    }
}

/// Holds a score against `threshold`; `metric` is its name in the rule. `None` if there is no score, or the rule is off.
///
/// [`correct`] tells firm labels from borderline ones once all heads are assessed.
pub fn assess(
    label: &str,
    metric: &str,
    measured: Measured,
    bound: Bound,
    threshold: Option<f64>,
) -> Option<Assessment> {
    let Measured { score, ci95, baseline, estimate } = measured;
    let (score, threshold) = (score?, threshold?);
    let sign = match bound {
        Bound::AtLeast => ">=",
        Bound::Above => ">",
    };
    let test = MarginTest {
        standard_error: estimate.map(|estimate| estimate.standard_error),
        p: estimate.map(|estimate| estimate.p_above(threshold)),
        q: None,
    };
    let label = Label {
        label: label.to_owned(),
        score,
        ci95,
        baseline,
        threshold,
        margin: margin(score, threshold),
        rule: format!("{metric} {sign} {threshold}"),
        borderline: true,
        tied: false,
        rests_on: None,
        direction: None,
        test,
        versus_offset: None,
        beyond: None,
        versus_tags: None,
        knockout: None,
    };
    let (fires, attainable) = (bound.holds(score, threshold), bound.attainable(threshold));
    let p_of_failing = estimate.map(|estimate| estimate.p_below(threshold));
    Some(Assessment { label, fires, p_of_failing, attainable, metric: metric.to_owned() })
}

/// The label that asks all of several scores, each with the name of its metric and its threshold, to reach theirs: the
/// one that is least above its threshold is the label's, and the p-value is the largest of theirs (Berger 1982).
pub fn assess_all(
    label: &str,
    scores: impl IntoIterator<Item = (String, Measured, Option<f64>)>,
) -> Option<Assessment> {
    let one = |(metric, measured, threshold): (String, Measured, Option<f64>)| {
        assess(label, &metric, measured, Bound::AtLeast, threshold)
    };
    let all: Vec<Assessment> = scores.into_iter().map(one).collect::<Option<_>>()?;
    let rules: Vec<&str> = all.iter().map(|one| one.label.rule.as_str()).collect();
    let rule = rules.join(" and ");
    let (fires, attainable) = (all.iter().all(|one| one.fires), all.iter().all(|one| one.attainable));
    let largest = all.iter().map(|one| one.label.test.p).reduce(|a, b| Some(a?.max(b?))).flatten();
    let p_of_failing = smallest_of(all.iter().map(|one| one.p_of_failing));
    let least = all.into_iter().min_by(|a, b| a.label.margin.total_cmp(&b.label.margin))?;
    // Where not all hold, the one that is farthest from it is named.
    let rule = if fires { rule } else { least.label.rule.clone() };
    let label = Label { rule, test: MarginTest { p: largest, ..least.label.test }, ..least.label };
    Some(Assessment { label, fires, p_of_failing, attainable, ..least })
}

/// The label that any of several rules gives: the one that is surest is the label's, and the smallest p-value, times the
/// number of rules that are on (Bonferroni), is its own. `None` if there is no rule.
pub fn assess_any(rules: impl IntoIterator<Item = Assessment>) -> Option<Assessment> {
    let rules: Vec<Assessment> = rules.into_iter().collect();
    let p_of_failing = rules.iter().map(|rule| rule.p_of_failing).reduce(|a, b| Some(a?.max(b?))).flatten();
    let p = smallest_of(rules.iter().map(|rule| rule.label.test.p));
    let mut best = best(rules)?;
    best.label.test.p = p;
    Some(Assessment { p_of_failing, ..best })
}

/// The smallest of some p-values times their number; `None` where there is none.
fn smallest_of(p: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let p: Vec<f64> = p.collect::<Option<_>>()?;
    Some((p.iter().copied().reduce(f64::min)? * p.len() as f64).min(1.0))
}

impl Assessment {
    /// The same of a label that is given only where none of the `others` is: its p-value is the largest of its own and of
    /// theirs of failing.
    pub fn where_none_of<'a>(mut self, others: impl IntoIterator<Item = &'a Self>) -> Self {
        for other in others {
            self.fires &= !other.fires;
            self.label.test.p = self.label.test.p.zip(other.p_of_failing).map(|(p, failing)| p.max(failing));
        }
        self
    }

    /// The p-value of the label, if its rule fires.
    fn p_above(&self) -> Option<f64> {
        self.label.test.p.filter(|_| self.fires)
    }
}

/// Corrects the tests of one detector's labels for their number, `[heads][labels]`: those that are significant are firm.
///
/// Without a bound on the q-value a label is firm where its own one-sided test at 2.5 % is, as its interval shows it.
pub fn correct<'a>(assessed: impl IntoIterator<Item = &'a mut Assessment>, policy: &Policy) {
    let assessed: Vec<&mut Assessment> = assessed.into_iter().collect();
    let p: Vec<Option<f64>> = assessed.iter().map(|assessment| assessment.p_above()).collect();
    for (assessment, q) in assessed.into_iter().zip(q_of_those_above(&p)) {
        let firm = match policy.rule(&LABEL_Q) {
            Some(most) => q.is_some_and(|q| q <= most),
            None => assessment.p_above().is_some_and(|p| p <= ONE_SIDED),
        };
        assessment.label.test.q = q;
        assessment.label.borderline = !firm;
    }
}

/// The one-sided level of a 95 % interval.
const ONE_SIDED: f64 = 0.025;

/// One assessment of each label: of several the surest, which is known once all are corrected.
pub fn one_of_each(assessed: Vec<Assessment>) -> Vec<Assessment> {
    let mut labels: Vec<(String, Vec<Assessment>)> = Vec::new();
    for assessment in assessed {
        match labels.iter_mut().find(|(label, _)| *label == assessment.label.label) {
            Some((_, same)) => same.push(assessment),
            None => labels.push((assessment.label.label.clone(), vec![assessment])),
        }
    }
    labels.into_iter().filter_map(|(_, same)| best(same)).collect()
}

/// The assessment among several of one label: one that fires comes before one that does not, a firm one before a borderline
/// one, the surer one before others, and one that could fire before one that never does; of those that cannot be told
/// apart, the one with the largest margin.
fn best(assessments: impl IntoIterator<Item = Assessment>) -> Option<Assessment> {
    let p = |one: &Assessment| one.p_above().unwrap_or(1.0);
    let rank = |a: &Assessment, b: &Assessment| -> Ordering {
        (a.fires.cmp(&b.fires))
            .then(p(b).total_cmp(&p(a)))
            .then(a.attainable.cmp(&b.attainable))
            .then(a.label.margin.total_cmp(&b.label.margin))
    };
    // The first of equals.
    assessments.into_iter().reduce(|best, next| if rank(&next, &best).is_gt() { next } else { best })
}
