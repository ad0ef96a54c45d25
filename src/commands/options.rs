//! The options of each command: validated plain data.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::corpus::Input;
use crate::evaluation::plan;
use crate::evaluation::presets;
use crate::evaluation::presets::Preset;
use crate::export::summary::Detail;
use crate::export::{TableWriter, Target, Writer};
use crate::model::grid::HeadPlace;
use crate::model::source::ModelRef;
use crate::passes::ablation::Ablation;
use crate::passes::control::Control;
use crate::sequences::fold::words::FromToken;
use crate::sequences::shard::Shard;
use crate::study::AnyStudy;
use crate::study::labels::policy::{Policy, Value};
use crate::study::metrics::number::Part;
use crate::system::errors::ErrorFormat;
use crate::system::errors::{Class, Facts};

/// The threshold that `--min-count` sets.
const MIN_COUNT: &str = "syntactic_min_count";

/// Why a study that must know the whole corpus beforehand is left out.
pub const ONLY_ONCE: &str = "it must count the tokens of the corpus beforehand, which can be read only once";

/// The way out where it is.
pub const GIVE_COUNTS: &str = "name a file, or give --counts FILE, which `headscope counts` writes";

/// `headscope analyze`
#[derive(Clone)]
pub struct AnalyzeOptions {
    /// The model.
    pub model: ModelRef,
    /// The corpus, in the order it is read.
    pub corpus: Vec<Input>,
    /// Longer sentences are skipped, or cut with `truncate`; the model's limit if `None`.
    pub max_tokens: Option<usize>,
    /// Whether longer sentences of plain text are cut.
    pub truncate: bool,
    /// Whether a sentence that must be left out is an error.
    pub strict: bool,
    /// Read only the first so many sentences.
    pub limit: Option<u64>,
    /// Worker threads.
    pub threads: NonZeroUsize,
    /// Which token speaks for a split word.
    pub from_token: FromToken,
    /// Whether it is recorded when, how long and where it ran.
    pub run_info: bool,
    /// The controls that are run beside the analysis.
    pub controls: Vec<Control>,
    /// The heads that are removed from the model, ascending.
    pub removed: Vec<HeadPlace>,
    /// How heads are removed in turn, if a study asks for that.
    pub ablation: Option<Ablation>,
    /// The columns or keys of the corpus that are probed for, beside those that always are.
    pub probes: Vec<String>,
    /// The studies that are run.
    pub studies: Vec<&'static dyn AnyStudy>,
    /// The names of those that were asked for.
    pub with: Vec<String>,
    /// Studies that would run, but for a corpus that can be read only once.
    pub left_out: Vec<&'static dyn AnyStudy>,
    /// A file with the counts of tokens, in place of those of the corpus.
    pub counts: Option<PathBuf>,
    /// The index of the corpus, by which a shard reads its own part alone.
    pub index: Option<PathBuf>,
    /// The form in which the analysis ends.
    pub outcome: Outcome,
}

/// The form in which `headscope analyze` ends.
#[derive(Clone)]
pub enum Outcome {
    /// Reports on the whole corpus.
    Report {
        /// Which, and how heads are labelled.
        wanted: ReportOptions,
        /// The folder in which the parts of the run are kept, if they are.
        parts: Option<PathBuf>,
    },
    /// The sums of one shard, for `headscope merge`.
    Partial {
        /// Which shard.
        shard: Shard,
        /// The file.
        path: PathBuf,
        /// Whether it is one of those in a folder of parts, which is made, and in which nothing else is replaced.
        in_folder: bool,
        /// The sums over the whole corpus that the passes of this shard follow; without it, it is run in those that follow
        /// nothing.
        after: Option<PathBuf>,
        /// How heads are labelled where passes follow from labels.
        policy: PolicyOptions,
        /// Whether a line is printed when it is done.
        summary: bool,
    },
}

/// How observations are labelled, and where the report goes.
#[derive(Clone)]
pub struct ReportOptions {
    /// Where reports go.
    pub outputs: Vec<Target>,
    /// How much the summary that is printed says; `None`: there is none.
    pub summary: Option<Detail>,
    /// The policy by which labels are given.
    pub policy: PolicyOptions,
    /// Threads that work out intervals.
    pub threads: NonZeroUsize,
}

