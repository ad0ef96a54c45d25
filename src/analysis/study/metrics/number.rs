//! Numbers by which two analyses of a model are compared.

use schemars::JsonSchema;
use serde::Serialize;

use super::unit::Unit;
use crate::stats::block_test::Jackknife;
use crate::stats::interval::Interval;

/// A number of one attention head by which two analyses can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Number<'a> {
    /// Part of the analysis that the number belongs to.
    pub part: Part,
    /// Index of the attention head in lists of all heads.
    pub head: usize,
    /// Subject of the number: a label, a relation, or a metric.
    pub subject: String,
    /// Name of the number. A metric has the name that it has in the report (`offset_mass.-1`), other numbers the
    /// name that they have in rules.
    pub name: String,
    pub unit: Unit,
    /// Name of the underlying number that depends on the head alone, such as `x` for the lead over chance
    /// `x_over_chance`. `None` if this number itself depends on the head alone.
    pub base_number: Option<String>,
    /// Value of the number; `None` where nothing in the corpus was eligible.
    pub value: Option<f64>,
    pub ci95: Option<Interval>,
    /// Number of blocks that have a denominator.
    pub blocks: usize,
    /// Effective number of blocks: the number of equally large blocks with as much evidence.
    pub effective_blocks: f64,
    /// Number of predictions, each right or wrong, if the number is the share that is right; otherwise `None`.
    pub trials: Option<u64>,
    /// Whether the number rests on the evidence that the policy requires.
    pub has_enough_evidence: bool,
    /// Jackknife of the number, with its value without each block; `None` if it was not computed.
    pub jackknife: Option<&'a Jackknife>,
}

/// The part of an analysis to which a number belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Labels of attention heads, such as `syntactic:obj`.
    Labels,
    /// Accuracies and other numbers of attention heads on relations, word classes and links.
    Relations,
    /// Metrics of attention heads, such as `entropy`.
    Metrics,
}

impl Number<'_> {
    /// The number's name as rules of labels write it: `offset_mass[-1]`.
    pub fn rule_name(&self) -> String {
        rule_name(self.part, &self.name)
    }
}

/// Name of a number as rules of labels write it. A metric's key stands in brackets (`offset_mass[-1]`); other names are
/// unchanged.
pub fn rule_name(part: Part, name: &str) -> String {
    match (part, name.split_once('.')) {
        (Part::Metrics, Some((metric, key))) => format!("{metric}[{key}]"),
        _ => name.to_owned(),
    }
}
