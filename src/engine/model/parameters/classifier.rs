//! Heads that classify whole sequences, as transformers' `...ForSequenceClassification` have them.
//!
//! All of them are a [`PredictionHead`] at one token: a layer with an activation, which encoders have and decoders do not, and a
//! vector for each class. Encoders have it at the first token, decoders at the last one, which alone has seen all others.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::parts::Linear;
use super::prediction::{PredictionHead, Transform};
use crate::model::config::{Activation, fields};
use crate::model::families::Architecture;
use crate::model::weights::{Checkpoint, Tensors};
use crate::system::errors::Facts;

/// The names of the parts of a head, and the families that have it.
struct ClassifierNames {
    families: &'static [&'static str],
    dense: &'static str,
    activation: Activation,
    output: &'static str,
}

/// The heads of encoders.
const OF_ENCODERS: &[ClassifierNames] = &[
    ClassifierNames {
        families: &["bert", "ernie"],
        dense: "pooler.dense",
        activation: Activation::Tanh,
        output: "classifier",
    },
    ClassifierNames { families: &["albert"], dense: "pooler", activation: Activation::Tanh, output: "classifier" },
    ClassifierNames {
        families: &["roberta", "xlm-roberta", "camembert", "mpnet"],
        dense: "classifier.dense",
        activation: Activation::Tanh,
        output: "classifier.out_proj",
    },
    ClassifierNames {
        families: &["electra"],
        dense: "classifier.dense",
        activation: Activation::Gelu,
        output: "classifier.out_proj",
    },
    ClassifierNames {
        families: &["distilbert"],
        dense: "pre_classifier",
        activation: Activation::Relu,
        output: "classifier",
    },
    ClassifierNames {
        families: &["deberta", "deberta-v2"],
        dense: "pooler.dense",
        activation: Activation::Gelu,
        output: "classifier",
    },
];

/// The output of a decoder's head, which has no bias.
const OF_DECODERS: &str = "score";

/// A head that classifies sequences, with its labels.
pub struct Classifier {
    pub head: PredictionHead,
    pub labels: Labels,
}

/// The labels of a classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Number of classes.
    pub count: usize,
    /// Names by number, where `config.json` has one for each class.
    pub names: Vec<String>,
    /// Whether the last token of a sequence is classified, and not the first one.
    pub at_end: bool,
}

/// The keys of `config.json` that say what a head is for.
#[derive(Deserialize)]
struct ClassifierConfig {
    #[serde(default)]
    id2label: BTreeMap<usize, String>,
    problem_type: Option<String>,
    /// DeBERTa's, of the layer before the classes.
    pooler_hidden_act: Option<Activation>,
}

impl Classifier {
    /// Loads the head of a checkpoint; `config` is the text of its `config.json`.
    /// Fails if it has none, of a kind that is known, or the head does not choose one of several classes.
    pub fn load(checkpoint: &Checkpoint, architecture: &Architecture, config: &str) -> Result<Self> {
        let Architecture { family, config: sizes, .. } = architecture;
        let width = sizes.hidden_size;
        let ClassifierConfig { id2label, problem_type, pooler_hidden_act } = fields(config)?;
        let is_decoder = sizes.visibility.are_causal();
        let names = OF_ENCODERS.iter().find(|names| names.families.contains(&family.model_type));
        ensure!(
            is_decoder || names.is_some(),
            anyhow!("heads of {family} that classify sequences are not supported").hint(
                "BERT, ERNIE, ALBERT, RoBERTa, XLM-R, CamemBERT, MPNet, ELECTRA, DistilBERT, DeBERTa and decoders are"
            )
        );
        let names = names.filter(|_| !is_decoder);
        let output = names.map_or(OF_DECODERS, |names| names.output);
        let weight = format!("{output}.weight");
        ensure!(
            checkpoint.has_tensor(&weight),
            anyhow!("there is no head that classifies sequences (`{weight}`)")
                .hint("name the model that was trained to classify")
        );
        let count = checkpoint.rows(&weight)?;
        let other = problem_type.filter(|kind| kind != "single_label_classification");
        ensure!(
            count > 1 && other.is_none(),
            "its head is for {}, and items of a task have one of several classes",
            other.unwrap_or_else(|| "one number".to_owned())
        );
        let transform = names.map(|names| -> Result<Transform> {
            let activation = pooler_hidden_act.filter(|_| names.dense == "pooler.dense").unwrap_or(names.activation);
            Ok(Transform { dense: Linear::load(checkpoint, names.dense, width, width, true)?, activation, norm: None })
        });
        let Linear { weight, bias } = Linear::load(checkpoint, output, count, width, !is_decoder)?;
        let head = PredictionHead { transform: transform.transpose()?, decoder: Some(weight), bias, cap: None };
        let is_each = id2label.len() == count && id2label.keys().copied().eq(0..count);
        let names = if is_each { id2label.into_values().collect() } else { Vec::new() };
        Ok(Self { head, labels: Labels { count, names, at_end: is_decoder } })
    }
}

impl Labels {
    /// The number of a class by its name, or by itself.
    pub fn number(&self, label: &str) -> Option<u32> {
        let of_name = self.names.iter().position(|name| name == label);
        let number = || label.parse().ok().filter(|&number| number < self.count);
        u32::try_from(of_name.or_else(number)?).ok()
    }
}
