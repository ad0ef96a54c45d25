//! Decoders with the body of GPT-2 (Radford et al. 2019), which is pre-norm: GPT-2 itself, GPT-Neo (Black et al. 2021), whose
//! scores are not scaled and whose layers have windows, and GPT-NeoX (Black et al. 2022; Pythia has the same), whose positions
//! are rotary and whose blocks stand side by side.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{Biases, EmbeddingNames, Family, Intermediate, LayerNames, Names, QueryKeyValue, TokenHeadNames};
use crate::model::config::{
    Activation, BlockPlan, Config, PositionEmbedding, RotaryDefaults, Sizes, default_initializer_range, fields,
    initializer_range, rotary,
};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::Facts;
use crate::system::printable::shortened;

pub(super) const GPT_2: Family = Family {
    model_type: "gpt2",
    class: "GPT2",
    prefix: "transformer.",
    wrappers: &[],
    // The mask of attention, which transformers kept as a buffer.
    needless: &["attn.bias", "attention.bias"],
    token_heads: &[TokenHeadNames::PRODUCT],
    discriminator: None,
    read: gpt2,
};

pub(super) const GPT_NEO: Family = Family { model_type: "gpt_neo", class: "GPTNeo", read: gpt_neo, ..GPT_2 };

pub(super) const GPT_NEOX: Family = Family {
    model_type: "gpt_neox",
    class: "GPTNeoX",
    prefix: "gpt_neox.",
    token_heads: &[TokenHeadNames { decoder: "embed_out.weight", ..TokenHeadNames::PRODUCT }],
    read: gpt_neox,
    ..GPT_2
};

const GPT_2_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Blocks("attn.c_attn"),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "attn.c_proj",
    attention_norm: "ln_1",
    intermediate: Intermediate::Plain("mlp.c_fc"),
    output: "mlp.c_proj",
    output_norm: "ln_2",
};

const GPT_NEO_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"]),
    attention_output: "attn.attention.out_proj",
    ..GPT_2_LAYER
};

const GPT_NEOX_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::HeadByHeadInHalves("attention.query_key_value"),
    attention_output: "attention.dense",
    attention_norm: "input_layernorm",
    intermediate: Intermediate::Plain("mlp.dense_h_to_4h"),
    output: "mlp.dense_4h_to_h",
    output_norm: "post_attention_layernorm",
    ..GPT_2_LAYER
};

const EMBEDDINGS: EmbeddingNames = EmbeddingNames { words: "wte", positions: "wpe", segments: "" };

/// The width between the linear layers of a feed-forward block, over that of the hidden states, where a config does not say.
const WIDER: usize = 4;

/// The keys of transformers' `GPT2Config`, with its defaults.
#[derive(Deserialize)]
struct Gpt2Config {
    /// Whether the head predicts tokens by their input embeddings.
    tie_word_embeddings: Option<bool>,
    vocab_size: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_positions: usize,
    n_inner: Option<usize>,
    #[serde(default = "gelu_tanh")]
    activation_function: Activation,
    #[serde(default = "layer_norm_epsilon")]
    layer_norm_epsilon: f64,
    #[serde(default = "yes")]
    scale_attn_weights: bool,
    #[serde(default)]
    scale_attn_by_inverse_layer_idx: bool,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
}

fn gelu_tanh() -> Activation {
    Activation::GeluTanh
}

fn layer_norm_epsilon() -> f64 {
    1e-5
}

fn yes() -> bool {
    true
}

fn gpt2(text: &str) -> Result<(Config, Names)> {
    let found: Gpt2Config = fields(text)?;
    ensure!(
        !found.scale_attn_by_inverse_layer_idx,
        anyhow!("scale_attn_by_inverse_layer_idx is true, which is not supported for gpt2").of_value(true)
    );
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: found.n_embd,
        num_hidden_layers: found.n_layer,
        num_attention_heads: found.n_head,
        intermediate_size: found.n_inner.unwrap_or(found.n_embd.saturating_mul(WIDER)),
        max_position_embeddings: found.n_positions,
    };
    let config = Config {
        score_scale: (!found.scale_attn_weights).then_some(1.0),
        layer_norm_eps: found.layer_norm_epsilon,
        initializer_range: found.initializer_range,
        tie_word_embeddings: found.tie_word_embeddings.unwrap_or(true),
        ..body(sizes, found.activation_function)
    }
    .checked()?;
    let names = Names {
        embeddings: &EMBEDDINGS,
        embedding_norm: None,
        // A module of its own, `Conv1D`, whose weights are `[inputs, outputs]`.
        transposed: true,
        final_norm: Some("ln_f"),
        ..Names::numbered(&GPT_2_LAYER, "h", &config)
    };
    Ok((config, names))
}

