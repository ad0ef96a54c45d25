//! The identity of an observation, which all shards of a run share: corpus, model, program and settings.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::PROGRAM;
use crate::corpus::{AnnotationOptions, ConlluLinkColumn, CorpusIdentity, LinkOptions, LinkSources, Unit};
use crate::model::families::architecture::Architecture;
use crate::model::grid::visibility::{LayerClass, LayerClasses};
use crate::model::grid::{self, HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::model::tokenizer::residues::Parting;
use crate::model::tokenizer::round_trip::RoundTrip;
use crate::model::weights::left::LeftTensors;
use crate::model::{Hashes, Model};
use crate::passes::ablation::Ablation;
use crate::passes::control::Control;
use crate::sequences::derived::task::TaskInfo;
use crate::sequences::fold::words::FromToken;
use crate::sequences::reading::{Context, Reading, Spacing};

/// The facts that shards of one run must have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    pub tool: Tool,
    pub model: ModelInfo,
    /// The whole corpus, not only the shard's part.
    pub corpus: CorpusIdentity,
    pub protocol: Protocol,
}

/// How a corpus is observed: every option that the sums depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Protocol {
    /// Maximum number of tokens in a sequence, with special tokens; longer sentences were skipped, or cut with `truncate`.
    pub max_tokens: usize,
    /// Whether sentences of plain text beyond `max_tokens` were cut instead of skipped.
    pub truncate: bool,
    /// Approximate number of sentences read (`--limit`), in whole documents if documents are the sampling unit; null for all.
    pub limit: Option<u64>,
    /// How words were given to the tokenizer; `spaced` in reports of 0.1, which lack the key.
    #[serde(default = "Spacing::before")]
    pub words: Spacing,
    /// The sampling unit that was asked for (`--unit`); absent if the corpus decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Unit")]
    pub unit: Option<Unit>,
    /// How the tokens of a split word are pooled.
    pub from_token: FromToken,
    /// Whether each word was looked up as one entry of the vocabulary; absent if the tokenizer cut words.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tokens_as_words: bool,
    /// How protein sequences were cut into tokens, as `--residues` said; absent if the vocabulary decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Parting")]
    pub residues: Option<Parting>,
    /// How a decoder read the corpus; absent for an encoder, which reads each sentence by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Reading")]
    pub reading: Option<Reading>,
    /// Number of jackknife blocks that the sentences are summed in.
    pub blocks: usize,
    /// The controls that were run in addition to the main analysis.
    pub controls: Vec<Control>,
    /// The attention heads that were removed from the model (`--remove`): what they write is zeros. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "grid::names")]
    #[schemars(with = "Vec<String>")]
    pub removed: Vec<HeadPlace>,
    /// How attention heads were ablated one by one; absent if no study asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Ablation")]
    pub ablation: Option<Ablation>,
    /// The user's task that was scored; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaskInfo")]
    pub task: Option<TaskInfo>,
    /// SHA-256 of the file of token counts; absent if the tokens of the corpus were counted, or no counts were needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub counts: Option<String>,
    /// Word properties that were probed for besides UPOS and relation: columns of CoNLL-U, or keys of JSON lines; absent if none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub probes: Vec<String>,
    /// The column of CoNLL-U that links between words were read from, `deps` or `misc:KEY`; absent if none was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub links_from: Option<ConlluLinkColumn>,
    /// Files and options other than the corpus that links between words come from, such as `--links`; absent if there are none.
    #[serde(default, skip_serializing_if = "LinkSources::is_empty")]
    pub links: LinkSources,
    /// The column of CoNLL-U, or the key of JSON lines, with the class of each word; absent if none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub classes: Option<String>,
    /// Default studies that did not run. They do not apply to the model, or need token counts of a corpus that can be read only
    /// once. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub left_out: Vec<String>,
    /// The studies that were run, by name, in the order of the registry.
    pub studies: Vec<String>,
}

impl Protocol {
    /// Options for reading the corpus: the probed properties, the word classes, and the links that `links` describes.
    pub fn annotation_options<'a>(&'a self, links: &'a LinkOptions) -> AnnotationOptions<'a> {
        AnnotationOptions { requested_columns: &self.probes, links: Some(links), class_column: self.classes.as_deref() }
    }

