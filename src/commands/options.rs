//! What was asked for: validated plain data.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::corpus::Input;
use crate::export::Target;
use crate::model::source::ModelRef;
use crate::passes::control::Control;
use crate::sequences::shard::Shard;
use crate::sequences::words::FromToken;

/// `headscope analyze`
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// What is run beside the analysis.
    pub controls: Vec<Control>,
    /// Whether the analysis of Clark et al. 2019 is run too.
    pub clark2019: bool,
    /// What the analysis is to come to.
    pub outcome: Outcome,
}

/// What `headscope analyze` comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Reports on the whole corpus.
    Report(ReportOptions),
    /// The sums of one shard, for `headscope merge`.
    Partial {
        /// Which shard.
        shard: Shard,
        /// The file.
        path: PathBuf,
        /// Whether a line is printed when it is done.
        summary: bool,
    },
}

/// How observations are labelled, and where the report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOptions {
    /// Where reports go.
    pub outputs: Vec<Target>,
    /// Whether the summary is printed.
    pub summary: bool,
    /// What the labels are given by.
    pub policy: PolicyOptions,
    /// Threads that work out intervals.
    pub threads: NonZeroUsize,
}

/// Where the thresholds of the labels come from: each of these has the last word on what those before it say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyOptions {
    /// Whether it starts from the policy of Voita et al. 2019, and not from the default one.
    pub voita2019: bool,
    /// A file that sets thresholds.
    pub file: Option<PathBuf>,
    /// Fewest scored words of a syntactic label.
    pub min_count: Option<u64>,
}

/// `headscope merge`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOptions {
    /// The partials of all shards.
    pub parts: Vec<PathBuf>,
    /// Whether the report says when, how long and where the shards ran.
    pub run_info: bool,
    /// What is made of them.
    pub report: ReportOptions,
}

/// `headscope maps`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapsOptions {
    /// The model.
    pub model: ModelRef,
    /// What to draw maps of.
    pub sentences: SentenceChoice,
    /// The safetensors file.
    pub output: PathBuf,
    /// Longer sentences are skipped, or are an error if they were asked for by number.
    pub max_tokens: Option<usize>,
    /// Whether a sentence that must be left out is an error.
    pub strict: bool,
}

/// `headscope relabel`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelabelOptions {
    /// The saved report; `-` is standard input.
    pub report: PathBuf,
    /// What the labels are given by.
    pub policy: PolicyOptions,
    /// Where the new report goes.
    pub outputs: Vec<Target>,
}

/// `headscope diff`
#[derive(Clone, Debug, PartialEq)]
pub struct DiffOptions {
    /// The first report.
    pub a: PathBuf,
    /// The second report.
    pub b: PathBuf,
    /// How far apart numbers may be and still count as the same.
    pub tolerance: f64,
    /// Whether the outcome is printed as JSON.
    pub json: bool,
}

/// The sentences of `headscope maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentenceChoice {
    /// One text from the command line.
    Text(String),
    /// Sentences of a corpus by their 0-based index; all of them if none are named.
    Corpus {
        /// The corpus, in the order it is read.
        inputs: Vec<Input>,
        /// Indices, ascending.
        indices: Vec<u64>,
    },
}
