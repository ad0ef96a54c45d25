//! DeBERTa (He et al. 2021) and its versions 2 and 3 (He et al. 2023): BERT whose attention scores also have terms between the
//! content of one token and the distance between both.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{DisentangledNames, Family, LayerNames, QueryKeyValue, TensorNames, bert};
use crate::model::config::{
    Config, ConfigKey, DistanceRowMap, PositionEmbedding, config_struct, keys, parse_fields, wrong_value,
};
use crate::system::errors::ErrorExt;
use crate::system::printable::shorten;

/// DeBERTa versions 2 and 3. The only supported masked-LM head is that of models trained in transformers. Microsoft's
/// checkpoints have another head, trained behind the enhanced mask decoder (two more passes through the last layer).
pub(super) const DEBERTA_V2: Family =
    Family { model_type: "deberta-v2", class_prefix: "DebertaV2", prefix: "deberta.", read, ..bert::BERT };

/// Tensor names of a layer of version 1.
const VERSION_1_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::HeadByHeadBiased {
        part: "attention.self.in_proj",
        biases: ["attention.self.q_bias", "attention.self.v_bias"],
    },
    ..bert::LAYER_WITHOUT_DISTANCES
};

/// Tensor names of a layer of versions 2 and 3.
const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Separate([
        "attention.self.query_proj",
        "attention.self.key_proj",
        "attention.self.value_proj",
    ]),
    ..bert::LAYER_WITHOUT_DISTANCES
};

const KEYS: &[ConfigKey] = keys! { hidden_act = "gelu", layer_norm_eps = 1e-7, type_vocab_size = 0 };

config_struct! {
    /// Keys of transformers' `DebertaConfig` and `DebertaV2Config` that [`Config`] lacks, with their defaults.
    struct DebertaConfig {
        relative_attention: bool = false,
        max_relative_positions: i64 = -1,
        position_buckets: i64 = -1,
        pos_att_type: Option<ScoreTerms> = None,
        share_att_key: bool = false,
        norm_rel_ebd: Option<String> = None,
        position_biased_input: bool = true,
        conv_kernel_size: usize = 0,
        talking_head: bool = false,
        attention_head_size: Option<usize> = None,
        embedding_size: Option<usize> = None,
    }
}

/// Score terms (`c2p`, `p2c`) in `pos_att_type`: a list, or a text separated by bars.
#[derive(Deserialize)]
#[serde(untagged)]
enum ScoreTerms {
    List(Vec<String>),
    Text(String),
}

fn read(text: &str) -> Result<(Config, TensorNames)> {
    let (config, options): (_, DebertaConfig) = (Config::read(text, &[KEYS])?, parse_fields(text)?);
    let (kernel, reason) = (options.conv_kernel_size, "a convolution beside the first layer is not supported");
    ensure!(kernel == 0, wrong_value("conv_kernel_size", kernel, reason));
    let terms = options.score_terms();
    let [to_place, to_content] = has_score_terms(&terms);
    let count = 1 + usize::from(to_place) + usize::from(to_content);
    let (config, names) =
        options.build_shared_layout(config, ("deberta-v2", &LAYER), options.attention_head_size, count)?;
    let furthest = options.max_distance(&config);
    let buckets = positive_or_none(options.position_buckets);
    ensure!(
        !options.relative_attention || buckets.is_none_or(|buckets| buckets >= 4 && furthest > buckets / 2 + 1),
        "position_buckets is {} and max_relative_positions {}: 4 or more buckets are expected, and longer distances than \
         half of them",
        options.position_buckets,
        options.max_relative_positions
    );
    let [keys, queries] = if options.share_att_key {
        ["attention.self.key_proj", "attention.self.query_proj"]
    } else {
        ["attention.self.pos_key_proj", "attention.self.pos_query_proj"]
    };
    let normalised =
        options.norm_rel_ebd.as_ref().is_some_and(|norms| norms.split('|').any(|norm| norm.trim() == "layer_norm"));
    let disentangled = DisentangledNames {
        table: "encoder.rel_embeddings",
        norm: normalised.then_some("encoder.LayerNorm"),
        keys: to_place.then_some(keys),
        has_key_bias: true,
        queries: to_content.then_some(queries),
        distance_rows: DistanceRowMap { span: buckets.unwrap_or(furthest), buckets, longest_distance: furthest },
    };
    options.add_score_terms(config, names, disentangled)
}

