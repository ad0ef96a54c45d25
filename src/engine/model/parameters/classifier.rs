//! Heads that classify sequences or tokens (transformers' `...ForSequenceClassification`, `...ForTokenClassification`).
//! Encoders classify a sequence at its first token. Decoders classify it at its last token, the only one that has seen all
//! others.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, ensure};

use super::layer_parts::{Linear, Norm};
use super::prediction::{Objective, PredictionHead, Transform};
use crate::model::config::{Activation, config_struct, parse_fields};
use crate::model::families::architecture::Architecture;
use crate::model::weights::{Checkpoint, Tensors};
use crate::system::errors::ErrorExt;
use crate::system::printable::excerpt;

/// Sequence classifiers of encoders: (families with this classifier, layer before the class scores, activation of that layer,
/// last layer).
const ENCODER_CLASSIFIERS: [(&[&str], &str, Activation, &str); 6] = [
    (&["bert", "ernie"], "pooler.dense", Activation::Tanh, "classifier"),
    (&["albert"], "pooler", Activation::Tanh, "classifier"),
    (&["roberta", "xlm-roberta", "camembert", "mpnet"], "classifier.dense", Activation::Tanh, "classifier.out_proj"),
    (&["electra"], "classifier.dense", Activation::Gelu, "classifier.out_proj"),
    (&["distilbert"], "pre_classifier", Activation::Relu, "classifier"),
    (&["deberta", "deberta-v2"], "pooler.dense", Activation::Gelu, "classifier"),
];

/// Tensor name of the last layer of a decoder's classification head; this layer has no bias.
const DECODER_OUTPUT: &str = "score";

/// Tensor names of a token classifier's last layer: `[in most models, in most decoders]`.
const TOKEN_OUTPUTS: [&str; 2] = ["classifier", DECODER_OUTPUT];

/// The units that a classification head classifies: sequences or tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassifiedUnit {
    Sequences,
    Tokens,
}

impl ClassifiedUnit {
    /// Returns the prediction task of a head that classifies these units.
    pub(in crate::model) fn training_objective(self) -> Objective {
        match self {
            Self::Sequences => Objective::SequenceClasses,
            Self::Tokens => Objective::TokenClasses,
        }
    }

    /// Fails if the head classifies tokens instead of sequences, or the reverse, by the class names in `architectures` of
    /// `config.json`. Tensor names alone may not distinguish both.
    fn ensure_trained(self, classes: &[String]) -> Result<()> {
        let [what, other, ending] = match self {
            Self::Sequences => ["sequences", "tokens", "ForTokenClassification"],
            Self::Tokens => ["tokens", "sequences", "ForSequenceClassification"],
        };
        let Some(class) = classes.iter().find(|class| class.ends_with(ending)) else { return Ok(()) };
        let named = excerpt(class);
        let error = anyhow!(
            "its head classifies {other} (`architectures` of config.json: {named}), and the task is about {what}"
        );
        Err(error.with_value(class).hint(format!("name the model that was trained to classify {what}")))
    }
}

/// A classification head, and the classes that it predicts.
pub struct Classifier {
    pub head: PredictionHead,
    pub labels: ClassLabels,
}

/// The classes of a classification head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLabels {
    pub class_count: usize,
    /// Class names by number; empty unless `config.json` names every class.
    pub class_names: Vec<String>,
    /// Whether the head classifies a sequence at its last token, instead of its first.
    pub is_at_last_token: bool,
}

config_struct! {
    /// The keys of `config.json` about a classification head.
    struct ClassifierConfig {
        architectures: Vec<String> = Vec::new(),
        id2label: BTreeMap<usize, String> = BTreeMap::new(),
        problem_type: Option<String> = None,
        /// Activation of the layer before DeBERTa's class scores.
        pooler_hidden_act: Option<Activation> = None,
        /// Activation of the layer before ModernBERT's class scores of tokens.
        classifier_activation: Option<Activation> = None,
        classifier_bias: bool = false,
    }
}

