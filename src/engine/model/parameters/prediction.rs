//! The prediction head of a model: from hidden states to a logit for each class.

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer_parts::{Linear, Norm};
use crate::model::config::{Activation, Config};
use crate::model::families::architecture::Architecture;
use crate::model::families::{DiscriminatorNames, TokenHeadNames, TransformNames};
use crate::model::weights::Tensors;

/// Prefix of the tensor names of a decoder's sequence classifier (transformers' `GenericForSequenceClassification`).
const CLASSIFIER_PREFIX: &str = "score.";

/// The prediction task that a model, or its classification head, was trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Prediction of masked tokens: the classes are the vocabulary (Devlin et al. 2019, 3.1).
    MaskedTokens,
    /// Detection of tokens that were replaced: the classes are original, 0, and replaced, 1 (Clark et al. 2020, section 2).
    ReplacedTokens,
    /// Prediction of the next token from those before it: the classes are the vocabulary (Radford et al. 2019, section 2).
    NextTokens,
    /// Classification of sequences, by a head that was trained afterwards (Devlin et al. 2019, 4.1).
    SequenceClasses,
    /// Classification of tokens, by a head that was trained afterwards (Devlin et al. 2019, 5.3).
    TokenClasses,
}

impl Objective {
    /// Whether the model has a loss on any text, because it predicts tokens or detects replaced ones.
    pub fn has_token_loss(self) -> bool {
        !matches!(self, Self::SequenceClasses | Self::TokenClasses)
    }

    /// Finds the training task of a checkpoint's prediction head; `None` if it has no supported head. `has` says whether any
    /// tensor name begins with a given prefix.
    pub fn detect(Architecture { family, config, .. }: &Architecture, has: impl Fn(&str) -> bool) -> Option<Self> {
        let discriminates = || family.discriminator.is_some_and(|names| has(names.dense));
        let is_decoder = config.visibility.are_causal();
        // A tied head needs only the embeddings, which every checkpoint has; one that was fine-tuned to classify has a classifier
        // too.
        let is_tied = |names: &TokenHeadNames| {
            is_decoder && config.tie_word_embeddings && names.transform.is_none() && !has(CLASSIFIER_PREFIX)
        };
        if family.token_heads.iter().any(|names| has(names.marker_tensor()) || is_tied(names)) {
            Some(if is_decoder { Self::NextTokens } else { Self::MaskedTokens })
        } else {
            discriminates().then_some(Self::ReplacedTokens)
        }
    }

    /// Says why a checkpoint's prediction head cannot be used. `None` unless the head is known and unsupported.
    pub fn unsupported_head_reason(has: impl Fn(&str) -> bool) -> Option<&'static str> {
        // DeBERTa version 3 was trained with this head, and has the other one as well.
        if has("mask_predictions.") {
            return Some("tells replaced tokens from true ones by their sum with the first, which is not supported");
        }
        has("lm_predictions.").then_some(
            "was trained behind the enhanced mask decoder, two more passes through the last layer, which is not supported",
        )
    }

    /// Names the tokens over which the loss is computed, in the words of a summary.
    pub fn loss_unit(self) -> &'static str {
        match self {
            Self::MaskedTokens => "masked tokens",
            Self::ReplacedTokens => "tokens told original or replaced",
            Self::NextTokens => "next tokens",
            Self::SequenceClasses => "classes of sequences",
            Self::TokenClasses => "classes of tokens",
        }
    }
}

/// A prediction head. For a hidden state `h`, `logits = norm(activation(dense(h))) Eᵀ + bias`, bounded by `cap`. `E`,
/// `[classes, width]`, has a vector for each class: for a head that predicts tokens, their output embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionHead {
    /// The layers before the product with the class vectors; `None` if hidden states are multiplied directly.
    pub transform: Option<Transform>,
    /// The class vectors, `[classes, width]`; `None` if they are the word embeddings of the input (tied embeddings).
    pub decoder: Option<Vec<f32>>,
    /// Bias of each class, `[classes]`.
    pub bias: Vec<f32>,
    /// Soft bound of the logits, [`Config::logit_cap`](crate::model::config::Config::logit_cap); `None` if there is none.
    pub cap: Option<f32>,
}

