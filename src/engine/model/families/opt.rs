//! OPT (Zhang et al. 2022): a decoder with the body of GPT-2 whose positions begin at row 2 of their table.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{EmbeddingNames, Family, Intermediate, LayerNames, Names, QueryKeyValue, gpt};
use crate::model::config::{Activation, BlockPlan, Config, Sizes, fields};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::Facts;

pub(super) const OPT: Family =
    Family { model_type: "opt", class: "OPT", prefix: "decoder.", wrappers: &["model."], read, ..gpt::GPT_2 };

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

/// The rows before that of the first position (`OPTLearnedPositionalEmbedding`).
const FIRST_POSITION: usize = 2;

/// The keys of transformers' `OPTConfig`, with its defaults.
#[derive(Deserialize)]
struct OptConfig {
    /// Whether the head predicts tokens by their input embeddings.
    tie_word_embeddings: Option<bool>,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    ffn_dim: usize,
    max_position_embeddings: usize,
    #[serde(default = "relu")]
    activation_function: Activation,
    #[serde(default = "yes")]
    do_layer_norm_before: bool,
    #[serde(default = "yes")]
    enable_bias: bool,
    #[serde(default = "yes")]
    layer_norm_elementwise_affine: bool,
    word_embed_proj_dim: Option<usize>,
    #[serde(rename = "_remove_final_layer_norm", default)]
    remove_final_layer_norm: bool,
    #[serde(default = "init_std")]
    init_std: f64,
}

fn relu() -> Activation {
    Activation::Relu
}

fn yes() -> bool {
    true
}

fn init_std() -> f64 {
    0.02
}

fn read(text: &str) -> Result<(Config, Names)> {
    let found: OptConfig = fields(text)?;
    // The one of 350 million parameters alone has others.
    let expected = [
        ("do_layer_norm_before", found.do_layer_norm_before, true),
        ("enable_bias", found.enable_bias, true),
        ("layer_norm_elementwise_affine", found.layer_norm_elementwise_affine, true),
        ("_remove_final_layer_norm", found.remove_final_layer_norm, false),
    ];
    for (key, value, expected) in expected {
        ensure!(value == expected, anyhow!("{key} is {value}, which is not supported for opt").of_value(value));
    }
    let (width, hidden) = (found.word_embed_proj_dim.unwrap_or(found.hidden_size), found.hidden_size);
    ensure!(
        width == hidden,
        anyhow!("word_embed_proj_dim is {width}, which is not supported for opt (supported: hidden_size, {hidden})")
            .of_value(width)
    );
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: hidden,
        num_hidden_layers: found.num_hidden_layers,
        num_attention_heads: found.num_attention_heads,
        intermediate_size: found.ffn_dim,
        max_position_embeddings: found.max_position_embeddings.saturating_add(FIRST_POSITION),
    };
    let config = Config {
        blocks: BlockPlan::Pre,
        first_position: FIRST_POSITION,
        // transformers' `OPTDecoder` has no other.
        layer_norm_eps: 1e-5,
        initializer_range: found.init_std,
        tie_word_embeddings: found.tie_word_embeddings.unwrap_or(true),
        visibility: LayerClasses::new(&[Visibility::CAUSAL]),
        ..Config::of(sizes, found.activation_function)
    }
    .checked()?;
    let names = Names {
        embeddings: &EmbeddingNames { words: "embed_tokens", positions: "embed_positions", segments: "" },
        embedding_norm: None,
        final_norm: Some("final_layer_norm"),
        ..Names::numbered(&LAYER, "layers", &config)
    };
    Ok((config, names))
}
