//! Decoders with Llama's body: Llama (Touvron et al. 2023; SmolLM2 has the same), Mistral (Jiang et al. 2023), Qwen2 (Yang et al. 2024),
//! Qwen3 (Yang et al. 2025) and SmolLM3 (Bakouch et al. 2025).

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::windows::{LayerType, layer_types};
use super::{Biases, EmbeddingNames, Family, LayerNames, Names, llama_like};
use crate::model::config::{
    Activation, Config, RotaryDefaults, Sizes, default_initializer_range, fields, initializer_range, rotary,
};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::Facts;

pub(super) const LLAMA: Family = Family { model_type: "llama", class: "Llama", read: llama, ..llama_like::EURO_BERT };

pub(super) const MISTRAL: Family = Family { model_type: "mistral", class: "Mistral", read: mistral, ..LLAMA };

pub(super) const QWEN_2: Family = Family { model_type: "qwen2", class: "Qwen2", read: qwen2, ..LLAMA };

pub(super) const QWEN_3: Family = Family { model_type: "qwen3", class: "Qwen3", read: qwen3, ..LLAMA };

pub(super) const SMOL_LM_3: Family = Family { model_type: "smollm3", class: "SmolLM3", read: smol_lm3, ..LLAMA };

const QWEN_3_LAYER: LayerNames =
    LayerNames { query_key_norms: Some(["self_attn.q_norm", "self_attn.k_norm"]), ..llama_like::EURO_BERT_LAYER };

/// The keys that transformers' `LlamaConfig` has beside BERT's sizes, with its defaults, and those of the other families.
#[derive(Deserialize)]
struct LlamaConfig {
    /// Whether the head predicts tokens by their input embeddings.
    tie_word_embeddings: Option<bool>,
    #[serde(default = "silu")]
    hidden_act: Activation,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    #[serde(default = "rms_norm_eps")]
    rms_norm_eps: f64,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
    /// The keys that a query of a layer with a window sees, itself among them.
    #[serde(default = "sliding_window")]
    sliding_window: Option<usize>,
    /// Whether there are layers with a window, of Qwen and SmolLM3.
    #[serde(default)]
    use_sliding_window: bool,
    /// The first layer with a window, of Qwen.
    #[serde(default = "max_window_layers")]
    max_window_layers: usize,
    layer_types: Option<Vec<String>>,
    /// Whether queries and keys turn in each layer, of SmolLM3.
    no_rope_layers: Option<Vec<u8>>,
    /// One layer in so many does not turn them.
    #[serde(default = "no_rope_layer_interval")]
    no_rope_layer_interval: usize,
}

fn silu() -> Activation {
    Activation::Silu
}

fn rms_norm_eps() -> f64 {
    1e-6
}

#[expect(clippy::unnecessary_wraps, reason = "a default of an option, which null is another value of")]
fn sliding_window() -> Option<usize> {
    Some(4096)
}

fn max_window_layers() -> usize {
    28
}

fn no_rope_layer_interval() -> usize {
    4
}

/// Values and biases that a family has where its config says nothing.
struct Defaults {
    key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    theta: f64,
    /// Whether the head predicts tokens by their input embeddings.
    tied: bool,
    /// Whether queries, keys and values have biases, and what the heads write has none.
    biased: bool,
    layer: &'static LayerNames,
}

const AS_LLAMA: Defaults = Defaults {
    key_value_heads: None,
    head_dim: None,
    theta: 10_000.0,
    tied: false,
    biased: false,
    layer: &llama_like::EURO_BERT_LAYER,
};

fn llama(text: &str) -> Result<(Config, Names)> {
    let (config, names, _) = body(text, &AS_LLAMA)?;
    Ok((config, names))
}

fn mistral(text: &str) -> Result<(Config, Names)> {
    let (config, names, found) = body(text, &Defaults { key_value_heads: Some(8), ..AS_LLAMA })?;
    let config = match found.sliding_window {
        None => config,
        Some(window) => Config { visibility: LayerClasses::new(&[visible(window)?]), ..config },
    };
    Ok((config, names))
}

