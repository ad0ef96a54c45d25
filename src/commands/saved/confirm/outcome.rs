//! The outcome of a confirmation, as `confirm --json` prints it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::saved::sides::described::Described;
use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;
use crate::study::labels::evidence::Direction;

/// The version of the form.
pub const SCHEMA_VERSION: u32 = 1;

/// Which firm labels of one report are confirmed over other corpora.
#[derive(Serialize, JsonSchema)]
pub struct ConfirmOutcome {
    /// The version of this form.
    pub schema_version: u32,
    /// The report whose firm labels were fixed beforehand.
    pub fixed_by: FixedBy,
    /// Firm labels of that report which are left out: they come from random tokens, and no corpus changes them.
    pub of_random_tokens: usize,
    /// The other corpora.
    pub corpora: Vec<CorpusOutcome>,
    /// The labels, head by head.
    pub labels: Vec<ConfirmedLabel>,
    /// The reports whose model has other weights: what they show is of two models.
    pub other_weights: Vec<String>,
}

/// The report whose labels were fixed, and what they were fixed by.
#[derive(Serialize, JsonSchema)]
pub struct FixedBy {
    /// The report.
    #[serde(flatten)]
    pub report: Described,
    /// The digest of its policy, by which all reports are labelled.
    pub policy_sha256: String,
    /// When its run began; null where the report does not say.
    pub started_at: Option<String>,
    /// The largest q-value of a confirmed label.
    #[schemars(range(min = 0, max = 1))]
    pub label_q: f64,
}

/// Another corpus.
#[derive(Serialize, JsonSchema)]
pub struct CorpusOutcome {
    /// Its report.
    #[serde(flatten)]
    pub report: Described,
    /// Labels that could be tested there.
    pub tested: usize,
    /// Labels that are confirmed there.
    pub confirmed: usize,
    /// Why labels could not be tested there; empty where all were.
    pub untested: Vec<String>,
}

/// A label that is firm in the first report.
#[derive(Serialize, JsonSchema)]
pub struct ConfirmedLabel {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The label.
    pub label: String,
    /// Its direction, where it has one.
    pub direction: Option<Direction>,
    /// Its score in the first report.
    pub score: f64,
    /// Corpora in which it could be tested.
    pub tested_in: usize,
    /// Corpora in which it is confirmed.
    pub confirmed_in: usize,
    /// Where its score less its threshold will be in another corpus; null where fewer than five have it.
    pub prediction: Option<Prediction>,
    /// The label in each corpus, in their order.
    pub corpora: Vec<InCorpus>,
}

/// A label in another corpus.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InCorpus {
    /// The corpus.
    pub corpus: String,
    /// The score; null where it was not measured there.
    pub score: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// The threshold there.
    pub threshold: Option<f64>,
    /// The standard error of the score less the threshold.
    pub standard_error: Option<f64>,
    /// The one-sided p-value of its rule; null where it was not tested.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// The p-value corrected by Benjamini & Hochberg for all labels that were fixed.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// Whether it is confirmed: its rule holds, with such a q-value.
    pub is_confirmed: bool,
}

/// Where a label's score less its threshold will be in another corpus of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// The mean over the corpora.
    pub mean: f64,
    /// Its standard deviation between corpora beyond sampling.
    pub tau: f64,
    /// The 95 % prediction interval.
    pub ci95: Interval,
    /// Whether all of it is above 0: the label is robust.
    pub is_robust: bool,
}

impl InCorpus {
    /// The label in a corpus where it could not be assessed.
    pub fn not_measured(corpus: &str) -> Self {
        Self {
            corpus: corpus.to_owned(),
            score: None,
            ci95: None,
            threshold: None,
            standard_error: None,
            p: None,
            q: None,
            is_confirmed: false,
        }
    }
}

/// The JSON Schema of [`ConfirmOutcome`], draft 2020-12.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(ConfirmOutcome)
}
