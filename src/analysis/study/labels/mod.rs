//! Labels: rules over metrics, each with its evidence, and the verdict on an attention head.

mod assessment;
pub mod content;
pub mod entry;
pub mod evidence;
mod label;
pub mod policy;

use std::any::Any;
use std::borrow::Cow;

use anstyle::AnsiColor;

use super::metrics::explanation::Explanation;
use super::metrics::metric::Metrics;
pub use assessment::{
    Assessment, ThresholdBound, assess, assess_all, assess_any, best_of_each_label, correct_for_multiple_tests,
    has_firm_label,
};
use evidence::{Direction, LABEL_Q};
pub use label::{Label, MeasuredScore, Near};
use policy::Range;
pub use policy::{Policy, Threshold};

pub const UNLABELLED: &str = "unlabelled";

/// `[mark, legend]` of an unlabelled head in the grid of a summary. Its scores are significantly below the thresholds
/// of its nearest labels.
pub const UNLABELLED_LEGEND_ENTRY: [&str; 2] = [".", "no role found"];

/// `[mark, legend]` of an undecided head in the grid of a summary (`HeadReport::is_undecided`).
pub const UNDECIDED_LEGEND_ENTRY: [&str; 2] =
    ["?", "undecided: the interval of the nearest label reaches its threshold, or no rule could be tested"];

/// The label of a head that the checkpoint lacks, in place of all other labels.
pub const ABSENT: &str = "absent";

pub const ABSENT_LEGEND_ENTRY: [&str; 2] = ["-", "absent: the checkpoint was saved without the head"];

/// The label of a head that the run removed (`--remove`), in place of all other labels.
pub const REMOVED: &str = "removed";

pub const REMOVED_LEGEND_ENTRY: [&str; 2] = ["x", "removed (`--remove`)"];

/// Grid mark of a borderline label, whose score is above the threshold, but not significantly.
pub const BORDERLINE_MARK: &str = "?";

/// Grid mark of a head whose first label nearly ties with another of its labels.
pub const TIED_MARK: &str = "~";

/// Grid mark of a head that writes a constant, whatever it attends to (`model.constant_heads`).
pub const CONSTANT_MARK: &str = "=";

pub const UNLABELLED_EXPLANATION: Explanation = Explanation {
    name: UNLABELLED,
    measures: "No rule fired. The report names the two labels that were nearest and how far off they were.",
    formula: "none of the other labels",
    chance: "not applicable",
    source: "A head without a label is a finding, so it is said.",
    caveats: "It does not mean that the head does nothing: only that nothing that is looked for was found.",
};

pub const ABSENT_EXPLANATION: Explanation = Explanation {
    name: ABSENT,
    measures: "The checkpoint was saved without the head (`pruned_heads` of `config.json`). It has no metrics and no labels, no \
        count of heads has it, and no test is corrected for it.",
    formula: "listed in `pruned_heads`",
    chance: "not applicable",
    source: "Michel et al. 2019 prune heads so.",
    caveats: "Of the model before it was pruned nothing is said.",
};

pub const REMOVED_EXPLANATION: Explanation = Explanation {
    name: REMOVED,
    measures: "The run removed the head (`--remove`). It has no label, no count of heads has it, and no test of labels is \
        corrected for it.",
    formula: "listed in `settings.removed`",
    chance: "not applicable",
    source: "Zeros stand for what it writes, as Michel et al. 2019 remove heads.",
    caveats: "Its metrics are of attention that no later layer reads.",
};

/// The rule that gives a label, or all labels that differ only in a parameter, with their documentation.
pub struct Detector {
    pub explanation: Explanation,
    /// Thresholds that the rule reads from the policy.
    pub thresholds: &'static [&'static Threshold],
    /// Whether the label is a role of the head. A label that every untrained head also gets is no role.
    pub is_role: bool,
    /// Parameter that distinguishes the names of the detector's labels, such as a relation.
    pub parameter: Parameter,
    /// The label as a verb phrase.
    pub phrase: VerbPhrase,
    /// How the label is written in the grid of a summary.
    pub style: LabelStyle,
    /// Assesses how close a head comes to each of the detector's labels, including labels that the head does not
    /// get.
    pub assess: fn(&Evidence<'_>, &Policy) -> Vec<Assessment>,
}

