//! RoBERTa (Liu et al. 2019), which is BERT with positions counted from the padding index, and models built like it. Some are
//! pre-norm: they normalise the input of each block, and once more after the last layer (Xiong et al. 2020).

use anyhow::{Result, anyhow, bail, ensure};
use serde::Deserialize;

use super::{Family, LayerNames, PositionBiasNames, QueryKeyValue, TensorNames, TokenHeadNames, TransformNames, bert};
use crate::model::config::{
    Activation, BlockPlan, Config, EmbeddingScale, MAX_SIZE, PositionEmbedding, Rotary, RotaryScaling, config_value,
    keys, lookup, wrong_value,
};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::ErrorExt;

pub(super) const ROBERTA: Family =
    Family { token_heads: &[HEAD], read, ..bert::BERT.with_names("roberta", "Roberta", "roberta.") };

/// Tensor names of RoBERTa's masked-LM head, which MPNet shares.
pub(super) const HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames::biased("lm_head.dense", "lm_head.layer_norm")),
    decoder: "lm_head.decoder.weight",
    bias: Some(["lm_head.bias", "lm_head.decoder.bias"]),
    activation: Some(Activation::Gelu),
};

/// Reads the config of a family that counts positions from the padding index. Sizes are not checked.
fn parse_with_padding(text: &str) -> Result<Config> {
    let padding = config_value!(text, pad_token_id: u32 = 1)?;
    Ok(Config { padding: Some(padding), ..Config::parse(text)? })
}

fn read(text: &str) -> Result<(Config, TensorNames)> {
    TensorNames::check_config_and_name(parse_with_padding(text)?, &bert::LAYER, "encoder.layer")
}

pub(super) fn read_ibert(text: &str) -> Result<(Config, TensorNames)> {
    let quant_mode = config_value!(text, quant_mode: bool = false)?;
    ensure!(
        !quant_mode,
        "quant_mode is true: integer arithmetic is not supported; with false, the weights run as they are"
    );
    bert::check_and_name_absolute(parse_with_padding(text)?)
}

const MPNET_LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Separate(["attention.attn.q", "attention.attn.k", "attention.attn.v"]),
    attention_output: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    ..bert::LAYER_WITHOUT_DISTANCES
};

/// Number of distance buckets in `MPNetEncoder`, which ignores the config's number.
const DISTANCE_BUCKETS: usize = 32;

pub(super) fn read_mpnet(text: &str) -> Result<(Config, TensorNames)> {
    let config = Config {
        // `MPNetEmbeddings` always has this padding index and these positions, whatever the config says.
        padding: Some(1),
        type_vocab_size: 0,
        position_embedding_type: PositionEmbedding::Absolute,
        ..Config::parse(text)?
    };
    let (config, names) = TensorNames::check_config_and_name(config, &MPNET_LAYER, "encoder.layer")?;
    // `MPNetEncoder` uses the first `DISTANCE_BUCKETS` rows, so there may be more.
    let rows = config_value!(text, relative_attention_num_buckets: usize = 32)?;
    let reason = format_args!("distances are sorted into {DISTANCE_BUCKETS}, whatever it is, and each has a row");
    let fits = (DISTANCE_BUCKETS..=MAX_SIZE).contains(&rows);
    ensure!(fits, wrong_value("relative_attention_num_buckets", rows, reason));
    let bias = PositionBiasNames::Buckets {
        table: "encoder.relative_attention_bias",
        in_each_layer: false,
        rows,
        buckets: DISTANCE_BUCKETS,
        // `MPNetEncoder`'s default.
        longest_distance: 128,
    };
    Ok((config, TensorNames { position_bias: Some(bias), ..names }))
}

/// Window sizes of Longformer: number of tokens around each token that it attends to, half of them before it.
#[derive(Deserialize)]
#[serde(untagged)]
enum AttentionWindows {
    /// Window size of all layers.
    OfAll(usize),
    /// Window size of each layer, `[layers]`.
    OfEach(Vec<usize>),
}

pub(super) fn read_longformer(text: &str) -> Result<(Config, TensorNames)> {
    let windows = config_value!(text, attention_window: AttentionWindows = AttentionWindows::OfAll(512))?;
    let (config, names) = bert::check_and_name_absolute(parse_with_padding(text)?)?;
    let layers = config.num_hidden_layers;
    let windows = match windows {
        AttentionWindows::OfAll(window) => vec![window; layers],
        AttentionWindows::OfEach(windows) => windows,
    };
    let given = windows.len();
    let other = || anyhow!("attention_window has {given} entries, and num_hidden_layers is {layers}");
    ensure!(given == layers, other().with_value(given));
    for window in &windows {
        let fits = *window >= 2 && window.is_multiple_of(2);
        ensure!(fits, wrong_value("attention_window", window, "an even number of 2 or more is expected"));
    }
    // No token has global attention, as in transformers unless a task asks for it.
    let visibility: Vec<Visibility> = windows.into_iter().map(|window| Visibility::window(window / 2)).collect();
    Ok((Config { visibility: LayerClasses::new(&visibility), ..config }, names))
}

pub(super) fn read_pre_norm_roberta(text: &str) -> Result<(Config, TensorNames)> {
    const LAYER: LayerNames = LayerNames {
        attention_norm: "attention.LayerNorm",
        output_norm: "intermediate.LayerNorm",
        ..bert::LAYER_WITHOUT_DISTANCES
    };
    let config = Config { blocks: BlockPlan::Pre, ..parse_with_padding(text)? };
    let (config, names) = TensorNames::check_config_and_name(config, &LAYER, "encoder.layer")?;
    Ok((config, TensorNames { final_norm: Some("LayerNorm"), ..names }))
}

