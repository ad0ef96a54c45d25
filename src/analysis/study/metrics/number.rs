//! Numbers by which two analyses of a model can be compared.

use schemars::JsonSchema;
use serde::Serialize;

use super::unit::Unit;
use crate::stats::block_test::Jackknife;
use crate::stats::interval::Interval;

#[derive(Clone, Debug, PartialEq)]
pub struct Number<'a> {
    pub part: Part,
    /// The place of its head in lists of all heads.
    pub head: usize,
    pub of: String,
    /// Its name: of a metric that of the report (`offset_mass.-1`), else the one that rules have.
    pub name: String,
    pub unit: Unit,
    /// The number of the head that it is made of, together with rates of the corpus; `None` if it is of the head alone.
    pub made_of: Option<String>,
    /// The number; `None` where nothing in the corpus was eligible.
    pub value: Option<f64>,
    pub ci95: Option<Interval>,
    /// Blocks with a denominator.
    pub blocks: usize,
    /// As many blocks of equal size would be as good.
    pub effective_blocks: f64,
    /// The number of things, each right or wrong, whose share it is; `None` if it is no such share.
    pub trials: Option<u64>,
    /// Whether it has as much evidence as the policy requires.
    pub enough: bool,
    /// The number without each block, if that was computed.
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
    /// Its name as rules of labels have it: `offset_mass[-1]`.
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
