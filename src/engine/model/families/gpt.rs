//! Decoders with the pre-norm body of GPT-2 (Radford et al. 2019): GPT-2, GPT-Neo (Black et al. 2021), GPT-NeoX (Black et al.
//! 2022; also Pythia), OPT, and the text encoder of CLIP. GPT-Neo has unscaled scores, and layers with windows. GPT-NeoX has
//! rotary positions, and its attention and feed-forward blocks read the same input.

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::llama::turning;
use super::{
    Biases, EmbeddingNames, Family, Intermediate, LayerNames, Names, QueryKeyValue, TokenHeadNames, bert, llama,
};
use crate::model::config::{BlockPlan, Config, ConfigKey, PositionEmbedding, fields, keys, number, yes};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::Facts;
use crate::system::printable::shortened;

pub(super) const GPT_2: Family = Family {
    model_type: "gpt2",
    class: "GPT2",
    prefix: "transformer.",
    // The mask of attention, which transformers kept as a buffer.
    needless: &["attn.bias", "attention.bias"],
    token_heads: &[TokenHeadNames::PRODUCT],
    read: gpt2,
    ..bert::BERT
};

const GPT_2_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Blocks("attn.c_attn"),
    attention_output: "attn.c_proj",
    attention_norm: "ln_1",
    intermediate: Intermediate::Plain("mlp.c_fc"),
    output: "mlp.c_proj",
    output_norm: "ln_2",
    ..bert::ABSOLUTE
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

/// Default width between the linear layers of a feed-forward block, as a multiple of the hidden size.
const WIDER: usize = 4;

const GPT_2_KEYS: &[ConfigKey] = keys! {
    hidden_size: n_embd, num_hidden_layers: n_layer, num_attention_heads: n_head, max_position_embeddings: n_positions,
    intermediate_size: _ = 0, hidden_act: activation_function = "gelu_new", layer_norm_eps: layer_norm_epsilon = 1e-5,
    tie_word_embeddings = true
};

/// Keys of transformers' `GPT2Config` that [`Config`] lacks, with its defaults.
#[derive(Deserialize)]
struct Gpt2Config {
    n_inner: Option<usize>,
    #[serde(default = "yes")]
    scale_attn_weights: bool,
    #[serde(default)]
    scale_attn_by_inverse_layer_idx: bool,
}

fn gpt2(text: &str) -> Result<(Config, Names)> {
    let (config, found): (_, Gpt2Config) = (body(text, GPT_2_KEYS)?, fields(text)?);
    ensure!(
        !found.scale_attn_by_inverse_layer_idx,
        anyhow!("scale_attn_by_inverse_layer_idx is true, which is not supported for gpt2").of_value(true)
    );
    let config = Config {
        score_scale: (!found.scale_attn_weights).then_some(1.0),
        intermediate_size: found.n_inner.unwrap_or(config.hidden_size.saturating_mul(WIDER)),
        ..config
    };
    let (config, mut names) = Names::checked(config, &GPT_2_LAYER, "h")?;
    names.embeddings = &EMBEDDINGS;
    names.embedding_norm = None;
    // The module `Conv1D` of GPT-2, whose weights are `[inputs, outputs]`.
    names.transposed = true;
    names.final_norm = Some("ln_f");
    Ok((config, names))
}

const GPT_NEO_KEYS: &[ConfigKey] = keys! {
    num_hidden_layers: num_layers, num_attention_heads: num_heads, intermediate_size: _ = 0,
    hidden_act: activation_function = "gelu_new", layer_norm_eps: layer_norm_epsilon = 1e-5, tie_word_embeddings = true
};

/// Keys of transformers' `GPTNeoConfig` that [`Config`] lacks, with its defaults.
#[derive(Deserialize)]
struct GptNeoConfig {
    intermediate_size: Option<usize>,
    /// Types of attention (`global`, `local`) by layer: lists of consecutive types, each with the number of times it is repeated.
    attention_types: Vec<(Vec<String>, usize)>,
    #[serde(default = "number::<_, 256>")]
    window_size: usize,
}

pub(super) fn gpt_neo(text: &str) -> Result<(Config, Names)> {
    let (config, found): (_, GptNeoConfig) = (body(text, GPT_NEO_KEYS)?, fields(text)?);
    let wide = found.intermediate_size.unwrap_or(config.hidden_size.saturating_mul(WIDER));
    let config = Config { score_scale: Some(1.0), intermediate_size: wide, ..config };
    let (config, mut names) = Names::checked(config, &GPT_NEO_LAYER, "h")?;
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
    names.embeddings = &EMBEDDINGS;
    names.embedding_norm = None;
    names.biases = Biases { query_key_value: false, ..Biases::ALL };
    names.final_norm = Some("ln_f");
    Ok((Config { visibility: LayerClasses::new(&visibility), ..config }, names))
}

/// Keys of transformers' `GPTNeoXConfig` that [`Config`] lacks, with its defaults.
#[derive(Deserialize)]
struct GptNeoxConfig {
    #[serde(default = "yes")]
    use_parallel_residual: bool,
    #[serde(default = "yes")]
    attention_bias: bool,
    /// Share of an attention head's dimensions that rotate, under its name before transformers 5.
    rotary_pct: Option<f64>,
}

