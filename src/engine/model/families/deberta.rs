//! DeBERTa, versions 2 (He et al. 2021) and 3 (He et al. 2023): BERT whose scores have terms between content and distance.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{DisentangledNames, Family, LayerNames, Names, QueryKeyValue, bert};
use crate::model::config::{
    Activation, Config, Places, PositionEmbedding, Sizes, default_initializer_range, fields, initializer_range,
    tied_by_default,
};
use crate::system::errors::Facts;

/// The masked-LM head is that of models that were trained in transformers. Microsoft's checkpoints have another, which was trained
/// behind two more passes through the last layer.
pub(super) const DEBERTA_V2: Family =
    Family { model_type: "deberta-v2", class: "DebertaV2", prefix: "deberta.", read, ..bert::BERT };

const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart([
        "attention.self.query_proj",
        "attention.self.key_proj",
        "attention.self.value_proj",
    ]),
    ..bert::ABSOLUTE
};

/// The keys that transformers' `DebertaV2Config` has beside BERT's sizes, with its defaults.
#[derive(Deserialize)]
struct DebertaConfig {
    #[serde(default = "gelu")]
    hidden_act: Activation,
    #[serde(default = "layer_norm_eps")]
    layer_norm_eps: f64,
    #[serde(default)]
    relative_attention: bool,
    #[serde(default = "none")]
    max_relative_positions: i64,
    #[serde(default = "none")]
    position_buckets: i64,
    pos_att_type: Option<Kinds>,
    #[serde(default)]
    share_att_key: bool,
    norm_rel_ebd: Option<String>,
    #[serde(default = "yes")]
    position_biased_input: bool,
    #[serde(default)]
    type_vocab_size: usize,
    #[serde(default)]
    conv_kernel_size: usize,
    attention_head_size: Option<usize>,
    embedding_size: Option<usize>,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
    #[serde(default = "tied_by_default")]
    tie_word_embeddings: bool,
}

/// The kinds of terms, as a list or with bars between them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Kinds {
    List(Vec<String>),
    Text(String),
}

impl Kinds {
    /// Whether a kind is among them, as transformers reads it.
    fn has(&self, kind: &str) -> bool {
        match self {
            Self::List(kinds) => kinds.iter().any(|known| known == kind),
            Self::Text(kinds) => kinds.to_lowercase().split('|').any(|known| known.trim() == kind),
        }
    }
}

fn gelu() -> Activation {
    Activation::Gelu
}

fn layer_norm_eps() -> f64 {
    1e-7
}

fn none() -> i64 {
    -1
}

fn yes() -> bool {
    true
}

fn read(text: &str) -> Result<(Config, Names)> {
    let (sizes, found): (Sizes, DebertaConfig) = (fields(text)?, fields(text)?);
    let kernel = found.conv_kernel_size;
    ensure!(
        kernel == 0,
        anyhow!("conv_kernel_size is {kernel}: a convolution beside the first layer is not supported").of_value(kernel)
    );
    let width = found.embedding_size.unwrap_or(sizes.hidden_size);
    ensure!(
        width == sizes.hidden_size,
        anyhow!("embedding_size is {width}: narrower embeddings are not supported of deberta-v2").of_value(width)
    );
    let has = |kind: &str| found.pos_att_type.as_ref().is_some_and(|kinds| kinds.has(kind));
    let [to_place, to_content] = ["c2p", "p2c"].map(has);
    let terms = 1 + usize::from(to_place) + usize::from(to_content);
    let head_size = found.attention_head_size.unwrap_or(sizes.hidden_size / sizes.num_attention_heads.max(1));
    let absolute = found.position_biased_input;
    let config = Config {
        head_size: found.attention_head_size,
        // All terms together have the variance of one.
        score_scale: Some(1.0 / ((head_size * terms) as f64).sqrt()),
        position_embedding_type: if absolute { PositionEmbedding::Absolute } else { PositionEmbedding::None },
        type_vocab_size: found.type_vocab_size,
        layer_norm_eps: found.layer_norm_eps,
        initializer_range: found.initializer_range,
        tie_word_embeddings: found.tie_word_embeddings,
        ..Config::of(sizes, found.hidden_act)
    }
    .checked()?;
    let names = Names::numbered(&LAYER, "encoder.layer", &config);
    let disentangled = found.relative_attention.then(|| disentangled(&found, &sizes, [to_place, to_content]));
    Ok((config, Names { disentangled: disentangled.transpose()?, ..names }))
}

/// Each layer keeps two vectors for each place of either direction. Models have 256 or 512.
const MOST_PLACES: usize = 1 << 12;

/// The place of each distance is kept. Models have 512 positions.
const MOST_POSITIONS: usize = 1 << 16;

fn disentangled(found: &DebertaConfig, sizes: &Sizes, [to_place, to_content]: [bool; 2]) -> Result<DisentangledNames> {
    let positive = |value: i64| usize::try_from(value).ok().filter(|&value| value > 0);
    let furthest = positive(found.max_relative_positions).unwrap_or(sizes.max_position_embeddings);
    let buckets = positive(found.position_buckets);
    let span = buckets.unwrap_or(furthest);
    let longest = sizes.max_position_embeddings;
    ensure!(
        span <= MOST_PLACES && longest <= MOST_POSITIONS,
        "there are {span} places of distances and {longest} positions: no model has more than {MOST_PLACES} and {MOST_POSITIONS}"
    );
    ensure!(
        buckets.is_none_or(|buckets| buckets >= 4 && furthest > buckets / 2 + 1),
        "position_buckets is {} and max_relative_positions {}: 4 or more buckets are expected, and longer distances than \
         half of them",
        found.position_buckets,
        found.max_relative_positions
    );
    let [keys, queries] = if found.share_att_key {
        ["attention.self.key_proj", "attention.self.query_proj"]
    } else {
        ["attention.self.pos_key_proj", "attention.self.pos_query_proj"]
    };
    let normalised =
        found.norm_rel_ebd.as_ref().is_some_and(|norms| norms.split('|').any(|norm| norm.trim() == "layer_norm"));
    Ok(DisentangledNames {
        table: "encoder.rel_embeddings",
        norm: normalised.then_some("encoder.LayerNorm"),
        keys: to_place.then_some(keys),
        queries: to_content.then_some(queries),
        places: Places { span, buckets, furthest },
    })
}
