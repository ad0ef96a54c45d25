//! BERT (Devlin et al. 2019): transformers' `BertModel`, and equal models under other names.

use anyhow::Result;

pub(super) use super::bert_layer::{ABSOLUTE, LAYER};
use super::{Family, Names, TokenHeadNames, TransformNames, alibi};
use crate::model::config::Config;

pub(super) const BERT: Family = Family {
    model_type: "bert",
    class: "Bert",
    prefix: "bert.",
    wrappers: &[],
    needless: &[],
    token_heads: &[HEAD],
    discriminator: None,
    read,
};

/// DPR's encoders of questions and of passages (Karpukhin et al. 2020).
pub(super) const DPR: Family = Family {
    model_type: "dpr",
    class: "DPR",
    prefix: "bert_model.",
    wrappers: &["question_encoder.", "ctx_encoder."],
    ..BERT
};

/// Splinter (Ram et al. 2021), without its selection of spans.
pub(super) const SPLINTER: Family = Family { model_type: "splinter", class: "Splinter", prefix: "splinter.", ..BERT };

/// VisualBERT (Li et al. 2019) of text alone: what goes through it beside the words are regions of images.
pub(super) const VISUAL_BERT: Family =
    Family { model_type: "visual_bert", class: "VisualBert", prefix: "visual_bert.", needless: VISUAL, ..BERT };

/// Embeddings of regions of images.
const VISUAL: &[&str] = &["visual_position_embeddings", "visual_token_type_embeddings", "visual_projection"];

/// The masked-LM head.
pub(super) const HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames {
        dense: "cls.predictions.transform.dense",
        norm: "cls.predictions.transform.LayerNorm",
        biases: [true, true],
    }),
    decoder: "cls.predictions.decoder.weight",
    bias: Some(["cls.predictions.bias", "cls.predictions.decoder.bias"]),
    activation: None,
};

fn read(text: &str) -> Result<(Config, Names)> {
    if let Some(found) = alibi::read(text)? {
        return Ok(found);
    }
    let config = Config::parse(text)?.checked()?;
    let names = Names::numbered(&LAYER, "encoder.layer", &config);
    Ok((config, names))
}

/// The `config.json` of a small BERT, for tests.
#[cfg(test)]
pub(in crate::model) const SMALL: &str = r#"{"model_type": "bert", "vocab_size": 9, "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "hidden_act": "gelu",
    "max_position_embeddings": 10}"#;
