//! BERTs with rotary positions: nomic-bert (Nussbaum et al. 2024), GTE (Zhang et al. 2024) and jina-embeddings-v3 (Sturua et al.
//! 2024). The first two have gated linear units.

use anyhow::{Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::llama::turning;
use super::{
    Biases, Family, Intermediate, LayerNames, Names, QueryKeyValue, TokenHeadNames, TransformNames, bert, llama,
    roberta,
};
use crate::model::config::{
    Activation, Config, PositionEmbedding, RotaryScaling, Sizes, default_initializer_range, fields, yes,
};
use crate::system::errors::Facts;
use crate::system::printable::shortened;

/// GTE's own name, in files that come with code.
pub(super) const NEW: Family = Family {
    model_type: "new",
    class: "New",
    prefix: "new.",
    token_heads: &[GTE_HEAD, NATIVE_GTE_HEAD],
    read: new,
    ..bert::BERT
};

pub(super) const NATIVE_NOMIC_HEAD: TokenHeadNames = TokenHeadNames { transform: Some(NOMIC_TRANSFORM), ..bert::HEAD };

const NOMIC_TRANSFORM: TransformNames =
    TransformNames::biased("cls.predictions.transform.dense", "cls.predictions.transform.layer_norm");

/// nomic-bert-2048 has it without biases.
pub(super) const NOMIC_HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames { biases: [false, true], ..NOMIC_TRANSFORM }),
    bias: None,
    ..bert::HEAD
};

const GTE_HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames::biased("lm_head.dense", "lm_head.norm")),
    decoder: "lm_head.decoder.weight",
    bias: Some(["lm_head.decoder.bias", "lm_head.decoder.bias"]),
    activation: None,
};

const NATIVE_GTE_HEAD: TokenHeadNames = TokenHeadNames { transform: roberta::HEAD.transform, ..GTE_HEAD };

/// The parts of a layer as transformers has them in memory, of all three; it writes the names of their own code.
const NATIVE: LayerNames =
    LayerNames { attention_norm: "post_attention_layernorm", output_norm: "post_mlp_layernorm", ..llama::LAYER };

const NOMIC_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Blocks("attn.Wqkv"),
    attention_output: "attn.out_proj",
    attention_norm: "norm1",
    intermediate: Intermediate::Gated(["mlp.fc12", "mlp.fc11"]),
    output: "mlp.fc2",
    output_norm: "norm2",
    ..NATIVE
};

const GTE_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Blocks("attention.qkv_proj"),
    attention_output: "attention.o_proj",
    attention_norm: "attn_ln",
    intermediate: Intermediate::GateSecond("mlp.up_gate_proj"),
    output: "mlp.down_proj",
    output_norm: "mlp_ln",
    ..NATIVE
};

const JINA_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Blocks("mixer.Wqkv"),
    attention_output: "mixer.out_proj",
    attention_norm: "norm1",
    output_norm: "norm2",
    ..NATIVE_JINA_LAYER
};

const NATIVE_JINA_LAYER: LayerNames =
    LayerNames { intermediate: Intermediate::Plain("mlp.fc1"), output: "mlp.fc2", ..NATIVE };

/// The keys that the three share beside BERT's sizes.
#[derive(Deserialize)]
struct Shared {
    initializer_range: Option<f64>,
    #[serde(default = "yes")]
    tie_word_embeddings: bool,
    layer_norm_eps: Option<f64>,
    hidden_act: Option<Activation>,
    type_vocab_size: Option<usize>,
}

/// A BERT with rotary positions in every layer, by what its family has where the config says nothing; not checked.
fn with_rotary(
    text: &str,
    sizes: Sizes,
    (hidden_act, layer_norm_eps, type_vocab_size): (Activation, f64, usize),
) -> Result<Config> {
    let found: Shared = fields(text)?;
    Ok(Config {
        position_embedding_type: PositionEmbedding::None,
        layer_norm_eps: found.layer_norm_eps.unwrap_or(layer_norm_eps),
        type_vocab_size: found.type_vocab_size.unwrap_or(type_vocab_size),
        initializer_range: found.initializer_range.unwrap_or_else(default_initializer_range),
        tie_word_embeddings: found.tie_word_embeddings,
        ..Config::of(sizes, found.hidden_act.unwrap_or(hidden_act))
    })
}

/// nomic-bert's own names, in files that come with code, and those of transformers. Newer files have both.
#[derive(Deserialize)]
struct NomicBertConfig {
    vocab_size: usize,
    hidden_size: Option<usize>,
    n_embd: Option<usize>,
    num_hidden_layers: Option<usize>,
    n_layer: Option<usize>,
    num_attention_heads: Option<usize>,
    n_head: Option<usize>,
    intermediate_size: Option<usize>,
    n_inner: Option<usize>,
    max_position_embeddings: Option<usize>,
    n_positions: Option<usize>,
    max_trained_positions: Option<usize>,
    layer_norm_epsilon: Option<f64>,
}

