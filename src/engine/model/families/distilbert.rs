//! DistilBERT (Sanh et al. 2019): BERT without segments, under other names.

use anyhow::Result;
use serde::Deserialize;

use super::{Family, LayerNames, MaskedLmNames, Names};
use crate::model::config::{
    Activation, Config, PositionEmbedding, default_initializer_range, fields, initializer_range, tied_by_default,
};

pub(super) const DISTILBERT: Family = Family {
    model_type: "distilbert",
    class: "DistilBert",
    prefix: "distilbert.",
    wrappers: &[],
    masked_lm: HEAD,
    discriminator: None,
    read,
};

const HEAD: MaskedLmNames = MaskedLmNames {
    dense: "vocab_transform",
    norm: "vocab_layer_norm",
    decoder: "vocab_projector.weight",
    bias: "vocab_projector.bias",
    decoder_bias: "vocab_projector.bias",
    activation: None,
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
    #[serde(default = "tied_by_default")]
    tie_word_embeddings: bool,
}

fn read(text: &str) -> Result<(Config, Names)> {
    let found: DistilBertConfig = fields(text)?;
    let config = Config {
        vocab_size: found.vocab_size,
        embedding_size: None,
        output_embedding_size: None,
        hidden_size: found.dim,
        num_hidden_layers: found.n_layers,
        num_attention_heads: found.n_heads,
        intermediate_size: found.hidden_dim,
        hidden_act: found.activation,
        max_position_embeddings: found.max_position_embeddings,
        position_embedding_type: PositionEmbedding::Absolute,
        padding: None,
        full_attention: None,
        type_vocab_size: 0,
        // Not in the config: `DistilBertModel` has no other.
        layer_norm_eps: 1e-12,
        initializer_range: found.initializer_range,
        tie_word_embeddings: found.tie_word_embeddings,
    }
    .checked()?;
    let names = Names::numbered(&LAYER, "transformer.layer", &config);
    Ok((config, names))
}
