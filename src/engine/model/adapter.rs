//! LoRA adapters (Hu et al. 2021) as peft saves them. The update of a linear layer is `scale * B A`, with `A` `[rank, inputs]`,
//! `B` `[outputs, rank]`, and `scale` `alpha / rank`, or `alpha / sqrt(rank)` with `use_rslora` (Kalajdzievski 2023).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail, ensure};
use fancy_regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::families::architecture::Architecture;
use super::files::names::MAX_CONFIG_BYTES;
use super::files::{AdapterFiles, ModelFile};
use super::weights::{Checkpoint, Overlay};
use crate::system::errors::ErrorExt;

/// Keys of a LoRA adapter's `adapter_config.json` that determine the updates of the weights.
#[derive(Deserialize)]
struct AdapterConfig {
    peft_type: String,
    lora_alpha: Option<f64>,
    #[serde(default)]
    alpha_pattern: BTreeMap<String, f64>,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    lora_bias: bool,
    /// Whether the base model stores the weights of the updated layers as `[inputs, outputs]`.
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    init_lora_weights: Value,
    /// All other keys of the file, by name.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Keys of peft's `LoraConfig` that, when set, change the weight updates in ways that this module cannot merge.
const UNSUPPORTED_KEYS: [&str; 8] = [
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "use_qalora",
    "use_bdlora",
    "kasa_config",
    "velora_config",
    "monteclora_config",
];

/// Prefixes of `init_lora_weights` for initialisations that change the weights of the base model. Such an adapter does not fit
/// the unchanged model.
const RESIDUAL_INITIALISATIONS: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

impl AdapterConfig {
    /// Reads and checks an `adapter_config.json`. Fails if the file cannot be read, or its adapter cannot be merged.
    fn read(file: &ModelFile) -> Result<Self> {
        let (path, text) = (file.path().display(), file.text(MAX_CONFIG_BYTES)?);
        let config: Self = serde_json::from_str(&text).cannot("use", &path)?;
        config.check_supported().cannot("use", &path)?;
        Ok(config)
    }

    /// Fails unless the adapter is plain LoRA: without DoRA, biases, unsupported keys, or an initialisation that changed the
    /// weights of the base model.
    fn check_supported(&self) -> Result<()> {
        let initialisation = self.init_lora_weights.as_str().unwrap_or_default().to_lowercase();
        let is_residual = RESIDUAL_INITIALISATIONS.iter().any(|known| initialisation.starts_with(known));
        let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        let unsupported_key = UNSUPPORTED_KEYS.iter().find(|key| self.others.get(**key).is_some_and(is_set));
        let what = match unsupported_key {
            _ if self.peft_type != "LORA" => format!("an adapter of the kind {}", self.peft_type.escape_debug()),
            _ if self.use_dora => "DoRA (use_dora)".to_owned(),
            _ if self.lora_bias => "LoRA with a bias (lora_bias)".to_owned(),
            _ if is_residual => "LoRA whose start changed the model's weights (init_lora_weights)".to_owned(),
            Some(key) => format!("LoRA with {key}"),
            None => return Ok(()),
        };
        let way_out = "merge it with merge_and_unload() in Python and save the model";
        Err(anyhow!("{what} cannot be merged here").hint(way_out))
    }

    /// Returns the LoRA alpha of a module. It comes from the first entry of `alpha_pattern` whose pattern matches the module's
    /// name or its end after a dot (peft: `get_pattern_key`). Without such an entry, it is `lora_alpha`. Fails if there is no
    /// alpha.
    fn alpha(&self, module: &str) -> Result<f64> {
        for (key, alpha) in &self.alpha_pattern {
            let matches = Regex::new(&format!(r"^(?:.*\.)?(?:{key})$")).and_then(|pattern| pattern.is_match(module));
            let no_pattern = |_| anyhow!("alpha_pattern has `{}`, no regular expression", key.escape_debug());
            if matches.map_err(no_pattern)? {
                return Ok(*alpha);
            }
        }
        self.lora_alpha.context("lora_alpha is not there")
    }

