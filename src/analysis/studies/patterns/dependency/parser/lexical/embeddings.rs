//! The word embeddings of the sample's words, kept until parsers are fitted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::forward::WordEmbeddings;
use crate::passes::setup::PassSetup;
use crate::stats::blocks::Merge;

/// The embedding of each token of a word, where they are kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KeptEmbeddings {
    are_kept: bool,
    /// Empty where they are not kept.
    of_tokens: BTreeMap<u32, Vec<f32>>,
    #[serde(skip)]
    table: Option<WordEmbeddings>,
}

impl KeptEmbeddings {
    /// No embedding yet, to be kept.
    pub fn kept() -> Self {
        Self { are_kept: true, ..Self::default() }
    }

    /// Receives the model's embeddings.
    pub fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.table.clone_from(&known.embeddings);
    }

    /// Keeps the embeddings of tokens.
    pub fn keep<'a>(&mut self, tokens: impl Iterator<Item = &'a u32>) {
        let Some(table) = self.table.as_ref().filter(|_| self.are_kept) else { return };
        for &token in tokens {
            self.of_tokens.entry(token).or_insert_with(|| table.of(token).to_vec());
        }
    }

    /// The length of an embedding; `None` where none is kept.
    pub fn width(&self) -> Option<usize> {
        self.of_tokens.values().next().map(Vec::len)
    }

    /// The mean embedding of the tokens of a word; `None` where none is kept.
    pub fn mean(&self, tokens: &[u32]) -> Option<Vec<f64>> {
        let mut mean = vec![0.0; self.width()?];
        for token in tokens {
            let embedding = self.of_tokens.get(token)?;
            mean.iter_mut().zip(embedding).for_each(|(mean, &value)| *mean += f64::from(value));
        }
        mean.iter_mut().for_each(|value| *value /= tokens.len().max(1) as f64);
        Some(mean)
    }

    /// Whether all are finite and of one length, as they may not be in a file.
    pub fn fit(&self) -> bool {
        let width = self.width();
        let is_embedding =
            |values: &Vec<f32>| Some(values.len()) == width && values.iter().all(|value| value.is_finite());
        self.of_tokens.values().all(is_embedding)
    }
}

impl Merge for KeptEmbeddings {
    fn merge(&mut self, other: &Self) {
        for (&token, embedding) in &other.of_tokens {
            self.of_tokens.entry(token).or_insert_with(|| embedding.clone());
        }
    }
}
