//! The body of Llama (Touvron et al. 2023; also SmolLM2): pre-norm by the root of the mean square, with rotary positions and
//! gated linear units. It is shared by the decoders Mistral (Jiang et al. 2023), Qwen2 (Yang et al. 2024), Qwen3 (Yang et al.
//! 2025) and SmolLM3 (Bakouch et al. 2025), and the encoders EuroBERT (Boizard et al. 2025) and NeoBERT (Le Breton et al. 2025).

use anyhow::{Result, anyhow, ensure};

use super::{
    Biases, Family, Intermediate, LayerNames, QueryKeyValue, TensorNames, TokenHeadNames, WeightDistribution,
    WeightInitialisation, bert,
};
use crate::model::config::{
    BlockPlan, Config, ConfigKey, NormKind, PositionEmbedding, config_struct, config_value, keys, parse_fields,
    parse_rotary,
};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::ErrorExt;
use crate::system::printable::shorten;

pub(super) const LLAMA: Family = Family {
    token_heads: &[TokenHeadNames::LM_HEAD],
    read: |text| read_decoder(text, &LLAMA_DEFAULTS),
    ..bert::BERT.with_names("llama", "Llama", "model.")
};

pub(super) const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Separate(["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
    attention_output: "self_attn.o_proj",
    attention_norm: "input_layernorm",
    intermediate: Intermediate::Gated(["mlp.gate_proj", "mlp.up_proj"]),
    output: "mlp.down_proj",
    output_norm: "post_attention_layernorm",
    ..bert::LAYER_WITHOUT_DISTANCES
};

const QWEN_3_LAYER: LayerNames =
    LayerNames { query_key_norms: Some(["self_attn.q_norm", "self_attn.k_norm"]), ..LAYER };

const NEO_BERT_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::HeadByHead("qkv"),
    attention_output: "wo",
    attention_norm: "attention_norm",
    intermediate: Intermediate::GateFirst("ffn.w12"),
    output: "ffn.w3",
    output_norm: "ffn_norm",
    ..LAYER
};

/// `(config key, default)` of the base of the rotary frequencies.
const THETA: (&str, f64) = ("rope_theta", 10_000.0);

const KEYS: &[ConfigKey] = keys! {
    hidden_act = "silu", head_size: head_dim, key_value_heads: num_key_value_heads, layer_norm_eps: rms_norm_eps = 1e-6,
    tie_word_embeddings = false
};

config_struct! {
    /// Keys that say whether the attention and feed-forward blocks have biases.
    struct BiasConfig {
        attention_bias: bool = false,
        mlp_bias: bool = false,
    }
}

config_struct! {
    /// Config keys that choose the layers with windowed attention and those without rotary positions, with
    /// transformers' defaults.
    struct LayerConfig {
        /// Number of keys that a query sees in a layer with a window, including its own.
        sliding_window: Option<usize> = Some(4096),
        /// Whether any layer has a window (Qwen, SmolLM3).
        use_sliding_window: bool = false,
        /// Number, counted from 0, of the first layer with a window (Qwen).
        max_window_layers: usize = 28,
        layer_types: Option<Vec<String>> = None,
        /// For each layer, 0 if queries and keys do not rotate, else 1 (SmolLM3).
        no_rope_layers: Option<Vec<u8>> = None,
        /// Without `no_rope_layers`, every layer whose number, counted from 1, is a multiple of this has no rotation
        /// (SmolLM3).
        no_rope_layer_interval: usize = 4,
    }
}

/// Defaults of a family for keys that its `config.json` lacks, and the biases and tensor names of its layers.
struct FamilyDefaults {
    /// Config keys whose defaults differ from Llama's.
    keys: &'static [ConfigKey],
    /// Default base of the rotary frequencies.
    theta: f64,
    /// Whether queries, keys and values have biases; the output projection then has none.
    has_qkv_biases: bool,
    layer: &'static LayerNames,
}

/// Llama's defaults; other families override some of them.
const LLAMA_DEFAULTS: FamilyDefaults =
    FamilyDefaults { keys: &[], theta: THETA.1, has_qkv_biases: false, layer: &LAYER };

pub(super) fn read_mistral(text: &str) -> Result<(Config, TensorNames)> {
    const KEYS: &[ConfigKey] = keys! { key_value_heads: num_key_value_heads = 8 };
    let (mut config, names) = read_decoder(text, &FamilyDefaults { keys: KEYS, ..LLAMA_DEFAULTS })?;
    if let Some(window) = parse_fields::<LayerConfig>(text)?.sliding_window {
        config.visibility = LayerClasses::new(&[causal_window(window)?]);
    }
    Ok((config, names))
}