    /// Returns the factor of the update `B A` of a module: `alpha / rank`, or `alpha / sqrt(rank)` with `use_rslora`.
    fn scale(&self, module: &str, rank: usize) -> Result<f32> {
        let (alpha, rank) = (self.alpha(module)?, rank as f64);
        #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
        Ok((alpha / if self.use_rslora { rank.sqrt() } else { rank }) as f32)
    }
}

/// A LoRA adapter that is merged into a checkpoint's tensors as they are read.
pub struct Adapter {
    config: AdapterConfig,
    /// Tensors of the adapter's own weight file.
    tensors: Checkpoint,
    /// Low-rank updates, keyed by the name of the updated tensor without the model's prefix.
    updates: BTreeMap<String, LowRankUpdate>,
    /// Replacements of whole tensors: the adapter's tensor name, keyed by the name of the replaced checkpoint tensor without
    /// the model's prefix.
    replacement_names: BTreeMap<String, String>,
    /// Names of the checkpoint tensors, without the model's prefix, to which an update or replacement was applied.
    applied_tensors: Mutex<BTreeSet<String>>,
}

/// A low-rank update `B A` of one module. `a` and `b` are the tensor names of `A` and `B`.
struct LowRankUpdate {
    /// Full name of the updated module in the trained model; `alpha_pattern` is matched against it.
    module: String,
    a: String,
    b: String,
    /// Whether the module is an embedding. Its table is `[rows, width]`, so its update is transposed.
    is_embedding: bool,
}

impl Adapter {
    /// Reads a LoRA adapter for a model of `architecture`.
    /// Fails if the adapter is damaged or of a kind that cannot be merged, or if an update lacks one of its two factors.
    pub fn read(files: &AdapterFiles, architecture: &Architecture) -> Result<Self> {
        let config = AdapterConfig::read(&files.config)?;
        let tensors = Checkpoint::open_adapter(files.weights.clone(), architecture.family)?;
        let (mut updates, mut replaced) = (BTreeMap::<String, LowRankUpdate>::new(), BTreeMap::new());
        let prefix = architecture.family.prefix;
        for name in tensors.tensor_names() {
            let own = name.strip_prefix("base_model.model.").unwrap_or(name);
            let own = own.replace(".base_layer.", ".").replace(".modules_to_save.", ".").replace(".default.", ".");
            let bare = own.strip_prefix(prefix).unwrap_or(&own);
            let module = |part: &'static str| Some((own.split_once(&format!(".{part}"))?.0, part));
            let factor = ["lora_A", "lora_embedding_A"].into_iter().find_map(module);
            match factor {
                Some((module, part)) => {
                    let b = name.replacen(part, &part.replace('A', "B"), 1);
                    ensure!(
                        tensors.tensor_names().any(|other| *other == b),
                        "`{}` is without `{b}`",
                        name.escape_debug()
                    );
                    let is_embedding = part == "lora_embedding_A";
                    let tensor = format!("{}.weight", module.strip_prefix(prefix).unwrap_or(module));
                    let update = LowRankUpdate { module: module.to_owned(), a: name.clone(), b, is_embedding };
                    if let Some(other) = updates.insert(tensor, update) {
                        bail!("`{}` and `{}` are updates of one tensor", other.a.escape_debug(), name.escape_debug());
                    }
                }
                None if bare.contains(".lora_B") || bare.contains(".lora_embedding_B") => {}
                None if bare.contains("lora_") => bail!("`{}` is of no LoRA that can be merged", name.escape_debug()),
                None => drop(replaced.insert(bare.to_owned(), name.clone())),
            }
        }
        ensure!(!updates.is_empty(), "`{}` has no lora_A: there is nothing to merge", files.weights.path().display());
        Ok(Self { config, tensors, updates, replacement_names: replaced, applied_tensors: Mutex::default() })
    }

    /// Records that the update or replacement of the tensor `bare`, a name without prefix, was applied.
    fn mark_applied(&self, bare: &str) {
        self.applied_tensors.lock().expect("nobody panics while reading").insert(bare.to_owned());
    }
}

impl Overlay for Adapter {
    fn adapted_values(&self, bare: &str, shape: &[usize], base: &dyn Fn() -> Result<Vec<f32>>) -> Result<Vec<f32>> {
        if let Some(name) = self.replacement_names.get(bare) {
            self.mark_applied(bare);
            return self.tensors.tensor(name, shape);
        }
        let mut values = base()?;
        let Some(update) = self.updates.get(bare) else { return Ok(values) };
        self.mark_applied(bare);
        let &[rows, columns] = shape else { bail!("`{}` is of a tensor that is no matrix", update.a) };
        let rank = self.tensors.row_count(&update.a)?;
        let is_transposed = update.is_embedding || self.config.fan_in_fan_out;
        let (outputs, inputs) = if is_transposed { (columns, rows) } else { (rows, columns) };
        let a = self.tensors.tensor(&update.a, &[rank, inputs])?;
        let b = self.tensors.tensor(&update.b, &[outputs, rank])?;
        let scale = self.config.scale(&update.module, rank)?;
        // `[inputs]`: the update of one output.
        let mut row = vec![0.0_f32; inputs];
        for (output, factors) in b.chunks_exact(rank).enumerate() {
            row.fill(0.0);
            for (factor, a) in factors.iter().zip(a.chunks_exact(inputs)) {
                row.iter_mut().zip(a).for_each(|(sum, a)| *sum += factor * a);
            }
            for (input, update) in row.iter().enumerate() {
                let index = if is_transposed { input * outputs + output } else { output * inputs + input };
                values[index] += scale * update;
            }
        }
        Ok(values)
    }

    fn ensure_updates_applied(&self, is_needed: &dyn Fn(&str) -> bool) -> Result<()> {
        let applied = self.applied_tensors.lock().expect("nobody panics while reading");
        // Updates of a task head may stay unused; if all updates are unused, the adapter belongs to another model.
        let is_unapplied = |bare: &&String| !applied.contains(*bare) && (applied.is_empty() || is_needed(bare));
        let updates = self.updates.iter().map(|(bare, update)| (bare, &update.a));
        let unapplied = updates.chain(&self.replacement_names).find(|(bare, _)| is_unapplied(bare));
        unapplied.map_or(Ok(()), |(_, name)| {
            let name = name.escape_debug();
            Err(anyhow!("`{name}` of the adapter is for a tensor that the model lacks, or shares with another one")
                .hint("is this the model that the adapter was trained on?"))
        })
    }
}
