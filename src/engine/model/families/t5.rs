//! The encoders of T5 (Raffel et al. 2020), mT5 (Xue et al. 2021) and umT5 (Chung et al. 2023): pre-norm by the root of the mean
//! square, with a bias for buckets of distances, scores that are not scaled, and no biases of linear layers.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{
    Biases, EmbeddingNames, Family, FreshWeights, Intermediate, LayerNames, Names, PositionBiasNames, QueryKeyValue,
};
use crate::model::config::{
    Activation, BlockPlan, Config, LARGEST_SIZE, NormKind, PositionEmbedding, Sizes, fields, named,
};
use crate::system::errors::Facts;

/// Its decoder was trained through, so that there is no head of its own.
pub(super) const T5: Family = Family {
    model_type: "t5",
    class: "T5",
    prefix: "transformer.",
    wrappers: &[],
    // Copies of the shared embeddings.
    needless: &["embed_tokens"],
    token_heads: &[],
    discriminator: None,
    read,
};

pub(super) const MT5: Family = Family { model_type: "mt5", class: "MT5", ..T5 };

/// Every layer has a bias of its own.
pub(super) const UMT5: Family = Family { model_type: "umt5", class: "UMT5", read: umt5, ..T5 };

const PLAIN: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart([
        "layer.0.SelfAttention.q",
        "layer.0.SelfAttention.k",
        "layer.0.SelfAttention.v",
    ]),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "layer.0.SelfAttention.o",
    attention_norm: "layer.0.layer_norm",
    intermediate: Intermediate::Plain("layer.1.DenseReluDense.wi"),
    output: "layer.1.DenseReluDense.wo",
    output_norm: "layer.1.layer_norm",
};

const GATED: LayerNames = LayerNames {
    intermediate: Intermediate::Gated(["layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1"]),
    ..PLAIN
};

/// transformers' `T5Config`, with its defaults.
#[derive(Deserialize)]
struct T5Config {
    vocab_size: usize,
    d_model: usize,
    d_kv: usize,
    d_ff: usize,
    num_layers: usize,
    num_heads: usize,
    #[serde(default = "num_buckets")]
    relative_attention_num_buckets: usize,
    #[serde(default = "max_distance")]
    relative_attention_max_distance: usize,
    #[serde(default = "layer_norm_epsilon")]
    layer_norm_epsilon: f64,
    feed_forward_proj: Option<String>,
    #[serde(default = "initializer_factor")]
    initializer_factor: f64,
    /// The length of text that it was trained on; nothing in the model depends on it.
    #[serde(default = "n_positions")]
    n_positions: usize,
}

fn num_buckets() -> usize {
    32
}

fn max_distance() -> usize {
    128
}

fn layer_norm_epsilon() -> f64 {
    1e-6
}

fn initializer_factor() -> f64 {
    1.0
}

/// Each matrix begins with the deviation that keeps its products as wide as what goes in (transformers' `T5PreTrainedModel`).
fn fresh_weights(found: &T5Config) -> FreshWeights {
    let root = |size: usize| found.initializer_factor / (size as f64).sqrt();
    let of_model = root(found.d_model);
    let scales = vec![
        ("SelfAttention.q.", root(found.d_model.saturating_mul(found.d_kv))),
        ("SelfAttention.k.", of_model),
        ("SelfAttention.v.", of_model),
        ("SelfAttention.o.", root(found.num_heads.saturating_mul(found.d_kv))),
        ("relative_attention_bias", of_model),
        ("DenseReluDense.wi", of_model),
        ("DenseReluDense.wo", root(found.d_ff)),
        ("shared", found.initializer_factor),
        ("embed_tokens", found.initializer_factor),
    ];
    FreshWeights { scales, norms: found.initializer_factor, ..FreshWeights::default() }
}

fn n_positions() -> usize {
    512
}

fn read(text: &str) -> Result<(Config, Names)> {
    with_default(text, "relu", false)
}

fn umt5(text: &str) -> Result<(Config, Names)> {
    with_default(text, "gated-gelu", true)
}

fn with_default(text: &str, feed_forward_proj: &str, in_each_layer: bool) -> Result<(Config, Names)> {
    let found: T5Config = fields(text)?;
    let function = found.feed_forward_proj.as_deref().unwrap_or(feed_forward_proj);
    let (gated, activation) = match function {
        // The tanh approximation, "for backwards compatibility" (transformers' `T5Config`).
        "gated-gelu" => (true, Activation::GeluTanh),
        _ => match function.strip_prefix("gated-") {
            Some(name) => (true, named("feed_forward_proj", name, Activation::ALL)?),
            None => (false, named("feed_forward_proj", function, Activation::ALL)?),
        },
    };
    let (buckets, furthest) = (found.relative_attention_num_buckets, found.relative_attention_max_distance);
    ensure!(
        buckets.is_multiple_of(4) && (4..=LARGEST_SIZE).contains(&buckets),
        anyhow!("relative_attention_num_buckets is {buckets}: a multiple of 4 is expected").of_value(buckets)
    );
    ensure!(
        furthest > buckets / 4 && furthest <= FURTHEST,
        anyhow!("relative_attention_max_distance is {furthest}: {} to {FURTHEST} are expected", buckets / 4 + 1)
            .of_value(furthest)
    );
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: found.d_model,
        num_hidden_layers: found.num_layers,
        num_attention_heads: found.num_heads,
        intermediate_size: found.d_ff,
        max_position_embeddings: found.n_positions,
    };
    let config = Config {
        head_size: Some(found.d_kv),
        score_scale: Some(1.0),
        blocks: BlockPlan::Pre,
        norm: NormKind::RootMeanSquare,
        gated,
        position_embedding_type: PositionEmbedding::None,
        is_unbounded: true,
        layer_norm_eps: found.layer_norm_epsilon,
        ..Config::of(sizes, activation)
    }
    .checked()?;
    let table = if in_each_layer {
        "layer.0.SelfAttention.relative_attention_bias"
    } else {
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    };
    let parts = if gated { &GATED } else { &PLAIN };
    let names = Names {
        embeddings: &EmbeddingNames { words: "shared", positions: "", segments: "" },
        fresh: fresh_weights(&found),
        embedding_norm: None,
        biases: Biases::NONE,
        position_bias: Some(PositionBiasNames::Buckets { table, in_each_layer, rows: buckets, buckets, furthest }),
        final_norm: Some("encoder.final_layer_norm"),
        ..Names::numbered(parts, "encoder.block", &config)
    };
    Ok((config, names))
}

/// The largest distance that may have a bucket of its own: a table of all distances up to it is kept. Models have 128.
const FURTHEST: usize = 1 << 12;