/// The values of switches of nomic-bert's own code with which it is what is built here.
const NOMIC_SWITCHES: [(&str, &str); 10] = [
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

pub(super) fn nomic_bert(text: &str) -> Result<(Config, Names)> {
    let json: Value = fields(text)?;
    for (key, expected) in NOMIC_SWITCHES {
        let Some(value) = json.get(key).filter(|value| !value.is_null()) else { continue };
        let wanted: Value = serde_json::from_str(expected)?;
        let same = *value == wanted || value.as_f64().is_some_and(|value| Some(value) == wanted.as_f64());
        let shown = shortened(&value.to_string());
        let what =
            if key == "num_experts" { "layers of experts are not supported" } else { "not supported for nomic_bert" };
        ensure!(same, anyhow!("{key} is {shown}: {what} (expected {expected})").of_value(value));
    }
    let found: NomicBertConfig = fields(text)?;
    let either = |own: Option<usize>, other: Option<usize>, name: &str| {
        own.or(other).ok_or_else(|| anyhow!("missing field `{name}`"))
    };
    let longest = found.max_position_embeddings.or(found.n_positions).unwrap_or(2048);
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: either(found.hidden_size, found.n_embd, "hidden_size")?,
        num_hidden_layers: either(found.num_hidden_layers, found.n_layer, "num_hidden_layers")?,
        num_attention_heads: either(found.num_attention_heads, found.n_head, "num_attention_heads")?,
        intermediate_size: either(found.intermediate_size, found.n_inner, "intermediate_size")?,
        // Over longer texts its own code changes the base of the frequencies.
        max_position_embeddings: longest.min(found.max_trained_positions.unwrap_or(2048).max(1)),
    };
    let epsilon = found.layer_norm_epsilon.unwrap_or(1e-12);
    let config = Config { gated: true, ..with_rotary(text, sizes, (Activation::Silu, epsilon, 2))? };
    let (config, names) = Names::checked(config, &NOMIC_LAYER, "encoder.layers")?;
    let config = turning(config, text, ("rotary_emb_base", 1000.0), 1.0)?;
    let biases = Biases { norms: true, ..Biases::NONE };
    let native = Names { biases, ..Names::numbered(&NATIVE, "layers", &config) };
    let names = Names { embedding_norm: Some("emb_ln"), biases, other: Some(Box::new(native)), ..names };
    Ok((config, names))
}

/// The keys of GTE's own code whose values are not those of what is built here, or lead to other frequencies.
#[derive(Deserialize)]
struct GteConfig {
    #[serde(default)]
    logn_attention_scale: bool,
    #[serde(default)]
    logn_attention_clip1: bool,
    layer_norm_type: Option<String>,
    position_embedding_type: Option<String>,
    #[serde(default)]
    rope_scaling: Value,
    rope_theta: Option<f64>,
}

/// As its own code has it.
fn new(text: &str) -> Result<(Config, Names)> {
    let found: GteConfig = fields(text)?;
    for (key, value) in
        [("logn_attention_scale", found.logn_attention_scale), ("logn_attention_clip1", found.logn_attention_clip1)]
    {
        ensure!(!value, anyhow!("{key} is true, which is not supported for gte").of_value("true"));
    }
    for (key, value, expected) in [
        ("layer_norm_type", found.layer_norm_type, "layer_norm"),
        ("position_embedding_type", found.position_embedding_type, "rope"),
    ] {
        if let Some(value) = value.filter(|value| value != expected) {
            let shown = shortened(&value);
            bail!(anyhow!("{key} is {shown}: not supported for gte (expected {expected})").of_value(value));
        }
    }
    gte(text)
}

pub(super) fn gte(text: &str) -> Result<(Config, Names)> {
    const THETA: (&str, f64) = ("rope_theta", 160_000.0);
    let (sizes, found): (Sizes, GteConfig) = (fields(text)?, fields(text)?);
    let config = Config { gated: true, ..with_rotary(text, sizes, (Activation::Gelu, 1e-12, 1))? };
    let (config, names) = Names::checked(config, &GTE_LAYER, "encoder.layer")?;
    let config = match ntk(&found)? {
        None => turning(config, text, THETA, 1.0)?,
        Some(factor) => {
            // The base times the factor, and all frequencies divided by its power of 2/d: the frequency of the last pair
            // of dimensions is then divided by the factor, that of the first hardly.
            let mut plain: Value = fields(text)?;
            plain["rope_scaling"] = Value::Null;
            plain["rope_theta"] = (found.rope_theta.unwrap_or(10_000.0) * factor).into();
            let mut config = turning(config, &plain.to_string(), THETA, 1.0)?;
            for rotary in config.rotary.iter_mut().flatten() {
                rotary.scaling = RotaryScaling::Linear { factor: factor.powf(2.0 / rotary.dims as f64) };
            }
            config
        }
    };
    let biases = Biases { intermediate: false, ..Biases::ALL };
    let native = Names { biases, ..Names::numbered(&NATIVE, "layers", &config) };
    Ok((config, Names { biases, other: Some(Box::new(native)), ..names }))
}

/// The factor of GTE's own scaling, `{"type": "ntk", "factor": f}`, which does not depend on the length of the text.
fn ntk(found: &GteConfig) -> Result<Option<f64>> {
    let scaling = &found.rope_scaling;
    let name = scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(Value::as_str);
    if name != Some("ntk") {
        return Ok(None);
    }
    let factor = scaling.get("factor").and_then(Value::as_f64).filter(|factor| factor.is_finite() && *factor > 0.0);
    factor.map(Some).ok_or_else(|| anyhow!("rope_scaling: type is ntk, and factor is no number above 0"))
}

pub(super) fn jina_embeddings_v3(text: &str) -> Result<(Config, Names)> {
    let config = with_rotary(text, fields(text)?, (Activation::Gelu, 1e-5, 1))?;
    let (config, names) = Names::checked(config, &JINA_LAYER, "encoder.layers")?;
    let config = turning(config, text, ("rope_theta", 20_000.0), 1.0)?;
    let native = Names::numbered(&NATIVE_JINA_LAYER, "layers", &config);
    Ok((config, Names { embedding_norm: Some("emb_ln"), other: Some(Box::new(native)), ..names }))
}