/// The keys of transformers' `GPTNeoConfig`, with its defaults.
#[derive(Deserialize)]
struct GptNeoConfig {
    /// Whether the head predicts tokens by their input embeddings.
    tie_word_embeddings: Option<bool>,
    vocab_size: usize,
    hidden_size: usize,
    num_layers: usize,
    num_heads: usize,
    max_position_embeddings: usize,
    intermediate_size: Option<usize>,
    #[serde(default = "gelu_tanh")]
    activation_function: Activation,
    #[serde(default = "layer_norm_epsilon")]
    layer_norm_epsilon: f64,
    /// Types of attention that follow each other, each with how often they do.
    attention_types: Vec<(Vec<String>, usize)>,
    #[serde(default = "window_size")]
    window_size: usize,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
}

fn window_size() -> usize {
    256
}

fn gpt_neo(text: &str) -> Result<(Config, Names)> {
    let found: GptNeoConfig = fields(text)?;
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: found.hidden_size,
        num_hidden_layers: found.num_layers,
        num_attention_heads: found.num_heads,
        intermediate_size: found.intermediate_size.unwrap_or(found.hidden_size.saturating_mul(WIDER)),
        max_position_embeddings: found.max_position_embeddings,
    };
    let config = Config {
        score_scale: Some(1.0),
        layer_norm_eps: found.layer_norm_epsilon,
        initializer_range: found.initializer_range,
        tie_word_embeddings: found.tie_word_embeddings.unwrap_or(true),
        ..body(sizes, found.activation_function)
    }
    .checked()?;
    ensure!(found.window_size > 0, anyhow!("window_size is 0").of_value(0));
    let layers = config.num_hidden_layers;
    let types = found
        .attention_types
        .iter()
        .flat_map(|(types, times)| types.iter().cycle().take(types.len() * times.min(&layers)));
    let visible = |name: &String| match name.as_str() {
        "global" => Ok(Visibility::CAUSAL),
        "local" => Ok(Visibility::causal_window(found.window_size)),
        other => Err(anyhow!("attention_types has {} (supported: global, local)", shortened(other)).of_value(other)),
    };
    // One more than there may be is enough to tell, however many a file names.
    let visibility = types.take(layers + 1).map(visible).collect::<Result<Vec<_>>>()?;
    ensure!(visibility.len() == layers, "attention_types are not of {layers} layers, the num_layers");
    let names = Names {
        embeddings: &EMBEDDINGS,
        embedding_norm: None,
        biases: Biases { query_key_value: false, ..Biases::ALL },
        final_norm: Some("ln_f"),
        ..Names::numbered(&GPT_NEO_LAYER, "h", &config)
    };
    Ok((Config { visibility: LayerClasses::new(&visibility), ..config }, names))
}

/// The keys that transformers' `GPTNeoXConfig` has beside BERT's sizes, with its defaults.
#[derive(Deserialize)]
struct GptNeoxConfig {
    /// Whether the head predicts tokens by their input embeddings.
    tie_word_embeddings: Option<bool>,
    #[serde(default = "gelu")]
    hidden_act: Activation,
    #[serde(default = "layer_norm_epsilon")]
    layer_norm_eps: f64,
    #[serde(default = "yes")]
    use_parallel_residual: bool,
    #[serde(default = "yes")]
    attention_bias: bool,
    /// The share of a head's dimensions that turn, by the name that it has before transformers 5.
    rotary_pct: Option<f64>,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
}

fn gelu() -> Activation {
    Activation::Gelu
}

fn gpt_neox(text: &str) -> Result<(Config, Names)> {
    let (sizes, found): (Sizes, GptNeoxConfig) = (fields(text)?, fields(text)?);
    let config = Config {
        blocks: if found.use_parallel_residual { BlockPlan::Parallel } else { BlockPlan::Pre },
        position_embedding_type: PositionEmbedding::None,
        layer_norm_eps: found.layer_norm_eps,
        initializer_range: found.initializer_range,
        tie_word_embeddings: found.tie_word_embeddings.unwrap_or(false),
        ..body(sizes, found.hidden_act)
    }
    .checked()?;
    let defaults = RotaryDefaults {
        theta_key: "rotary_emb_base",
        theta: 10_000.0,
        share: found.rotary_pct.unwrap_or(0.25),
        head_dim: config.head_dim(),
        max_positions: config.max_position_embeddings,
    };
    let turning = rotary(text, None, defaults)?;
    let config = Config { rotary: vec![Some(turning); config.num_hidden_layers], ..config };
    let attention = found.attention_bias;
    let names = Names {
        embeddings: &EmbeddingNames { words: "embed_in", positions: "", segments: "" },
        embedding_norm: None,
        biases: Biases { query_key_value: attention, attention_output: attention, ..Biases::ALL },
        final_norm: Some("final_layer_norm"),
        ..Names::numbered(&GPT_NEOX_LAYER, "layers", &config)
    };
    Ok((config, names))
}

/// A pre-norm body in which a token sees those before it; not checked.
fn body(sizes: Sizes, hidden_act: Activation) -> Config {
    Config {
        blocks: BlockPlan::Pre,
        visibility: LayerClasses::new(&[Visibility::CAUSAL]),
        ..Config::of(sizes, hidden_act)
    }
}
