//! CLIP's encoder of texts (Radford et al. 2021), a decoder by its attention: a token sees those before it. Its `config.json` is
//! that of the texts alone, or that of texts and images, which has it under `text_config`.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::{EmbeddingNames, Family, Intermediate, LayerNames, Names, QueryKeyValue, gpt};
use crate::model::config::{
    Activation, BlockPlan, Config, Sizes, default_initializer_range, fields, initializer_range,
};
use crate::model::grid::visibility::{LayerClasses, Visibility};

pub(super) const CLIP_TEXT: Family = Family {
    model_type: "clip_text_model",
    class: "CLIPText",
    prefix: "text_model.",
    token_heads: &[],
    read,
    ..gpt::GPT_2
};

pub(super) const CLIP: Family = Family { model_type: "clip", class: "CLIP", read: of_both, ..CLIP_TEXT };

const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Apart(["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
    query_key_norms: None,
    write_norms: None,
    distances: None,
    attention_output: "self_attn.out_proj",
    attention_norm: "layer_norm1",
    intermediate: Intermediate::Plain("mlp.fc1"),
    output: "mlp.fc2",
    output_norm: "layer_norm2",
};

/// transformers' `CLIPTextConfig`, with its defaults: the `text_config` of a file of both may leave anything out.
#[derive(Deserialize)]
#[serde(default)]
struct ClipConfig {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    max_position_embeddings: usize,
    hidden_act: Activation,
    layer_norm_eps: f64,
    #[serde(deserialize_with = "initializer_range")]
    initializer_range: f64,
}

impl Default for ClipConfig {
    fn default() -> Self {
        Self {
            vocab_size: 49408,
            hidden_size: 512,
            intermediate_size: 2048,
            num_hidden_layers: 12,
            num_attention_heads: 8,
            max_position_embeddings: 77,
            hidden_act: Activation::QuickGelu,
            layer_norm_eps: 1e-5,
            initializer_range: default_initializer_range(),
        }
    }
}

fn of_both(text: &str) -> Result<(Config, Names)> {
    let json: Value = serde_json::from_str(text)?;
    let of_texts = json.get("text_config").filter(|config| config.is_object());
    read(&of_texts.context("text_config is missing: it has the sizes of the encoder of texts")?.to_string())
}

fn read(text: &str) -> Result<(Config, Names)> {
    let found: ClipConfig = fields(text)?;
    let sizes = Sizes {
        vocab_size: found.vocab_size,
        hidden_size: found.hidden_size,
        num_hidden_layers: found.num_hidden_layers,
        num_attention_heads: found.num_attention_heads,
        intermediate_size: found.intermediate_size,
        max_position_embeddings: found.max_position_embeddings,
    };
    let config = Config {
        blocks: BlockPlan::Pre,
        layer_norm_eps: found.layer_norm_eps,
        initializer_range: found.initializer_range,
        visibility: LayerClasses::new(&[Visibility::CAUSAL]),
        ..Config::of(sizes, found.hidden_act)
    }
    .checked()?;
    let names = Names {
        embeddings: &EmbeddingNames {
            words: "embeddings.token_embedding",
            positions: "embeddings.position_embedding",
            segments: "",
        },
        embedding_norm: None,
        final_norm: Some("final_layer_norm"),
        ..Names::numbered(&LAYER, "encoder.layers", &config)
    };
    Ok((config, names))
}
