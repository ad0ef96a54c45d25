//! I-BERT (Kim et al. 2021) before its quantisation: RoBERTa.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{Family, Names, bert, roberta};
use crate::model::config::{Config, fields};

pub(super) const IBERT: Family =
    Family { model_type: "ibert", class: "IBert", prefix: "ibert.", needless: QUANTISATION, read, ..roberta::ROBERTA };

/// Buffers of its integer arithmetic, which is not read: the float weights stand beside them.
const QUANTISATION: &[&str] = &[
    "act_scaling_factor",
    "bias_integer",
    "fc_scaling_factor",
    "shift",
    "weight_integer",
    "weight_scaling_factor",
    "x_max",
    "x_min",
];

#[derive(Deserialize)]
struct IBertConfig {
    #[serde(default)]
    quant_mode: bool,
}

fn read(text: &str) -> Result<(Config, Names)> {
    let IBertConfig { quant_mode } = fields(text)?;
    ensure!(
        !quant_mode,
        "quant_mode is true: integer arithmetic is not supported; with false, the weights run as they are"
    );
    let config = roberta::parse(text)?.checked()?;
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
    Ok((config, names))
}
