//! The options of `headscope analyze`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use super::selection::StudySelection;
use crate::commands::reporting::{PolicyOptions, ReportOptions};
use crate::corpus::{AnnotationOptions, Input, LinkOptions, Unit, UnitHalf};
use crate::model::grid::HeadPlace;
use crate::model::parameters::ClassifiedUnit;
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
    /// Whether sentences of plain text are cut at the token limit.
    pub truncate: bool,
    /// Text unit per sequence (decoders only). `None`: documents where documents are the sampling unit, else sentences.
    pub context: Option<Context>,
    /// Whether each sequence of a decoder starts with the beginning-of-text token.
    pub bos: Bos,
    /// Whether a sentence that cannot be analysed is an error; otherwise it is skipped.
    pub strict: bool,
    /// Number of sentences to read, approximate where documents are the sampling unit. `None`: all.
    pub sentence_limit: Option<u64>,
    /// Sampling unit of intervals and tests. `None`: decided by the corpus.
    pub sampling_unit: Option<Unit>,
    /// Half of the sampling units to analyse; `None`: all units.
    pub unit_half: Option<UnitHalf>,
    pub threads: NonZeroUsize,
    /// Memory limit in bytes for activations kept for later passes. `None`: a share of the free memory.
    pub activation_memory: Option<u64>,
    /// Spacing of treebank words before they are tokenized.
    pub spacing: Spacing,
    /// Pooling of the tokens of a split word.
    pub from_token: FromToken,
    /// Whether the report records time, duration, threads and machine of the run.
    pub run_info: bool,
    /// Control runs; their labels are compared with the model's labels.
    pub controls: Vec<Control>,
    /// The heads that are removed from the model, ascending.
    pub removed_heads: Vec<HeadPlace>,
    /// Settings of the studies that remove heads; `None` if no such study runs.
    pub ablation: Option<Ablation>,
    /// Columns (CoNLL-U) or keys (JSON lines) of the corpus to probe for, in addition to `upos` and `relation`.
    pub probed_columns: Vec<String>,
    pub links: LinkOptions,
    /// Column (CoNLL-U) or key (JSON lines) of the corpus that holds the class of each word; `None` if no option names one.
    pub class_column: Option<String>,
    pub selection: StudySelection,
    /// Task to score the model on; `None` without `--task`.
    pub task: Option<Arc<TaskFile>>,
    /// Positions at which `interchange` exchanges head outputs of clean and corrupted texts; `None` if that study does not run.
    pub exchanged_positions: Option<ExchangedPositions>,
    /// File with token counts (`--counts`), which replace counts of the corpus.
    pub counts_file: Option<PathBuf>,
    /// Index of the corpus, which lets a shard read only its own part.
    pub index_file: Option<PathBuf>,
    /// Sentence whose attention maps go into the report; `None`: no maps.
    pub mapped_sentence: Option<MappedSentence>,
    pub output: AnalysisOutput,
}

impl AnalyzeOptions {
    /// Options that decide which annotations of the corpus are read: columns, links and word classes.
    pub fn annotation_options(&self) -> AnnotationOptions<'_> {
        AnnotationOptions {
            requested_columns: &self.probed_columns,
            links: Some(&self.links),
            class_column: self.class_column.as_deref(),
        }
    }

    /// Unit that the task's classification layer classifies: sequences or tokens. `None` if the task needs no such layer.
    pub fn classified_unit(&self) -> Option<ClassifiedUnit> {
        match self.task.as_ref()?.kind {
            TaskKind::Classify => Some(ClassifiedUnit::Sequences),
            TaskKind::Tag => Some(ClassifiedUnit::Tokens),
            TaskKind::Cloze | TaskKind::Pair | TaskKind::Triple => None,
        }
    }

    /// Passes of a study in a run with these options; a task adds passes to some studies.
    pub fn passes_of_study(&self, study: &dyn AnyStudy) -> Vec<PassSpec> {
        study.passes_for(self.task.is_some())
    }

    /// Whether a pass needs the model's predictions.
    /// Passes over task items of kind triple need none, since they compare text vectors.
    pub fn needs_predictions(&self, pass: &Pass) -> bool {
        let compares_vectors = || self.task.as_ref().is_some_and(|task| task.kind == TaskKind::Triple);
        pass.predicts() && !(pass.sequences == Sequences::Task && compares_vectors())
    }

    /// Whether some selected study has a pass for which `is_wanted` returns true.
    pub fn has_pass(&self, is_wanted: impl Fn(&Pass) -> bool) -> bool {
        self.selection
            .studies()
            .iter()
            .any(|study| self.passes_of_study(*study).iter().any(|spec| is_wanted(&spec.pass)))
    }

    /// The first study that needs predictions, if any; studies named by options come first.
    pub fn first_predicting_study(&self) -> Option<&'static str> {
        let predicts = |study: &&'static dyn AnyStudy| {
            self.passes_of_study(*study).iter().any(|spec| self.needs_predictions(&spec.pass))
        };
        self.selection.named_then_all_studies().find(predicts).map(|study| study.card().name)
    }
}

/// Sentence whose attention maps go into the report (`--show`, `--show-example`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedSentence {
    Text(String),
    /// A sentence that the study `examples` chose.
    Example,
}

/// Output of an analysis: a report of the whole corpus, or the partial of one shard.
#[derive(Clone)]
pub enum AnalysisOutput {
    Report {
        options: ReportOptions,
        /// Folder in which finished parts of the run are saved (`--resume`).
        parts_folder: Option<PathBuf>,
        /// File for the sums behind the report (`--partial`).
        partial_file: Option<PathBuf>,
    },
    Partial(PartialOptions),
}

#[derive(Clone)]
pub struct PartialOptions {
    pub shard: Shard,
    pub path: PathBuf,
    /// Whether `path` is in a folder of shards. Then a missing folder is created, and a file of another run is never replaced.
    pub is_in_folder: bool,
    /// File with first-stage sums over all of the corpus (`--after`); `None` if this shard belongs to a first or only stage.
    pub first_stage_file: Option<PathBuf>,
    /// Labelling policy, for second-stage passes that depend on labels.
    pub policy: PolicyOptions,
    pub prints_summary: bool,
}
