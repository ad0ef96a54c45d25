//! RemBERT (Chung et al. 2021): narrow embeddings that a linear layer widens, and others, wide ones, for prediction.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{Family, Names, TokenHeadNames, TransformNames, bert};
use crate::model::config::{Config, fields};

pub(super) const REMBERT: Family = Family {
    model_type: "rembert",
    class: "RemBert",
    prefix: "rembert.",
    wrappers: &[],
    needless: &[],
    token_heads: &[HEAD],
    discriminator: None,
    read,
};

const HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames {
        dense: "cls.predictions.dense",
        norm: "cls.predictions.LayerNorm",
        biases: [true, true],
    }),
    decoder: "cls.predictions.decoder.weight",
    bias: Some(["cls.predictions.decoder.bias", "cls.predictions.decoder.bias"]),
    activation: None,
};

#[derive(Deserialize)]
struct RemBertConfig {
    input_embedding_size: usize,
    output_embedding_size: usize,
    /// Not [`Config`]'s: the default is another.
    #[serde(default)]
    tie_word_embeddings: bool,
}

fn read(text: &str) -> Result<(Config, Names)> {
    let found: RemBertConfig = fields(text)?;
    ensure!(!found.tie_word_embeddings, "tie_word_embeddings is true: input and output embeddings are two in RemBERT");
    let config = Config {
        embedding_size: Some(found.input_embedding_size),
        output_embedding_size: Some(found.output_embedding_size),
        tie_word_embeddings: false,
        ..Config::parse(text)?
    }
    .checked()?;
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
    Ok((config, Names { projection: Some("encoder.embedding_hidden_mapping_in"), ..names }))
}
