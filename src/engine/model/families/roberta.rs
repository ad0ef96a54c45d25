//! RoBERTa (Liu et al. 2019), and what is built like it: XLM-RoBERTa (Conneau et al. 2020), CamemBERT
//! (Martin et al. 2020), data2vec for text (Baevski et al. 2022), LUKE (Yamada et al. 2020). BERT, but positions are
//! counted from the padding index.

use anyhow::Result;
use serde::Deserialize;

use super::{Family, Names, TokenHeadNames, TransformNames, bert};
use crate::model::config::{Activation, Config, fields};

pub(super) const ROBERTA: Family = Family {
    model_type: "roberta",
    class: "Roberta",
    prefix: "roberta.",
    wrappers: &[],
    needless: &[],
    token_heads: &[HEAD],
    discriminator: None,
    read,
};

pub(super) const XLM_ROBERTA: Family = Family { model_type: "xlm-roberta", class: "XLMRoberta", ..ROBERTA };

pub(super) const CAMEMBERT: Family = Family { model_type: "camembert", class: "Camembert", ..ROBERTA };

pub(super) const DATA2VEC_TEXT: Family =
    Family { model_type: "data2vec-text", class: "Data2VecText", prefix: "data2vec_text.", ..ROBERTA };

/// Words alone: without entities, LUKE's attention from word to word is all there is.
pub(super) const LUKE: Family = Family {
    model_type: "luke",
    class: "Luke",
    prefix: "luke.",
    needless: &["entity_embeddings", "w2e_query", "e2w_query", "e2e_query"],
    ..ROBERTA
};

/// The masked-LM head; MPNet was made from the same source.
pub(super) const HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames { dense: "lm_head.dense", norm: "lm_head.layer_norm", biases: [true, true] }),
    decoder: "lm_head.decoder.weight",
    bias: Some(["lm_head.bias", "lm_head.decoder.bias"]),
    activation: Some(Activation::Gelu),
};

#[derive(Deserialize)]
struct Padding {
    #[serde(default = "default_pad_token_id")]
    pad_token_id: u32,
}

/// transformers' `RobertaConfig` default, for configs that leave the field out.
fn default_pad_token_id() -> u32 {
    1
}

/// A config of a family whose positions are counted from the padding index; not checked.
pub(super) fn parse(text: &str) -> Result<Config> {
    let Padding { pad_token_id } = fields(text)?;
    Ok(Config { padding: Some(pad_token_id), ..Config::parse(text)? })
}

fn read(text: &str) -> Result<(Config, Names)> {
    let config = parse(text)?.checked()?;
    let names = Names::numbered(&bert::LAYER, "encoder.layer", &config);
    Ok((config, names))
}
