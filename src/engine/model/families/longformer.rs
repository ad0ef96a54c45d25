//! Longformer (Beltagy et al. 2020): RoBERTa, up to the length that fits into its window of attention.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{Family, Names, bert, roberta};
use crate::model::config::{Config, fields};
use crate::system::errors::Facts;

pub(super) const LONGFORMER: Family =
    Family { model_type: "longformer", class: "Longformer", prefix: "longformer.", read, ..roberta::ROBERTA };

#[derive(Deserialize)]
struct LongformerConfig {
    #[serde(default)]
    attention_window: Windows,
}

/// Tokens that each token attends to, half of them on either side: one number, or one for each layer.
#[derive(Deserialize)]
#[serde(untagged)]
enum Windows {
    OfAll(usize),
    OfEach(Vec<usize>),
}

/// transformers' `LongformerConfig` default, for configs that leave the field out.
impl Default for Windows {
    fn default() -> Self {
        Self::OfAll(512)
    }
}

impl Windows {
    fn narrowest(&self) -> usize {
        match self {
            Self::OfAll(window) => *window,
            Self::OfEach(windows) => windows.iter().copied().min().unwrap_or(0),
        }
    }
}

fn read(text: &str) -> Result<(Config, Names)> {
    let LongformerConfig { attention_window } = fields(text)?;
    let window = attention_window.narrowest();
    let blind = || anyhow!("attention_window is {window}: no token would attend to another").of_value(window);
    ensure!(window >= 2, blind());
    // Nothing is global, as in transformers unless a task says so: the first and the last token of a sequence of this
    // length are half a window apart.
    let config = Config { full_attention: Some(window / 2 + 1), ..roberta::parse(text)? }.checked()?;
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
    Ok((config, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(more: &str) -> Result<usize> {
        let text = format!(
            r#"{{"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 8, "hidden_act": "gelu", "max_position_embeddings": 4098{more}}}"#
        );
        Ok(read(&text)?.0.positions())
    }

    #[test]
    fn sequences_fit_into_half_of_the_narrowest_window() {
        assert_eq!(longest("").unwrap(), 257);
        assert_eq!(longest(r#", "attention_window": 64"#).unwrap(), 33);
        assert_eq!(longest(r#", "attention_window": [64, 32]"#).unwrap(), 17);
        // More than there are positions for: 4098 less those up to the padding index.
        assert_eq!(longest(r#", "attention_window": 16384"#).unwrap(), 4096);
        let error = longest(r#", "attention_window": []"#).unwrap_err().to_string();
        assert_eq!(error, "attention_window is 0: no token would attend to another");
    }
}
