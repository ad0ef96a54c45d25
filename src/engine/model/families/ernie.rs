//! ERNIE (Sun et al. 2020): BERT, whose later versions have an embedding of the task; that of plain text is the first.

use anyhow::Result;
use serde::Deserialize;

use super::{Family, Names, PlainText, TableRow, bert};
use crate::model::config::{Config, fields};

pub(super) const ERNIE: Family = Family { model_type: "ernie", class: "Ernie", prefix: "ernie.", read, ..bert::BERT };

/// The keys that transformers' `ErnieConfig` has beside BERT's names, with its defaults.
#[derive(Deserialize)]
struct ErnieConfig {
    #[serde(default)]
    use_task_id: bool,
    #[serde(default = "default_task_type_vocab_size")]
    task_type_vocab_size: usize,
}

fn default_task_type_vocab_size() -> usize {
    3
}

fn read(text: &str) -> Result<(Config, Names)> {
    let ErnieConfig { use_task_id, task_type_vocab_size: rows } = fields(text)?;
    let config = Config::parse(text)?.checked()?;
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
    let task = TableRow { table: "embeddings.task_type_embeddings".to_owned(), rows, row: 0 };
    let plain_text = use_task_id.then(|| PlainText::Rows(vec![task]));
    Ok((config, Names { plain_text, ..names }))
}