/// Where the thresholds of the labels come from: each of these has the last word on what those before it say.
#[derive(Clone, Debug, Default)]
pub struct PolicyOptions {
    /// The published analyses whose thresholds it starts from.
    pub presets: Vec<&'static Preset>,
    /// A file that sets thresholds.
    pub file: Option<PathBuf>,
    /// Fewest scored words of a syntactic label.
    pub min_count: Option<u64>,
}

impl PolicyOptions {
    /// Makes sure that these studies measured what the presets label.
    /// Fails if one that a preset needs is not among them.
    pub fn ensure_measured(&self, studies: &[String]) -> Result<()> {
        match presets::missing(&self.presets, &plan::studies(studies)?) {
            Some((preset, study)) => {
                Err(anyhow!("--preset {preset} labels what the study `{study}` measures, which was not run")
                    .hint(format!("headscope analyze --with {study}")))
                .class(Class::Usage)
            }
            None => Ok(()),
        }
    }

    /// The default policy or that of presets, with what the policy file and the command line set.
    /// Fails if the policy file cannot be used.
    pub fn policy(&self) -> Result<Policy> {
        self.over(presets::policy(&[]))
    }

    /// `policy`, or that of presets if there are any, with what the policy file and the command line set.
    /// Fails if the policy file cannot be used.
    pub fn over(&self, policy: Policy) -> Result<Policy> {
        let policy = if self.presets.is_empty() { policy } else { presets::policy(&self.presets) };
        let policy = match &self.file {
            Some(file) => policy.with_file(file)?,
            None => policy,
        };
        Ok(policy.with(self.min_count.map(|count| (MIN_COUNT, Value::Count(count)))))
    }
}

/// `headscope merge`
#[derive(Clone)]
pub struct MergeOptions {
    /// The partials of all shards, or folders that have them.
    pub parts: Vec<PathBuf>,
    /// Whether the report says when, how long and where the shards ran.
    pub run_info: bool,
    /// What is made of them.
    pub outcome: Merged,
}

/// What `headscope merge` makes of partials.
#[derive(Clone)]
pub enum Merged {
    /// Reports.
    Report(ReportOptions),
    /// One partial, for shards to be run after it.
    Partial(PathBuf),
    /// Nothing: it is said which of so many shards are missing.
    Missing(u32),
}

/// `headscope batch`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// The table of runs.
    pub table: PathBuf,
    /// The folder of the reports.
    pub folder: PathBuf,
    /// Patterns of the names of runs; empty for all of them.
    pub only: Vec<String>,
    /// Whether the others are run after one has failed.
    pub keep_going: bool,
    /// Whether it is only said what would be run.
    pub dry_run: bool,
    /// The formats of each report.
    pub writers: Vec<(&'static str, Writer)>,
    /// Whether the Hub may not be asked.
    pub offline: bool,
    /// Whether nothing is printed.
    pub quiet: bool,
    /// How the errors of runs are printed.
    pub errors: ErrorFormat,
}

/// `headscope counts`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountsOptions {
    /// The model, whose tokenizer makes the tokens.
    pub model: ModelRef,
    /// The corpus, in the order it is read.
    pub corpus: Vec<Input>,
    /// The file that is written.
    pub output: PathBuf,
}

/// `headscope index`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// The corpus, in the order it is read.
    pub corpus: Vec<Input>,
    /// The file that is written.
    pub output: PathBuf,
}

/// `headscope maps`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapsOptions {
    /// The model.
    pub model: ModelRef,
    /// The sentences to write maps of.
    pub sentences: SentenceChoice,
    /// The heads.
    pub heads: HeadChoice,
    /// The safetensors file.
    pub output: PathBuf,
    /// Longer sentences are skipped, or are an error if they were asked for by number.
    pub max_tokens: Option<usize>,
    /// Whether a sentence that must be left out is an error.
    pub strict: bool,
    /// The heads that are removed from the model, ascending.
    pub removed: Vec<HeadPlace>,
}

