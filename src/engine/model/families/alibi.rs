//! BERTs whose heads subtract a multiple of the distance from their scores (ALiBi, Press et al. 2022), in both directions, with gated
//! linear units and without embeddings of positions: JinaBERT v2 (Günther et al. 2023), MosaicBERT (Portes et al. 2023) and
//! DNABERT-2 (Zhou et al. 2024). Their `model_type` is `bert`.

use anyhow::{Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::{Biases, Intermediate, LayerNames, Names, PositionBiasNames, QueryKeyValue, bert_layer};
use crate::model::config::{
    Activation, Config, PositionEmbedding, Sizes, default_initializer_range, fields, initializer_range,
};
use crate::system::errors::Facts;
use crate::system::printable::shortened;

const JINA_LAYER: LayerNames = LayerNames {
    intermediate: Intermediate::GateFirst("mlp.gated_layers"),
    output: "mlp.wo",
    output_norm: "mlp.layernorm",
    ..bert_layer::ABSOLUTE
};

const MOSAIC_LAYER: LayerNames =
    LayerNames { query_key_value: QueryKeyValue::Blocks("attention.self.Wqkv"), ..JINA_LAYER };

/// The keys by which these models are told from BERT, and what they have beside its sizes.
#[derive(Deserialize)]
struct AlibiConfig {
    position_embedding_type: Option<String>,
    /// MosaicBERT's, the length of a table of its own code.
    alibi_starting_size: Option<usize>,
    /// JinaBERT's.
    feed_forward_type: Option<String>,
    #[serde(default = "gelu")]
    hidden_act: Activation,
    #[serde(default = "layer_norm_eps")]
    layer_norm_eps: f64,
    #[serde(default = "type_vocab_size")]
    type_vocab_size: usize,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
}

fn gelu() -> Activation {
    Activation::Gelu
}

fn layer_norm_eps() -> f64 {
    1e-12
}

fn type_vocab_size() -> usize {
    2
}

/// The encoder that a `config.json` of `model_type` `bert` is of, if it is one of these.
/// Fails if a field has a value that is not supported.
pub(super) fn read(text: &str) -> Result<Option<(Config, Names)>> {
    /// The keys by which they are told: a BERT's other keys may be anything.
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        position_embedding_type: Value,
        #[serde(default)]
        alibi_starting_size: Value,
        /// The places of a model's own code.
        #[serde(default)]
        auto_map: Value,
    }
    let told: Told = fields(text)?;
    if told.position_embedding_type != "alibi" && told.alibi_starting_size.is_null() {
        return Ok(None);
    }
    let code = told.auto_map.to_string();
    let variant = || {
        let why = "JinaBERT v2 of the code, de, es and zh models, which normalises queries and keys, is not supported";
        anyhow!("auto_map names qk-post-norm: {why}").of_value(shortened(&code))
    };
    ensure!(!code.contains("qk-post-norm"), variant());
    let (sizes, found): (Sizes, AlibiConfig) = (fields(text)?, fields(text)?);
    let of_jina = found.alibi_starting_size.is_none() && found.position_embedding_type.is_some();
    let (gated, hidden_act, parts) = match found.feed_forward_type.as_deref() {
        Some("geglu") => (true, Activation::Gelu, &JINA_LAYER),
        Some("reglu") => (true, Activation::Relu, &JINA_LAYER),
        Some("original") => (false, found.hidden_act, &bert_layer::ABSOLUTE),
        None if of_jina => (false, found.hidden_act, &bert_layer::ABSOLUTE),
        None => (true, found.hidden_act, &MOSAIC_LAYER),
        Some(other) => {
            let shown = shortened(other);
            bail!(anyhow!("feed_forward_type is {shown} (supported: original, geglu, reglu)").of_value(other))
        }
    };
    let config = Config {
        gated,
        position_embedding_type: PositionEmbedding::None,
        is_unbounded: true,
        layer_norm_eps: found.layer_norm_eps,
        type_vocab_size: found.type_vocab_size,
        initializer_range: found.initializer_range,
        ..Config::of(sizes, hidden_act)
    }
    .checked()?;
    let names = Names {
        biases: Biases { intermediate: !gated, ..Biases::ALL },
        position_bias: Some(PositionBiasNames::Slopes),
        ..Names::numbered(parts, "encoder.layer", &config)
    };
    Ok(Some((config, names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_refused_by_the_name_of_its_code() {
        let text = r#"{"position_embedding_type": "alibi",
            "auto_map": {"AutoModel": "jinaai/jina-bert-v2-qk-post-norm--modeling_bert.JinaBertModel"}}"#;
        let error = read(text).unwrap_err().to_string();
        assert!(
            error.starts_with("auto_map names qk-post-norm: JinaBERT v2 of the code, de, es and zh models"),
            "{error}"
        );
    }
}
