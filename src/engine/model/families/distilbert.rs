//! DistilBERT (Sanh et al. 2019): BERT without segments, under other names.

use anyhow::Result;
use serde::Deserialize;

use super::{Family, Intermediate, LayerNames, Names, QueryKeyValue, TokenHeadNames, TransformNames};
use crate::model::config::{
    Activation, Config, Sizes, default_initializer_range, fields, initializer_range, tied_by_default,
};

pub(super) const DISTILBERT: Family = Family {
    model_type: "distilbert",
    class: "DistilBert",
    prefix: "distilbert.",
    wrappers: &[],
    needless: &[],
    token_heads: &[HEAD],
    discriminator: None,
    read,
};

const HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames { dense: "vocab_transform", norm: "vocab_layer_norm", biases: [true, true] }),
    decoder: "vocab_projector.weight",
    bias: Some(["vocab_projector.bias", "vocab_projector.bias"]),
    activation: None,
};

const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["attention.q_lin", "attention.k_lin", "attention.v_lin"]),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    intermediate: Intermediate::Plain("ffn.lin1"),
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
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: found.dim,
        num_hidden_layers: found.n_layers,
        num_attention_heads: found.n_heads,
        intermediate_size: found.hidden_dim,
        max_position_embeddings: found.max_position_embeddings,
    };
    let config = Config {
        // Not in the config: `DistilBertModel` has no other.
        layer_norm_eps: 1e-12,
        initializer_range: found.initializer_range,
        tie_word_embeddings: found.tie_word_embeddings,
        ..Config::of(sizes, found.activation)
    }
    .checked()?;
    let names = Names::numbered(&LAYER, "transformer.layer", &config);
    Ok((config, names))
}