pub(super) fn read_qwen2(text: &str) -> Result<(Config, TensorNames)> {
    const KEYS: &[ConfigKey] = keys! { key_value_heads: num_key_value_heads = 32 };
    let (config, names) = read_decoder(text, &FamilyDefaults { keys: KEYS, has_qkv_biases: true, ..LLAMA_DEFAULTS })?;
    Ok((add_windows(config, &parse_fields(text)?)?, names))
}

pub(super) fn read_qwen3(text: &str) -> Result<(Config, TensorNames)> {
    const KEYS: &[ConfigKey] = keys! { key_value_heads: num_key_value_heads = 32, head_size: head_dim = 128 };
    let (config, names) = read_decoder(text, &FamilyDefaults { keys: KEYS, layer: &QWEN_3_LAYER, ..LLAMA_DEFAULTS })?;
    Ok((add_windows(config, &parse_fields(text)?)?, names))
}

pub(super) fn read_smol_lm3(text: &str) -> Result<(Config, TensorNames)> {
    const KEYS: &[ConfigKey] = keys! { key_value_heads: num_key_value_heads = 4, tie_word_embeddings = true };
    let (mut config, names) = read_decoder(text, &FamilyDefaults { keys: KEYS, theta: 2_000_000.0, ..LLAMA_DEFAULTS })?;
    let options: LayerConfig = parse_fields(text)?;
    let unrotated_every = options.no_rope_layer_interval;
    let layers = config.num_hidden_layers;
    ensure!(unrotated_every > 0, anyhow!("no_rope_layer_interval is 0").with_value(0));
    let rotates = options.no_rope_layers.as_deref();
    if let Some(count) = rotates.map(<[u8]>::len) {
        ensure!(count == layers, "no_rope_layers has {count} entries, and num_hidden_layers is {layers}");
    }
    for (layer, rotary) in config.rotary.iter_mut().enumerate() {
        if !rotates.map_or_else(|| !(layer + 1).is_multiple_of(unrotated_every), |rotates| rotates[layer] != 0) {
            *rotary = None;
        }
    }
    Ok((add_windows(config, &LayerConfig { max_window_layers: 0, ..options })?, names))
}

/// Reads the config of a decoder with Llama's layers and the given defaults.
fn read_decoder(text: &str, defaults: &FamilyDefaults) -> Result<(Config, TensorNames)> {
    let visibility = LayerClasses::new(&[Visibility::CAUSAL]);
    let config = Config { visibility, ..read_config(text, &[defaults.keys, KEYS])? };
    let options: BiasConfig = parse_fields(text)?;
    let biases = Biases::from_blocks(options.attention_bias, options.mlp_bias);
    let biases = Biases { query_key_value: options.attention_bias || defaults.has_qkv_biases, ..biases };
    let (config, names) = check_config_and_name(config, defaults.layer, biases)?;
    Ok((add_rotation(config, text, (THETA.0, defaults.theta), 1.0)?, names))
}

/// Reads the config of a model with Llama's layers by lists of keys; an earlier list has precedence. Sizes are not checked.
pub(super) fn read_config(text: &str, lists: &[&[ConfigKey]]) -> Result<Config> {
    Ok(Config {
        blocks: BlockPlan::Pre,
        norm: NormKind::RootMeanSquare,
        gated: true,
        position_embedding_type: PositionEmbedding::None,
        ..Config::read(text, lists)?
    })
}

/// Checks the config, and makes Llama's tensor names, but with the names `layer` within layers and with `biases`. Fails
/// if a size fits no encoder.
pub(super) fn check_config_and_name(
    config: Config,
    layer: &'static LayerNames,
    biases: Biases,
) -> Result<(Config, TensorNames)> {
    let (config, names) = TensorNames::pre_norm(config, (layer, "layers"), ["embed_tokens", ""], "norm")?;
    Ok((config, TensorNames { biases, ..names }))
}

/// Visibility in a causal window of `window` tokens, the query included. Fails if `window` is 0.
fn causal_window(window: usize) -> Result<Visibility> {
    ensure!(window > 0, anyhow!("sliding_window is 0").with_value(0));
    Ok(Visibility::causal_window(window))
}

/// Adds windows to the layers that `layer_types` names, or else to the layers from `max_window_layers` on, if the config uses
/// windows.
fn add_windows(config: Config, options: &LayerConfig) -> Result<Config> {
    let Some(window) = options.sliding_window.filter(|_| options.use_sliding_window) else { return Ok(config) };
    let is_full = |layer: usize| layer < options.max_window_layers;
    let types = layer_types(options.layer_types.as_deref(), config.num_hidden_layers, is_full)?;
    let visibility = layer_visibility(&types, [Visibility::CAUSAL, causal_window(window)?]);
    Ok(Config { visibility, ..config })
}

