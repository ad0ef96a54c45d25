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

/// A model, a corpus, what is asked of them, and the form in which that ends.
#[derive(Clone)]
pub struct AnalyzeOptions {
    pub model: ModelRef,
    pub corpus: Vec<Input>,
    /// Longer sentences are skipped, or cut with `truncate`; the model's limit if `None`.
    pub max_tokens: Option<usize>,
    pub tokenizer: TokenizerOptions,
    /// Whether longer sentences of plain text are cut.
    pub truncate: bool,
    /// The text that a decoder reads as one sequence; as the corpus has documents if `None`.
    pub context: Option<Context>,
    /// Whether the token for the beginning of text stands before each sequence of a decoder.
    pub bos: Bos,
    /// Whether a sentence that must be left out is an error.
    pub strict: bool,
    /// Read about this many sentences: whole documents where these are the unit.
    pub limit: Option<u64>,
    /// The sampling unit; decided by the corpus if `None`.
    pub unit: Option<Unit>,
    pub half: Option<UnitHalf>,
    pub threads: NonZeroUsize,
    /// The most bytes that are kept of a pass for a later one; a share of what is free if `None`.
    pub keep: Option<u64>,
    pub words: Spacing,
    pub from_token: FromToken,
    /// Whether it is recorded when, how long and where it ran.
    pub run_info: bool,
    pub controls: Vec<Control>,
    /// The heads that are removed from the model, ascending.
    pub removed: Vec<HeadPlace>,
    pub ablation: Option<Ablation>,
    /// The columns or keys of the corpus that are probed for, beside those that always are.
    pub probes: Vec<String>,
    pub links: LinkOptions,
    /// The column or key of the corpus with the class of each word, if one was named.
    pub classes: Option<String>,
    pub selection: Selection,
    pub task: Option<Arc<TaskFile>>,
    /// Where heads exchange their contexts between the texts of the task and their corrupted texts, if a study asks for that.
    pub exchanged: Option<ExchangedPositions>,
    /// A file with counts of tokens, which replace the counts of the corpus.
    pub counts: Option<PathBuf>,
    /// The index of the corpus, by which a shard reads its own part alone.
    pub index: Option<PathBuf>,
    /// The sentence over which the report has the attention of every head, if it has.
    pub show: Option<Shown>,
    pub outcome: Outcome,
}

impl AnalyzeOptions {
    pub fn columns(&self) -> FurtherColumns<'_> {
        FurtherColumns { requested: &self.probes, links: Some(&self.links), classes: self.classes.as_deref() }
    }

    /// The things that the head of the model classifies that its task takes; `None` if it takes no such head.
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

    /// Whether a pass needs the head by which the model was trained.
    pub fn predicts(&self, pass: &Pass) -> bool {
        let compares_vectors = || self.task.as_ref().is_some_and(|task| task.kind == TaskKind::Triple);
        pass.predicts() && !(pass.sequences == Sequences::Task && compares_vectors())
    }

    pub fn has_pass(&self, is_wanted: impl Fn(&Pass) -> bool) -> bool {
        self.selection.studies().iter().any(|study| self.passes_of(*study).iter().any(|spec| is_wanted(&spec.pass)))
    }

    /// The first study that needs predictions, if any does: a named one, or else one that those need.
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
        /// The folder in which the parts of the run are kept, if they are.
        parts: Option<PathBuf>,
        /// The file of the sums that the reports are of, if they are kept.
        partial: Option<PathBuf>,
    },
    Partial(PartialOptions),
}

#[derive(Clone)]
pub struct PartialOptions {
    pub shard: Shard,
    pub path: PathBuf,
    /// Whether it is in a folder of parts, which is created if missing, and in which nothing else is replaced.
    pub in_folder: bool,
    /// The sums over the whole corpus that the passes of this shard follow, if they follow any.
    pub after: Option<PathBuf>,
    /// How heads are labelled where passes follow from labels.
    pub policy: PolicyOptions,
    pub summary: bool,
}
