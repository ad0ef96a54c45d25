//! The card of a study: its name, question, metrics, labels and figures, and when it runs.

use std::ops::RangeInclusive;

use super::aim::Aim;
use super::labels::policy::Policy;
use super::labels::{Detector, Label, Verdict};
use super::metrics::explanation::Explanation;
use super::metrics::metric::MetricKeys;
use super::metrics::unit::Unit;
use super::section::Section;
use super::show::terms::Term;
use super::verdict_rule::VerdictRule;
use crate::passes::control::ControlKind;
use crate::sequences::derived::task::TaskKind;

/// `(aim, metric)` of a label. `metric` is the name of the metric that is the aim's mean score over the corpus; `None`
/// if the label's score is that mean.
pub type AimWithMetric = (Aim, Option<String>);

#[derive(Clone, Copy)]
pub struct Card {
    /// The study's name on the command line, in reports and in partials.
    pub name: &'static str,
    /// The study's name in the previous version, which the command line still accepts; `None` if the name is
    /// unchanged.
    pub former_name: Option<&'static str>,
    /// The question that the study asks of every head, as one sentence.
    pub question: &'static str,
    /// The study's requirements of the corpus and its cost in time, as help text.
    pub needs: &'static str,
    pub is_default: bool,
    /// Whether the study, though off by default, runs where a run names no corpus and so uses the built-in one.
    pub runs_on_builtin_corpus: bool,
    /// Names of the studies whose results this study needs; they run wherever this study runs.
    pub builds_on: &'static [&'static str],
    /// As `builds_on`, for a run with a task; `None` if `builds_on` applies to such a run too.
    pub builds_on_with_task: Option<&'static [&'static str]>,
    /// Whether the study runs by default if all studies in `builds_on` run.
    pub is_default_with_builds_on: bool,
    /// Whether the study asks about words or sentences of a language, so that it cannot run on protein models.
    pub needs_language: bool,
    /// Reason why the study cannot run on a decoder, as a clause whose subject is the decoder; `None` if the study
    /// can run.
    pub decoder_refusal: Option<&'static str>,
    /// Whether the study is about decoders, so that it cannot run on an encoder.
    pub is_for_decoders_only: bool,
    /// Whether the study, though off by default, runs on a decoder unless an option switches it off.
    pub is_default_on_decoders: bool,
    /// Whether the study accepts a checkpoint that lacks some heads. Absent heads have no numbers and are counted
    /// nowhere.
    pub allows_absent_heads: bool,
    /// Whether the study removes heads, so that `--removal` applies to it. That option says what replaces a removed
    /// head's output.
    pub removes_heads: bool,
    /// Kinds of task items that the study accepts; empty if it accepts all kinds.
    pub task_kinds: &'static [TaskKind],
    /// Whether the study needs direct effects on logits, which not all models have.
    pub needs_direct_effects: bool,
    /// How the study uses the counts of each token in the whole corpus, which are made before any pass begins.
    pub token_counts: TokenCountUse,
    /// Kinds of control runs in which the study takes part.
    pub controls: &'static [ControlKind],
    pub metrics: fn() -> Vec<(&'static Explanation, MetricKeys)>,
    /// Returns the smallest and the largest value of a metric, given its name, for the schema of the report.
    pub range: fn(&str) -> RangeInclusive<f64>,
    /// Returns whether a metric, given its name, is a share from 0 to 1, except for rounding. Intervals and tests
    /// of shares are on the logit scale.
    pub is_share_metric: fn(&str) -> bool,
    pub unit: fn(&str) -> Unit,
    /// Given a metric that depends on the corpus, such as a lead over chance, returns the metric of the attention head
    /// alone from which it is computed. `None` for all other metrics. Only metrics of the head alone are compared
    /// between different corpora.
    pub base_metric_of: fn(&str) -> Option<&str>,
    /// Detectors of the study's labels, in the order in which ties between labels are broken.
    pub labels: &'static [Detector],
    /// Detectors of labels for how an attention head chooses its keys (`chooses:*`), which stand in a separate
    /// column. Such labels are no roles and never first, and a head has at most one.
    pub choices: &'static [Detector],
    /// Rules of the study's verdicts, without the rules of its labels.
    pub verdicts: &'static [VerdictRule],
    /// Returns the aim of a label, with the aim's metric ([`AimWithMetric`]). `None` if no single sentence can show
    /// that a head has the label.
    pub aim: fn(&Label) -> Option<AimWithMetric>,
    /// Glossary terms other than labels and metrics, in the order in which a reader of the summary meets them.
    pub terms: &'static [Term],
    /// Limits of what the study's results show.
    pub caveats: &'static [Caveat],
    /// Names of figures, as `headscope export --figure` takes them; a figure of one head has a name that ends with `:HEAD`.
    pub figures: &'static [&'static str],
    /// Metrics that are drawn on the card of an attention head, as `(metric, heading)`.
    pub drawn_metrics: &'static [(&'static str, &'static str)],
    /// Names of the study's flat tables, as `headscope export` takes them.
    pub tables: &'static [&'static str],
    /// Command-line options that belong to this study alone.
    pub options: &'static [&'static str],
}