pub(super) fn gpt_neox(text: &str) -> Result<(Config, Names)> {
    const KEYS: &[ConfigKey] = keys! { hidden_act = "gelu", layer_norm_eps = 1e-5, tie_word_embeddings = false };
    let found: GptNeoxConfig = fields(text)?;
    let config = Config {
        blocks: if found.use_parallel_residual { BlockPlan::Parallel } else { BlockPlan::Pre },
        position_embedding_type: PositionEmbedding::None,
        ..body(text, KEYS)?
    };
    let (config, mut names) = Names::checked(config, &GPT_NEOX_LAYER, "layers")?;
    let config = turning(config, text, ("rotary_emb_base", 10_000.0), found.rotary_pct.unwrap_or(0.25))?;
    names.embeddings = &EmbeddingNames { words: "embed_in", positions: "", segments: "" };
    names.embedding_norm = None;
    names.biases =
        Biases { attention_output: found.attention_bias, query_key_value: found.attention_bias, ..Biases::ALL };
    names.final_norm = Some("final_layer_norm");
    Ok((config, names))
}

/// Reads the config of a pre-norm body with causal attention. Sizes are not checked.
fn body(text: &str, keys: &[ConfigKey]) -> Result<Config> {
    let visibility = LayerClasses::new(&[Visibility::CAUSAL]);
    Ok(Config { blocks: BlockPlan::Pre, visibility, ..Config::read(text, &[keys])? })
}

/// Tensor names of an OPT layer, which BART shares.
pub(super) const OPT_LAYER: LayerNames = LayerNames {
    attention_output: "self_attn.out_proj",
    attention_norm: "self_attn_layer_norm",
    intermediate: Intermediate::Plain("fc1"),
    output: "fc2",
    output_norm: "final_layer_norm",
    ..llama::LAYER
};

/// Row of the position embedding for the first token (`OPTLearnedPositionalEmbedding`, `BartLearnedPositionalEmbedding`).
pub(super) const FIRST_POSITION: usize = 2;

const OPT_KEYS: &[ConfigKey] = keys! {
    intermediate_size: ffn_dim, hidden_act: activation_function = "relu", initializer_range: init_std,
    // transformers' `OPTDecoder` has no other.
    layer_norm_eps: _ = 1e-5, tie_word_embeddings = true
};

/// Keys of transformers' `OPTConfig` that [`Config`] lacks, with its defaults.
#[derive(Deserialize)]
struct OptConfig {
    #[serde(default = "yes")]
    do_layer_norm_before: bool,
    #[serde(default = "yes")]
    enable_bias: bool,
    #[serde(default = "yes")]
    layer_norm_elementwise_affine: bool,
    word_embed_proj_dim: Option<usize>,
    #[serde(rename = "_remove_final_layer_norm", default)]
    remove_final_layer_norm: bool,
}

pub(super) fn opt(text: &str) -> Result<(Config, Names)> {
    let (config, found): (_, OptConfig) = (body(text, OPT_KEYS)?, fields(text)?);
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
    let (width, hidden) = (found.word_embed_proj_dim.unwrap_or(config.hidden_size), config.hidden_size);
    ensure!(
        width == hidden,
        anyhow!("word_embed_proj_dim is {width}, which is not supported for opt (supported: hidden_size, {hidden})")
            .of_value(width)
    );
    let positions = config.max_position_embeddings.saturating_add(FIRST_POSITION);
    let config = Config { first_position: FIRST_POSITION, max_position_embeddings: positions, ..config };
    let (config, mut names) = Names::checked(config, &OPT_LAYER, "layers")?;
    names.embeddings = &EmbeddingNames { words: "embed_tokens", positions: "embed_positions", segments: "" };
    names.embedding_norm = None;
    names.final_norm = Some("final_layer_norm");
    Ok((config, names))
}

/// CLIP's text encoder (Radford et al. 2021), whose attention is causal.
pub(super) const CLIP_TEXT: Family = Family {
    model_type: "clip_text_model",
    class: "CLIPText",
    prefix: "text_model.",
    token_heads: &[],
    read: clip_text,
    ..GPT_2
};

const CLIP_LAYER: LayerNames = LayerNames {
    attention_norm: "layer_norm1",
    intermediate: Intermediate::Plain("mlp.fc1"),
    output: "mlp.fc2",
    output_norm: "layer_norm2",
    ..OPT_LAYER
};

/// Keys of transformers' `CLIPTextConfig`, with its defaults: the `text_config` of a CLIP model may leave any of them out.
const CLIP_KEYS: &[ConfigKey] = keys! {
    vocab_size = 49408, hidden_size = 512, intermediate_size = 2048, num_hidden_layers = 12, num_attention_heads = 8,
    max_position_embeddings = 77, hidden_act = "quick_gelu", layer_norm_eps = 1e-5, tie_word_embeddings: _ = true
};

pub(super) fn clip(text: &str) -> Result<(Config, Names)> {
    let json: Value = serde_json::from_str(text)?;
    let of_texts = json.get("text_config").filter(|config| config.is_object());
    clip_text(&of_texts.context("text_config is missing: it has the sizes of the encoder of texts")?.to_string())
}

fn clip_text(text: &str) -> Result<(Config, Names)> {
    let (config, mut names) = Names::checked(body(text, CLIP_KEYS)?, &CLIP_LAYER, "encoder.layers")?;
    names.embeddings = &EmbeddingNames {
        words: "embeddings.token_embedding",
        positions: "embeddings.position_embedding",
        segments: "",
    };
    names.embedding_norm = None;
    names.final_norm = Some("final_layer_norm");
    Ok((config, names))
}
