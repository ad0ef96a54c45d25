//! Encoders with the body of Llama (Touvron et al. 2023), which is pre-norm by the root of the mean square, with rotary positions
//! and gated linear units, and without biases: EuroBERT (Boizard et al. 2025) and NeoBERT (Le Breton et al. 2025).

use anyhow::Result;
use serde::Deserialize;

use super::{
    Biases, Distribution, EmbeddingNames, Family, FreshWeights, Intermediate, LayerNames, Names, QueryKeyValue,
    TokenHeadNames,
};
use crate::model::config::{
    Activation, BlockPlan, Config, NormKind, PositionEmbedding, RotaryDefaults, Sizes, default_initializer_range,
    fields, initializer_range, rotary,
};

pub(super) const EURO_BERT: Family = Family {
    model_type: "eurobert",
    class: "EuroBert",
    prefix: "model.",
    wrappers: &[],
    needless: &[],
    token_heads: &[TokenHeadNames::PRODUCT],
    discriminator: None,
    read: euro_bert,
};

pub(super) const NEO_BERT: Family =
    Family { model_type: "neobert", class: "NeoBERT", token_heads: &[NEO_BERT_HEAD], read: neo_bert, ..EURO_BERT };

const NEO_BERT_HEAD: TokenHeadNames = TokenHeadNames {
    decoder: "decoder.weight",
    bias: Some(["decoder.bias", "decoder.bias"]),
    ..TokenHeadNames::PRODUCT
};

pub(super) const EURO_BERT_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "self_attn.o_proj",
    attention_norm: "input_layernorm",
    intermediate: Intermediate::Gated(["mlp.gate_proj", "mlp.up_proj"]),
    output: "mlp.down_proj",
    output_norm: "post_attention_layernorm",
};

const NEO_BERT_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::HeadByHead("qkv"),
    attention_output: "wo",
    attention_norm: "attention_norm",
    intermediate: Intermediate::GateFirst("ffn.w12"),
    output: "ffn.w3",
    output_norm: "ffn_norm",
    ..EURO_BERT_LAYER
};

/// The keys that transformers' `EuroBertConfig` has beside BERT's sizes, with its defaults.
#[derive(Deserialize)]
struct EuroBertConfig {
    #[serde(default = "silu")]
    hidden_act: Activation,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    #[serde(default = "rms_norm_eps")]
    rms_norm_eps: f64,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
    #[serde(default)]
    tie_word_embeddings: bool,
}

fn silu() -> Activation {
    Activation::Silu
}

fn rms_norm_eps() -> f64 {
    1e-5
}

fn euro_bert(text: &str) -> Result<(Config, Names)> {
    let (sizes, found): (Sizes, EuroBertConfig) = (fields(text)?, fields(text)?);
    let config = Config {
        head_size: found.head_dim,
        key_value_heads: found.num_key_value_heads,
        layer_norm_eps: found.rms_norm_eps,
        tie_word_embeddings: found.tie_word_embeddings,
        initializer_range: found.initializer_range,
        ..body(sizes, found.hidden_act)
    };
    let config = turning(config.checked()?, text)?;
    let (attention, feed_forward) = (found.attention_bias, found.mlp_bias);
    let names = Names {
        embeddings: &EmbeddingNames { words: "embed_tokens", positions: "", segments: "" },
        embedding_norm: None,
        biases: Biases {
            query_key_value: attention,
            attention_output: attention,
            intermediate: feed_forward,
            output: feed_forward,
            norms: false,
        },
        final_norm: Some("norm"),
        ..Names::numbered(&EURO_BERT_LAYER, "layers", &config)
    };
    Ok((config, names))
}

/// NeoBERT's own names, in files that come with code, with its defaults.
#[derive(Deserialize)]
struct NeoBertConfig {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_length: usize,
    #[serde(default = "norm_eps")]
    norm_eps: f64,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    embedding_init_range: f64,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    decoder_init_range: f64,
}

fn norm_eps() -> f64 {
    1e-6
}

fn neo_bert(text: &str) -> Result<(Config, Names)> {
    let found: NeoBertConfig = fields(text)?;
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: found.hidden_size,
        num_hidden_layers: found.num_hidden_layers,
        num_attention_heads: found.num_attention_heads,
        // Two thirds, for a gated linear unit has three matrices, and a multiple of eight.
        intermediate_size: (found.intermediate_size.saturating_mul(2) / 3).div_ceil(8).saturating_mul(8),
        max_position_embeddings: found.max_length,
    };
    let config = Config {
        layer_norm_eps: found.norm_eps,
        initializer_range: found.decoder_init_range,
        tie_word_embeddings: false,
        ..body(sizes, Activation::Silu)
    };
    let config = turning(config.checked()?, text)?;
    let names = Names {
        embeddings: &EmbeddingNames { words: "encoder", positions: "", segments: "" },
        embedding_norm: None,
        biases: Biases::NONE,
        final_norm: Some("layer_norm"),
        // `NeoBERTPreTrainedModel` of its own code.
        fresh: FreshWeights {
            distribution: Distribution::Uniform,
            scales: vec![("encoder.weight", found.embedding_init_range)],
            ..FreshWeights::default()
        },
        ..Names::numbered(&NEO_BERT_LAYER, "transformer_encoder", &config)
    };
    Ok((config, names))
}

/// Llama's body of these sizes; not checked.
pub(super) fn body(sizes: Sizes, hidden_act: Activation) -> Config {
    Config {
        blocks: BlockPlan::Pre,
        norm: NormKind::RootMeanSquare,
        gated: true,
        position_embedding_type: PositionEmbedding::None,
        ..Config::of(sizes, hidden_act)
    }
}

/// The config with the rotation of every layer.
fn turning(mut config: Config, text: &str) -> Result<Config> {
    let (head_dim, max_positions) = (config.head_dim(), config.max_position_embeddings);
    let defaults = RotaryDefaults { theta_key: "rope_theta", theta: 10_000.0, share: 1.0, head_dim, max_positions };
    config.rotary = vec![Some(rotary(text, None, defaults)?); config.num_hidden_layers];
    Ok(config)
}
