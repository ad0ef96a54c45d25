//! ESM-2 (Lin et al. 2023) and ESM-1b (Rives et al. 2021), encoders of proteins: pre-norm, with rotary positions or absolute ones
//! that are counted from the padding index.

use anyhow::{Result, bail, ensure};
use serde::Deserialize;

use super::{Family, Intermediate, LayerNames, Names, bert, roberta};
use crate::model::config::{
    Activation, BlockPlan, Config, EmbeddingScale, PositionEmbedding, Rotary, RotaryScaling, Sizes,
    default_initializer_range, fields, initializer_range, tied_by_default,
};
use crate::system::errors::Facts;
use crate::system::printable::shortened;

pub(super) const ESM: Family = Family { model_type: "esm", class: "Esm", prefix: "esm.", read, ..roberta::ROBERTA };

const LAYER: LayerNames = LayerNames {
    attention_norm: "attention.LayerNorm",
    intermediate: Intermediate::Plain("intermediate.dense"),
    output_norm: "LayerNorm",
    ..bert::ABSOLUTE
};

/// The frequencies: their name in transformers 5, in the files that it writes (5.23 leaves a star in it), and in those of before.
/// One layer's serve for all: they are read and not
/// computed because they "may have been saved in float16" (transformers' `EsmModel.load_hook`).
const FREQUENCIES: &[&str] = &[
    "rotary_embeddings.inv_freq",
    "encoder.layer.*.attention.self.rotary_embeddings.inv_freq",
    "encoder.layer.0.attention.self.rotary_embeddings.inv_freq",
];

/// The keys that transformers' `EsmConfig` has beside BERT's sizes, with its defaults.
#[derive(Deserialize)]
struct EsmConfig {
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default)]
    emb_layer_norm_before: Option<bool>,
    #[serde(default)]
    token_dropout: bool,
    #[serde(default)]
    is_folding_model: bool,
    mask_token_id: Option<u32>,
    #[serde(default = "padding")]
    pad_token_id: u32,
    #[serde(default = "layer_norm_eps")]
    layer_norm_eps: f64,
    #[serde(default = "default_initializer_range", deserialize_with = "initializer_range")]
    initializer_range: f64,
    #[serde(default = "tied_by_default")]
    tie_word_embeddings: bool,
}

fn absolute() -> String {
    "absolute".to_owned()
}

fn padding() -> u32 {
    1
}

fn layer_norm_eps() -> f64 {
    1e-12
}

fn read(text: &str) -> Result<(Config, Names)> {
    let (sizes, found): (Sizes, EsmConfig) = (fields(text)?, fields(text)?);
    ensure!(
        !found.is_folding_model,
        "is_folding_model is true: only the language model of a folding model is supported"
    );
    let (position_embedding_type, padding, turns) = match found.position_embedding_type.as_str() {
        "rotary" => (PositionEmbedding::None, None, true),
        "absolute" => (PositionEmbedding::Absolute, Some(found.pad_token_id), false),
        other => bail!(
            anyhow::anyhow!(
                "position_embedding_type {:?} is not supported (supported: rotary, absolute)",
                shortened(other)
            )
            .of_value(other)
        ),
    };
    let embedding_scale = match found.mask_token_id.filter(|_| found.token_dropout) {
        Some(mask) => EmbeddingScale::WithoutMasks { mask },
        None if found.token_dropout => bail!("token_dropout is true, and mask_token_id is missing"),
        None => EmbeddingScale::One,
    };
    let config = Config {
        blocks: BlockPlan::Pre,
        position_embedding_type,
        padding,
        embedding_scale,
        layer_norm_eps: found.layer_norm_eps,
        initializer_range: found.initializer_range,
        tie_word_embeddings: found.tie_word_embeddings,
        // The head has it written out, whatever `hidden_act` says.
        ..Config::of(sizes, Activation::Gelu)
    }
    .checked()?;
    let rotary = Rotary { theta: 10_000.0, dims: config.head_dim() / 2 * 2, scaling: RotaryScaling::Default };
    ensure!(!turns || rotary.dims == config.head_dim(), "heads of {} values do not turn: it is odd", config.head_dim());
    let config = Config { rotary: vec![turns.then_some(rotary); config.num_hidden_layers], ..config };
    let names = Names {
        embedding_norm: found.emb_layer_norm_before.unwrap_or(false).then_some("embeddings.layer_norm"),
        frequencies: FREQUENCIES,
        final_norm: Some("encoder.emb_layer_norm_after"),
        ..Names::numbered(&LAYER, "encoder.layer", &config)
    };
    Ok((config, names))
}
