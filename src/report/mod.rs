//! The report: what is written, with its JSON Schema. docs/REPORT.md explains each key.

mod caveats;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::corpus::{CorpusIdentity, FileIdentity, Format};
use crate::model::families::Architecture;
use crate::model::grid::{HeadGrid, head_name};
use crate::model::{Hashes, Model};
use crate::passes::control::Control;
use crate::passes::observation::Protocol;
use crate::sequences::encode::{FileTally, SkipReason, Tally};
use crate::stats::bootstrap::Bootstrap;
use crate::studies::clark2019::Clark2019;
use crate::studies::labels::{self, Label, Near, Policy, Verdict};
use crate::studies::metrics::{HeadIntervals, HeadMetrics, Measurements, RelationMetrics, Tests};

/// Raised when a key changes its meaning or goes away; new keys alone do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// What each head of a model does, with the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "headscope report")]
pub struct Report {
    /// The version of this schema.
    pub schema_version: u32,
    /// What wrote the report.
    pub tool: Tool,
    /// The model that was analysed.
    pub model: ModelInfo,
    /// The corpus it was run over.
    pub corpus: CorpusInfo,
    /// Every option that the numbers depend on, and the label policy.
    pub settings: Settings,
    /// The chance level of each metric on this corpus, by metric id.
    pub chance: HeadMetrics,
    /// The 95 % intervals of those.
    pub chance_ci95: HeadIntervals,
    /// How many labels of each family the heads have.
    pub label_counts: BTreeMap<String, u64>,
    /// How many they have in each control; empty without `--control`.
    pub controls: Vec<ControlReport>,
    /// One object per head, layer by layer.
    pub heads: Vec<HeadReport>,
    /// One object per dependency relation; empty for a corpus without trees.
    pub relations: Vec<RelationMetrics>,
    /// How many tests the syntactic labels rest on.
    pub tests: Tests,
    /// The analysis of Clark et al. 2019 as its released code does it; absent without `--preset clark2019`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clark2019: Option<Clark2019>,
    /// What the labels do not show.
    pub caveats: Vec<Caveat>,
    /// Time, threads and host; absent with `--no-run-info`. Nothing else in the report depends on the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunInfo>,
}

/// What wrote the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// The program's name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Default for Tool {
    /// This program.
    fn default() -> Self {
        Self { name: env!("CARGO_PKG_NAME").to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// The model that was analysed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// Hub id, or the name of the folder.
    pub id: String,
    /// The commit on the Hub; null for a folder.
    pub revision: Option<String>,
    /// The architecture.
    pub family: String,
    /// Layers.
    pub layers: usize,
    /// Heads per layer.
    pub heads: usize,
    /// Width of one head's queries, keys and values.
    pub head_dim: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Rows of the token embedding.
    pub vocab_size: usize,
    /// Whether the checkpoint has a masked-LM head beside the encoder.
    pub masked_lm_head: bool,
    /// SHA-256 of `config.json`.
    pub config_sha256: String,
    /// SHA-256 of the weights; of several files, as if they were one, in the order of their names.
    pub weights_sha256: String,
    /// SHA-256 of each file of the tokenizer, by its name.
    pub tokenizer_sha256: BTreeMap<String, String>,
}

impl ModelInfo {
    /// Describes a loaded model.
    #[must_use]
    pub fn new(model: &Model, hashes: Hashes) -> Self {
        let HeadGrid { layers, heads } = model.grid();
        let Architecture { family, config, .. } = &model.architecture;
        Self {
            id: model.id.clone(),
            revision: model.revision.clone(),
            family: family.to_string(),
            layers,
            heads,
            head_dim: config.head_dim(),
            hidden_size: config.hidden_size,
            vocab_size: config.vocab_size,
            masked_lm_head: model.masked_lm_head,
            config_sha256: hashes.config,
            weights_sha256: hashes.weights,
            tokenizer_sha256: hashes.tokenizer,
        }
    }

    /// How many layers and heads there are.
    #[must_use]
    pub fn grid(&self) -> HeadGrid {
        HeadGrid { layers: self.layers, heads: self.heads }
    }
}

/// The corpus that a model was run over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusInfo {
    /// The names of what was given, joined by ` + `: of files, of folders, `-` for standard input.
    pub name: String,
    /// Sentences analysed.
    pub sentences: u64,
    /// Tokens of those, special tokens included.
    pub tokens: u64,
    /// Words of those: syntactic words of CoNLL-U, the tokenizer's own words of plain text.
    pub words: u64,
    /// Tokens of the longest of them.
    pub longest: u64,
    /// Sentences left out, by reason. Every reason is listed.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Sentences of plain text that were cut to the limit.
    pub truncated: u64,
    /// Sentences analysed that were given as words of which not every one has an annotated head.
    pub unannotated: u64,
    /// Files and folders in the given folders that are no corpus files.
    pub passed_over: u64,
    /// The files in the order they were read; sentences are numbered through.
    pub files: Vec<CorpusFileInfo>,
}