pub(super) fn read_version_1(text: &str) -> Result<(Config, TensorNames)> {
    let (config, options): (_, DebertaConfig) = (Config::read(text, &[KEYS])?, parse_fields(text)?);
    let reason = "it mixes the weights of heads, so no head has separate weights";
    ensure!(!options.talking_head, wrong_value("talking_head", true, reason));
    let terms = options.score_terms();
    if let Some(other) = terms.iter().find(|term| !["c2p", "p2c"].contains(&term.as_str())) {
        let shown = shorten(other);
        return Err(
            anyhow!("pos_att_type has {shown:?}, which is not supported (supported: c2p, p2c)").with_value(other)
        );
    }
    let [to_place, to_content] = has_score_terms(&terms);
    // The scale counts every term, even if positions are absolute and no term is added.
    let (config, names) = options.build_shared_layout(config, ("deberta", &VERSION_1_LAYER), None, 1 + terms.len())?;
    let furthest = options.max_distance(&config);
    let disentangled = DisentangledNames {
        table: "encoder.rel_embeddings",
        norm: None,
        keys: to_place.then_some("attention.self.pos_proj"),
        has_key_bias: false,
        queries: to_content.then_some("attention.self.pos_q_proj"),
        distance_rows: DistanceRowMap { span: furthest, buckets: None, longest_distance: furthest },
    };
    options.add_score_terms(config, names, disentangled)
}

/// Whether scores have a term of queries and distances (`c2p`) and a term of keys and distances (`p2c`), as `[c2p, p2c]`.
fn has_score_terms(terms: &[String]) -> [bool; 2] {
    ["c2p", "p2c"].map(|term| terms.iter().any(|known| known == term))
}

fn positive_or_none(value: i64) -> Option<usize> {
    usize::try_from(value).ok().filter(|&value| value > 0)
}

impl DebertaConfig {
    /// Relative score terms (`c2p`, `p2c`) in `pos_att_type`, as transformers reads them; empty without the key.
    fn score_terms(&self) -> Vec<String> {
        match &self.pos_att_type {
            Some(ScoreTerms::List(terms)) => terms.clone(),
            Some(ScoreTerms::Text(terms)) => {
                terms.to_lowercase().split('|').map(|term| term.trim().to_owned()).collect()
            }
            None => Vec::new(),
        }
    }

    /// Builds the config and the tensor names that all versions share, without score terms for distances. The score scale is
    /// `1 / sqrt(head size * term_count)`, so that the sum of all terms has the variance of a single term. Fails if
    /// embeddings are narrower than hidden states, or a size fits no encoder.
    fn build_shared_layout(
        &self,
        config: Config,
        (family, layer): (&str, &'static LayerNames),
        head_size: Option<usize>,
        term_count: usize,
    ) -> Result<(Config, TensorNames)> {
        let width = self.embedding_size.unwrap_or(config.hidden_size);
        let reason = format_args!("narrower embeddings are not supported for {family}");
        ensure!(width == config.hidden_size, wrong_value("embedding_size", width, reason));
        let size = head_size.unwrap_or(config.hidden_size / config.num_attention_heads.max(1));
        let absolute = self.position_biased_input;
        let config = Config {
            head_size,
            score_scale: Some(1.0 / ((size * term_count) as f64).sqrt()),
            position_embedding_type: if absolute { PositionEmbedding::Absolute } else { PositionEmbedding::None },
            ..config
        };
        TensorNames::check_config_and_name(config, layer, "encoder.layer")
    }

    /// Longest distance, in tokens, that the table of distances covers: `max_relative_positions`, or else the number of
    /// positions.
    fn max_distance(&self, config: &Config) -> usize {
        positive_or_none(self.max_relative_positions).unwrap_or(config.max_position_embeddings)
    }

    /// Adds the tensor names of the score terms for distances, if the config has them. Fails if their tables would be too
    /// large.
    fn add_score_terms(
        &self,
        config: Config,
        names: TensorNames,
        disentangled: DisentangledNames,
    ) -> Result<(Config, TensorNames)> {
        if !self.relative_attention {
            return Ok((config, names));
        }
        let (span, longest) = (disentangled.distance_rows.span, config.max_position_embeddings);
        ensure!(
            span <= MAX_SPAN && longest <= MAX_POSITIONS,
            "there are {span} places of distances and {longest} positions: no model has more than {MAX_SPAN} and {MAX_POSITIONS}"
        );
        Ok((config, TensorNames { disentangled: Some(disentangled), ..names }))
    }
}

/// Maximum `span` of distance rows, to bound memory: each layer keeps two tables with `2 * span` rows, position keys and
/// position queries. Models have 256 or 512.
const MAX_SPAN: usize = 1 << 12;

/// Maximum number of positions, since the table row of each distance is kept. Models have 512.
const MAX_POSITIONS: usize = 1 << 16;