    /// The text that runs as one sequence: a sentence, or a window of a document.
    pub fn context(&self) -> Context {
        self.reading.as_ref().map(|reading| reading.context).unwrap_or_default()
    }
}

/// The program that wrote the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

impl Default for Tool {
    /// This program, with its version.
    fn default() -> Self {
        Self { name: PROGRAM.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// The model that was analysed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// Id on the Hugging Face Hub, or the name of the model's folder.
    pub id: String,
    /// Commit of the model on the Hub; null for a folder.
    pub revision: Option<String>,
    /// Architecture family of the model: the `model_type` of its configuration.
    pub family: String,
    /// Number of layers.
    #[schemars(range(min = 1))]
    pub layers: usize,
    /// Number of attention heads per layer.
    #[schemars(range(min = 1))]
    pub heads: usize,
    /// The heads that were pruned before the checkpoint was saved (`pruned_heads`); absent if the checkpoint has all heads.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "grid::names")]
    #[schemars(with = "Vec<String>")]
    pub absent: Vec<HeadPlace>,
    /// The heads that write a constant whatever they attend to, by their weights (as `prune` leaves them). Their attention is
    /// measured and labelled, but no later layer depends on it. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "grid::names")]
    #[schemars(with = "Vec<String>")]
    pub constant_heads: Vec<HeadPlace>,
    /// Number of layers whose weights are stored, if several layers share weights; absent if each layer has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize", range(min = 1))]
    pub stored_layers: Option<usize>,
    /// Number of key–value heads per layer, if several query heads share one; absent if each has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize", range(min = 1))]
    pub key_value_heads: Option<usize>,
    /// The keys that queries see, by classes of layers; absent if every query sees every key.
    #[serde(default, skip_serializing_if = "LayerClasses::are_full")]
    #[schemars(with = "Vec<LayerClass>")]
    pub visibility: LayerClasses,
    /// Width of one head's queries, keys and values.
    pub head_dim: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Rows of the token embedding.
    pub vocab_size: usize,
    /// Whether the checkpoint has an output layer for masked language modelling.
    pub masked_lm_head: bool,
    /// The prediction task for which the checkpoint has an output layer; null if it has none.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Whether the model's tokens are residues of proteins, so that it knows no words; absent if they are not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub residues: bool,
    /// Name of the adapter (LoRA) that is merged into the model's weights; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub adapter: Option<String>,
    /// Test of the tokenizer on its vocabulary, and how it splits residues; absent in reports of 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TokenizerInfo")]
    pub tokenizer: Option<TokenizerInfo>,
    /// The tensors of the checkpoint that are no part of the encoder, such as a pooler; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftTensors>,
    /// SHA-256 of `config.json`.
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
    pub config_sha256: String,
    /// SHA-256 of the weights; of several files, as if they were one, in the order of their names.
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
    pub weights_sha256: String,
    /// SHA-256 of each file of the tokenizer, by its name.
    pub tokenizer_sha256: BTreeMap<String, String>,
}

/// Tokenizer of the model: a test on its vocabulary, and how it splits residues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenizerInfo {
    /// Test of the tokenizer on its own vocabulary: how many entries it encodes as themselves.
    pub round_trip: RoundTrip,
    /// How residues are split for the tokenizer: `letters`, `spaced`, or `kmer:LENGTH:STRIDE`. A word then has LENGTH letters
    /// and begins STRIDE letters after the word before; a STRIDE of 1 is omitted. Null if tokens are no residues.
    pub residues: Option<Parting>,
}

impl ModelInfo {
    /// The heads that write a constant, whatever they attend to. Empty if every head does, as in a toy model whose heads write
    /// nothing.
    pub fn constant_heads_unless_all(&self) -> &[HeadPlace] {
        let present = self.grid().head_count() - self.absent.len();
        if self.constant_heads.len() < present { &self.constant_heads } else { &[] }
    }