impl Card {
    /// A card without entries: of a study that runs only on request and has no metrics, labels or caveats.
    pub const EMPTY: Self = Self {
        name: "",
        former_name: None,
        question: "",
        needs: "",
        is_default: false,
        runs_on_builtin_corpus: false,
        builds_on: &[],
        builds_on_with_task: None,
        is_default_with_builds_on: false,
        needs_language: false,
        decoder_refusal: None,
        is_for_decoders_only: false,
        is_default_on_decoders: false,
        allows_absent_heads: false,
        removes_heads: false,
        task_kinds: &[],
        needs_direct_effects: false,
        token_counts: TokenCountUse::Unused,
        controls: &[],
        metrics: Vec::new,
        range: |_| f64::NEG_INFINITY..=f64::INFINITY,
        is_share_metric: |_| false,
        unit: |_| Unit::Shares,
        base_metric_of: |_| None,
        labels: &[],
        choices: &[],
        verdicts: &[],
        aim: |_| None,
        terms: &[],
        caveats: &[],
        figures: &[],
        drawn_metrics: &[],
        tables: &[],
        options: &[],
    };

    /// The caveats of the study that apply to a run.
    pub fn applicable_caveats(&self, labelling: &Labelling<'_>) -> Vec<&'static Caveat> {
        self.caveats.iter().filter(|caveat| (caveat.applies)(labelling)).collect()
    }

    /// Detectors of all labels of the study: its roles (`labels`), then how heads choose their keys (`choices`).
    pub fn all_labels(&self) -> impl Iterator<Item = &'static Detector> + use<> {
        self.labels.iter().chain(self.choices)
    }

    /// Names of the studies whose results this study needs, in a run with or without a task.
    pub fn required_studies(&self, has_task: bool) -> &'static [&'static str] {
        self.builds_on_with_task.filter(|_| has_task).unwrap_or(self.builds_on)
    }

    /// Whether the study runs by default in a run that names no corpus and so uses the built-in one.
    pub fn is_default_in_first_run(&self) -> bool {
        self.is_default || self.runs_on_builtin_corpus
    }
}

/// How a study uses the counts of each token in the whole corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCountUse {
    Unused,
    /// The study runs without token counts, and reports more with them.
    Useful,
    /// The study cannot run without token counts.
    Needed,
}

/// A limit of the conclusions that labels allow. docs/LIMITS.md has the argument and the full references.
pub struct Caveat {
    /// Stable short name of the caveat.
    pub id: &'static str,
    pub text: &'static str,
    /// Subject that the caveat limits; caveats are ordered by it.
    pub subject: CaveatSubject,
    pub applies: fn(&Labelling<'_>) -> bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaveatSubject {
    Meaning,
    /// How certain a label is.
    Certainty,
}

/// A run's verdicts, label policy and section of one study: what the study needs to decide which caveats apply.
pub struct Labelling<'a> {
    /// The verdict on each head, layer by layer.
    pub verdicts: &'a [Verdict],
    pub policy: &'a Policy,
    pub section: &'a dyn Section,
}

impl Labelling<'_> {
    /// Whether some head has a label for whose name `wanted` is true.
    pub fn has_label(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.verdicts.iter().flat_map(|verdict| &verdict.labels).any(|label| wanted(&label.label))
    }
}
