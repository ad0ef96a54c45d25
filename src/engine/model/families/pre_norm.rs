//! Families whose layers normalise what goes into their blocks and not what comes out, and normalise once more after the
//! last layer (Xiong et al. 2020): RoBERTa-PreLayerNorm (Ott et al. 2019), Megatron-BERT (Shoeybi et al. 2019) and
//! XLM-RoBERTa-XL (Goyal et al. 2021).

use anyhow::Result;
use serde::Deserialize;

use super::{Family, LayerNames, Names, bert, roberta};
use crate::model::config::{BlockPlan, Config, fields};

pub(super) const ROBERTA_PRE_LAYER_NORM: Family = Family {
    model_type: "roberta-prelayernorm",
    class: "RobertaPreLayerNorm",
    prefix: "roberta_prelayernorm.",
    read: roberta_pre_layer_norm,
    ..roberta::ROBERTA
};

pub(super) const MEGATRON_BERT: Family =
    Family { model_type: "megatron-bert", class: "MegatronBert", read: megatron_bert, ..bert::BERT };

pub(super) const XLM_ROBERTA_XL: Family =
    Family { model_type: "xlm-roberta-xl", class: "XLMRobertaXL", read: xlm_roberta_xl, ..roberta::ROBERTA };

fn roberta_pre_layer_norm(text: &str) -> Result<(Config, Names)> {
    const LAYER: LayerNames =
        LayerNames { attention_norm: "attention.LayerNorm", output_norm: "intermediate.LayerNorm", ..bert::ABSOLUTE };
    let config = Config { blocks: BlockPlan::Pre, ..roberta::parse(text)? }.checked()?;
    let names = Names::numbered(&LAYER, "encoder.layer", &config);
    Ok((config, Names { final_norm: Some("LayerNorm"), ..names }))
}

fn megatron_bert(text: &str) -> Result<(Config, Names)> {
    const LAYER: LayerNames = LayerNames { attention_norm: "attention.ln", output_norm: "ln", ..bert::ABSOLUTE };
    let config = Config { blocks: BlockPlan::Pre, ..Config::parse(text)? }.checked()?;
    let names = Names::numbered(&LAYER, "encoder.layer", &config);
    Ok((config, Names { embedding_norm: None, final_norm: Some("encoder.ln"), ..names }))
}

fn xlm_roberta_xl(text: &str) -> Result<(Config, Names)> {
    const LAYER: LayerNames =
        LayerNames { attention_norm: "attention.self_attn_layer_norm", output_norm: "LayerNorm", ..bert::ABSOLUTE };
    let Epsilon { layer_norm_eps } = fields(text)?;
    let config = Config { layer_norm_eps, blocks: BlockPlan::Pre, ..roberta::parse(text)? }.checked()?;
    let names = Names::numbered(&LAYER, "encoder.layer", &config);
    Ok((config, Names { embedding_norm: None, final_norm: Some("encoder.LayerNorm"), ..names }))
}

/// Not [`Config`]'s: the default is another.
#[derive(Deserialize)]
struct Epsilon {
    #[serde(default = "default_layer_norm_eps")]
    layer_norm_eps: f64,
}

/// transformers' `XLMRobertaXLConfig` default, for configs that leave the field out.
fn default_layer_norm_eps() -> f64 {
    1e-5
}
