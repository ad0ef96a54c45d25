//! Encoders of sequence-to-sequence models: T5 (Raffel et al. 2020), mT5 (Xue et al. 2021), umT5 (Chung et al. 2023), BART
//! (Lewis et al. 2020) and mBART (Liu et al. 2020). Their training predicted tokens with the decoder, so the encoders have no
//! head that predicts tokens.

use anyhow::{Result, ensure};

use super::{
    Biases, EmbeddingNames, Family, Intermediate, LayerNames, PositionBiasNames, QueryKeyValue, TensorNames,
    WeightInitialisation, bert, gpt,
};
use crate::model::config::{
    Activation, BlockPlan, Config, ConfigKey, EmbeddingScale, MAX_SIZE, NormKind, PositionEmbedding, config_value,
    keys, lookup, wrong_value,
};

/// T5: pre-norm with RMS norm, a score term for buckets of distances, unscaled scores, and no biases.
pub(super) const T5: Family = Family {
    // Copies of the shared embeddings.
    ignored_tensors: &["embed_tokens"],
    token_heads: &[],
    read: |text| read_t5(text, "relu", false),
    ..bert::BERT.with_names("t5", "T5", "transformer.")
};

const UNGATED_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Separate([
        "layer.0.SelfAttention.q",
        "layer.0.SelfAttention.k",
        "layer.0.SelfAttention.v",
    ]),
    attention_output: "layer.0.SelfAttention.o",
    attention_norm: "layer.0.layer_norm",
    intermediate: Intermediate::Plain("layer.1.DenseReluDense.wi"),
    output: "layer.1.DenseReluDense.wo",
    output_norm: "layer.1.layer_norm",
    ..bert::LAYER_WITHOUT_DISTANCES
};

const GATED_LAYER: LayerNames = LayerNames {
    intermediate: Intermediate::Gated(["layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1"]),
    ..UNGATED_LAYER
};

const T5_KEYS: &[ConfigKey] = keys! {
    hidden_size: d_model, num_hidden_layers: num_layers, num_attention_heads: num_heads, intermediate_size: d_ff,
    // Length of the training texts; nothing in the model depends on it.
    max_position_embeddings: n_positions = 512,
    layer_norm_eps: layer_norm_epsilon = 1e-6,
    hidden_act: _ = "gelu", initializer_range: _ = 0.02, tie_word_embeddings: _ = true
};

/// Initial weights of T5. The standard deviation of each matrix keeps the variance of its outputs about equal to the variance
/// of its inputs (transformers' `T5PreTrainedModel`).
fn initial_weights(config: &Config, factor: f64) -> WeightInitialisation {
    let scale_for_inputs = |size: usize| factor / (size as f64).sqrt();
    let model_scale = scale_for_inputs(config.hidden_size);
    let scales = vec![
        ("SelfAttention.q.", scale_for_inputs(config.hidden_size.saturating_mul(config.head_dim()))),
        ("SelfAttention.k.", model_scale),
        ("SelfAttention.v.", model_scale),
        ("SelfAttention.o.", scale_for_inputs(config.heads_width())),
        ("relative_attention_bias", model_scale),
        ("DenseReluDense.wi", model_scale),
        ("DenseReluDense.wo", scale_for_inputs(config.intermediate_size)),
        ("shared", factor),
        ("embed_tokens", factor),
    ];
    WeightInitialisation { scales, norms: factor, ..WeightInitialisation::default() }
}