/// Parameter that distinguishes the names of one detector's labels.
#[derive(Clone, Copy)]
pub enum Parameter {
    /// There is one label, which has the detector's name.
    None,
    /// Labels are `family:parameter`, and any parameter is valid. The function returns whether a text without `family:`
    /// is recognised as a parameter.
    Any(&'static str, fn(&str) -> bool),
    /// Labels are `family:key=value`, where both key and value may be any text.
    Keyed(&'static str),
    /// Labels are `family:parameter`, where the parameter is one of the listed texts.
    OneOf(&'static str, fn() -> Vec<String>),
}

/// A label as a verb phrase whose subject is the head; `{}` stands for the label's parameter, if any.
#[derive(Clone, Copy, Debug)]
pub enum VerbPhrase {
    Fixed(&'static str),
    /// One phrase for attention to the syntactic head of an arc, one for attention to the dependent.
    Directed {
        to_head: &'static str,
        to_dependent: &'static str,
    },
}

impl VerbPhrase {
    fn text_for_direction(self, direction: Option<Direction>) -> &'static str {
        match (self, direction) {
            (Self::Fixed(phrase), _) => phrase,
            (Self::Directed { to_dependent, .. }, Some(direction)) if !direction.is_forward() => to_dependent,
            (Self::Directed { to_head, .. }, _) => to_head,
        }
    }
}

/// How a label is written in the grid of a summary.
#[derive(Clone, Copy)]
pub struct LabelStyle {
    /// Short form of the label; `None` if the grid shows the part after the colon, or the whole label.
    pub code: Option<&'static str>,
    pub colour: AnsiColor,
    /// Whether the summary of a control lists the label even if no head has it, because the control is run to test
    /// this label.
    pub is_named_in_controls: bool,
}

impl LabelStyle {
    /// Returns a style whose [`Self::is_named_in_controls`] is false.
    pub const fn new(code: Option<&'static str>, colour: AnsiColor) -> Self {
        Self { code, colour, is_named_in_controls: false }
    }
}

impl Detector {
    /// The detector of a role without a parameter. Only its documentation is filled in.
    pub const fn new_role(explanation: Explanation) -> Self {
        Self {
            explanation,
            thresholds: &[],
            is_role: true,
            parameter: Parameter::None,
            phrase: VerbPhrase::Fixed(""),
            style: LabelStyle::new(None, AnsiColor::Blue),
            assess: |_, _| Vec::new(),
        }
    }

    /// Whether the policy has at least one rule of the detector switched on; true for a detector without rules.
    pub fn is_on(&self, policy: &Policy) -> bool {
        // The bound on q-values, which several detectors share, is no rule by itself.
        let mut rules = self.thresholds.iter().filter(|rule| rule.range == Range::Rule && rule.name != LABEL_Q.name);
        rules.clone().next().is_none() || rules.any(|rule| policy.rule(rule).is_some())
    }

    /// Whether `label` is one of the detector's labels.
    pub fn gives_label(&self, label: &str) -> bool {
        self.parameter_of(label).is_some()
            || matches!(self.parameter, Parameter::None) && label == self.explanation.name
    }

    /// Whether `name` refers to `label`, one of this detector's labels. It may be the label, the detector, the part
    /// before the colon, or the code.
    pub fn matches_name(&self, label: &str, name: &str) -> bool {
        let known = [label, self.explanation.name, self.shared_prefix(), &self.code_of_label(label)];
        known.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether `name` refers to any label of this detector, in one of the forms of [`Detector::matches_name`].
    pub fn matches_any_label(&self, name: &str) -> bool {
        let known = [self.explanation.name, self.shared_prefix()];
        known.iter().any(|known| known.eq_ignore_ascii_case(name))
            || self.gives_label(name)
            || self.label_from_code(name).is_some()
    }

    /// The part of the detector's name before the colon, which related detectors share: `sink` of `sink:no-op`.
    pub fn shared_prefix(&self) -> &'static str {
        self.explanation.name.split_once(':').map_or(self.explanation.name, |(family, _)| family)
    }

    /// The label as a verb phrase whose subject is the head.
    pub fn phrase_of(&self, label: &Label) -> String {
        self.phrase
            .text_for_direction(label.direction)
            .replace("{}", self.parameter_of(&label.label).unwrap_or_default())
    }

    /// The parameter in the name of one of this detector's labels; `None` if the label has none.
    fn parameter_of<'a>(&self, label: &'a str) -> Option<&'a str> {
        let (name, parameter) = label.split_once(':')?;
        let is_valid = match self.parameter {
            Parameter::None => false,
            Parameter::Any(family, _) => name == family && !parameter.is_empty(),
            Parameter::Keyed(family) => name == family && parameter.contains('='),
            Parameter::OneOf(family, parameters) => {
                name == family && parameters().iter().any(|known| known == parameter)
            }
        };
        is_valid.then_some(parameter)
    }

    /// Short form of a label in the grid of a summary; an offset is written with its sign.
    pub fn code_of_label<'a>(&self, label: &'a str) -> Cow<'a, str> {
        let code = self.style.code.or_else(|| self.parameter_of(label)).unwrap_or(label);
        code.parse().map_or(Cow::Borrowed(code), |offset: i32| format!("{offset:+}").into())
    }

    /// The detector's label with this short form; `None` if there is no such label.
    pub fn label_from_code(&self, code: &str) -> Option<String> {
        let mut labels = match self.parameter {
            Parameter::None => vec![self.explanation.name.to_owned()],
            Parameter::OneOf(family, parameters) => {
                parameters().iter().map(|parameter| format!("{family}:{parameter}")).collect()
            }
            Parameter::Any(family, is_known) if is_known(code) => vec![format!("{family}:{code}")],
            Parameter::Any(..) | Parameter::Keyed(_) => Vec::new(),
        };
        let place = labels.iter().position(|label| self.code_of_label(label) == code)?;
        Some(labels.swap_remove(place))
    }
}

