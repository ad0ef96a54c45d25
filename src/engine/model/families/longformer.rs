//! Longformer (Beltagy et al. 2020): RoBERTa whose tokens see those around them.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{Family, Names, bert, roberta};
use crate::model::config::{Config, fields};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::Facts;

pub(super) const LONGFORMER: Family = Family {
    model_type: "longformer",
    class: "Longformer",
    prefix: "longformer.",
    // Projections of tokens with global attention, which no token of plain text has.
    needless: &["query_global", "key_global", "value_global"],
    read,
    ..roberta::ROBERTA
};

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
    /// The windows of each layer.
    /// Fails if there are not as many as layers.
    fn of_layers(self, layers: usize) -> Result<Vec<usize>> {
        match self {
            Self::OfAll(window) => Ok(vec![window; layers]),
            Self::OfEach(windows) => {
                let given = windows.len();
                let other = || anyhow!("attention_window has {given} entries, and num_hidden_layers is {layers}");
                ensure!(given == layers, other().of_value(given));
                Ok(windows)
            }
        }
    }
}

fn read(text: &str) -> Result<(Config, Names)> {
    let LongformerConfig { attention_window } = fields(text)?;
    let config = roberta::parse(text)?.checked()?;
    let windows = attention_window.of_layers(config.num_hidden_layers)?;
    for window in &windows {
        let odd = || anyhow!("attention_window is {window}: an even number of 2 or more is expected").of_value(window);
        ensure!(*window >= 2 && window.is_multiple_of(2), odd());
    }
    // Nothing is global, as in transformers unless a task says so.
    let visibility: Vec<Visibility> = windows.into_iter().map(|window| Visibility::window(window / 2)).collect();
    let config = Config { visibility: LayerClasses::new(&visibility), ..config };
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
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
        Ok(read(&text)?.0.visibility)
    }

    #[test]
    fn a_token_sees_half_of_the_window_on_either_side() {
        let of = |more: &str| [0, 1].map(|layer| visibility(more).unwrap().of_layer(layer));
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
