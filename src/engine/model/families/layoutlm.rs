//! LayoutLM (Xu et al. 2020) of text alone: BERT with embeddings of each word's box on the page, all of them at 0.

use anyhow::Result;
use serde::Deserialize;

use super::{Family, Names, PlainText, TableRow, bert};
use crate::model::config::{Config, fields};

pub(super) const LAYOUTLM: Family =
    Family { model_type: "layoutlm", class: "LayoutLM", prefix: "layoutlm.", read, ..bert::BERT };

#[derive(Deserialize)]
struct LayoutLmConfig {
    #[serde(default = "default_max_2d_position_embeddings")]
    max_2d_position_embeddings: usize,
}

/// transformers' `LayoutLMConfig` default, for configs that leave the field out.
fn default_max_2d_position_embeddings() -> usize {
    1024
}

/// Left and right, top and bottom, height and width.
const BOX: [&str; 6] = ["x", "x", "y", "y", "h", "w"];

fn read(text: &str) -> Result<(Config, Names)> {
    let LayoutLmConfig { max_2d_position_embeddings: rows } = fields(text)?;
    let config = Config::parse(text)?.checked()?;
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
    let zero = |side: &str| TableRow { table: format!("embeddings.{side}_position_embeddings"), rows, row: 0 };
    Ok((config, Names { plain_text: Some(PlainText::Rows(BOX.map(zero).into())), ..names }))
}
