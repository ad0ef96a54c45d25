//! The masked-LM head: from hidden states to a score for each token of the vocabulary (Devlin et al. 2019, 3.1).

use anyhow::{Context, Result};

use super::parts::{LayerNorm, Linear};
use crate::model::config::Activation;
use crate::model::families::Architecture;
use crate::model::weights::Tensors;

/// A masked-LM head: `logits = norm(activation(dense(h))) Eᵀ + bias`, with `E` the embeddings of the tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskedLm {
    /// From the hidden states to the width of the embeddings by which tokens are predicted.
    pub dense: Linear,
    /// After `dense`.
    pub activation: Activation,
    /// After the activation.
    pub norm: LayerNorm,
    /// `[vocab, output embedding width]`; `None` where they are tied: the word embeddings of the input.
    pub decoder: Option<Vec<f32>>,
    /// `[vocab]`
    pub bias: Vec<f32>,
}

impl MaskedLm {
    pub(super) fn load(tensors: &impl Tensors, Architecture { family, config, .. }: &Architecture) -> Result<Self> {
        let names = &family.masked_lm;
        let (width, vocabulary, tied) =
            (config.output_embedding_width(), config.vocab_size, config.tie_word_embeddings);
        let load = || -> Result<Self> {
            let [first, second] =
                if tied { [names.bias, names.decoder_bias] } else { [names.decoder_bias, names.bias] };
            let bias = if tensors.has_tensor(first) || !tensors.has_tensor(second) { first } else { second };
            Ok(Self {
                dense: Linear::load(tensors, names.dense, width, config.hidden_size)?,
                activation: names.activation.unwrap_or(config.hidden_act),
                norm: LayerNorm::load(tensors, names.norm, width)?,
                decoder: (!tied).then(|| tensors.tensor(names.decoder, &[vocabulary, width])).transpose()?,
                bias: tensors.tensor(bias, &[vocabulary])?,
            })
        };
        load().context("cannot load the masked-LM head")
    }
}
