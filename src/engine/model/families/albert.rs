//! ALBERT (Lan et al. 2020): narrow embeddings that a linear layer widens, and layers that share their parameters.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{Family, Intermediate, LayerNames, Names, QueryKeyValue, TokenHeadNames, TransformNames};
use crate::model::config::{Config, fields};

pub(super) const ALBERT: Family = Family {
    model_type: "albert",
    class: "Albert",
    prefix: "albert.",
    wrappers: &[],
    needless: &[],
    token_heads: &[HEAD],
    discriminator: None,
    read,
};

const HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames { dense: "predictions.dense", norm: "predictions.LayerNorm", biases: [true, true] }),
    decoder: "predictions.decoder.weight",
    bias: Some(["predictions.bias", "predictions.decoder.bias"]),
    activation: None,
};

const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["attention.query", "attention.key", "attention.value"]),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "attention.dense",
    attention_norm: "attention.LayerNorm",
    intermediate: Intermediate::Plain("ffn"),
    output: "ffn_output",
    output_norm: "full_layer_layer_norm",
};

/// The keys that transformers' `AlbertConfig` has beside BERT's names.
#[derive(Deserialize)]
struct AlbertConfig {
    embedding_size: usize,
    #[serde(default = "one")]
    num_hidden_groups: usize,
    #[serde(default = "one")]
    inner_group_num: usize,
}

/// transformers' `AlbertConfig` default, for configs that leave the field out.
fn one() -> usize {
    1
}

fn read(text: &str) -> Result<(Config, Names)> {
    let AlbertConfig { embedding_size, num_hidden_groups: groups, inner_group_num: inner } = fields(text)?;
    let config = Config::parse(text)?;
    let passes = config.num_hidden_layers;
    ensure!(groups > 0 && inner > 0, "num_hidden_groups is {groups} and inner_group_num {inner}: neither can be 0");
    // A pass runs all layers of its group.
    let layers = passes.saturating_mul(inner);
    let config = Config { embedding_size: Some(embedding_size), num_hidden_layers: layers, ..config }.checked()?;
    let name = |layer: usize| {
        // The floating-point computation of transformers, so that rounding is the same.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of groups")]
        let group = ((layer / inner) as f64 / (passes as f64 / groups as f64)) as usize;
        format!("encoder.albert_layer_groups.{group}.albert_layers.{}", layer % inner)
    };
    let names = Names::of(&LAYER, (0..layers).map(name).collect());
    Ok((config, Names { projection: Some("encoder.embedding_hidden_mapping_in"), ..names }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(passes: usize, groups: usize, inner: usize) -> Result<Vec<String>> {
        let text = format!(
            r#"{{"vocab_size": 9, "embedding_size": 4, "hidden_size": 8, "num_hidden_layers": {passes},
            "num_hidden_groups": {groups}, "inner_group_num": {inner}, "num_attention_heads": 2,
            "intermediate_size": 8, "hidden_act": "gelu_new", "max_position_embeddings": 10}}"#
        );
        let (_, names) = read(&text)?;
        let short = |name: &String| name.replace("encoder.albert_layer_groups.", "").replace(".albert_layers.", "/");
        Ok(names.layers.iter().map(short).collect())
    }

    #[test]
    fn layers_of_a_group_share_their_parameters() {
        assert_eq!(layers(3, 1, 1).unwrap(), ["0/0"; 3]);
        assert_eq!(layers(4, 2, 1).unwrap(), ["0/0", "0/0", "1/0", "1/0"]);
        assert_eq!(layers(3, 2, 2).unwrap(), ["0/0", "0/1", "0/0", "0/1", "1/0", "1/1"]);
    }

    #[test]
    fn numbers_that_overflow() {
        let error = layers(1 << 9, 1, 1 << 60).unwrap_err().to_string();
        assert!(error.starts_with("num_hidden_layers is "), "{error}");
        let error = layers(2, 0, 1).unwrap_err().to_string();
        assert_eq!(error, "num_hidden_groups is 0 and inner_group_num 1: neither can be 0");
    }
}
