//! Numbers by which two analyses of a model are compared.

use schemars::JsonSchema;
use serde::Serialize;

use super::unit::Unit;
use crate::stats::block_test::Jackknife;
use crate::stats::interval::Interval;

#[derive(Clone, Debug, PartialEq)]
pub struct Number<'a> {
    pub part: Part,
    /// The place of the head in lists of all heads.
    pub head: usize,
    pub of: String,
    /// The name: for a metric as in the report (`offset_mass.-1`), otherwise as in rules.
    pub name: String,
    pub unit: Unit,
    /// The number from which this one is computed together with rates of the corpus; `None` if it depends on the head alone.
    pub made_of: Option<String>,
    /// The number; `None` where nothing in the corpus was eligible.
    pub value: Option<f64>,
    pub ci95: Option<Interval>,
    /// Blocks with a denominator.
    pub blocks: usize,
    /// The number of equal blocks with as much evidence.
    pub effective_blocks: f64,
    /// For a share of things that are each right or wrong, their number; otherwise `None`.
    pub trials: Option<u64>,
    /// Whether the number has as much evidence as the policy requires.
    pub enough: bool,
    /// The number without each block, if computed.
    pub left_out: Option<&'a Jackknife>,
}

/// A part of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The labels of heads.
    Labels,
    /// Numbers on relations, beside metrics.
    Relations,
    /// The metrics of heads.
    Metrics,
}

impl Number<'_> {
    /// The name as in the rules of labels: `offset_mass[-1]`.
    pub fn in_rules(&self) -> String {
        in_rules(self.part, &self.name)
    }
}

pub fn in_rules(part: Part, name: &str) -> String {
    match (part, name.split_once('.')) {
        (Part::Metrics, Some((metric, key))) => format!("{metric}[{key}]"),
        _ => name.to_owned(),
    }
}
