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

/// The aim of a label, and the metric that is the mean of it over the corpus where that is not the score.
pub type AimOfLabel = (Aim, Option<String>);

#[derive(Clone, Copy)]
pub struct Card {
    /// Its name: on the command line, in reports, in partials.
    pub name: &'static str,
    /// Its name in the version before, which the command line still understands; `None` if it had no other.
    pub formerly: Option<&'static str>,
    pub question: &'static str,
    /// Its needs of the corpus, and its cost.
    pub needs: &'static str,
    pub by_default: bool,
    /// Whether it runs on the corpus in the box, where no corpus is named, though it does not run by default.
    pub in_first_run: bool,
    /// The studies whose results it needs, by name: they run wherever it runs.
    pub builds_on: &'static [&'static str],
    /// The studies that it needs instead in a run with a task; `None` if they are the same.
    pub builds_on_with_task: Option<&'static [&'static str]>,
    /// Whether it runs by default wherever all studies that it builds on run.
    pub joins: bool,
    /// Whether it asks about words or sentences of a language, which models of proteins do not know.
    pub of_language: bool,
    /// Why a decoder cannot be asked, as a sentence without its subject, the decoder; `None` if it can.
    pub beyond_decoders: Option<&'static str>,
    /// Whether it is about what decoders do, and cannot be asked of an encoder.
    pub of_decoders: bool,
    /// Whether it runs on a decoder, unless it is switched off, though it does not run by default.
    pub on_decoders: bool,
    /// Whether it can be asked of a model that was saved without some heads: it gives these no numbers and counts them nowhere.
    pub allows_absent_heads: bool,
    /// Whether it removes heads, so that it asks what stands for a removed one.
    pub removes_heads: bool,
    /// The kinds of items of a task that it takes; empty if it takes all.
    pub takes: &'static [TaskKind],
    /// Whether it asks for direct effects on logits, which not all models have.
    pub of_direct_effects: bool,
    /// Its need for the count of each token in the whole corpus before any pass begins.
    pub counts: Counts,
    /// The kinds of controls in which it also runs: by default the kinds in which its labels are counted.
    pub controls: &'static [ControlKind],
    pub metrics: fn() -> Vec<(&'static Explanation, Keys)>,
    /// The least and the most that a metric can be, by its name, for the schema of the report.
    pub range: fn(&str) -> RangeInclusive<f64>,
    /// Whether a metric is a share, from 0 to 1 but for rounding: its intervals and tests are of its logit.
    pub is_share: fn(&str) -> bool,
    pub unit: fn(&str) -> Unit,
    /// The metric of the head that a metric is made of together with rates of the corpus; `None` of one that is of the head
    /// alone. Analyses of other sentences differ in such rates.
    pub made_of: fn(&str) -> Option<&str>,
    /// Its labels, in the order in which ties between them are broken.
    pub labels: &'static [Detector],
    /// Its labels of how a head chooses, in a column of their own: no roles, never the first label, and one at most of a head.
    pub choices: &'static [Detector],
    /// The rules of its verdicts beside its labels.
    pub verdicts: &'static [VerdictRule],
    /// The aim of one of its labels, if it is visible in a sentence, and the metric that is the mean of it over the corpus, if
    /// that is not the label's score.
    pub aim: fn(&Label) -> Option<AimOfLabel>,
    /// The words that are neither labels nor metrics, in the order in which a reader of the summary meets them.
    pub terms: &'static [Term],
    pub caveats: &'static [Caveat],
    /// The names of its figures, as `headscope export --figure` takes them; that of a figure of one head ends with `:HEAD`.
    pub figures: &'static [&'static str],
    /// Its metrics that are drawn on the card of a head, each with its heading.
    pub drawn: &'static [(&'static str, &'static str)],
    pub tables: &'static [&'static str],
    /// The options of the command line for this study alone.
    pub options: &'static [&'static str],
}

impl Card {
    /// A card with nothing on it: a study on request, without metrics, labels or caveats.
    pub const NEW: Self = Self {
        name: "",
        formerly: None,
        question: "",
        needs: "",
        by_default: false,
        in_first_run: false,
        builds_on: &[],
        builds_on_with_task: None,
        joins: false,
        of_language: false,
        beyond_decoders: None,
        of_decoders: false,
        on_decoders: false,
        allows_absent_heads: false,
        removes_heads: false,
        takes: &[],
        of_direct_effects: false,
        counts: Counts::Unused,
        controls: &[],
        metrics: Vec::new,
        range: |_| f64::NEG_INFINITY..=f64::INFINITY,
        is_share: |_| false,
        unit: |_| Unit::Shares,
        made_of: |_| None,
        labels: &[],
        choices: &[],
        verdicts: &[],
        aim: |_| None,
        terms: &[],
        caveats: &[],
        figures: &[],
        drawn: &[],
        tables: &[],
        options: &[],
    };

    pub fn caveats_of(&self, labelling: &Labelling<'_>) -> Vec<&'static Caveat> {
        self.caveats.iter().filter(|caveat| (caveat.applies)(labelling)).collect()
    }

    pub fn all_labels(&self) -> impl Iterator<Item = &'static Detector> + use<> {
        self.labels.iter().chain(self.choices)
    }

    pub fn needed(&self, has_task: bool) -> &'static [&'static str] {
        self.builds_on_with_task.filter(|_| has_task).unwrap_or(self.builds_on)
    }

    /// Whether the study runs on the corpus in the box, where no corpus is named, unless it is switched off.
    pub fn runs_first(&self) -> bool {
        self.by_default || self.in_first_run
    }
}

/// The need of a study for the counts of the tokens of a whole corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Unused,
    /// It reports more where there are counts.
    Useful,
    /// It cannot run without counts.
    Needed,
}

/// A limit of what labels show. docs/LIMITS.md has the argument and the full references.
pub struct Caveat {
    pub id: &'static str,
    pub text: &'static str,
    /// Its subject: caveats are listed in this order.
    pub about: CaveatSubject,
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
