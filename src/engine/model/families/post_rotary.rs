//! Post-norm BERTs with rotary positions: nomic-bert (Nussbaum et al. 2024), GTE (Zhang et al. 2024) and jina-embeddings-v3
//! (Sturua et al. 2024). The first two have gated linear units.

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;

use super::llama::add_rotation;
use super::{
    Biases, Family, Intermediate, LayerNames, QueryKeyValue, TensorNames, TokenHeadNames, TransformNames, bert,
    ensure_flags, llama, roberta,
};
use crate::model::config::{
    Config, ConfigKey, PositionEmbedding, RotaryScaling, config_struct, config_value, keys, parse_fields, wrong_value,
};
use crate::system::printable::shorten;

/// GTE with the `model_type` "new", for which checkpoints bring their own Python code (remote code).
pub(super) const REMOTE_CODE_GTE: Family = Family {
    token_heads: &[GTE_HEAD, NATIVE_GTE_HEAD],
    read: read_remote_code_gte,
    ..bert::BERT.with_names("new", "New", "new.")
};

/// Masked-LM head of nomic-bert, as transformers itself saves it.
pub(super) const NATIVE_NOMIC_HEAD: TokenHeadNames = TokenHeadNames { transform: Some(NOMIC_TRANSFORM), ..bert::HEAD };

const NOMIC_TRANSFORM: TransformNames =
    TransformNames::biased("cls.predictions.transform.dense", "cls.predictions.transform.layer_norm");

/// Masked-LM head of nomic-bert-2048, whose linear layers have no biases.
pub(super) const NOMIC_HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames { biases: [false, true], ..NOMIC_TRANSFORM }),
    bias: None,
    ..bert::HEAD
};

const GTE_HEAD: TokenHeadNames =
    TokenHeadNames::biased(["lm_head.dense", "lm_head.norm"], "lm_head.decoder.weight", ["lm_head.decoder.bias"; 2]);

const NATIVE_GTE_HEAD: TokenHeadNames = TokenHeadNames { transform: roberta::HEAD.transform, ..GTE_HEAD };

/// Tensor names of a layer of nomic-bert, GTE and jina-embeddings-v3 in transformers' own classes. Most checkpoints
/// have the tensor names of their remote code.
const TRANSFORMERS_LAYER: LayerNames =
    LayerNames { attention_norm: "post_attention_layernorm", output_norm: "post_mlp_layernorm", ..llama::LAYER };

const NOMIC_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Stacked("attn.Wqkv"),
    attention_output: "attn.out_proj",
    attention_norm: "norm1",
    intermediate: Intermediate::Gated(["mlp.fc12", "mlp.fc11"]),
    output: "mlp.fc2",
    output_norm: "norm2",
    ..TRANSFORMERS_LAYER
};

const GTE_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Stacked("attention.qkv_proj"),
    attention_output: "attention.o_proj",
    attention_norm: "attn_ln",
    intermediate: Intermediate::GateSecond("mlp.up_gate_proj"),
    output: "mlp.down_proj",
    output_norm: "mlp_ln",
    ..TRANSFORMERS_LAYER
};

const JINA_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Stacked("mixer.Wqkv"),
    attention_output: "mixer.out_proj",
    attention_norm: "norm1",
    output_norm: "norm2",
    ..TRANSFORMERS_JINA_LAYER
};

const TRANSFORMERS_JINA_LAYER: LayerNames =
    LayerNames { intermediate: Intermediate::Plain("mlp.fc1"), output: "mlp.fc2", ..TRANSFORMERS_LAYER };

/// Reads the config of a BERT without position embeddings; the caller adds rotary positions. Sizes are not checked.
fn read_without_positions(text: &str, keys: &[ConfigKey]) -> Result<Config> {
    Ok(Config { position_embedding_type: PositionEmbedding::None, ..Config::read(text, &[keys])? })
}

/// Config keys of nomic-bert, under transformers' names and the names of nomic-bert's code. Newer files have both.
const NOMIC_KEYS: &[ConfigKey] = keys! {
    hidden_size: hidden_size | n_embd, num_hidden_layers: num_hidden_layers | n_layer,
    num_attention_heads: num_attention_heads | n_head, intermediate_size: intermediate_size | n_inner,
    max_position_embeddings: max_position_embeddings | n_positions = 2048,
    hidden_act = "silu", layer_norm_eps: layer_norm_eps | layer_norm_epsilon = 1e-12, type_vocab_size = 2
};

/// Options of nomic-bert's remote code, each with the only supported value.
const NOMIC_FIXED_OPTIONS: [(&str, &str); 10] = [
    ("prenorm", "false"),
    ("qkv_proj_bias", "false"),
    ("mlp_fc1_bias", "false"),
    ("mlp_fc2_bias", "false"),
    ("use_rms_norm", "false"),
    ("rotary_emb_interleaved", "false"),
    ("rotary_emb_fraction", "1.0"),
    ("activation_function", "\"swiglu\""),
    ("rotary_emb_scale_base", "null"),
    ("num_experts", "0"),
];

