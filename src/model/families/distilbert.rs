//! DistilBERT (Sanh et al. 2019): BERT without segments, under other names.

use anyhow::Result;
use serde::Deserialize;

use super::{Family, LayerNames, Names};
use crate::model::config::{
    Activation, Config, PositionEmbedding, default_initializer_range, fields, initializer_range,
};

pub(super) const DISTILBERT: Family = Family {
    model_type: "distilbert",
    class: "DistilBert",
    prefix: "distilbert.",
    masked_lm_head: "vocab_transform.",
    read,
};

const LAYER: LayerNames = LayerNames {
    query_key_value: ["attention.q_lin", "attention.k_lin", "attention.v_lin"],
    distances: None,
    attention_output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    intermediate: "ffn.lin1",
    output: "ffn.lin2",
    output_norm: "output_layer_norm",
};

/// The names of transformers' `DistilBertConfig`.
#[derive(Deserialize)]
struct DistilBertConfig {
    vocab_size: usize,
    dim: usize,
    n_layers: usize,
    n_heads: usize,
    hidden_dim: usize,
    activation: Activation,
    max_position_embeddings: usize,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
}

fn read(text: &str) -> Result<(Config, Names)> {
    let found: DistilBertConfig = fields(text)?;
    let config = Config {
        vocab_size: found.vocab_size,
        embedding_size: None,
        hidden_size: found.dim,
        num_hidden_layers: found.n_layers,
        num_attention_heads: found.n_heads,
        intermediate_size: found.hidden_dim,
        hidden_act: found.activation,
        max_position_embeddings: found.max_position_embeddings,
        position_embedding_type: PositionEmbedding::Absolute,
        padding: None,
        type_vocab_size: 0,
        // Not in the config: `DistilBertModel` has no other.
        layer_norm_eps: 1e-12,
        initializer_range: found.initializer_range,
    }
    .checked()?;
    let names = Names::numbered(&LAYER, "transformer.layer", &config);
    Ok((config, names))
}
