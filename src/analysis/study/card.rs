//! The card of a study: its name, its question and everything else about it that is data.

use std::ops::RangeInclusive;

use super::aim::Aim;
use super::labels::policy::Policy;
use super::labels::{Detector, Label, Verdict};
use super::metrics::explanation::Explanation;
use super::metrics::metric::Keys;
use super::metrics::unit::Unit;
use super::section::Section;
use super::show::terms::Term;
use super::verdict_rule::VerdictRule;
use crate::passes::control::ControlKind;
use crate::sequences::derived::task::TaskKind;

/// `(aim, metric)` of a label; the metric is the aim's mean over the corpus, or `None` if the label's score is that mean.
pub type AimWithMetric = (Aim, Option<String>);

#[derive(Clone, Copy)]
pub struct Card {
    /// The study's name on the command line, in reports and in partials.
    pub name: &'static str,
    /// The study's name in the previous version, which the command line still accepts; `None` if it had no other.
    pub former_name: Option<&'static str>,
    pub question: &'static str,
    /// Requirements on the corpus, and the cost, as help text.
    pub needs: &'static str,
    pub is_default: bool,
    /// Whether the study, though off by default, runs in a run that names no corpus and so uses the built-in one.
    pub is_default_on_builtin_corpus: bool,
    /// Names of the studies whose results this one needs: they run wherever it runs.
    pub builds_on: &'static [&'static str],
    /// As `builds_on`, in a run with a task; `None` if the lists are equal.
    pub builds_on_with_task: Option<&'static [&'static str]>,
    /// Whether the study runs by default wherever all studies in `builds_on` run.
    pub is_default_with_builds_on: bool,
    /// Whether the study asks about words or sentences of a language, and so cannot run on protein models.
    pub needs_language: bool,
    /// Reason why the study cannot run on a decoder, as a sentence without its subject, the decoder; `None` if it can.
    pub why_not_decoders: Option<&'static str>,
    /// Whether the study is about decoders, and cannot run on an encoder.
    pub decoders_only: bool,
    /// Whether the study, though off by default, runs on a decoder unless it is switched off.
    pub is_default_on_decoders: bool,
    /// Whether the study accepts a checkpoint saved without some heads: these have no numbers and are counted nowhere.
    pub allows_absent_heads: bool,
    /// Whether the study removes heads, so that `--removal` (the stand-in for a removed head's output) concerns it.
    pub removes_heads: bool,
    /// Kinds of task items that the study accepts; empty if it accepts all kinds.
    pub task_kinds: &'static [TaskKind],
    /// Whether the study needs direct effects on logits, which not all models have.
    pub needs_direct_effects: bool,
    /// Whether the study needs the count of each token in the whole corpus before any pass begins.
    pub token_counts: TokenCountUse,
    /// Kinds of controls in which the study also runs.
    pub controls: &'static [ControlKind],
    pub metrics: fn() -> Vec<(&'static Explanation, Keys)>,
    /// Lower and upper bound of a metric, given its name, for the schema of the report.
    pub range: fn(&str) -> RangeInclusive<f64>,
    /// Whether a metric is a share, from 0 to 1 except for rounding: its intervals and tests are on the logit scale.
    pub is_share: fn(&str) -> bool,
    pub unit: fn(&str) -> Unit,
    /// For a metric that is computed from another metric and rates of the corpus, the other metric's name. `None` if the metric
    /// depends on the attention head alone. Analyses of other sentences differ in these rates.
    pub base_metric: fn(&str) -> Option<&str>,
    /// Detectors of the study's labels, in the order in which ties between labels are broken.
    pub labels: &'static [Detector],
    /// Detectors of labels for how an attention head chooses (`chooses:*`), in a separate column. They are no roles and never
    /// first, and a head has at most one.
    pub choices: &'static [Detector],
    /// Rules of the study's verdicts other than labels.
    pub verdicts: &'static [VerdictRule],
    /// Returns the aim of a label that a single sentence can show, with its metric ([`AimWithMetric`]); `None` for other labels.
    pub aim: fn(&Label) -> Option<AimWithMetric>,
    /// Glossary terms other than labels and metrics, in the order in which a reader of the summary meets them.
    pub terms: &'static [Term],
    pub caveats: &'static [Caveat],
    /// Names of figures, as `headscope export --figure` takes them; a figure of one head has a name that ends with `:HEAD`.
    pub figures: &'static [&'static str],
    /// `(metric, heading)` of the metrics drawn on the card of an attention head.
    pub drawn_metrics: &'static [(&'static str, &'static str)],
    pub tables: &'static [&'static str],
    /// Command-line options for this study alone.
    pub options: &'static [&'static str],
}

impl Card {
    /// Empty card: a study that runs only on request, without metrics, labels or caveats.
    pub const EMPTY: Self = Self {
        name: "",
        former_name: None,
        question: "",
        needs: "",
        is_default: false,
        is_default_on_builtin_corpus: false,
        builds_on: &[],
        builds_on_with_task: None,
        is_default_with_builds_on: false,
        needs_language: false,
        why_not_decoders: None,
        decoders_only: false,
        is_default_on_decoders: false,
        allows_absent_heads: false,
        removes_heads: false,
        task_kinds: &[],
        needs_direct_effects: false,
        token_counts: TokenCountUse::Unused,
        controls: &[],
        metrics: Vec::new,
        range: |_| f64::NEG_INFINITY..=f64::INFINITY,
        is_share: |_| false,
        unit: |_| Unit::Shares,
        base_metric: |_| None,
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

    /// The caveats that apply to a run.
    pub fn caveats_of(&self, labelling: &Labelling<'_>) -> Vec<&'static Caveat> {
        self.caveats.iter().filter(|caveat| (caveat.applies)(labelling)).collect()
    }

    pub fn all_labels(&self) -> impl Iterator<Item = &'static Detector> + use<> {
        self.labels.iter().chain(self.choices)
    }

    /// Names of the studies whose results this one needs.
    pub fn required_studies(&self, has_task: bool) -> &'static [&'static str] {
        self.builds_on_with_task.filter(|_| has_task).unwrap_or(self.builds_on)
    }

    /// Whether the study runs, unless switched off, in a run that names no corpus and so uses the built-in one.
    pub fn is_default_in_first_run(&self) -> bool {
        self.is_default || self.is_default_on_builtin_corpus
    }
}

/// Whether a study uses the counts of each token in the whole corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCountUse {
    Unused,
    /// The study also runs without counts, but reports more with them.
    Useful,
    /// The study cannot run without counts.
    Needed,
}

/// A limit of the conclusions from labels. docs/LIMITS.md has the argument and the full references.
pub struct Caveat {
    pub id: &'static str,
    pub text: &'static str,
    /// Subject of the caveat; caveats are ordered by it.
    pub subject: CaveatSubject,
    pub applies: fn(&Labelling<'_>) -> bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaveatSubject {
    Meaning,
    Certainty,
}

pub struct Labelling<'a> {
    pub verdicts: &'a [Verdict],
    pub policy: &'a Policy,
    pub section: &'a dyn Section,
}

impl Labelling<'_> {
    pub fn has_label(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.verdicts.iter().flat_map(|verdict| &verdict.labels).any(|label| wanted(&label.label))
    }
}
