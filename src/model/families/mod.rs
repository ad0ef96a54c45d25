//! The families of encoders that can be loaded, one file each, and the one table that lists them.
//!
//! All of them are BERT's encoder with other names and with one or the other part changed. So a family is data:
//! what its `config.json` says in the words of [`Config`], and what its tensors are called.

mod albert;
pub(super) mod bert;
mod distilbert;
mod electra;
mod mpnet;
mod roberta;

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::config::{Activation, Config, PositionEmbedding, named};

/// The families that can be loaded.
pub const FAMILIES: &[Family] = &[
    bert::BERT,
    roberta::ROBERTA,
    roberta::XLM_ROBERTA,
    roberta::CAMEMBERT,
    distilbert::DISTILBERT,
    electra::ELECTRA,
    albert::ALBERT,
    mpnet::MPNET,
];

/// A family of encoders.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The `model_type` of its `config.json`.
    pub model_type: &'static str,
    /// What the names of its classes in transformers begin with, before `Model` or `For...`.
    pub class: &'static str,
    /// What stands before the names of the encoder's tensors in a model with a task head.
    pub prefix: &'static str,
    /// What the parts of its masked-LM head are called.
    pub masked_lm: MaskedLmNames,
    /// Reads the text of its `config.json`; the sizes are checked.
    read: fn(&str) -> Result<(Config, Names)>,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model_type)
    }
}

/// What a family's tensors are called, without the prefix of a model with a task head.
///
/// The embeddings are `embeddings.word_embeddings`, `embeddings.position_embeddings`,
/// `embeddings.token_type_embeddings` and `embeddings.LayerNorm` in every family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The parts of a layer.
    pub parts: &'static LayerNames,
    /// What stands before the parts of each layer, bottom-up. Layers of the same name share their parameters.
    pub layers: Vec<String>,
    /// The linear layer from the embeddings to the hidden states.
    pub projection: Option<&'static str>,
    /// The embedding of distances that gives each head's addition to the scores, MPNet's.
    pub position_bias: Option<&'static str>,
}

/// What the parts of a layer are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerNames {
    /// Linear layers to queries, keys and values.
    pub query_key_value: [&'static str; 3],
    /// The embedding of distances, in families whose positions can be relative.
    pub distances: Option<&'static str>,
    /// The linear layer after the heads.
    pub attention_output: &'static str,
    /// The layer normalisation over its sum with the residual.
    pub attention_norm: &'static str,
    /// The linear layer before the activation.
    pub intermediate: &'static str,
    /// The linear layer after the activation.
    pub output: &'static str,
    /// The layer normalisation over its sum with the residual.
    pub output_norm: &'static str,
}

/// What the parts of a masked-LM head are called, the prefix of the encoder left out.
///
/// All families have the same head: a linear layer from the hidden states to the width of the embeddings, an
/// activation, a layer normalisation, and the product with an embedding of each token, plus a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedLmNames {
    /// The linear layer; a checkpoint that has it has a masked-LM head.
    pub dense: &'static str,
    /// The layer normalisation after the activation.
    pub norm: &'static str,
    /// The tokens' embeddings, `[vocab, embedding width]`: those of the input, if they are tied.
    pub decoder: &'static str,
    /// The bias of each token. transformers has it twice, as a vector of its own and as the bias of the last linear
    /// layer; tied heads run the former, others the latter, and checkpoints hold either or both.
    pub bias: &'static str,
    /// The bias of the last linear layer.
    pub decoder_bias: &'static str,
    /// The activation, where it is not that of the encoder's feed-forward blocks.
    pub activation: Option<Activation>,
}

impl Names {
    /// Names of layers that share nothing: `{stem}.0` to the last.
    fn numbered(parts: &'static LayerNames, stem: &str, config: &Config) -> Self {
        let layers = (0..config.num_hidden_layers).map(|number| format!("{stem}.{number}")).collect();
        Self { parts, layers, projection: None, position_bias: None }
    }
}