pub(super) fn read_euro_bert(text: &str) -> Result<(Config, TensorNames)> {
    let options: BiasConfig = parse_fields(text)?;
    let config = read_config(text, &[keys! { layer_norm_eps: rms_norm_eps = 1e-5 }, KEYS])?;
    let (config, names) =
        check_config_and_name(config, &LAYER, Biases::from_blocks(options.attention_bias, options.mlp_bias))?;
    Ok((add_rotation(config, text, THETA, 1.0)?, names))
}

/// Config keys of NeoBERT, whose code comes with its checkpoints, with their defaults.
const NEO_BERT_KEYS: &[ConfigKey] = keys! {
    max_position_embeddings: max_length, layer_norm_eps: norm_eps = 1e-6, initializer_range: decoder_init_range = 0.02,
    hidden_act: _ = "silu", tie_word_embeddings: _ = false
};

pub(super) fn read_neo_bert(text: &str) -> Result<(Config, TensorNames)> {
    let mut config = read_config(text, &[NEO_BERT_KEYS])?;
    let embedding_range = config_value!(text, embedding_init_range: Option<f64> = None)?;
    // Two thirds, because a gated linear unit has three matrices, rounded up to a multiple of eight.
    config.intermediate_size = (config.intermediate_size.saturating_mul(2) / 3).div_ceil(8).saturating_mul(8);
    let layer = (&NEO_BERT_LAYER, "transformer_encoder");
    let (config, names) = TensorNames::pre_norm(config, layer, ["encoder", ""], "layer_norm")?;
    let config = add_rotation(config, text, THETA, 1.0)?;
    // `NeoBERTPreTrainedModel` in the code beside the checkpoint.
    let initialisation = WeightInitialisation {
        distribution: WeightDistribution::Uniform,
        scales: vec![("encoder.weight", embedding_range.unwrap_or(0.02))],
        ..WeightInitialisation::default()
    };
    Ok((config, TensorNames { biases: Biases::NONE, initialisation, ..names }))
}

/// Names of the layer types in `layer_types` and `rope_parameters`. In a `full_attention` layer, a token sees all tokens (in a
/// decoder, all tokens before it). In a `sliding_attention` layer, it sees a window around it (in a decoder, before it).
const LAYER_TYPES: [&str; 2] = ["full_attention", "sliding_attention"];

/// Type of each layer, as an index into [`LAYER_TYPES`]. It comes from the config's `layer_types` (`given`), or else from
/// `is_full`, which says whether a layer sees every token. Fails if the number of types is not the number of layers, or a type
/// is unknown.
pub(super) fn layer_types(
    given: Option<&[String]>,
    layers: usize,
    is_full: impl Fn(usize) -> bool,
) -> Result<Vec<usize>> {
    let Some(names) = given else { return Ok((0..layers).map(|layer| usize::from(!is_full(layer))).collect()) };
    ensure!(names.len() == layers, "layer_types has {} entries, and num_hidden_layers is {layers}", names.len());
    let known = |name: &String| {
        LAYER_TYPES.iter().position(|known| known == name).ok_or_else(|| {
            anyhow!("layer_types has {} (supported: {})", shorten(name), LAYER_TYPES.join(", ")).with_value(name)
        })
    };
    names.iter().map(known).collect()
}

/// Visible keys of each layer's queries: `of_types[types[layer]]`.
fn layer_visibility(types: &[usize], of_types: [Visibility; 2]) -> LayerClasses {
    LayerClasses::new(&types.iter().map(|layer_type| of_types[*layer_type]).collect::<Vec<_>>())
}

/// Adds one rotary position encoding to all layers. `theta` is `(config key, default)` of the rotary base. `share` is
/// the default share of an attention head's dimensions that rotate.
pub(super) fn add_rotation(mut config: Config, text: &str, theta: (&'static str, f64), share: f64) -> Result<Config> {
    let rotary = parse_rotary(text, None, theta, share, (config.head_dim(), config.max_position_embeddings))?;
    config.rotary = vec![Some(rotary); config.num_hidden_layers];
    Ok(config)
}

/// Adds to each layer the rotation and the visible keys of its type. `types` holds the type of each layer, an index
/// into `of_types` and `theta`. `theta` is `(config key, default)` of the rotary base, for each type.
pub(super) fn add_layer_types(
    mut config: Config,
    text: &str,
    (types, of_types): (&[usize], [Visibility; 2]),
    theta: [(&'static str, f64); 2],
) -> Result<Config> {
    let sizes = (config.head_dim(), config.max_position_embeddings);
    let of_layer = |&layer_type: &usize| {
        parse_rotary(text, Some(LAYER_TYPES[layer_type]), theta[layer_type], 1.0, sizes).map(Some)
    };
    config.rotary = types.iter().map(of_layer).collect::<Result<_>>()?;
    config.visibility = layer_visibility(types, of_types);
    Ok(config)
}
