//! Decoders with the pre-norm layers of GPT-2 (Radford et al. 2019): GPT-2, GPT-Neo (Black et al. 2021), GPT-NeoX (Black et al.
//! 2022; also Pythia), OPT, and the text encoder of CLIP. GPT-Neo has unscaled scores, and windows in some layers. GPT-NeoX has
//! rotary positions, and its attention and feed-forward blocks read the same input.

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use super::llama::add_rotation;
use super::{
    Biases, Family, Intermediate, LayerNames, QueryKeyValue, TensorNames, TokenHeadNames, bert, ensure_flags, llama,
};
use crate::model::config::{
    BlockPlan, Config, ConfigKey, PositionEmbedding, config_struct, config_value, keys, parse_fields,
};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::ErrorExt;
use crate::system::printable::shorten;

pub(super) const GPT_2: Family = Family {
    // The mask of attention, which transformers kept as a buffer.
    ignored_tensors: &["attn.bias", "attention.bias"],
    token_heads: &[TokenHeadNames::LM_HEAD],
    read: read_gpt2,
    ..bert::BERT.with_names("gpt2", "GPT2", "transformer.")
};

const GPT_2_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Stacked("attn.c_attn"),
    attention_output: "attn.c_proj",
    attention_norm: "ln_1",
    intermediate: Intermediate::Plain("mlp.c_fc"),
    output: "mlp.c_proj",
    output_norm: "ln_2",
    ..bert::LAYER_WITHOUT_DISTANCES
};

const GPT_NEO_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Separate([
        "attn.attention.q_proj",
        "attn.attention.k_proj",
        "attn.attention.v_proj",
    ]),
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

/// Tensor names of the embeddings of `[words, positions]` in GPT-2 and GPT-Neo.
const EMBEDDING_NAMES: [&str; 2] = ["wte", "wpe"];

/// Default ratio of feed-forward width to hidden size.
const FEED_FORWARD_RATIO: usize = 4;

const GPT_2_KEYS: &[ConfigKey] = keys! {
    hidden_size: n_embd, num_hidden_layers: n_layer, num_attention_heads: n_head, max_position_embeddings: n_positions,
    intermediate_size: _ = 0, hidden_act: activation_function = "gelu_new", layer_norm_eps: layer_norm_epsilon = 1e-5,
    tie_word_embeddings = true
};

fn read_gpt2(text: &str) -> Result<(Config, TensorNames)> {
    let config = read_config(text, GPT_2_KEYS)?;
    let is_scaled = config_value!(text, scale_attn_weights: bool = true)?;
    let is_scaled_by_layer = config_value!(text, scale_attn_by_inverse_layer_idx: bool = false)?;
    let inner_width = config_value!(text, n_inner: Option<usize> = None)?;
    ensure_flags("gpt2", [("scale_attn_by_inverse_layer_idx", is_scaled_by_layer, false)])?;
    let config = Config {
        score_scale: (!is_scaled).then_some(1.0),
        intermediate_size: inner_width.unwrap_or(config.hidden_size.saturating_mul(FEED_FORWARD_RATIO)),
        ..config
    };
    let (config, names) = TensorNames::pre_norm(config, (&GPT_2_LAYER, "h"), EMBEDDING_NAMES, "ln_f")?;
    // The module `Conv1D` of GPT-2, whose weights are `[inputs, outputs]`.
    Ok((config, TensorNames { is_transposed: true, ..names }))
}

const GPT_NEO_KEYS: &[ConfigKey] = keys! {
    num_hidden_layers: num_layers, num_attention_heads: num_heads, intermediate_size: _ = 0,
    hidden_act: activation_function = "gelu_new", layer_norm_eps: layer_norm_epsilon = 1e-5, tie_word_embeddings = true
};

pub(super) fn read_gpt_neo(text: &str) -> Result<(Config, TensorNames)> {
    let config = read_config(text, GPT_NEO_KEYS)?;
    let wide = config_value!(text, intermediate_size: Option<usize> = None)?;
    // Types of attention (`global`, `local`) by layer: lists of consecutive types, each with its number of repetitions.
    let attention_types = config_value!(text, attention_types: Vec<(Vec<String>, usize)>)?;
    let window = config_value!(text, window_size: usize = 256)?;
    let wide = wide.unwrap_or(config.hidden_size.saturating_mul(FEED_FORWARD_RATIO));
    let config = Config { score_scale: Some(1.0), intermediate_size: wide, ..config };
    let (config, names) = TensorNames::pre_norm(config, (&GPT_NEO_LAYER, "h"), EMBEDDING_NAMES, "ln_f")?;
    ensure!(window > 0, anyhow!("window_size is 0").with_value(0));
    let layers = config.num_hidden_layers;
    let types =
        attention_types.iter().flat_map(|(types, times)| types.iter().cycle().take(types.len() * times.min(&layers)));
    let visibility_of = |name: &String| match name.as_str() {
        "global" => Ok(Visibility::CAUSAL),
        "local" => Ok(Visibility::causal_window(window)),
        other => Err(anyhow!("attention_types has {} (supported: global, local)", shorten(other)).with_value(other)),
    };
    // One type beyond the number of layers is enough to detect a surplus.
    let visibility = types.take(layers + 1).map(visibility_of).collect::<Result<Vec<_>>>()?;
    ensure!(visibility.len() == layers, "attention_types are not of {layers} layers, the num_layers");
    let biases = Biases { query_key_value: false, ..Biases::ALL };
    Ok((Config { visibility: LayerClasses::new(&visibility), ..config }, TensorNames { biases, ..names }))
}