/// One file of the corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusFileInfo {
    /// The file's name, or `-` for standard input.
    pub name: String,
    /// The format it was read as.
    pub format: Format,
    /// SHA-256 of the whole file as it is stored, compressed or not.
    pub sha256: String,
    /// Sentences analysed.
    pub sentences: u64,
    /// Tokens of those, special tokens included.
    pub tokens: u64,
    /// Words of those.
    pub words: u64,
    /// Sentences left out.
    pub skipped: u64,
}

impl CorpusInfo {
    /// Describes a corpus that was read to its end.
    #[must_use]
    pub fn new(identity: CorpusIdentity, tally: &Tally) -> Self {
        let count = |reason: SkipReason| (reason, tally.skipped.get(&reason).copied().unwrap_or(0));
        let file = |(number, FileIdentity { name, format, sha256 }): (usize, FileIdentity)| {
            let FileTally { sentences, tokens, words, skipped } = tally.files.get(number).copied().unwrap_or_default();
            CorpusFileInfo { name, format, sha256, sentences, tokens, words, skipped }
        };
        Self {
            name: identity.name,
            sentences: tally.sentences,
            tokens: tally.tokens,
            words: tally.words,
            longest: tally.longest,
            skipped: SkipReason::ALL.map(count).into(),
            truncated: tally.truncated,
            unannotated: tally.unannotated,
            passed_over: identity.passed_over,
            files: identity.files.into_iter().enumerate().map(file).collect(),
        }
    }
}

/// Every option that the numbers depend on, and the label policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// What the sums depend on.
    #[serde(flatten)]
    pub protocol: Protocol,
    /// How the blocks were resampled for the intervals.
    pub bootstrap: Bootstrap,
    /// The thresholds of the labels.
    pub policy: Policy,
}

/// What was found in a control: false labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlReport {
    /// Which control, with its seed.
    #[serde(flatten)]
    pub control: Control,
    /// How many labels of each family the heads have there.
    pub label_counts: BTreeMap<String, u64>,
}

/// One head: its verdict and the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadReport {
    /// Layer, counted from 0.
    pub layer: usize,
    /// Head within the layer, counted from 0.
    pub head: usize,
    /// The name of the head, `L7H9`.
    pub name: String,
    /// The label with the largest margin over its threshold, or `unlabelled`.
    pub primary: String,
    /// All labels, by falling margin.
    pub labels: Vec<Label>,
    /// For an unlabelled head the two labels it is nearest to; fewer if fewer rules are on.
    pub nearest: Vec<Near>,
    /// What was measured, by metric id.
    pub metrics: HeadMetrics,
    /// The 95 % interval of each metric.
    pub ci95: HeadIntervals,
}

/// A caveat that applies to the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caveat {
    /// A short name that does not change.
    pub id: String,
    /// The caveat.
    pub text: String,
}

/// Facts about the run that the numbers do not depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// How many shards were run and merged; 1 for a run over everything.
    pub shards: u32,
    /// When it began, or the first of the shards, RFC 3339, UTC.
    pub started_at: String,
    /// How long it took, or all shards and the merging together, in seconds.
    pub duration_seconds: f64,
    /// The part of that after the model was loaded: all sentences, and the intervals and labels.
    pub analysis_seconds: f64,
    /// Worker threads, or the most that a shard had.
    pub threads: usize,
    /// Operating system; of shards on several, all of them.
    pub os: String,
    /// Processor architecture; of shards on several, all of them.
    pub arch: String,
}

