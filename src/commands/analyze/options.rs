//! The options of `headscope analyze`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use super::selection::Selection;
use crate::commands::reporting::{PolicyOptions, ReportOptions};
use crate::corpus::{FurtherColumns, Input, LinkOptions, Unit, UnitHalf};
use crate::model::grid::HeadPlace;
use crate::model::parameters::Classified;
use crate::model::source::ModelRef;
use crate::model::tokenizer::TokenizerOptions;
use crate::passes::ablation::Ablation;
use crate::passes::control::Control;
use crate::passes::pass::{Pass, Sequences};
use crate::sequences::derived::task::file::TaskFile;
use crate::sequences::derived::task::{ExchangedPositions, TaskKind};
use crate::sequences::fold::words::FromToken;
use crate::sequences::reading::{Bos, Context, Spacing};
use crate::sequences::shard::Shard;
use crate::study::{AnyStudy, PassSpec};

#[derive(Clone)]
pub struct AnalyzeOptions {
    pub model: ModelRef,
    pub corpus: Vec<Input>,
    /// Token limit: longer sentences are skipped, or with `truncate` cut if they are plain text. `None`: the model's limit.
    pub max_tokens: Option<usize>,
    pub tokenizer: TokenizerOptions,
    pub truncate: bool,
    /// Text unit per sequence (decoders only). `None`: documents where documents are the sampling unit, else sentences.
    pub context: Option<Context>,
    /// Whether each sequence of a decoder starts with the beginning-of-text token.
    pub bos: Bos,
    /// Whether a sentence that cannot be analysed is an error; otherwise it is skipped.
    pub strict: bool,
    /// Number of sentences to read, approximate where documents are the sampling unit. `None`: all.
    pub limit: Option<u64>,
    /// Sampling unit of intervals and tests. `None`: decided by the corpus.
    pub unit: Option<Unit>,
    pub half: Option<UnitHalf>,
    pub threads: NonZeroUsize,
    /// Memory limit in bytes for activations kept for later passes. `None`: a share of the free memory.
    pub keep: Option<u64>,
    pub words: Spacing,
    pub from_token: FromToken,
    /// Whether the report records time, duration, threads and machine of the run.
    pub run_info: bool,
    pub controls: Vec<Control>,
    /// The heads that are removed from the model, ascending.
    pub removed: Vec<HeadPlace>,
    pub ablation: Option<Ablation>,
    /// Columns (CoNLL-U) or keys (JSON lines) of the corpus to probe for, in addition to `upos` and `relation`.
    pub probes: Vec<String>,
    pub links: LinkOptions,
    /// Column (CoNLL-U) or key (JSON lines) of the corpus with the class of each word, if one was named.
    pub classes: Option<String>,
    pub selection: Selection,
    pub task: Option<Arc<TaskFile>>,
    /// Positions at which `interchange` exchanges head outputs of clean and corrupted texts; `None` if that study does not run.
    pub exchanged: Option<ExchangedPositions>,
    /// File with token counts (`--counts`), which replace counts of the corpus.
    pub counts: Option<PathBuf>,
    /// Index of the corpus, which lets a shard read only its own part.
    pub index: Option<PathBuf>,
    /// Sentence whose attention maps go into the report; `None`: no maps.
    pub show: Option<Shown>,
    pub outcome: Outcome,
}

impl AnalyzeOptions {
    pub fn columns(&self) -> FurtherColumns<'_> {
        FurtherColumns { requested: &self.probes, links: Some(&self.links), classes: self.classes.as_deref() }
    }

    /// Classification layer that the task needs, of sequences or of tokens; `None` if it needs none.
    pub fn classified(&self) -> Option<Classified> {
        match self.task.as_ref()?.kind {
            TaskKind::Classify => Some(Classified::Sequences),
            TaskKind::Tag => Some(Classified::Tokens),
            TaskKind::Cloze | TaskKind::Pair | TaskKind::Triple => None,
        }
    }

    pub fn passes_of(&self, study: &dyn AnyStudy) -> Vec<PassSpec> {
        study.passes_of(self.task.is_some())
    }

    /// Whether a pass needs the model's predictions. A pass over task items of kind triple does not: it compares text vectors.
    pub fn predicts(&self, pass: &Pass) -> bool {
        let compares_vectors = || self.task.as_ref().is_some_and(|task| task.kind == TaskKind::Triple);
        pass.predicts() && !(pass.sequences == Sequences::Task && compares_vectors())
    }

    pub fn has_pass(&self, is_wanted: impl Fn(&Pass) -> bool) -> bool {
        self.selection.studies().iter().any(|study| self.passes_of(*study).iter().any(|spec| is_wanted(&spec.pass)))
    }

    /// The first study that needs predictions, if any; studies named by options come first.
    pub fn predicting(&self) -> Option<&'static str> {
        let predicts =
            |study: &&'static dyn AnyStudy| self.passes_of(*study).iter().any(|spec| self.predicts(&spec.pass));
        self.selection.named_first().find(predicts).map(|study| study.card().name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    Text(String),
    /// A sentence that the study `examples` chose.
    Example,
}

#[derive(Clone)]
pub enum Outcome {
    Report {
        wanted: ReportOptions,
        /// Folder in which finished parts of the run are saved (`--resume`).
        parts: Option<PathBuf>,
        /// File for the sums behind the report (`--partial`).
        partial: Option<PathBuf>,
    },
    Partial(PartialOptions),
}

#[derive(Clone)]
pub struct PartialOptions {
    pub shard: Shard,
    pub path: PathBuf,
    /// Whether `path` is in a folder of shards: a missing folder is created, and a file of another run is never replaced.
    pub in_folder: bool,
    /// File with first-stage sums over all of the corpus (`--after`); `None` if this shard belongs to a first or only stage.
    pub after: Option<PathBuf>,
    /// Labelling policy, for second-stage passes that depend on labels.
    pub policy: PolicyOptions,
    pub summary: bool,
}
