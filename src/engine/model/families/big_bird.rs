//! BigBird (Zaheer et al. 2020): BERT, up to the length from which on its attention is sparse.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{Family, Names, bert};
use crate::model::config::{Config, fields};
use crate::system::errors::Facts;

pub(super) const BIG_BIRD: Family = Family { model_type: "big_bird", class: "BigBird", read, ..bert::BERT };

/// The keys that transformers' `BigBirdConfig` has beside BERT's names, with its defaults.
#[derive(Deserialize)]
#[serde(default)]
struct BigBirdConfig {
    attention_type: String,
    block_size: usize,
    num_random_blocks: usize,
    use_bias: bool,
    rescale_embeddings: bool,
}

impl Default for BigBirdConfig {
    fn default() -> Self {
        let attention_type = "block_sparse".to_owned();
        Self { attention_type, block_size: 64, num_random_blocks: 3, use_bias: true, rescale_embeddings: false }
    }
}

impl BigBirdConfig {
    /// The longest sequence over which every token attends to all; `None` if there is no limit.
    ///
    /// `BigBirdModel` computes full attention up to the blocks that block-sparse attention needs at least: two that are
    /// global, three of the window, and the random ones twice.
    fn full_attention(&self) -> Result<Option<usize>> {
        match self.attention_type.as_str() {
            "original_full" => Ok(None),
            "block_sparse" => {
                let blocks = self.num_random_blocks.saturating_mul(2).saturating_add(5);
                let tokens = blocks.saturating_mul(self.block_size);
                ensure!(tokens > 0, anyhow!("block_size is 0").of_value(0));
                Ok(Some(tokens))
            }
            other => {
                let error =
                    anyhow!("attention_type {other:?} is not supported (supported: original_full, block_sparse)");
                Err(error.of_value(other))
            }
        }
    }
}

fn read(text: &str) -> Result<(Config, Names)> {
    let found: BigBirdConfig = fields(text)?;
    ensure!(found.use_bias, "use_bias is false: queries, keys and values without biases are not supported");
    ensure!(!found.rescale_embeddings, "rescale_embeddings is true: rescaled embeddings are not supported");
    let config = Config { full_attention: found.full_attention()?, ..Config::parse(text)? }.checked()?;
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
    Ok((config, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_full_up_to_eleven_blocks() {
        let of = |text: &str| fields::<BigBirdConfig>(text).unwrap().full_attention();
        // The limit that transformers states for google/bigbird-roberta-base.
        assert_eq!(of("{}").unwrap(), Some(704));
        assert_eq!(of(r#"{"block_size": 2, "num_random_blocks": 1}"#).unwrap(), Some(14));
        assert_eq!(of(r#"{"attention_type": "original_full"}"#).unwrap(), None);
        assert_eq!(of(r#"{"block_size": 0}"#).unwrap_err().to_string(), "block_size is 0");
        let error = of(r#"{"attention_type": "dense"}"#).unwrap_err().to_string();
        assert_eq!(error, "attention_type \"dense\" is not supported (supported: original_full, block_sparse)");
        assert_eq!(of(r#"{"num_random_blocks": 18446744073709551615}"#).unwrap(), Some(usize::MAX));
    }
}
