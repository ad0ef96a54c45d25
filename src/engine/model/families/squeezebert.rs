//! SqueezeBERT (Iandola et al. 2020): BERT with convolutions in groups in place of linear layers.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{Family, Groups, Intermediate, LayerNames, Names, QueryKeyValue, bert};
use crate::model::config::{Config, fields};
use crate::system::errors::Facts;

pub(super) const SQUEEZEBERT: Family =
    Family { model_type: "squeezebert", class: "SqueezeBert", prefix: "transformer.", read, ..bert::BERT };

const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["attention.query", "attention.key", "attention.value"]),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "post_attention.conv1d",
    attention_norm: "post_attention.layernorm",
    intermediate: Intermediate::Plain("intermediate.conv1d"),
    output: "output.conv1d",
    output_norm: "output.layernorm",
};

/// The layer normalisations within layers have no other, whatever the config says.
const EPSILON: f64 = 1e-12;

/// The keys that transformers' `SqueezeBertConfig` has beside BERT's names, with its defaults.
#[derive(Deserialize)]
#[serde(default)]
struct SqueezeBertConfig {
    embedding_size: Option<usize>,
    q_groups: usize,
    k_groups: usize,
    v_groups: usize,
    post_attention_groups: usize,
    intermediate_groups: usize,
    output_groups: usize,
}

impl Default for SqueezeBertConfig {
    fn default() -> Self {
        Self {
            embedding_size: None,
            q_groups: 4,
            k_groups: 4,
            v_groups: 4,
            post_attention_groups: 1,
            intermediate_groups: 4,
            output_groups: 4,
        }
    }
}

fn read(text: &str) -> Result<(Config, Names)> {
    let found: SqueezeBertConfig = fields(text)?;
    let config = Config::parse(text)?.checked()?;
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let width = found.embedding_size.unwrap_or(hidden);
    ensure!(width == hidden, "embedding_size is {width}, hidden_size {hidden}: nothing leads from one to the other");
    let same = config.layer_norm_eps == EPSILON;
    ensure!(same, "layer_norm_eps is {:e}: within layers it is {EPSILON:e} in SqueezeBERT", config.layer_norm_eps);
    let attention = [
        ("q_groups", found.q_groups),
        ("k_groups", found.k_groups),
        ("v_groups", found.v_groups),
        ("post_attention_groups", found.post_attention_groups),
    ];
    let divides = |groups: usize, channels: usize| groups > 0 && channels.is_multiple_of(groups);
    for (name, groups) in attention {
        let unfit = || anyhow!("{name} is {groups}: it has to divide hidden_size {hidden}").of_value(groups);
        ensure!(divides(groups, hidden), unfit());
    }
    for (name, groups) in [("intermediate_groups", found.intermediate_groups), ("output_groups", found.output_groups)] {
        ensure!(
            divides(groups, hidden) && divides(groups, wide),
            anyhow!("{name} is {groups}: it has to divide hidden_size {hidden} and intermediate_size {wide}")
                .of_value(groups)
        );
    }
    let convolutions = Groups {
        query_key_value: [found.q_groups, found.k_groups, found.v_groups],
        attention_output: found.post_attention_groups,
        intermediate: found.intermediate_groups,
        output: found.output_groups,
    };
    let names = Names::numbered(&LAYER, "encoder.layers", &config);
    Ok((config, Names { convolutions: Some(convolutions), ..names }))
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
            read(&text).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(error(""), Ok(()));
        assert_eq!(error(r#", "k_groups": 0"#), Err("k_groups is 0: it has to divide hidden_size 8".to_owned()));
        assert_eq!(error(r#", "v_groups": 3"#), Err("v_groups is 3: it has to divide hidden_size 8".to_owned()));
        assert_eq!(
            error(r#", "output_groups": 8"#),
            Err("output_groups is 8: it has to divide hidden_size 8 and intermediate_size 12".to_owned())
        );
        assert_eq!(
            error(r#", "embedding_size": 4"#),
            Err("embedding_size is 4, hidden_size 8: nothing leads from one to the other".to_owned())
        );
        assert_eq!(
            error(r#", "layer_norm_eps": 1e-5"#),
            Err("layer_norm_eps is 1e-5: within layers it is 1e-12 in SqueezeBERT".to_owned())
        );
    }
}
