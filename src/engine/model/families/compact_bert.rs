//! Smaller BERTs: DistilBERT, SqueezeBERT, ELECTRA, RemBERT and ALBERT. In the last three, a linear layer widens narrow
//! embeddings.

use anyhow::{Result, ensure};

use super::{ConvolutionGroups, Intermediate, LayerNames, QueryKeyValue, TensorNames, bert};
use crate::model::config::{Config, ConfigKey, config_value, keys, wrong_value};

const DISTILBERT_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Separate(["attention.q_lin", "attention.k_lin", "attention.v_lin"]),
    attention_output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    intermediate: Intermediate::Plain("ffn.lin1"),
    output: "ffn.lin2",
    output_norm: "output_layer_norm",
    ..bert::LAYER_WITHOUT_DISTANCES
};

pub(super) fn read_distilbert(text: &str) -> Result<(Config, TensorNames)> {
    const KEYS: &[ConfigKey] = keys! {
        hidden_size: dim, num_hidden_layers: n_layers, num_attention_heads: n_heads, intermediate_size: hidden_dim,
        // `DistilBertModel` always has this one.
        hidden_act: activation, layer_norm_eps: _ = 1e-12
    };
    TensorNames::check_config_and_name(Config::read(text, &[KEYS])?, &DISTILBERT_LAYER, "transformer.layer")
}

const SQUEEZEBERT_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Separate(["attention.query", "attention.key", "attention.value"]),
    attention_output: "post_attention.conv1d",
    attention_norm: "post_attention.layernorm",
    intermediate: Intermediate::Plain("intermediate.conv1d"),
    output: "output.conv1d",
    output_norm: "output.layernorm",
    ..bert::LAYER_WITHOUT_DISTANCES
};

/// Epsilon of the layer normalisations within SqueezeBERT's layers, which ignore the config's value.
const LAYER_EPSILON: f64 = 1e-12;

pub(super) fn read_squeezebert(text: &str) -> Result<(Config, TensorNames)> {
    let embedding_size = config_value!(text, embedding_size: Option<usize> = None)?;
    let q_groups = config_value!(text, q_groups: usize = 4)?;
    let k_groups = config_value!(text, k_groups: usize = 4)?;
    let v_groups = config_value!(text, v_groups: usize = 4)?;
    let post_attention_groups = config_value!(text, post_attention_groups: usize = 1)?;
    let intermediate_groups = config_value!(text, intermediate_groups: usize = 4)?;
    let output_groups = config_value!(text, output_groups: usize = 4)?;
    let (config, names) =
        TensorNames::check_config_and_name(Config::parse(text)?, &SQUEEZEBERT_LAYER, "encoder.layers")?;
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let width = embedding_size.unwrap_or(hidden);
    ensure!(width == hidden, "embedding_size is {width}, hidden_size {hidden}: nothing leads from one to the other");
    let is_equal = config.layer_norm_eps == LAYER_EPSILON;
    ensure!(
        is_equal,
        "layer_norm_eps is {:e}: within layers it is {LAYER_EPSILON:e} in SqueezeBERT",
        config.layer_norm_eps
    );
    let divides = |groups: usize, channels: usize| groups > 0 && channels.is_multiple_of(groups);
    for (name, groups) in [
        ("q_groups", q_groups),
        ("k_groups", k_groups),
        ("v_groups", v_groups),
        ("post_attention_groups", post_attention_groups),
    ] {
        let reason = format_args!("it has to divide hidden_size {hidden}");
        ensure!(divides(groups, hidden), wrong_value(name, groups, reason));
    }
    for (name, groups) in [("intermediate_groups", intermediate_groups), ("output_groups", output_groups)] {
        let reason = format_args!("it has to divide hidden_size {hidden} and intermediate_size {wide}");
        ensure!(divides(groups, hidden) && divides(groups, wide), wrong_value(name, groups, reason));
    }
    let convolutions = ConvolutionGroups {
        query_key_value: [q_groups, k_groups, v_groups],
        attention_output: post_attention_groups,
        intermediate: intermediate_groups,
        output: output_groups,
    };
    Ok((config, TensorNames { convolutions: Some(convolutions), ..names }))
}

pub(super) fn read_electra(text: &str) -> Result<(Config, TensorNames)> {
    let embedding_size = config_value!(text, embedding_size: usize)?;
    let config = Config { embedding_size: Some(embedding_size), ..Config::parse(text)? };
    let (config, names) = TensorNames::check_config_and_name(config, &bert::LAYER, "encoder.layer")?;
    // A model whose widths are equal has no projection.
    let projection = (embedding_size != config.hidden_size).then_some("embeddings_project");
    Ok((config, TensorNames { projection, ..names }))
}