/// Evidence that a detector reads to assess one head.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// Index of the attention head in lists of all heads.
    pub place: usize,
    pub metrics: &'a Metrics<MeasuredScore>,
    /// The study's section of the report.
    pub section: &'a dyn Any,
    /// Assessments of the attention head by the detectors that come earlier in the table.
    pub earlier_assessments: &'a [Assessment],
}

impl Evidence<'_> {
    /// The metric `id` of the attention head, at `key` if the metric has keys. Panics if there is no such metric, since
    /// a detector knows its study's metrics.
    pub fn metric(&self, id: &str, key: Option<&str>) -> MeasuredScore {
        *self.metrics.get(id, key).expect("a metric of the detector's own study")
    }

    /// Assesses a label whose rule requires the metric `id` (at `key`, if it has keys) to be above a threshold.
    pub fn assess_above(&self, label: &str, id: &str, key: Option<&str>, threshold: Option<f64>) -> Vec<Assessment> {
        let number = key.map_or_else(|| id.to_owned(), |key| format!("{id}[{key}]"));
        assess(label, &number, self.metric(id, key), ThresholdBound::Above, threshold).into_iter().collect()
    }

    /// The study's section of the report. Panics unless `S` is the section's type.
    pub fn section<S: 'static>(&self) -> &S {
        self.section.downcast_ref().expect("a study gets back the section that it made")
    }

    /// The label `name` of the attention head, if an earlier detector of any study gave it; else `None`.
    pub fn given_label(&self, name: &str) -> Option<&Label> {
        self.earlier_assessments
            .iter()
            .find(|given| given.meets_rule && given.label.label == name)
            .map(|given| &given.label)
    }
}

/// The labels of a head, or the labels that it comes nearest to.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Name of the first label, or [`UNLABELLED`], [`ABSENT`] or [`REMOVED`].
    pub primary: String,
    /// All labels of the head: firm ones before borderline ones, each group by falling margin.
    pub labels: Vec<Label>,
    /// The two labels that an unlabelled head comes nearest to, the nearest first. There are fewer if fewer rules
    /// are on and can be met.
    pub nearest: Vec<Near>,
}

/// Maximum number of nearest labels of an unlabelled head.
const MAX_NEAREST_LABELS: usize = 2;

impl Verdict {
    /// Makes the verdict on a head (its labels, or else the nearest ones) from the assessments of all detectors. Labels
    /// with equal margins keep the order of `assessed`.
    pub fn new(assessed: Vec<Assessment>) -> Self {
        let (fired, missed): (Vec<_>, Vec<_>) = assessed.into_iter().partition(|assessment| assessment.meets_rule);
        // Sorting is stable: equal margins stay in the order of the table.
        let by_margin = |a: &Label, b: &Label| b.margin.total_cmp(&a.margin);
        let mut labels: Vec<Label> = fired.into_iter().map(|assessment| assessment.label).collect();
        labels.sort_by(|a, b| a.borderline.cmp(&b.borderline).then_with(|| by_margin(a, b)));
        if let Some((first, others)) = labels.split_first_mut() {
            others.iter_mut().for_each(|other| other.tied = other.ties_with(first));
        }
        let attainable = missed.into_iter().filter(|assessment| assessment.is_attainable);
        let mut nearest: Vec<Label> = attainable.map(|assessment| assessment.label).collect();
        nearest.sort_by(by_margin);
        nearest.truncate(if labels.is_empty() { MAX_NEAREST_LABELS } else { 0 });
        Self {
            primary: labels.first().map_or(UNLABELLED, |label| label.label.as_str()).to_owned(),
            nearest: nearest.into_iter().map(Near::from).collect(),
            labels,
        }
    }
}