    /// Facts about a loaded model, with the `hashes` of its files.
    pub fn new(model: &Model, hashes: Hashes) -> Self {
        let HeadGrid { layers, heads } = model.grid();
        let Architecture { family, config, names } = &model.architecture;
        let stored_layers = names.layers.iter().collect::<BTreeSet<_>>().len();
        Self {
            id: model.id.clone(),
            revision: model.revision.clone(),
            family: family.to_string(),
            layers,
            heads,
            absent: config.absent.clone(),
            constant_heads: model.constant_heads.clone(),
            stored_layers: Some(stored_layers).filter(|&stored| stored < layers),
            key_value_heads: config.key_value_heads.filter(|&shared| shared < heads),
            visibility: config.visibility.clone(),
            head_dim: config.head_dim(),
            hidden_size: config.hidden_size,
            vocab_size: config.vocab_size,
            masked_lm_head: model.objective == Some(Objective::MaskedTokens),
            objective: model.objective,
            residues: model.tokenizer.parting.is_some(),
            adapter: model.adapter.clone(),
            tokenizer: Some(TokenizerInfo {
                round_trip: model.tokenizer.round_trip.clone(),
                residues: model.tokenizer.parting,
            }),
            left: model.unread_tensors.clone(),
            config_sha256: hashes.config,
            weights_sha256: hashes.weights,
            tokenizer_sha256: hashes.tokenizer,
        }
    }

    pub fn grid(&self) -> HeadGrid {
        HeadGrid { layers: self.layers, heads: self.heads }
    }

    /// Describes the first invalid entry in the lists of heads, which another program may have written; `None` if all are
    /// valid.
    pub fn defect(&self) -> Option<String> {
        let defect = |(key, heads): (&str, &[HeadPlace])| {
            let stray = self.grid().stray_head_defect(&format!("model.{key}"), heads.iter().copied());
            let is_sorted = heads.is_sorted_by(|a, b| a < b);
            let unsorted = || format!("`model.{key}` does not list heads once each, layer by layer");
            stray.or_else(|| (!is_sorted).then(unsorted))
        };
        [("absent", &*self.absent), ("constant_heads", &*self.constant_heads)].into_iter().find_map(defect)
    }

    /// Number of consecutive query heads that share one key–value head; `None` if each query head has its own.
    pub fn query_heads_per_group(&self) -> Option<usize> {
        let groups = self.key_value_heads.filter(|&groups| groups > 0 && self.heads.is_multiple_of(groups))?;
        Some(self.heads / groups)
    }

