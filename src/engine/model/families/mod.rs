//! Architecture families of encoders and decoders that can be loaded. Each file holds families whose layers are built
//! alike, and one table lists all families. Each family is BERT's encoder with other tensor names and some parts
//! changed. So a family is data: a function from its `config.json` to [`Config`], and the names of its tensors.

pub mod architecture;
pub(super) mod bert;
mod compact_bert;
mod deberta;
mod gemma;
mod gpt;
mod llama;
mod modernbert;
mod names;
mod post_rotary;
mod roberta;
mod seq2seq;
pub mod table;

use std::fmt;

use anyhow::{Result, anyhow, ensure};

use super::config::Config;
use crate::system::errors::ErrorExt;
pub use names::{
    Biases, ConvolutionGroups, DiscriminatorNames, DisentangledNames, EmbeddingNames, EmbeddingRow, Intermediate,
    LayerNames, Markup, PlainTextConstant, PositionBiasNames, QueryKeyValue, TensorNames, TokenHeadNames,
    TransformNames, WeightDistribution, WeightInitialisation,
};

/// Architecture family of encoders or decoders.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Value of `model_type` in the family's `config.json`.
    pub model_type: &'static str,
    /// Beginning of the family's class names in transformers, before `Model`, `For...` or `Encoder`.
    pub class_prefix: &'static str,
    /// Prefix of the encoder's tensor names in a model with a task head.
    pub prefix: &'static str,
    /// Prefixes that may precede `prefix` in checkpoints where the encoder is part of a larger model.
    pub wrapper_prefixes: &'static [&'static str],
    /// Encoder tensors that plain text does not need, such as embeddings of images: dot-separated parts of their names.
    pub ignored_tensors: &'static [&'static str],
    /// Tensor names of the head that predicts tokens, one entry for each naming scheme of checkpoints; empty: the family has no
    /// such head.
    pub token_heads: &'static [TokenHeadNames],
    /// Tensor names of the discriminator's head, if the family has discriminators.
    pub discriminator: Option<DiscriminatorNames>,
    /// Parses the text of the family's `config.json` into config and tensor names. Sizes are checked.
    read: fn(&str) -> Result<(Config, TensorNames)>,
}

impl Family {
    /// Makes a family that differs from this one in `model_type`, class prefix and tensor prefix alone.
    const fn with_names(self, model_type: &'static str, class: &'static str, prefix: &'static str) -> Self {
        Self { model_type, class_prefix: class, prefix, ..self }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model_type)
    }
}

/// Fails if a Boolean key of a `config.json` has another value than the supported one. Each of `flags` is
/// `(key, value, supported value)`.
fn ensure_flags<const N: usize>(family: &str, flags: [(&str, bool, bool); N]) -> Result<()> {
    for (key, value, supported) in flags {
        ensure!(value == supported, anyhow!("{key} is {value}, which is not supported for {family}").with_value(value));
    }
    Ok(())
}