pub(super) fn read_megatron_bert(text: &str) -> Result<(Config, TensorNames)> {
    const LAYER: LayerNames =
        LayerNames { attention_norm: "attention.ln", output_norm: "ln", ..bert::LAYER_WITHOUT_DISTANCES };
    let config = Config { blocks: BlockPlan::Pre, ..Config::parse(text)? };
    let (config, names) = TensorNames::check_config_and_name(config, &LAYER, "encoder.layer")?;
    Ok((config, TensorNames { embedding_norm: None, final_norm: Some("encoder.ln"), ..names }))
}

pub(super) fn read_xlm_roberta_xl(text: &str) -> Result<(Config, TensorNames)> {
    const LAYER: LayerNames = LayerNames {
        attention_norm: "attention.self_attn_layer_norm",
        output_norm: "LayerNorm",
        ..bert::LAYER_WITHOUT_DISTANCES
    };
    // Unlike in `Config`, the default is 1e-5 (transformers' `XLMRobertaXLConfig`).
    let layer_norm_eps = config_value!(text, layer_norm_eps: f64 = 1e-5)?;
    let config = Config { layer_norm_eps, blocks: BlockPlan::Pre, ..parse_with_padding(text)? };
    let (config, names) = TensorNames::check_config_and_name(config, &LAYER, "encoder.layer")?;
    Ok((config, TensorNames { embedding_norm: None, final_norm: Some("encoder.LayerNorm"), ..names }))
}

const ESM_LAYER: LayerNames =
    LayerNames { attention_norm: "attention.LayerNorm", output_norm: "LayerNorm", ..bert::LAYER_WITHOUT_DISTANCES };

/// Names of the tensor of ESM's rotary frequencies: in transformers 5, in files that it saves (version 5.23 leaves a
/// star in the name), and in older files. All layers use one tensor. It is read, not computed, because it "may have
/// been saved in float16" (transformers' `EsmModel.load_hook`).
const FREQUENCY_TENSORS: &[&str] = &[
    "rotary_embeddings.inv_freq",
    "encoder.layer.*.attention.self.rotary_embeddings.inv_freq",
    "encoder.layer.0.attention.self.rotary_embeddings.inv_freq",
];

pub(super) fn read_esm(text: &str) -> Result<(Config, TensorNames)> {
    let positions = config_value!(text, position_embedding_type: String = "absolute".to_owned())?;
    let has_embedding_norm = config_value!(text, emb_layer_norm_before: Option<bool> = None)?;
    let drops_tokens = config_value!(text, token_dropout: bool = false)?;
    let is_folding = config_value!(text, is_folding_model: bool = false)?;
    let mask = config_value!(text, mask_token_id: Option<u32> = None)?;
    let padding = config_value!(text, pad_token_id: u32 = 1)?;
    ensure!(!is_folding, "is_folding_model is true: only the language model of a folding model is supported");
    let is_rotary = lookup("position_embedding_type", &positions, &[("rotary", true), ("absolute", false)])?;
    let position_embedding_type = if is_rotary { PositionEmbedding::None } else { PositionEmbedding::Absolute };
    let padding = (!is_rotary).then_some(padding);
    let embedding_scale = match mask.filter(|_| drops_tokens) {
        Some(mask) => EmbeddingScale::WithoutMasks { mask },
        None if drops_tokens => bail!("token_dropout is true, and mask_token_id is missing"),
        None => EmbeddingScale::One,
    };
    let config = Config {
        blocks: BlockPlan::Pre,
        position_embedding_type,
        padding,
        embedding_scale,
        // ESM's head always uses GELU, whatever `hidden_act` says.
        ..Config::read(text, &[keys! { hidden_act: _ = "gelu", layer_norm_eps }])?
    };
    let (config, mut names) = TensorNames::check_config_and_name(config, &ESM_LAYER, "encoder.layer")?;
    let rotary = Rotary { theta: 10_000.0, dims: config.head_dim() / 2 * 2, scaling: RotaryScaling::Default };
    let size = config.head_dim();
    ensure!(!is_rotary || rotary.dims == size, "heads of {size} values do not turn: it is odd");
    let config = Config { rotary: vec![is_rotary.then_some(rotary); config.num_hidden_layers], ..config };
    names.embedding_norm = has_embedding_norm.unwrap_or(false).then_some("embeddings.layer_norm");
    names.frequencies = FREQUENCY_TENSORS;
    names.final_norm = Some("encoder.emb_layer_norm_after");
    Ok((config, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visibility(more: &str) -> Result<LayerClasses> {
        let text = format!(
            r#"{{"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 8, "hidden_act": "gelu", "max_position_embeddings": 4098{more}}}"#
        );
        Ok(read_longformer(&text)?.0.visibility)
    }

    #[test]
    fn a_token_sees_half_of_the_window_on_either_side() {
        let of = |more: &str| [0, 1].map(|layer| visibility(more).unwrap().layer_visibility(layer));
        assert_eq!(of(""), [Visibility::window(256); 2]);
        assert_eq!(of(r#", "attention_window": 64"#), [Visibility::window(32); 2]);
        assert_eq!(of(r#", "attention_window": [64, 32]"#), [Visibility::window(32), Visibility::window(16)]);
        let error = |more: &str| visibility(more).unwrap_err().to_string();
        assert_eq!(error(r#", "attention_window": []"#), "attention_window has 0 entries, and num_hidden_layers is 2");
        for window in ["0", "7"] {
            let found = error(&format!(r#", "attention_window": {window}"#));
            assert_eq!(found, format!("attention_window is {window}: an even number of 2 or more is expected"));
        }
    }
}
