//! The encoder of BERT for sequence generation (Rothe et al. 2020): BERT without segments.

use anyhow::Result;

use super::{Family, Names, bert};
use crate::model::config::Config;

/// Its masked-LM head is that of the BERT it was made from, which checkpoints leave out.
pub(super) const BERT_GENERATION: Family =
    Family { model_type: "bert-generation", class: "BertGeneration", read, ..bert::BERT };

fn read(text: &str) -> Result<(Config, Names)> {
    let config = Config { type_vocab_size: 0, ..Config::parse(text)? }.checked()?;
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
    Ok((config, names))
}