fn qwen2(text: &str) -> Result<(Config, Names)> {
    let (config, names, found) = body(text, &Defaults { key_value_heads: Some(32), biased: true, ..AS_LLAMA })?;
    Ok((with_windows(config, &found)?, names))
}

fn qwen3(text: &str) -> Result<(Config, Names)> {
    let defaults = Defaults { key_value_heads: Some(32), head_dim: Some(128), layer: &QWEN_3_LAYER, ..AS_LLAMA };
    let (config, names, found) = body(text, &defaults)?;
    Ok((with_windows(config, &found)?, names))
}

fn smol_lm3(text: &str) -> Result<(Config, Names)> {
    let (mut config, names, found) =
        body(text, &Defaults { key_value_heads: Some(4), theta: 2_000_000.0, tied: true, ..AS_LLAMA })?;
    let every = found.no_rope_layer_interval;
    let layers = config.num_hidden_layers;
    ensure!(every > 0, anyhow!("no_rope_layer_interval is 0").of_value(0));
    let given = found.no_rope_layers.as_deref();
    if let Some(given) = given {
        ensure!(given.len() == layers, "no_rope_layers has {} entries, and num_hidden_layers is {layers}", given.len());
    }
    for (layer, rotary) in config.rotary.iter_mut().enumerate() {
        if !given.map_or_else(|| !(layer + 1).is_multiple_of(every), |given| given[layer] != 0) {
            *rotary = None;
        }
    }
    let found = LlamaConfig { max_window_layers: 0, ..found };
    Ok((with_windows(config, &found)?, names))
}

/// The config, the names and what else a `config.json` says.
fn body(text: &str, defaults: &Defaults) -> Result<(Config, Names, LlamaConfig)> {
    let (sizes, found): (Sizes, LlamaConfig) = (fields(text)?, fields(text)?);
    let config = Config {
        head_size: found.head_dim.or(defaults.head_dim),
        key_value_heads: found.num_key_value_heads.or(defaults.key_value_heads),
        layer_norm_eps: found.rms_norm_eps,
        initializer_range: found.initializer_range,
        visibility: LayerClasses::new(&[Visibility::CAUSAL]),
        tie_word_embeddings: found.tie_word_embeddings.unwrap_or(defaults.tied),
        ..llama_like::body(sizes, found.hidden_act)
    }
    .checked()?;
    let of = RotaryDefaults {
        theta_key: "rope_theta",
        theta: defaults.theta,
        share: 1.0,
        head_dim: config.head_dim(),
        max_positions: config.max_position_embeddings,
    };
    let turning = rotary(text, None, of)?;
    let config = Config { rotary: vec![Some(turning); config.num_hidden_layers], ..config };
    let (attention, feed_forward) = (found.attention_bias, found.mlp_bias);
    let names = Names {
        embeddings: &EmbeddingNames { words: "embed_tokens", positions: "", segments: "" },
        embedding_norm: None,
        biases: Biases {
            query_key_value: attention || defaults.biased,
            attention_output: attention,
            intermediate: feed_forward,
            output: feed_forward,
            norms: false,
        },
        final_norm: Some("norm"),
        ..Names::numbered(defaults.layer, "layers", &config)
    };
    Ok((config, names, found))
}

/// The keys that queries see in layers with a window.
fn visible(window: usize) -> Result<Visibility> {
    ensure!(window > 0, anyhow!("sliding_window is 0").of_value(0));
    Ok(Visibility::causal_window(window))
}

/// The config with the windows of its layers, where it has any: of those that `layer_types` names, or else from
/// `max_window_layers` on.
fn with_windows(config: Config, found: &LlamaConfig) -> Result<Config> {
    let Some(window) = found.sliding_window.filter(|_| found.use_sliding_window) else { return Ok(config) };
    let is_full = |layer: usize| layer < found.max_window_layers;
    let types = layer_types(found.layer_types.as_deref(), config.num_hidden_layers, is_full)?;
    let window = visible(window)?;
    let of_layer = |layer_type: &LayerType| match layer_type {
        LayerType::Full => Visibility::CAUSAL,
        LayerType::Sliding => window,
    };
    Ok(Config { visibility: LayerClasses::new(&types.iter().map(of_layer).collect::<Vec<_>>()), ..config })
}
