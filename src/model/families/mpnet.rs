//! MPNet (Song et al. 2020): BERT without segments, positions counted from the padding index, and a bias by distance
//! that all layers add to their scores.

use anyhow::Result;

use super::{Family, LayerNames, Names, roberta};
use crate::model::config::{Config, PositionEmbedding};

pub(super) const MPNET: Family =
    Family { model_type: "mpnet", class: "MPNet", prefix: "mpnet.", wrappers: &[], masked_lm: roberta::HEAD, read };

const LAYER: LayerNames = LayerNames {
    query_key_value: ["attention.attn.q", "attention.attn.k", "attention.attn.v"],
    distances: None,
    attention_output: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    intermediate: "intermediate.dense",
    output: "output.dense",
    output_norm: "output.LayerNorm",
};

/// `MPNetEmbeddings` has no other, whatever the config says.
const PADDING: u32 = 1;

fn read(text: &str) -> Result<(Config, Names)> {
    let config = Config {
        padding: Some(PADDING),
        type_vocab_size: 0,
        position_embedding_type: PositionEmbedding::Absolute,
        ..Config::parse(text)?
    }
    .checked()?;
    let names = Names::numbered(&LAYER, "encoder.layer", &config);
    Ok((config, Names { position_bias: Some("encoder.relative_attention_bias"), ..names }))
}