pub(super) fn read_gpt_neox(text: &str) -> Result<(Config, TensorNames)> {
    const KEYS: &[ConfigKey] = keys! { hidden_act = "gelu", layer_norm_eps = 1e-5, tie_word_embeddings = false };
    let is_parallel = config_value!(text, use_parallel_residual: bool = true)?;
    let biased = config_value!(text, attention_bias: bool = true)?;
    // Share of an attention head's dimensions that rotate, under its name before transformers 5.
    let share = config_value!(text, rotary_pct: Option<f64> = None)?;
    let config = Config {
        blocks: if is_parallel { BlockPlan::Parallel } else { BlockPlan::Pre },
        position_embedding_type: PositionEmbedding::None,
        ..read_config(text, KEYS)?
    };
    let (config, names) =
        TensorNames::pre_norm(config, (&GPT_NEOX_LAYER, "layers"), ["embed_in", ""], "final_layer_norm")?;
    let config = add_rotation(config, text, ("rotary_emb_base", 10_000.0), share.unwrap_or(0.25))?;
    let biases = Biases { attention_output: biased, query_key_value: biased, ..Biases::ALL };
    Ok((config, TensorNames { biases, ..names }))
}

/// Reads the config of a pre-norm decoder with causal attention. Sizes are not checked.
fn read_config(text: &str, keys: &[ConfigKey]) -> Result<Config> {
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
pub(super) const FIRST_POSITION_ROW: usize = 2;

const OPT_KEYS: &[ConfigKey] = keys! {
    intermediate_size: ffn_dim, hidden_act: activation_function = "relu", initializer_range: init_std = 0.02,
    // `OPTDecoder` of transformers always has this one.
    layer_norm_eps: _ = 1e-5, tie_word_embeddings = true
};

config_struct! {
    /// Keys of transformers' `OPTConfig` that [`Config`] lacks, with its defaults.
    struct OptConfig {
        do_layer_norm_before: bool = true,
        enable_bias: bool = true,
        layer_norm_elementwise_affine: bool = true,
        word_embed_proj_dim: Option<usize> = None,
        #[serde(rename = "_remove_final_layer_norm")]
        remove_final_layer_norm: bool = false,
    }
}

pub(super) fn read_opt(text: &str) -> Result<(Config, TensorNames)> {
    let (config, options): (_, OptConfig) = (read_config(text, OPT_KEYS)?, parse_fields(text)?);
    // Only OPT-350m has other values.
    let flags = [
        ("do_layer_norm_before", options.do_layer_norm_before, true),
        ("enable_bias", options.enable_bias, true),
        ("layer_norm_elementwise_affine", options.layer_norm_elementwise_affine, true),
        ("_remove_final_layer_norm", options.remove_final_layer_norm, false),
    ];
    ensure_flags("opt", flags)?;
    let hidden = config.hidden_size;
    let width = options.word_embed_proj_dim.unwrap_or(hidden);
    ensure!(
        width == hidden,
        anyhow!("word_embed_proj_dim is {width}, which is not supported for opt (supported: hidden_size, {hidden})")
            .with_value(width)
    );
    let positions = config.max_position_embeddings.saturating_add(FIRST_POSITION_ROW);
    let config = Config { first_position: FIRST_POSITION_ROW, max_position_embeddings: positions, ..config };
    TensorNames::pre_norm(config, (&OPT_LAYER, "layers"), ["embed_tokens", "embed_positions"], "final_layer_norm")
}

/// CLIP's text encoder (Radford et al. 2021), whose attention is causal.
pub(super) const CLIP_TEXT: Family =
    Family { token_heads: &[], read: read_clip_text, ..GPT_2.with_names("clip_text_model", "CLIPText", "text_model.") };

const CLIP_LAYER: LayerNames = LayerNames {
    attention_norm: "layer_norm1",
    intermediate: Intermediate::Plain("mlp.fc1"),
    output: "mlp.fc2",
    output_norm: "layer_norm2",
    ..OPT_LAYER
};

/// Keys of transformers' `CLIPTextConfig`, with its defaults. The `text_config` of a CLIP model may leave out any of these
/// keys.
const CLIP_KEYS: &[ConfigKey] = keys! {
    vocab_size = 49408, hidden_size = 512, intermediate_size = 2048, num_hidden_layers = 12, num_attention_heads = 8,
    max_position_embeddings = 77, hidden_act = "quick_gelu", layer_norm_eps = 1e-5, tie_word_embeddings: _ = true
};

pub(super) fn read_clip(text: &str) -> Result<(Config, TensorNames)> {
    let json: Value = serde_json::from_str(text)?;
    let text_config = json.get("text_config").filter(|config| config.is_object());
    read_clip_text(
        &text_config.context("text_config is missing: it has the sizes of the encoder of texts")?.to_string(),
    )
}

fn read_clip_text(text: &str) -> Result<(Config, TensorNames)> {
    let embeddings = ["embeddings.token_embedding", "embeddings.position_embedding"];
    TensorNames::pre_norm(
        read_config(text, CLIP_KEYS)?,
        (&CLIP_LAYER, "encoder.layers"),
        embeddings,
        "final_layer_norm",
    )
}
