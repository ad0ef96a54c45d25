//! MPNet (Song et al. 2020): BERT without segments, positions counted from the padding index, and a bias by distance
//! that all layers add to their scores.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{Family, Intermediate, LayerNames, Names, PositionBiasNames, QueryKeyValue, roberta};
use crate::model::config::{Config, LARGEST_SIZE, PositionEmbedding, fields};
use crate::system::errors::Facts;

pub(super) const MPNET: Family = Family {
    model_type: "mpnet",
    class: "MPNet",
    prefix: "mpnet.",
    wrappers: &[],
    needless: &[],
    token_heads: &[roberta::HEAD],
    discriminator: None,
    read,
};

const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["attention.attn.q", "attention.attn.k", "attention.attn.v"]),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    intermediate: Intermediate::Plain("intermediate.dense"),
    output: "output.dense",
    output_norm: "output.LayerNorm",
};

/// `MPNetEncoder` always has this number of buckets, whatever the config says.
const DISTANCE_BUCKETS: usize = 32;

/// The distance from which on all are in the last bucket, `MPNetEncoder`'s default.
const FURTHEST: usize = 128;

/// `MPNetEmbeddings` has no other, whatever the config says.
const PADDING: u32 = 1;

/// The rows of the embedding of distances. `MPNetEncoder` takes the first ones, so that there may be more.
#[derive(Deserialize)]
struct Buckets {
    #[serde(default = "buckets")]
    relative_attention_num_buckets: usize,
}

/// transformers' `MPNetConfig` default, for configs that leave the field out.
fn buckets() -> usize {
    DISTANCE_BUCKETS
}

fn read(text: &str) -> Result<(Config, Names)> {
    let config = Config {
        padding: Some(PADDING),
        type_vocab_size: 0,
        position_embedding_type: PositionEmbedding::Absolute,
        ..Config::parse(text)?
    }
    .checked()?;
    let Buckets { relative_attention_num_buckets: rows } = fields(text)?;
    ensure!(
        (DISTANCE_BUCKETS..=LARGEST_SIZE).contains(&rows),
        anyhow!(
            "relative_attention_num_buckets is {rows}: distances are sorted into {DISTANCE_BUCKETS}, whatever it is, and \
             each has a row"
        )
        .of_value(rows)
    );
    let names = Names::numbered(&LAYER, "encoder.layer", &config);
    Ok((config, {
        let bias = PositionBiasNames::Buckets {
            table: "encoder.relative_attention_bias",
            in_each_layer: false,
            rows,
            buckets: DISTANCE_BUCKETS,
            furthest: FURTHEST,
        };
        Names { position_bias: Some(bias), ..names }
    }))
}