/// What a `config.json` says: the family, the sizes and the tensors' names.
#[derive(Clone, Debug)]
pub struct Architecture {
    /// The family.
    pub family: Family,
    /// The sizes and options.
    pub config: Config,
    /// What the tensors are called.
    pub names: Names,
}

impl Architecture {
    /// Parses the text of a `config.json`.
    ///
    /// # Errors
    ///
    /// If it is not JSON, names a family that is not supported, lacks a field, or holds sizes that fit no encoder.
    pub fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text).context("not valid JSON")?;
        let family = family(&json)?;
        for flag in ["is_decoder", "add_cross_attention"] {
            match json.get(flag) {
                None | Some(Value::Null | Value::Bool(false)) => {}
                Some(Value::Bool(true)) => {
                    bail!("{flag} is true: only encoders are supported, whose tokens attend in both directions")
                }
                Some(other) => bail!("{flag} is {}: expected true or false", shortened(other)),
            }
        }
        let (config, names) = (family.read)(text)?;
        ensure!(
            config.position_embedding_type == PositionEmbedding::Absolute || names.parts.distances.is_some(),
            "position_embedding_type is relative, which is not supported of {family} (supported: absolute)"
        );
        Ok(Self { family, config, names })
    }
}

/// The family that a `config.json` names, by its `model_type` or, where there is none, by a class in `architectures`.
fn family(json: &Value) -> Result<Family> {
    let supported = || FAMILIES.iter().map(|family| family.model_type).collect::<Vec<_>>().join(", ");
    match json.get("model_type") {
        Some(Value::String(model_type)) => {
            let families: Vec<(&str, Family)> = FAMILIES.iter().map(|family| (family.model_type, *family)).collect();
            named("model_type", model_type, &families)
        }
        None | Some(Value::Null) => {
            let classes = json.get("architectures").and_then(Value::as_array).into_iter().flatten();
            let of_class = |class: &str| {
                let rest = |family: &&Family| class.strip_prefix(family.class);
                FAMILIES.iter().find(|family| {
                    rest(family).is_some_and(|rest| rest.starts_with("Model") || rest.starts_with("For"))
                })
            };
            let found = classes.filter_map(Value::as_str).find_map(of_class);
            found.copied().with_context(|| {
                format!(
                    "there is no model_type, and architectures names no class of a supported one: add the model's own \
                     (supported: {})",
                    supported()
                )
            })
        }
        Some(other) => bail!("model_type is {}: expected a text (supported: {})", shortened(other), supported()),
    }
}

/// A value for a message: one of a megabyte is of no use there.
fn shortened(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_name_of_its_own() {
        let mut names: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FAMILIES.len());
        // Otherwise a tensor of the encoder could be taken for one of the head's.
        assert!(FAMILIES.iter().all(|family| family.prefix.ends_with('.')));
    }

    /// A config with all the names that any family asks for.
    fn config(model_type: &str, layers: u64) -> String {
        format!(
            r#"{{"model_type": "{model_type}", "vocab_size": 9, "hidden_size": 8, "dim": 8, "embedding_size": 4,
            "num_hidden_layers": {layers}, "n_layers": {layers}, "num_attention_heads": 2, "n_heads": 2,
            "intermediate_size": 8, "hidden_dim": 8, "hidden_act": "gelu", "activation": "gelu",
            "max_position_embeddings": 10}}"#
        )
    }

    #[test]
    fn a_family_is_told_by_a_class_where_it_is_not_named() {
        for family in FAMILIES {
            for class in
                ["Model", "ForMaskedLM", "ForSequenceClassification"].map(|end| format!("{}{end}", family.class))
            {
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
        assert!(error(&format!("[{}0]", "0, ".repeat(1000))).len() < 300);
    }

    #[test]
    fn a_switch_is_true_or_false() {
        for (value, expected) in
            [("1", "is_decoder is 1: expected true or false"), ("\"yes\"", "is_decoder is \"yes\"")]
        {
            let text = config("bert", 2).replace('{', &format!("{{\"is_decoder\": {value}, "));
            let error = Architecture::parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
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