/// The layers of a prediction head before the product with the vectors of the classes (output embeddings, if classes are
/// tokens).
#[derive(Clone, Debug, PartialEq)]
pub struct Transform {
    /// Linear layer from the hidden states to the width of `PredictionHead::decoder`.
    pub dense: Linear,
    pub activation: Activation,
    /// Norm after the activation; `None` in the head of a discriminator.
    pub norm: Option<Norm>,
}

impl PredictionHead {
    /// Loads the prediction head for `objective`. Fails if a tensor is missing or has another shape.
    pub(super) fn load(tensors: &impl Tensors, architecture: &Architecture, objective: Objective) -> Result<Self> {
        match objective {
            Objective::SequenceClasses | Objective::TokenClasses => {
                bail!("a head that classifies is loaded with its labels")
            }
            Objective::MaskedTokens => {
                Self::load_for_tokens(tensors, architecture).context("cannot load the masked-LM head")
            }
            Objective::NextTokens => Self::load_for_tokens(tensors, architecture)
                .context("cannot load the head that predicts the next token"),
            Objective::ReplacedTokens => {
                let names = architecture.family.discriminator.as_ref();
                let names = names.with_context(|| format!("{} has no discriminators", architecture.family))?;
                Self::load_discriminator(tensors, &architecture.config, names)
                    .context("cannot load the head of the discriminator")
            }
        }
    }

    /// Loads a head that predicts tokens.
    fn load_for_tokens(tensors: &impl Tensors, Architecture { family, config, .. }: &Architecture) -> Result<Self> {
        let (vocabulary, tied) = (config.vocab_size, config.tie_word_embeddings);
        let (width, hidden) = (config.output_embedding_width(), config.hidden_size);
        let has = |name: &str| tensors.has_tensor(name);
        // Spellings may differ only in which parts have a bias.
        let fits = |names: &&TokenHeadNames| {
            let has_parts = |name, biased| has(&format!("{name}.weight")) && has(&format!("{name}.bias")) == biased;
            names.transform.is_none_or(|TransformNames { dense, norm, biases: [dense_bias, norm_bias] }| {
                has_parts(dense, dense_bias) && has_parts(norm, norm_bias)
            })
        };
        let all = family.token_heads;
        let names = all.iter().find(fits).or(all.first()).context("the family has no such head")?;
        let transform =
            names.transform.map(|TransformNames { dense, norm, biases: [dense_bias, norm_bias] }| -> Result<_> {
                Ok(Transform {
                    dense: Linear::load(tensors, dense, [width, hidden], dense_bias)?,
                    activation: names.activation.unwrap_or(config.hidden_act),
                    norm: Some(Norm::load(tensors, norm, width, norm_bias)?),
                })
            });
        let bias = names.bias.map(|[separate_bias, decoder_bias]| {
            let [first, second] = if tied { [separate_bias, decoder_bias] } else { [decoder_bias, separate_bias] };
            tensors.tensor(if has(first) || !has(second) { first } else { second }, &[vocabulary])
        });
        Ok(Self {
            transform: transform.transpose()?,
            decoder: (!tied).then(|| tensors.tensor(names.decoder, &[vocabulary, width])).transpose()?,
            bias: bias.unwrap_or_else(|| Ok(vec![0.0; vocabulary]))?,
            cap: config.logit_cap,
        })
    }

    /// Loads the head of a discriminator. Its single logit belongs to a replaced token; an original token gets the logit 0. So
    /// the head becomes a softmax over two classes.
    fn load_discriminator(tensors: &impl Tensors, config: &Config, names: &DiscriminatorNames) -> Result<Self> {
        let width = config.hidden_size;
        let Linear { weight, bias } = Linear::load(tensors, names.output, [1, width], true)?;
        let dense = Linear::load(tensors, names.dense, [width, width], true)?;
        Ok(Self {
            transform: Some(Transform { dense, activation: config.hidden_act, norm: None }),
            decoder: Some([vec![0.0; width], weight].concat()),
            bias: vec![0.0, bias[0]],
            cap: None,
        })
    }
}
