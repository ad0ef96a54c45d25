//! A study: one question asked of every head.

pub mod aim;
pub mod instruments;
pub mod labels;
pub mod metrics;
pub mod section;
pub mod show;
pub mod tracked;
pub mod upstream;

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::model::grid::HeadGrid;
use crate::passes::control::ControlKind;
use crate::passes::observer::Observer;
use crate::passes::pass::Pass;
use crate::sequences::fold::words::FromToken;
use aim::Aim;
use labels::policy::Policy;
use labels::{Detector, Label, Verdict};
use metrics::estimates::{Estimates, EstimationContext};
use metrics::explanation::Explanation;
use metrics::metric::{Column, Keys};
use section::{Nothing, Section};
use show::figure::Figure;
use show::table::Table;
use upstream::{NOTHING, UpstreamResults};

/// One question asked of every head: what it looks at, and what it makes of that.
///
/// A study is a folder of [`crate::studies`] and a line of [`crate::studies::registry::STUDIES`]; nothing else names it.
pub trait Study: Sync {
    /// Its name, its question and its needs.
    fn card(&self) -> &'static Card;

    /// Whether it runs on the corpus in the box, where no corpus is named, unless it is switched off.
    fn in_first_run(&self) -> bool {
        self.card().by_default
    }

    /// The passes that it looks at, each with sums of its own; by default the corpus as it is.
    fn passes(&self) -> Vec<Pass> {
        vec![Pass::PLAIN]
    }

    /// Whether its pass at `place` follows: it begins when those that do not are over, and its observer knows what was found
    /// in them, and this study's own sums.
    fn follows(&self, _place: usize) -> bool {
        false
    }

    /// The studies that run as well where it does, by their names: it asks about what they find.
    fn builds_on(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it runs by default wherever all of those run.
    fn joins(&self) -> bool {
        false
    }

    /// Whether it is run in controls of this kind as well: by default if there are labels for them to count.
    fn is_controlled(&self, _kind: ControlKind) -> bool {
        !self.detectors().is_empty()
    }

    /// Its need to know how often each token is in the whole corpus before any pass over it begins.
    fn counts(&self) -> Counts {
        Counts::Unused
    }

    /// Empty sums for the pass at `place` of [`Study::passes`].
    fn observer(&self, place: usize, subject: &Subject<'_>) -> Box<dyn Observer>;

    /// The sums for the pass at `place`, from the bytes of a partial.
    /// Fails if they are no such sums.
    fn restore(&self, place: usize, bytes: &[u8]) -> Result<Box<dyn Observer>>;

    /// Its metrics, in the order of its table.
    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        Vec::new()
    }

    /// The least and the most that a metric of its can be, for the schema of the report; by default nothing is said.
    fn range(&self, _metric: &str) -> RangeInclusive<f64> {
        f64::NEG_INFINITY..=f64::INFINITY
    }

    /// Its labels, in the order in which ties between them are broken.
    fn detectors(&self) -> &'static [Detector] {
        &[]
    }

    /// The aim of one of its labels, if it is visible in a sentence, with the metric that is the mean of it over the
    /// corpus, if that is not the label's score.
    fn aim(&self, _label: &Label) -> Option<(Aim, Option<String>)> {
        None
    }

    /// Ratios with intervals and chance, and its section of the report; `observed` are by the places of its passes.
    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>);

    /// Its results, for the studies that follow.
    fn found(&self, _observed: &[Observed<'_>], _judged: &Judged<'_>) -> UpstreamResults {
        UpstreamResults::default()
    }

    /// The figures of what it found; none where there is nothing to draw.
    fn figures(&self, _found: &dyn Section, _policy: &Policy) -> Vec<Figure> {
        Vec::new()
    }

    /// The flat tables of what it found, under the names of the report; none where its section has no rows.
    fn tables(&self, _found: &dyn Section) -> Vec<Table> {
        Vec::new()
    }

    /// The keys of its section in the report, with the schema of each.
    fn schema(&self, _generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        Vec::new()
    }

    /// Its section of a saved report.
    /// Fails if `report` lacks it, or it is another.
    fn read(&self, _report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(Nothing))
    }

    /// Whether reports that list no studies, as those of 0.1.0, have it.
    fn in_unlisted_reports(&self) -> bool {
        false
    }

    /// Its caveats that apply to a run: what its labels do not show.
    fn caveats(&self, _judged: &Judged<'_>) -> Vec<&'static Caveat> {
        Vec::new()
    }
}

/// The name of a study, its question and its needs.
#[derive(Debug)]
pub struct Card {
    /// Its name: on the command line, in reports, in partials.
    pub name: &'static str,
    /// The question, as a sentence.
    pub question: &'static str,
    /// Its needs of the corpus, and its cost.
    pub needs: &'static str,
    /// Whether it runs unless it is switched off.
    pub by_default: bool,
    /// The key of `settings` that says by itself whether it ran: reports had it before they listed their studies.
    pub settings_key: Option<&'static str>,
}

/// The need of a study for the counts of the tokens of a whole corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// No need of them.
    Unused,
    /// It says more where there are any.
    Useful,
    /// It cannot do without.
    Needed,
}

/// The model and the settings that sums must know beforehand.
pub struct Subject<'a> {
    /// The heads.
    pub grid: HeadGrid,
    /// The token that speaks for a split word.
    pub from: FromToken,
    /// The id of a token in the model's vocabulary.
    pub token_id: &'a dyn Fn(&str) -> Option<u32>,
    /// The columns and keys of the corpus that are probed for, beside those that always are.
    pub probes: &'a [String],
    /// The results of upstream studies, for passes that follow; empty before the first stage is over.
    pub found: &'a UpstreamResults,
    /// The study's own sums over its passes that do not follow, for those that do; by their places.
    pub own: &'a [Observed<'a>],
    /// Threads for computations before a pass.
    pub threads: NonZeroUsize,
}

impl<'a> Subject<'a> {
    /// A model and settings before anything was observed; no columns are probed for.
    pub fn new(grid: HeadGrid, from: FromToken, token_id: &'a dyn Fn(&str) -> Option<u32>) -> Self {
        Self { grid, from, token_id, probes: &[], found: &NOTHING, own: &[], threads: NonZeroUsize::MIN }
    }
}

/// The sums of a study over one of its passes.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// Its sums.
    pub sums: &'a dyn Observer,
    /// Sentences of the corpus that are in none of the pass's sequences, though they could be encoded.
    pub left_out: u64,
}

/// The findings that decide which caveats apply.
pub struct Judged<'a> {
    /// The verdict on each head.
    pub verdicts: &'a [Verdict],
    /// The thresholds.
    pub policy: &'a Policy,
    /// The study's own section.
    pub section: &'a dyn Section,
}

impl Judged<'_> {
    /// Whether some head has a label of which `wanted` is true.
    pub fn has_label(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.verdicts.iter().flat_map(|verdict| &verdict.labels).any(|label| wanted(&label.label))
    }
}

/// A limit of what labels show. docs/LIMITS.md has the argument and the full references.
#[derive(Debug)]
pub struct Caveat {
    /// A short name that does not change.
    pub id: &'static str,
    /// The caveat.
    pub text: &'static str,
    /// Its subject: caveats are listed in this order.
    pub about: About,
}

/// The subject of a caveat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// The meaning of a label.
    Meaning,
    /// How sure it is.
    Certainty,
}

/// The columns of a study's metrics.
pub fn columns(study: &dyn Study) -> Vec<Column> {
    study.metrics().into_iter().map(|(explanation, keys)| (explanation.name, keys)).collect()
}
