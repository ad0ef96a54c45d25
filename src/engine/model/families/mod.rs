//! Architecture families of encoders and decoders that can be loaded. Each file holds families whose layers are built
//! alike, and one table lists all families. Each family is BERT's encoder with other tensor names and some parts
//! changed. So a family is data: a function from its `config.json` to [`Config`], and the names of its tensors.

pub(super) mod bert;
mod compact_bert;
mod deberta;
mod gemma;
mod gpt;
mod llama;
mod modernbert;
mod names;
mod post_rotary;
pub(in crate::model) mod pruned;
mod roberta;
mod seq2seq;
mod table;

use std::fmt;

use anyhow::{Context, Result, anyhow, bail, ensure};
use itertools::Itertools;
use serde_json::Value;

use super::config::{Config, lookup};
use super::grid::HeadGrid;
use crate::system::errors::Facts;
use crate::system::printable::shortened;
pub use names::{
    Biases, ConvolutionGroups, DiscriminatorNames, DisentangledNames, EmbeddingNames, Intermediate, LayerNames, Markup,
    PlainTextConstant, PositionBiasNames, QueryKeyValue, TableRow, TensorNames, TokenHeadNames, TransformNames,
    WeightDistribution, WeightInitialisation,
};

/// All architecture families that can be loaded.
pub const FAMILIES: &[Family] = table::FAMILIES;

/// Endings of the names of encoder classes in transformers, after the name of the family: `BertModel`, `BertForMaskedLM`,
/// `BertGenerationEncoder`, `DPRContextEncoder`.
const CLASS_SUFFIXES: [&str; 5] = ["Model", "For", "Encoder", "ContextEncoder", "QuestionEncoder"];

/// Architecture family of encoders or decoders.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Value of `model_type` in the family's `config.json`.
    pub model_type: &'static str,
    /// Beginning of the family's class names in transformers, before `Model`, `For...` or `Encoder`.
    pub class_prefix: &'static str,
    /// Prefix of the encoder's tensor names in a model with a task head.
    pub prefix: &'static str,
    /// Prefixes that may precede `prefix` in checkpoints where the encoder is part of a larger model.
    pub wrapper_prefixes: &'static [&'static str],
    /// Encoder tensors that plain text does not need, such as embeddings of images: dot-separated parts of their names.
    pub ignored_tensors: &'static [&'static str],
    /// Tensor names of the head that predicts tokens, one entry for each naming scheme of checkpoints; empty: the family has no
    /// such head.
    pub token_heads: &'static [TokenHeadNames],
    /// Tensor names of the discriminator's head, if the family has discriminators.
    pub discriminator: Option<DiscriminatorNames>,
    /// Parses the text of the family's `config.json` into config and tensor names. Sizes are checked.
    read: fn(&str) -> Result<(Config, TensorNames)>,
}

impl Family {
    /// Makes a family that differs from this one in `model_type`, class prefix and tensor prefix alone.
    const fn with_names(self, model_type: &'static str, class: &'static str, prefix: &'static str) -> Self {
        Self { model_type, class_prefix: class, prefix, ..self }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model_type)
    }
}

/// Contents of a `config.json`: family, sizes and tensor names.
#[derive(Clone, Debug)]
pub struct Architecture {
    pub family: Family,
    pub config: Config,
    pub names: TensorNames,
}

impl Architecture {
    /// Numbers of layers and of attention heads per layer.
    pub fn grid(&self) -> HeadGrid {
        HeadGrid { layers: self.config.num_hidden_layers, heads: self.config.num_attention_heads }
    }