pub(super) fn read_nomic_bert(text: &str) -> Result<(Config, TensorNames)> {
    let json: Value = parse_fields(text)?;
    for (key, expected) in NOMIC_FIXED_OPTIONS {
        let Some(value) = json.get(key).filter(|value| !value.is_null()) else { continue };
        let expected_value: Value = serde_json::from_str(expected)?;
        let is_expected =
            *value == expected_value || value.as_f64().is_some_and(|value| Some(value) == expected_value.as_f64());
        let shown = shorten(&value.to_string());
        let what =
            if key == "num_experts" { "layers of experts are not supported" } else { "not supported for nomic_bert" };
        ensure!(is_expected, wrong_value(key, shown, format_args!("{what} (expected {expected})")));
    }
    let config = read_without_positions(text, NOMIC_KEYS)?;
    let trained = config_value!(text, max_trained_positions: Option<usize> = None)?;
    // On longer texts nomic-bert's own code changes the base of the frequencies.
    let longest = config.max_position_embeddings.min(trained.unwrap_or(2048).max(1));
    let config = Config { gated: true, max_position_embeddings: longest, ..config };
    let (config, names) = TensorNames::check_config_and_name(config, &NOMIC_LAYER, "encoder.layers")?;
    let config = add_rotation(config, text, ("rotary_emb_base", 1000.0), 1.0)?;
    let biases = Biases { norms: true, ..Biases::NONE };
    let native = TensorNames { biases, ..TensorNames::with_numbered_layers(&TRANSFORMERS_LAYER, "layers", &config) };
    let names = TensorNames { embedding_norm: Some("emb_ln"), biases, alternative: Some(Box::new(native)), ..names };
    Ok((config, names))
}

config_struct! {
    /// Keys of GTE's remote code: options with unsupported values, and keys that change the rotary frequencies.
    struct GteConfig {
        logn_attention_scale: bool = false,
        logn_attention_clip1: bool = false,
        layer_norm_type: Option<String> = None,
        position_embedding_type: Option<String> = None,
        rope_scaling: Value = Value::Null,
        rope_theta: Option<f64> = None,
    }
}

/// Reads the `config.json` of a GTE with remote code. Fails if an option has an unsupported value.
fn read_remote_code_gte(text: &str) -> Result<(Config, TensorNames)> {
    let options: GteConfig = parse_fields(text)?;
    let flags = [
        ("logn_attention_scale", options.logn_attention_scale, false),
        ("logn_attention_clip1", options.logn_attention_clip1, false),
    ];
    ensure_flags("gte", flags)?;
    for (key, value, expected) in [
        ("layer_norm_type", options.layer_norm_type, "layer_norm"),
        ("position_embedding_type", options.position_embedding_type, "rope"),
    ] {
        if let Some(value) = value.filter(|value| value != expected) {
            bail!(wrong_value(key, shorten(&value), format_args!("not supported for gte (expected {expected})")));
        }
    }
    read_gte(text)
}

pub(super) fn read_gte(text: &str) -> Result<(Config, TensorNames)> {
    const THETA: (&str, f64) = ("rope_theta", 160_000.0);
    const KEYS: &[ConfigKey] = keys! { hidden_act = "gelu", layer_norm_eps = 1e-12, type_vocab_size = 1 };
    let options: GteConfig = parse_fields(text)?;
    let config = Config { gated: true, ..read_without_positions(text, KEYS)? };
    let (config, names) = TensorNames::check_config_and_name(config, &GTE_LAYER, "encoder.layer")?;
    let config = match ntk_factor(&options)? {
        None => add_rotation(config, text, THETA, 1.0)?,
        Some(factor) => {
            // The base is multiplied by the factor, and all frequencies are divided by `factor^(2/d)`. This divides the
            // frequency of the last pair of dimensions by the factor, and hardly changes that of the first.
            let mut plain: Value = parse_fields(text)?;
            plain["rope_scaling"] = Value::Null;
            plain["rope_theta"] = (options.rope_theta.unwrap_or(10_000.0) * factor).into();
            let mut config = add_rotation(config, &plain.to_string(), THETA, 1.0)?;
            for rotary in config.rotary.iter_mut().flatten() {
                rotary.scaling = RotaryScaling::Linear { factor: factor.powf(2.0 / rotary.dims as f64) };
            }
            config
        }
    };
    let biases = Biases { intermediate: false, ..Biases::ALL };
    let native = TensorNames { biases, ..TensorNames::with_numbered_layers(&TRANSFORMERS_LAYER, "layers", &config) };
    Ok((config, TensorNames { biases, alternative: Some(Box::new(native)), ..names }))
}

/// Factor of GTE's own scaling of rotary frequencies, `{"type": "ntk", "factor": f}`, which does not depend on text length.
/// `None` for another type. Fails if the factor is not a number above 0.
fn ntk_factor(options: &GteConfig) -> Result<Option<f64>> {
    let scaling = &options.rope_scaling;
    let name = scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(Value::as_str);
    if name != Some("ntk") {
        return Ok(None);
    }
    let factor = scaling.get("factor").and_then(Value::as_f64).filter(|factor| factor.is_finite() && *factor > 0.0);
    factor.map(Some).ok_or_else(|| anyhow!("rope_scaling: type is ntk, and factor is no number above 0"))
}

pub(super) fn read_jina_embeddings_v3(text: &str) -> Result<(Config, TensorNames)> {
    let config =
        read_without_positions(text, keys! { hidden_act = "gelu", layer_norm_eps = 1e-5, type_vocab_size = 1 })?;
    let (config, names) = TensorNames::check_config_and_name(config, &JINA_LAYER, "encoder.layers")?;
    let config = add_rotation(config, text, ("rope_theta", 20_000.0), 1.0)?;
    let native = TensorNames::with_numbered_layers(&TRANSFORMERS_JINA_LAYER, "layers", &config);
    Ok((config, TensorNames { embedding_norm: Some("emb_ln"), alternative: Some(Box::new(native)), ..names }))
}
