//! Gemma 2 and 3 (Gemma Team 2024, 2025), which are decoders, and EmbeddingGemma (Schechter Vera et al. 2025), which is Gemma 3
//! with bidirectional attention. They have Llama's layers, some with windowed attention. The output of each block is also
//! normalised, and attention heads share keys and values.

use anyhow::{Result, anyhow, bail, ensure};

use super::llama::{add_layer_types, layer_types};
use super::{Biases, Family, LayerNames, TensorNames, llama};
use crate::model::config::{
    Config, ConfigKey, EmbeddingScale, config_struct, config_value, keys, parse_fields, wrong_value,
};
use crate::model::grid::visibility::Visibility;
use crate::system::errors::ErrorExt;

/// Text models of Gemma 3, including EmbeddingGemma. Only EmbeddingGemma has bidirectional attention; it embeds texts and has
/// no head that predicts tokens.
pub(super) const GEMMA_3_TEXT: Family =
    Family { model_type: "gemma3_text", class_prefix: "Gemma3Text", read: read_gemma3, ..llama::LLAMA };

const GEMMA_2_LAYER: LayerNames = LayerNames { query_key_norms: None, ..LAYER };

const LAYER: LayerNames = LayerNames {
    query_key_norms: Some(["self_attn.q_norm", "self_attn.k_norm"]),
    block_output_norms: Some(["post_attention_layernorm", "post_feedforward_layernorm"]),
    output_norm: "pre_feedforward_layernorm",
    ..llama::LAYER
};

const KEYS: &[ConfigKey] = keys! {
    hidden_act: hidden_activation = "gelu_pytorch_tanh", head_size: head_dim = 256, layer_norm_eps: rms_norm_eps = 1e-6,
    key_value_heads: num_key_value_heads = 4, tie_word_embeddings = true
};

config_struct! {
    /// Keys of transformers' `Gemma3TextConfig` that [`Config`] lacks, with its defaults.
    struct GemmaConfig {
        use_bidirectional_attention: Option<bool> = None,
        query_pre_attn_scalar: f64 = 256.0,
        sliding_window: usize = 4096,
        sliding_window_pattern: Option<usize> = None,
        layer_types: Option<Vec<String>> = None,
        attn_logit_softcapping: Option<f64> = None,
        /// Bound of the logits; null or missing in Gemma 3, which has none.
        final_logit_softcapping: Option<f32> = None,
        attention_bias: bool = false,
    }
}

pub(super) fn read_gemma2(text: &str) -> Result<(Config, TensorNames)> {
    let options: GemmaConfig = parse_fields(text)?;
    let bidirectional = options.use_bidirectional_attention.unwrap_or(false);
    ensure!(!bidirectional, "use_bidirectional_attention is true, which is not supported for gemma2");
    // A missing bound has transformers' default; null is no bound.
    let cap = config_value!(text, attn_logit_softcapping: Option<f32> = Some(50.0))?;
    check_cap("attn_logit_softcapping", cap)?;
    let final_logit_softcapping = config_value!(text, final_logit_softcapping: Option<f32> = Some(30.0))?;
    let options = GemmaConfig { final_logit_softcapping, ..options };
    // Every second layer has a window. All layers have one rotary base.
    let (config, names) = read_layers(text, &options, 2, &GEMMA_2_LAYER, [("rope_theta", 1e4); 2])?;
    Ok((Config { score_cap: cap, ..config }, names))
}

/// Fails if a given bound of scores or logits is not a finite number above 0.
fn check_cap(key: &str, cap: Option<f32>) -> Result<()> {
    if let Some(cap) = cap.filter(|cap| !(cap.is_finite() && *cap > 0.0)) {
        bail!(wrong_value(key, cap, "a number above 0 is expected"));
    }
    Ok(())
}

fn read_gemma3(text: &str) -> Result<(Config, TensorNames)> {
    let options: GemmaConfig = parse_fields(text)?;
    if let Some(cap) = options.attn_logit_softcapping {
        bail!(anyhow!("attn_logit_softcapping is {cap}, which is not supported for gemma3_text").with_value(cap));
    }
    let full_every = options.sliding_window_pattern.unwrap_or(6);
    read_layers(text, &options, full_every, &LAYER, [("rope_theta", 1e6), ("rope_local_base_freq", 1e4)])
}

/// Reads the config of a Gemma, and makes its tensor names. If the file lists no layer types, every `full_every`-th
/// layer has no window. `theta` is `(config key, default)` of the rotary base, for `[layers without a window, layers
/// with a window]`.
fn read_layers(
    text: &str,
    options: &GemmaConfig,
    full_every: usize,
    layer: &'static LayerNames,
    theta: [(&'static str, f64); 2],
) -> Result<(Config, TensorNames)> {
    let score_scalar = options.query_pre_attn_scalar;
    let is_positive = score_scalar.is_finite() && score_scalar > 0.0;
    ensure!(is_positive, wrong_value("query_pre_attn_scalar", score_scalar, "a number above 0 is expected"));
    check_cap("final_logit_softcapping", options.final_logit_softcapping)?;
    let config = llama::read_config(text, &[KEYS])?;
    #[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
    let scale = (config.hidden_size as f64).sqrt() as f32;
    let config = Config {
        score_scale: Some(1.0 / score_scalar.sqrt()),
        embedding_scale: EmbeddingScale::Constant(scale),
        logit_cap: options.final_logit_softcapping,
        ..config
    };
    let (config, names) =
        llama::check_config_and_name(config, layer, Biases::from_blocks(options.attention_bias, false))?;
    let is_full = |layer: usize| (layer + 1).is_multiple_of(full_every.max(1));
    let types = layer_types(options.layer_types.as_deref(), config.num_hidden_layers, is_full)?;
    let window = options.sliding_window;
    ensure!(window > 0, anyhow!("sliding_window is 0").with_value(0));
    let visible = if options.use_bidirectional_attention.unwrap_or(false) {
        // The window reaches half of the configured number in either direction (transformers' `Gemma3TextConfig`, which halves
        // it, and `_bidirectional_window_overlay`).
        [Visibility::ALL, Visibility::window(window / 2)]
    } else {
        [Visibility::CAUSAL, Visibility::causal_window(window)]
    };
    let config = add_layer_types(config, text, (&types, visible), theta)?;
    Ok((config, TensorNames { norms_add_one: true, ..names }))
}