impl RunInfo {
    /// Facts about a run on this machine that began at `started_at`.
    #[must_use]
    pub fn new(started_at: SystemTime, duration: Duration, analysis: Duration, threads: NonZeroUsize) -> Self {
        Self {
            shards: 1,
            started_at: humantime::format_rfc3339_seconds(started_at).to_string(),
            duration_seconds: duration.as_secs_f64(),
            analysis_seconds: analysis.as_secs_f64(),
            threads: threads.get(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        }
    }

    /// The same with more time taken.
    #[must_use]
    pub fn and(self, more: Duration) -> Self {
        let more = more.as_secs_f64();
        let (duration_seconds, analysis_seconds) = (self.duration_seconds + more, self.analysis_seconds + more);
        Self { duration_seconds, analysis_seconds, ..self }
    }

    /// The facts of two shards' runs together: the earlier start, the time that both took.
    #[must_use]
    pub fn merged(self, other: &Self) -> Self {
        let both = |here: String, there: &str| {
            let known = here.split(", ").any(|one| one == there);
            if known { here } else { format!("{here}, {there}") }
        };
        Self {
            shards: self.shards + other.shards,
            // RFC 3339 in UTC sorts as text.
            started_at: self.started_at.min(other.started_at.clone()),
            duration_seconds: self.duration_seconds + other.duration_seconds,
            analysis_seconds: self.analysis_seconds + other.analysis_seconds,
            threads: self.threads.max(other.threads),
            os: both(self.os, &other.os),
            arch: both(self.arch, &other.arch),
        }
    }
}

/// What comes of the sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// The ratios.
    pub measured: Measurements,
    /// The verdict on each head, `[layers * heads]`.
    pub verdicts: Vec<Verdict>,
    /// What was found in each control.
    pub controls: Vec<ControlReport>,
    /// What the preset finds, if it was asked for.
    pub clark2019: Option<Clark2019>,
}

impl Report {
    /// Puts a report together.
    #[must_use]
    pub fn new(
        tool: Tool,
        model: ModelInfo,
        corpus: CorpusInfo,
        settings: Settings,
        findings: Findings,
        run: Option<RunInfo>,
    ) -> Self {
        let Findings { measured, verdicts, controls, clark2019 } = findings;
        let grid = model.grid();
        let caveats = caveats::of_run(&model, &corpus, &settings.policy, &measured, &verdicts);
        let tests = measured.tests(settings.policy.syntactic_q);
        let Measurements { heads, ci95, chance, chance_ci95, relations } = measured;
        let head = |(place, ((metrics, ci95), verdict)): (usize, ((HeadMetrics, HeadIntervals), Verdict))| {
            let (layer, head) = grid.at(place);
            let Verdict { primary, labels, nearest } = verdict;
            HeadReport { layer, head, name: head_name(layer, head), primary, labels, nearest, metrics, ci95 }
        };
        Self {
            schema_version: SCHEMA_VERSION,
            tool,
            model,
            corpus,
            settings,
            chance,
            chance_ci95,
            label_counts: labels::count(&verdicts),
            controls,
            heads: heads.into_iter().zip(ci95).zip(verdicts).enumerate().map(head).collect(),
            relations,
            tests,
            clark2019,
            caveats,
            run,
        }
    }
}

impl Report {
    /// The same evidence under another policy: new labels, q-values and caveats.
    ///
    /// What the controls come to under it cannot be told from a report, so they are left out.
    #[must_use]
    pub fn relabel(self, policy: Policy) -> Self {
        let Self { tool, model, corpus, settings, chance, chance_ci95, heads, relations, clark2019, run, .. } = self;
        let (heads, ci95) = heads.into_iter().map(|head| (head.metrics, head.ci95)).unzip();
        let mut measured = Measurements { heads, ci95, chance, chance_ci95, relations };
        measured.correct(policy.syntactic_min_count);
        let verdicts = labels::label(&measured, &policy);
        let findings = Findings { measured, verdicts, controls: Vec::new(), clark2019 };
        Self::new(tool, model, corpus, Settings { policy, ..settings }, findings, run)
    }

    /// What is missing for this to be a whole report, if anything: each list of heads has all of them.
    #[must_use]
    pub fn defect(&self) -> Option<String> {
        let grid = self.model.grid();
        let whole = |mut places: Box<dyn Iterator<Item = (usize, usize)> + '_>| {
            (0..grid.count()).all(|place| places.next() == Some(grid.at(place))) && places.next().is_none()
        };
        if !whole(Box::new(self.heads.iter().map(|head| (head.layer, head.head)))) {
            return Some(format!("`heads` does not list {} layers of {} heads", grid.layers, grid.heads));
        }
        let broken = self.relations.iter().find(|relation| {
            let best_is_listed = relation.layer < grid.layers && relation.head < grid.heads;
            !best_is_listed || !whole(Box::new(relation.by_head.iter().map(|entry| (entry.layer, entry.head))))
        });
        broken.map(|relation| format!("the relation `{}` does not list every head", relation.relation))
    }
}

/// The JSON Schema of [`Report`], draft 2020-12.
#[must_use]
pub fn schema() -> Schema {
    schemars::schema_for!(Report)
}