/// Name of the linear layer that widens embeddings in RemBERT and ALBERT.
const WIDENING_LAYER: Option<&str> = Some("encoder.embedding_hidden_mapping_in");

pub(super) fn read_rembert(text: &str) -> Result<(Config, TensorNames)> {
    let embedding_size = config_value!(text, input_embedding_size: usize)?;
    let output_embedding_size = config_value!(text, output_embedding_size: usize)?;
    // Unlike in `Config`, the default is false.
    let is_tied = config_value!(text, tie_word_embeddings: bool = false)?;
    ensure!(!is_tied, "tie_word_embeddings is true: input and output embeddings are two in RemBERT");
    let config = Config {
        embedding_size: Some(embedding_size),
        output_embedding_size: Some(output_embedding_size),
        tie_word_embeddings: false,
        ..Config::parse(text)?
    };
    let (config, names) = bert::check_and_name_absolute(config)?;
    Ok((config, TensorNames { projection: WIDENING_LAYER, ..names }))
}

const ALBERT_LAYER: LayerNames = LayerNames {
    attention_output: "attention.dense",
    attention_norm: "attention.LayerNorm",
    intermediate: Intermediate::Plain("ffn"),
    output: "ffn_output",
    output_norm: "full_layer_layer_norm",
    ..SQUEEZEBERT_LAYER
};

pub(super) fn read_albert(text: &str) -> Result<(Config, TensorNames)> {
    let embedding_size = config_value!(text, embedding_size: usize)?;
    let groups = config_value!(text, num_hidden_groups: usize = 1)?;
    let inner = config_value!(text, inner_group_num: usize = 1)?;
    let config = Config::parse(text)?;
    let passes = config.num_hidden_layers;
    ensure!(groups > 0 && inner > 0, "num_hidden_groups is {groups} and inner_group_num {inner}: neither can be 0");
    // One pass runs all layers of its group.
    let layers = passes.saturating_mul(inner);
    let config = Config { embedding_size: Some(embedding_size), num_hidden_layers: layers, ..config }.check_sizes()?;
    let name = |layer: usize| {
        // The floating-point computation of transformers, so that rounding is the same.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of groups")]
        let group = ((layer / inner) as f64 / (passes as f64 / groups as f64)) as usize;
        format!("encoder.albert_layer_groups.{group}.albert_layers.{}", layer % inner)
    };
    let names = TensorNames::new(&ALBERT_LAYER, (0..layers).map(name).collect());
    Ok((config, TensorNames { projection: WIDENING_LAYER, ..names }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_together() {
        let error = |more: &str| {
            let text = format!(
                r#"{{"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
                "intermediate_size": 12, "hidden_act": "gelu", "max_position_embeddings": 9{more}}}"#
            );
            read_squeezebert(&text).err().map(|error| error.to_string())
        };
        assert_eq!(error(""), None);
        let wrong = [
            r#", "k_groups": 0"#,
            r#", "v_groups": 3"#,
            r#", "output_groups": 8"#,
            r#", "embedding_size": 4"#,
            r#", "layer_norm_eps": 1e-5"#,
        ];
        insta::assert_snapshot!(wrong.map(|more| error(more).unwrap()).join("\n"), @"
        k_groups is 0: it has to divide hidden_size 8
        v_groups is 3: it has to divide hidden_size 8
        output_groups is 8: it has to divide hidden_size 8 and intermediate_size 12
        embedding_size is 4, hidden_size 8: nothing leads from one to the other
        layer_norm_eps is 1e-5: within layers it is 1e-12 in SqueezeBERT
        ");
    }

    fn layers(passes: usize, groups: usize, inner: usize) -> Result<Vec<String>> {
        let text = format!(
            r#"{{"vocab_size": 9, "embedding_size": 4, "hidden_size": 8, "num_hidden_layers": {passes},
            "num_hidden_groups": {groups}, "inner_group_num": {inner}, "num_attention_heads": 2,
            "intermediate_size": 8, "hidden_act": "gelu_new", "max_position_embeddings": 10}}"#
        );
        let (_, names) = read_albert(&text)?;
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
        insta::assert_snapshot!(layers(1 << 9, 1, 1 << 60).unwrap_err(), @"num_hidden_layers is 18446744073709551615: no model has more than 1024");
        let error = layers(2, 0, 1).unwrap_err().to_string();
        assert_eq!(error, "num_hidden_groups is 0 and inner_group_num 1: neither can be 0");
    }
}