    /// Parses the text of a `config.json`. Fails if it is not JSON, names a family that is not supported, lacks a field, or holds
    /// sizes that fit no encoder.
    pub fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text).context("not valid JSON")?;
        ensure_supported(&json)?;
        let family = find_family(&json)?;
        for flag in ["is_decoder", "add_cross_attention"] {
            match json.get(flag) {
                None | Some(Value::Null | Value::Bool(false)) => {}
                Some(Value::Bool(true)) => {
                    bail!(
                        "{flag} is true: of this model_type only encoders are supported, whose tokens attend in both \
                         directions"
                    )
                }
                Some(other) => {
                    let error = anyhow!("{flag} is {}: expected true or false", shortened(&other.to_string()));
                    bail!(error.with_value(other.as_str().unwrap_or(&other.to_string())))
                }
            }
        }
        let (mut config, names) = (family.read)(text)?;
        config.absent = pruned::parse_pruned_heads(&json, &family, &config, &names.layers)?;
        ensure!(
            !config.position_embedding_type.is_relative() || names.layer_parts.distances.is_some(),
            "position_embedding_type is relative, which is not supported for {family} (supported: absolute)"
        );
        Ok(Self { family, config, names })
    }
}

/// Fails if a Boolean key of a `config.json` has another value than the supported one. Each of `flags` is
/// `(key, value, supported value)`.
fn ensure_flags<const N: usize>(family: &str, flags: [(&str, bool, bool); N]) -> Result<()> {
    for (key, value, supported) in flags {
        ensure!(value == supported, anyhow!("{key} is {value}, which is not supported for {family}").with_value(value));
    }
    Ok(())
}

/// Architectures that cannot be analysed: (values of `model_type`, reason).
const UNSUPPORTED_MODELS: &[(&[&str], &str)] = &[
    (&["fnet"], "it mixes tokens by a Fourier transform and has no attention heads"),
    (&["funnel"], "it pools the sequence between blocks, so its attention is not a weight for each pair of tokens"),
    (
        &["nystromformer", "yoso", "mra", "reformer", "perceiver", "mamba", "mamba2", "rwkv"],
        "its attention is not a weight for each pair of tokens",
    ),
    (&["xlnet"], "it attends in two streams over permuted orders"),
    (&["xlm", "flaubert"], "its tokenizer is code that is not in the files of the model"),
    (&["gpt_oss"], "it has a learned sink: the weights of a row do not sum to 1"),
    (&["gptj", "gemma", "phi"], SUPPORTED_DECODERS),
    (&["mixtral", "qwen2_moe", "qwen3_moe"], "layers of experts are not supported"),
];

const SUPPORTED_DECODERS: &str = "the supported decoders are Gemma 2 and 3, GPT-2, GPT-Neo, GPT-NeoX, Llama, Mistral, ModernBERT, OPT, Qwen2, Qwen3 and SmolLM3";

/// Fails if a `config.json` describes an unsupported architecture, quantised weights, or a model of text and another medium.
fn ensure_supported(json: &Value) -> Result<()> {
    if let Some(model_type) = json.get("model_type").and_then(Value::as_str)
        && let Some((_, why)) = UNSUPPORTED_MODELS.iter().find(|(refused, _)| refused.contains(&model_type))
    {
        bail!(anyhow!("model_type is {model_type}: {why}").with_value(model_type));
    }
    let has_value = |key: &str| json.get(key).is_some_and(|value| !value.is_null());
    ensure!(!has_value("quantization_config"), "quantization_config is there: only unquantised weights are read");
    let is_clip = json.get("model_type").is_some_and(|model_type| model_type == "clip");
    if has_value("text_config") && !has_value("num_hidden_layers") && !is_clip {
        bail!(
            "config.json is of a model of text and something else: its text model is under text_config, which is not read"
        );
    }
    Ok(())
}

