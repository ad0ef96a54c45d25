//! ELECTRA (Clark et al. 2020), generator and discriminator: BERT, but narrow embeddings are widened by a linear layer.

use anyhow::Result;
use serde::Deserialize;

use super::{DiscriminatorNames, Family, Names, TokenHeadNames, TransformNames, bert};
use crate::model::config::{Activation, Config, fields};

pub(super) const ELECTRA: Family = Family {
    model_type: "electra",
    class: "Electra",
    prefix: "electra.",
    wrappers: &[],
    needless: &[],
    token_heads: &[HEAD],
    discriminator: Some(DISCRIMINATOR),
    read,
};

/// The generator's; a discriminator has another one.
const HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames {
        dense: "generator_predictions.dense",
        norm: "generator_predictions.LayerNorm",
        biases: [true, true],
    }),
    decoder: "generator_lm_head.weight",
    bias: Some(["generator_lm_head.bias", "generator_lm_head.bias"]),
    activation: Some(Activation::Gelu),
};

const DISCRIMINATOR: DiscriminatorNames = DiscriminatorNames {
    dense: "discriminator_predictions.dense",
    output: "discriminator_predictions.dense_prediction",
};

#[derive(Deserialize)]
struct Embedding {
    embedding_size: usize,
}

fn read(text: &str) -> Result<(Config, Names)> {
    let Embedding { embedding_size } = fields(text)?;
    let config = Config { embedding_size: Some(embedding_size), ..Config::parse(text)? }.checked()?;
    let names = Names::numbered(&bert::LAYER, "encoder.layer", &config);
    // A model with equal widths has no such layer.
    let projection = (embedding_size != config.hidden_size).then_some("embeddings_project");
    Ok((config, Names { projection, ..names }))
}