impl Classifier {
    /// Loads the classification head of a checkpoint; `config` is the text of its `config.json`. Fails if there is no supported
    /// head, or if the head is a regression or predicts several classes at once.
    pub fn load(
        checkpoint: &Checkpoint,
        architecture: &Architecture,
        config: &str,
        classified: ClassifiedUnit,
    ) -> Result<Self> {
        let config: ClassifierConfig = parse_fields(config)?;
        classified.ensure_trained(&config.architectures)?;
        let width = architecture.config.hidden_size;
        if classified == ClassifiedUnit::Tokens {
            return Self::load_for_tokens(checkpoint, width, config);
        }
        let ClassifierConfig { id2label, problem_type, pooler_hidden_act, .. } = config;
        let (family, is_decoder) = (architecture.family, architecture.config.visibility.are_causal());
        let names = ENCODER_CLASSIFIERS.into_iter().find(|(families, ..)| families.contains(&family.model_type));
        ensure!(
            is_decoder || names.is_some(),
            anyhow!("heads of {family} that classify sequences are not supported").hint(
                "BERT, ERNIE, ALBERT, RoBERTa, XLM-R, CamemBERT, MPNet, ELECTRA, DistilBERT, DeBERTa and decoders are"
            )
        );
        let names = names.filter(|_| !is_decoder);
        let output = names.map_or(DECODER_OUTPUT, |(.., output)| output);
        let weight = format!("{output}.weight");
        ensure!(
            checkpoint.has_tensor(&weight),
            anyhow!("there is no head that classifies sequences (`{weight}`)")
                .hint("name the model that was trained to classify")
        );
        let count = checkpoint.row_count(&weight)?;
        let other = problem_type.filter(|kind| kind != "single_label_classification");
        ensure!(
            count > 1 && other.is_none(),
            "its head is for {}, and items of a task have one of several classes",
            other.unwrap_or_else(|| "one number".to_owned())
        );
        let transform = names.map(|(_, dense, activation, _)| -> Result<Transform> {
            let activation = pooler_hidden_act.filter(|_| dense == "pooler.dense").unwrap_or(activation);
            Ok(Transform { dense: Linear::load(checkpoint, dense, [width, width], true)?, activation, norm: None })
        });
        let Linear { weight, bias } = Linear::load(checkpoint, output, [count, width], !is_decoder)?;
        let head = PredictionHead { transform: transform.transpose()?, decoder: Some(weight), bias, cap: None };
        Ok(Self { head, labels: ClassLabels::new(count, id2label, is_decoder) })
    }

    /// Loads a head that classifies tokens; `width` is the width of the hidden states.
    fn load_for_tokens(checkpoint: &Checkpoint, width: usize, config: ClassifierConfig) -> Result<Self> {
        let ClassifierConfig { id2label, classifier_activation, classifier_bias, .. } = config;
        let has = |name: &str, part: &str| checkpoint.has_tensor(&format!("{name}.{part}"));
        let found = TOKEN_OUTPUTS.into_iter().find(|name| has(name, "weight"));
        let output = found.ok_or_else(|| {
            anyhow!("there is no head that classifies tokens (`{}.weight`)", TOKEN_OUTPUTS[0])
                .hint("name the model that was trained to tag")
        })?;
        let count = checkpoint.row_count(&format!("{output}.weight"))?;
        let [dense, norm] = ["head.dense", "head.norm"];
        let transform = has(dense, "weight").then(|| -> Result<Transform> {
            Ok(Transform {
                dense: Linear::load(checkpoint, dense, [width, width], classifier_bias)?,
                activation: classifier_activation.unwrap_or(Activation::Gelu),
                norm: Some(Norm::load(checkpoint, norm, width, has(norm, "bias"))?),
            })
        });
        let Linear { weight, bias } = Linear::load(checkpoint, output, [count, width], has(output, "bias"))?;
        let head = PredictionHead { transform: transform.transpose()?, decoder: Some(weight), bias, cap: None };
        Ok(Self { head, labels: ClassLabels::new(count, id2label, false) })
    }
}

impl ClassLabels {
    fn new(count: usize, id2label: BTreeMap<usize, String>, at_end: bool) -> Self {
        let names_every_class = id2label.len() == count && id2label.keys().copied().eq(0..count);
        Self {
            class_count: count,
            class_names: if names_every_class { id2label.into_values().collect() } else { Vec::new() },
            is_at_last_token: at_end,
        }
    }

    /// Returns the number of the class with the name or number `label`; `None` if there is none.
    pub fn class_number(&self, label: &str) -> Option<u32> {
        let by_name = self.class_names.iter().position(|name| name == label);
        let number = || label.parse().ok().filter(|&number| number < self.class_count);
        u32::try_from(by_name.or_else(number)?).ok()
    }
}