pub(super) fn read_t5(text: &str, feed_forward_proj: &str, in_each_layer: bool) -> Result<(Config, TensorNames)> {
    let head_size = config_value!(text, d_kv: usize)?;
    let buckets = config_value!(text, relative_attention_num_buckets: usize = 32)?;
    let longest_distance = config_value!(text, relative_attention_max_distance: usize = 128)?;
    let block_type = config_value!(text, feed_forward_proj: Option<String> = None)?;
    let factor = config_value!(text, initializer_factor: f64 = 1.0)?;
    let function = block_type.as_deref().unwrap_or(feed_forward_proj);
    let (gated, hidden_act) = match function {
        // The tanh approximation, "for backwards compatibility" (transformers' `T5Config`).
        "gated-gelu" => (true, Activation::GeluTanh),
        _ => match function.strip_prefix("gated-") {
            Some(name) => (true, lookup("feed_forward_proj", name, Activation::ALL)?),
            None => (false, lookup("feed_forward_proj", function, Activation::ALL)?),
        },
    };
    let fits = buckets.is_multiple_of(4) && (4..=MAX_SIZE).contains(&buckets);
    ensure!(fits, wrong_value("relative_attention_num_buckets", buckets, "a multiple of 4 is expected"));
    let expected = format!("{} to {MAX_DISTANCE} are expected", buckets / 4 + 1);
    let fits = longest_distance > buckets / 4 && longest_distance <= MAX_DISTANCE;
    ensure!(fits, wrong_value("relative_attention_max_distance", longest_distance, expected));
    let config = Config {
        head_size: Some(head_size),
        score_scale: Some(1.0),
        blocks: BlockPlan::Pre,
        norm: NormKind::RootMeanSquare,
        gated,
        position_embedding_type: PositionEmbedding::None,
        is_unbounded: true,
        hidden_act,
        ..Config::read(text, &[T5_KEYS])?
    };
    let layer = (if gated { &GATED_LAYER } else { &UNGATED_LAYER }, "encoder.block");
    let (config, names) = TensorNames::pre_norm(config, layer, ["shared", ""], "encoder.final_layer_norm")?;
    let table = if in_each_layer {
        "layer.0.SelfAttention.relative_attention_bias"
    } else {
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    };
    let initialisation = initial_weights(&config, factor);
    let position_bias =
        Some(PositionBiasNames::Buckets { table, in_each_layer, rows: buckets, buckets, longest_distance });
    Ok((config, TensorNames { initialisation, biases: Biases::NONE, position_bias, ..names }))
}

/// Maximum of `relative_attention_max_distance`, in tokens: a table with all distances up to it is kept. Models have 128.
const MAX_DISTANCE: usize = 1 << 12;

pub(super) const BART: Family =
    Family { read: |text| read_bart(text, BlockPlan::Post, None), ..T5.with_names("bart", "Bart", "model.") };

/// Keys of transformers' `BartConfig` about the encoder.
const BART_KEYS: &[ConfigKey] = keys! {
    hidden_size: d_model, num_hidden_layers: encoder_layers, num_attention_heads: encoder_attention_heads,
    intermediate_size: encoder_ffn_dim, hidden_act: activation_function = "gelu", initializer_range: init_std = 0.02,
    // PyTorch's default.
    layer_norm_eps: _ = 1e-5, tie_word_embeddings: _ = true
};

pub(super) fn read_bart(
    text: &str,
    blocks: BlockPlan,
    final_norm: Option<&'static str>,
) -> Result<(Config, TensorNames)> {
    let config = Config::read(text, &[BART_KEYS])?;
    let is_scaled = config_value!(text, scale_embedding: bool = false)?;
    #[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
    let scale = (config.hidden_size as f64).sqrt() as f32;
    let config = Config {
        blocks,
        first_position: gpt::FIRST_POSITION_ROW,
        embedding_scale: if is_scaled { EmbeddingScale::Constant(scale) } else { EmbeddingScale::One },
        max_position_embeddings: config.max_position_embeddings.saturating_add(gpt::FIRST_POSITION_ROW),
        ..config
    };
    let (config, mut names) = TensorNames::check_config_and_name(config, &gpt::OPT_LAYER, "encoder.layers")?;
    names.embeddings = EmbeddingNames { words: "shared", positions: "encoder.embed_positions", segments: "" };
    names.embedding_norm = Some("encoder.layernorm_embedding");
    names.final_norm = final_norm;
    Ok((config, names))
}