/// `headscope show`
#[derive(Clone, Debug)]
pub struct ShowOptions {
    /// The saved report; `-` is standard input.
    pub report: PathBuf,
    /// What of it.
    pub shown: ShownPart,
    /// Whether as JSON.
    pub json: bool,
}

/// What of a report is shown.
#[derive(Clone, Debug)]
pub enum ShownPart {
    /// The summary.
    Summary(Detail),
    /// All on one head.
    Head(HeadPlace),
    /// The heads that follow a relation best.
    Relation {
        /// Its name.
        name: String,
        /// So many of them.
        top: usize,
    },
    /// The heads that have a label, or one of a family.
    Label(String),
}

/// `headscope cite`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiteOptions {
    /// The report whose sources are told; `-` is standard input.
    pub report: Option<PathBuf>,
}

/// `headscope relabel`
#[derive(Clone)]
pub struct RelabelOptions {
    /// The saved report; `-` is standard input.
    pub report: PathBuf,
    /// The policy by which labels are given.
    pub policy: PolicyOptions,
    /// Where the new report goes.
    pub outputs: Vec<Target>,
}

/// `headscope export`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// The saved reports, one or several; `-` is standard input.
    pub reports: Vec<PathBuf>,
    /// What is written of them, and where.
    pub wanted: Exported,
}

/// What is written of a saved report, or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exported {
    /// The whole of it, in any format.
    Report(Vec<Target>),
    /// A page of several reports side by side.
    SideBySide(Vec<PathBuf>),
    /// The figure of this name, as SVG.
    Figure(String, Vec<PathBuf>),
    /// The table of this name, in the format of each file.
    Table(String, Vec<(PathBuf, TableWriter)>),
}

/// `headscope diff`
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// The first report or partial.
    pub a: PathBuf,
    /// The second.
    pub b: PathBuf,
    /// The largest q-value of a change.
    pub rate: f64,
    /// Differences up to this are none.
    pub tolerance: f64,
    /// The parts that are told of and decide; empty for all.
    pub only: Vec<Part>,
    /// The policy that both are labelled by; what it does not set stays as each report has it.
    pub policy: PolicyOptions,
    /// Whether everything that changed is printed.
    pub full: bool,
    /// Whether the outcome is printed as JSON.
    pub json: bool,
    /// Where a page of it goes.
    pub outputs: Vec<PathBuf>,
    /// Threads that work out the numbers of partials.
    pub threads: NonZeroUsize,
}

/// `headscope view`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewOptions {
    /// The model.
    pub model: ModelRef,
    /// The sentences that are shown.
    pub sentences: SentenceChoice,
    /// The heads that are shown, in this order.
    pub heads: Vec<HeadPlace>,
    /// Whether weights are shown as numbers.
    pub numbers: bool,
    /// Longer sentences are skipped, or are an error if they were asked for by number.
    pub max_tokens: Option<usize>,
    /// The token that speaks for a split word.
    pub from_token: FromToken,
    /// Files that are written in place of the terminal.
    pub outputs: Vec<(PathBuf, Drawing)>,
}

/// A format of what `headscope view` draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// A figure.
    Svg,
    /// A page.
    Html,
}

/// The heads of `headscope maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadChoice {
    /// All of them.
    All,
    /// Those of these layers, ascending.
    Layers(Vec<usize>),
    /// These, in this order.
    Heads(Vec<HeadPlace>),
}

/// The sentences of `headscope maps` and `headscope view`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentenceChoice {
    /// Texts from the command line: the first is sentence 0.
    Texts(Vec<String>),
    /// Sentences of a corpus by their 0-based index; all of them if none are named.
    Corpus {
        /// The corpus, in the order it is read.
        inputs: Vec<Input>,
        /// Indices, ascending.
        indices: Vec<u64>,
        /// A word that each of them has, in capitals or not.
        find: Option<String>,
        /// No more than so many.
        limit: Option<u64>,
    },
}