/// Finds the family of a `config.json` by `model_type` or else by a class in `architectures`. Fails if it is not supported.
fn find_family(json: &Value) -> Result<Family> {
    let supported = || FAMILIES.iter().map(|family| family.model_type).join(", ");
    match json.get("model_type") {
        Some(Value::String(model_type)) => {
            let families: Vec<(&str, Family)> = FAMILIES.iter().map(|family| (family.model_type, *family)).collect();
            lookup("model_type", model_type, &families)
        }
        None | Some(Value::Null) => {
            let classes = json.get("architectures").and_then(Value::as_array).into_iter().flatten();
            let of_class = |class: &str| {
                FAMILIES.iter().find(|family| {
                    let rest = class.strip_prefix(family.class_prefix);
                    rest.is_some_and(|rest| CLASS_SUFFIXES.iter().any(|end| rest.starts_with(end)))
                })
            };
            let found = classes.filter_map(Value::as_str).find_map(of_class);
            found
                .copied()
                .context("there is no model_type, and architectures names no class of a supported one")
                .hint(format!("add the model's own, as in `\"model_type\": \"bert\"` (supported: {})", supported()))
        }
        Some(other) => {
            let shown = shortened(&other.to_string());
            bail!(anyhow!("model_type is {shown}: expected a text (supported: {})", supported()).with_value(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_name_of_its_own() {
        assert!(FAMILIES.iter().map(|family| family.model_type).all_unique());
        // Otherwise a tensor of the encoder could be taken for one of the head's.
        assert!(FAMILIES.iter().all(|family| family.prefix.ends_with('.')));
    }

    /// A config with all the names that any family reads.
    fn config(model_type: &str, layers: u64) -> String {
        // These have no embeddings of another width.
        let embedding = if ["squeezebert", "deberta", "deberta-v2"].contains(&model_type) { 8 } else { 4 };
        format!(
            r#"{{"model_type": "{model_type}", "vocab_size": 9, "hidden_size": 8, "dim": 8, "embedding_size": {embedding},
            "num_hidden_layers": {layers}, "n_layers": {layers}, "num_attention_heads": 2, "n_heads": 2,
            "intermediate_size": 8, "hidden_dim": 8, "hidden_act": "gelu", "activation": "gelu",
            "max_position_embeddings": 10, "input_embedding_size": 4, "output_embedding_size": 6, "max_length": 10,
            "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": {layers}, "num_heads": 2, "encoder_layers": {layers},
            "encoder_attention_heads": 2, "encoder_ffn_dim": 8,
            "num_key_value_heads": 1, "rotary_pct": 0.5, "n_embd": 8, "n_layer": {layers}, "n_head": 2, "n_positions": 10, "ffn_dim": 8,
            "attention_types": [[["global"], {layers}]], "text_config": {{"num_hidden_layers": {layers}}}}}"#
        )
    }

    #[test]
    fn a_family_is_told_by_a_class_where_it_is_not_named() {
        for family in FAMILIES {
            for class in CLASS_SUFFIXES.map(|end| format!("{}{end}", family.class_prefix)) {
                let named = format!("\"architectures\": [\"Strange\", \"{class}\"], \"x\"");
                let text = config(family.model_type, 2).replace("\"model_type\"", &named);
                assert_eq!(Architecture::parse(&text).unwrap().family.model_type, family.model_type, "{class}");
            }
        }
        let error = |model_type: &str| {
            let text = config("bert", 2).replace("\"bert\"", model_type);
            Architecture::parse(&text).unwrap_err().to_string()
        };
        assert!(error("1").starts_with("model_type is 1: expected a text (supported: bert, "));
        assert!(error("null").starts_with("there is no model_type, and architectures names no class"));
        assert!(error(&format!("[{}0]", "0, ".repeat(1000))).len() < 1000);
    }

    #[test]
    fn a_switch_is_true_or_false() {
        let errors = ["1", "\"yes\""].map(|value| {
            let text = config("bert", 2).replace('{', &format!("{{\"is_decoder\": {value}, "));
            Architecture::parse(&text).unwrap_err().to_string()
        });
        insta::assert_snapshot!(errors.join("\n"), @"");
        let text = config("bert", 2).replace('{', "{\"is_decoder\": null, ");
        assert!(Architecture::parse(&text).is_ok());
    }

    #[test]
    fn every_family_names_its_layers_and_checks_their_number() {
        for family in FAMILIES {
            let found = Architecture::parse(&config(family.model_type, 2)).unwrap();
            assert_eq!((found.family.model_type, found.names.layers.len()), (family.model_type, 2));
            let error = Architecture::parse(&config(family.model_type, 1 << 62)).unwrap_err().to_string();
            assert_eq!(error, "num_hidden_layers is 4611686018427387904: no model has more than 1024");
        }
    }
}