    /// `[input, part]`: the nouns for a text and for its parts, such as sentence and word, or protein and residue.
    pub fn text_units(&self) -> [&'static str; 2] {
        let parting = self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.residues);
        match parting {
            Some(Parting::Kmers { .. }) => ["sequence", "k-mer"],
            _ if self.residues => ["protein", "residue"],
            _ => ["sentence", "word"],
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Facts about the run that the numbers do not depend on: time, threads and host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Number of shards that were run and merged; 1 for a run over everything.
    pub shards: u32,
    /// Start of the run, or of its first shard (RFC 3339, UTC).
    pub started_at: String,
    /// Duration of the run, or of all shards and the merging together, in seconds.
    pub duration_seconds: f64,
    /// Part of `duration_seconds` after the model was loaded, in seconds: all sentences, and the intervals and labels.
    pub analysis_seconds: f64,
    /// Number of worker threads, or the largest number in any shard.
    pub threads: usize,
    /// Operating system of the run; if shards ran on several, all of them.
    pub os: String,
    /// Processor architecture of the run; if shards ran on several, all of them.
    pub arch: String,
}

/// Formats a time by RFC 3339. Times outside the years 1970 to 9999 are clamped, since a clock that was never set may be
/// before 1970.
fn rfc3339(time: SystemTime) -> String {
    /// The last second of the year 9999, from the beginning of 1970.
    const END_OF_9999: Duration = Duration::from_secs(253_402_300_799);
    let time = time.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + END_OF_9999);
    humantime::format_rfc3339_seconds(time).to_string()
}

impl RunInfo {
    /// Facts about a run on this machine. `duration` is the time since `started_at`. `analysis` is the time since this stage
    /// began over the shard, after loading.
    pub fn new(started_at: SystemTime, duration: Duration, analysis: Duration, threads: NonZeroUsize) -> Self {
        Self {
            shards: 1,
            started_at: rfc3339(started_at),
            duration_seconds: duration.as_secs_f64(),
            analysis_seconds: analysis.as_secs_f64(),
            threads: threads.get(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        }
    }

    /// Adds `more` to `duration_seconds` and to `analysis_seconds`.
    pub fn with_added_time(self, more: Duration) -> Self {
        let more = more.as_secs_f64();
        let (duration_seconds, analysis_seconds) = (self.duration_seconds + more, self.analysis_seconds + more);
        Self { duration_seconds, analysis_seconds, ..self }
    }

    /// Combines the facts of a run's two stages; `self` is the first stage, which gives the number of shards.
    pub fn with_second_stage(self, after: &Self) -> Self {
        let shards = self.shards;
        Self { shards, ..self.merged(after) }
    }

    /// Combines the facts of two shards: the earlier start, the sums of the durations, the larger number of threads.
    pub fn merged(self, other: &Self) -> Self {
        let joined = |here: String, there: &str| {
            let is_listed = here.split(", ").any(|one| one == there);
            if is_listed { here } else { format!("{here}, {there}") }
        };
        Self {
            shards: self.shards + other.shards,
            // RFC 3339 in UTC sorts as text.
            started_at: self.started_at.min(other.started_at.clone()),
            duration_seconds: self.duration_seconds + other.duration_seconds,
            analysis_seconds: self.analysis_seconds + other.analysis_seconds,
            threads: self.threads.max(other.threads),
            os: joined(self.os, &other.os),
            arch: joined(self.arch, &other.arch),
        }
    }
}

impl Identity {
    /// Describes the first difference from another identity with both values: in the model, the corpus, a setting or
    /// anything else. `None` if the identities are equal.
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        let name_difference = |what: &str, here: &str, there: &str| {
            (here != there).then(|| format!("the {what} is `{here}` in one and `{there}` in the other"))
        };
        // Settings come before facts read from the files, which depend on the settings.
        let parts = [
            ("model", to_json_value(&self.model), to_json_value(&other.model)),
            ("corpus.files", file_digests_json(&self.corpus), file_digests_json(&other.corpus)),
            ("protocol", to_json_value(&self.protocol), to_json_value(&other.protocol)),
            ("", to_json_value(self), to_json_value(other)),
        ];
        name_difference("model", &self.model.id, &other.model.id)
            .or_else(|| name_difference("corpus", &self.corpus.name, &other.corpus.name))
            .or_else(|| parts.iter().find_map(|(key, here, there)| describe_difference(key, here, there)))
    }
}

/// The files of a corpus as JSON, each with its name and SHA-256.
fn file_digests_json(corpus: &CorpusIdentity) -> Value {
    corpus.files.iter().map(|file| json!({ "name": file.name, "sha256": file.sha256 })).collect()
}

fn to_json_value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).expect("an identity is JSON")
}

/// Describes a difference between two JSON values of `key`; `None` if they are equal.
fn describe_difference(key: &str, here: &Value, there: &Value) -> Option<String> {
    match (here, there) {
        (Value::Object(here), Value::Object(there)) => {
            let keys: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
            keys.into_iter().find_map(|name| {
                let field = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                describe_difference(&key, &field(here), &field(there))
            })
        }
        (Value::Array(here), Value::Array(there)) if here.len() == there.len() => {
            let mut pairs = here.iter().zip(there).enumerate();
            pairs.find_map(|(number, (here, there))| describe_difference(&format!("{key}.{number}"), here, there))
        }
        (Value::Array(here), Value::Array(there)) => {
            Some(format!("{key} has {} entries in one and {} in the other", here.len(), there.len()))
        }
        _ => (here != there).then(|| format!("{key} is {here} in one and {there} in the other")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_or_after_9999_has_a_time() {
        let (day, age) = (Duration::from_secs(86400), Duration::from_secs(1 << 40));
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH - day), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + day), "1970-01-02T00:00:00Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + age), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn more_time_is_added_to_both() {
        let (whole, analysis) = (Duration::from_millis(2500), Duration::from_secs(2));
        let run = RunInfo::new(SystemTime::UNIX_EPOCH, whole, analysis, NonZeroUsize::MIN)
            .with_added_time(Duration::from_secs(3));
        assert_eq!((run.duration_seconds, run.analysis_seconds), (5.5, 5.0));
        assert_eq!((run.shards, run.threads, &*run.started_at), (1, 1, "1970-01-01T00:00:00Z"));
    }
}
