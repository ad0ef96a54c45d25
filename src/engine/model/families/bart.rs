//! The encoders of BART (Lewis et al. 2020) and mBART (Liu et al. 2020): positions begin at row 2. mBART's layers are pre-norm.

use anyhow::Result;
use serde::Deserialize;

use super::{EmbeddingNames, Family, Intermediate, LayerNames, Names, QueryKeyValue};
use crate::model::config::{Activation, BlockPlan, Config, EmbeddingScale, Sizes, fields};

/// Its decoder was trained through, so that there is no head of its own.
pub(super) const BART: Family = Family {
    model_type: "bart",
    class: "Bart",
    prefix: "model.",
    wrappers: &[],
    // Copies of the shared embeddings.
    needless: &["embed_tokens"],
    token_heads: &[],
    discriminator: None,
    read: bart,
};

pub(super) const MBART: Family = Family { model_type: "mbart", class: "MBart", read: mbart, ..BART };

const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "self_attn.out_proj",
    attention_norm: "self_attn_layer_norm",
    intermediate: Intermediate::Plain("fc1"),
    output: "fc2",
    output_norm: "final_layer_norm",
};

/// The rows before that of the first position (`BartLearnedPositionalEmbedding`).
const FIRST_POSITION: usize = 2;

/// The part of transformers' `BartConfig` that is about the encoder.
#[derive(Deserialize)]
struct BartConfig {
    vocab_size: usize,
    d_model: usize,
    encoder_layers: usize,
    encoder_attention_heads: usize,
    encoder_ffn_dim: usize,
    #[serde(default = "gelu")]
    activation_function: Activation,
    max_position_embeddings: usize,
    #[serde(default)]
    scale_embedding: bool,
    #[serde(default = "init_std")]
    init_std: f64,
}

fn gelu() -> Activation {
    Activation::Gelu
}

fn init_std() -> f64 {
    0.02
}

fn bart(text: &str) -> Result<(Config, Names)> {
    read(text, BlockPlan::Post, None)
}

fn mbart(text: &str) -> Result<(Config, Names)> {
    read(text, BlockPlan::Pre, Some("encoder.layer_norm"))
}

fn read(text: &str, blocks: BlockPlan, final_norm: Option<&'static str>) -> Result<(Config, Names)> {
    let found: BartConfig = fields(text)?;
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: found.d_model,
        num_hidden_layers: found.encoder_layers,
        num_attention_heads: found.encoder_attention_heads,
        intermediate_size: found.encoder_ffn_dim,
        max_position_embeddings: found.max_position_embeddings.saturating_add(FIRST_POSITION),
    };
    #[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
    let scale = (found.d_model as f64).sqrt() as f32;
    let config = Config {
        blocks,
        first_position: FIRST_POSITION,
        embedding_scale: if found.scale_embedding { EmbeddingScale::Constant(scale) } else { EmbeddingScale::One },
        // Not in the config: PyTorch's default.
        layer_norm_eps: 1e-5,
        initializer_range: found.init_std,
        ..Config::of(sizes, found.activation_function)
    }
    .checked()?;
    let names = |words| Names {
        embeddings: words,
        embedding_norm: Some("encoder.layernorm_embedding"),
        final_norm,
        ..Names::numbered(&LAYER, "encoder.layers", &config)
    };
    const POSITIONS: &str = "encoder.embed_positions";
    let names = names(&EmbeddingNames { words: "shared", positions: POSITIONS, segments: "" });
    Ok((config, names))
}
