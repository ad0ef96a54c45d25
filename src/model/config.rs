//! What `config.json` says of a model's architecture.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// The architectures that can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// BERT (Devlin et al. 2019), `model_type` "bert".
    Bert,
}

impl Family {
    /// All families by the `model_type` of their `config.json`.
    pub const ALL: &[(&str, Family)] = &[("bert", Family::Bert)];
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = Self::ALL.iter().find(|(_, family)| family == self).expect("every family is listed");
        f.write_str(name)
    }
}

/// The activation between the two linear layers of a feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x Phi(x)` by the error function, as transformers' `gelu`.
    Gelu,
    /// The tanh approximation of Hendrycks & Gimpel 2016, as transformers' `gelu_new`.
    #[serde(alias = "gelu_pytorch_tanh")]
    GeluNew,
    /// `max(x, 0)`.
    Relu,
}

/// The architecture of a BERT, with the names of transformers' `BertConfig`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Config {
    /// Rows of the token embedding.
    pub vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads per layer.
    pub num_attention_heads: usize,
    /// Width between the two linear layers of a feed-forward block.
    pub intermediate_size: usize,
    /// Activation of the feed-forward blocks.
    pub hidden_act: Activation,
    /// The longest sequence there are position embeddings for.
    pub max_position_embeddings: usize,
    /// Rows of the segment embedding.
    #[serde(default = "default_type_vocab_size")]
    pub type_vocab_size: usize,
    /// Added to the variance in layer normalisation.
    #[serde(default = "default_layer_norm_eps")]
    pub layer_norm_eps: f64,
}

/// transformers' `BertConfig` default, for configs that leave the field out.
fn default_type_vocab_size() -> usize {
    2
}

/// transformers' `BertConfig` default, for configs that leave the field out.
fn default_layer_norm_eps() -> f64 {
    1e-12
}

impl Config {
    /// Reads a model's `config.json`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not JSON, names an architecture that is not supported,
    /// lacks a field, or holds sizes that fit no BERT.
    pub fn read(path: &Path) -> Result<(Family, Self)> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Self::parse(&text).with_context(|| format!("cannot use `{}`", path.display()))
    }

    /// Parses the text of a `config.json`.
    ///
    /// # Errors
    ///
    /// As [`Config::read`].
    pub fn parse(text: &str) -> Result<(Family, Self)> {
        let json: Value = serde_json::from_str(text).context("not valid JSON")?;
        let family = family(&json)?;
        if let Some(kind) = json.get("position_embedding_type").and_then(Value::as_str) {
            ensure!(kind == "absolute", "position_embedding_type {kind:?} is not supported (supported: absolute)");
        }
        for flag in ["is_decoder", "add_cross_attention"] {
            let set = json.get(flag).is_some_and(|value| *value == Value::Bool(true));
            ensure!(!set, "{flag} is true: only encoders are supported, whose tokens attend in both directions");
        }
        // From the text again: the error then names line and column.
        let config: Self = serde_json::from_str(text)?;
        config.check()?;
        Ok((family, config))
    }

    fn check(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
        ];
        for (name, size) in sizes {
            ensure!(size > 0, "{name} is 0");
        }
        ensure!(
            self.hidden_size.is_multiple_of(self.num_attention_heads),
            "hidden_size {} is not a multiple of num_attention_heads {}",
            self.hidden_size,
            self.num_attention_heads,
        );
        // Beyond these an f32 epsilon is 0 or swallows the variance; models have 1e-12 to 1e-5.
        let plausible = f64::from(f32::MIN_POSITIVE)..=1.0;
        ensure!(
            plausible.contains(&self.layer_norm_eps),
            "layer_norm_eps is {:e}: a small positive number is expected",
            self.layer_norm_eps,
        );
        Ok(())
    }

    /// Width of one head's queries, keys and values.
    #[must_use]
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }
}

fn family(json: &Value) -> Result<Family> {
    let supported: Vec<&str> = Family::ALL.iter().map(|(name, _)| *name).collect();
    let supported = supported.join(", ");
    match json.get("model_type").and_then(Value::as_str) {
        Some(found) => match Family::ALL.iter().find(|(name, _)| *name == found) {
            Some((_, family)) => Ok(*family),
            None => bail!("model_type {found:?} is not supported (supported: {supported})"),
        },
        None => bail!("there is no model_type: add the model's own (supported: {supported})"),
    }
}
