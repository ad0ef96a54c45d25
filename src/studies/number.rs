//! Numbers by which two analyses of a model can be compared.

use schemars::JsonSchema;
use serde::Serialize;

use super::findings::Findings;
use super::metric::{Estimates, Metrics};
use super::policy::Policy;
use crate::stats::block_test::LeftOut;
use crate::stats::blocks::BLOCKS;
use crate::stats::bootstrap::Interval;

/// A number of a head, with how sure it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Number<'a> {
    /// The part of an analysis that it belongs to.
    pub part: Part,
    /// The place of its head in lists of all heads.
    pub head: usize,
    /// The metric or the relation that it is of.
    pub of: String,
    /// Its name: of a metric that of the report (`offset_mass.-1`), else the one that rules have.
    pub name: String,
    /// The number; `None` where nothing in the corpus was eligible.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// Blocks of sentences with a denominator; if that is not known, the most that there can be.
    pub blocks: usize,
    /// Of how many things, each right or wrong, it is the share; `None` if it is no such share.
    pub trials: Option<u64>,
    /// Whether it rests on as much as the policy asks for.
    pub enough: bool,
    /// The same without each block, where that was worked out.
    pub left_out: Option<&'a LeftOut>,
}

/// A part of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The labels of heads.
    Labels,
    /// What studies find of relations, beside metrics.
    Relations,
    /// The metrics of heads.
    Metrics,
}

impl Number<'_> {
    /// Its name as rules of labels have it: `offset_mass[-1]`.
    #[must_use]
    pub fn in_rules(&self) -> String {
        match (self.part, self.name.split_once('.')) {
            (Part::Metrics, Some((metric, key))) => format!("{metric}[{key}]"),
            _ => self.name.clone(),
        }
    }
}

/// The most blocks that so many sentences can be in.
#[must_use]
pub fn most_blocks(sentences: u64) -> usize {
    usize::try_from(sentences).map_or(BLOCKS, |sentences| sentences.min(BLOCKS))
}

impl Findings {
    /// Every number of every head; `sentences` are those of the corpus.
    #[must_use]
    pub fn numbers(&self, sentences: u64, policy: &Policy) -> Vec<Number<'_>> {
        let Estimates { heads, ci95, denominators, without_blocks, .. } = &self.estimates;
        let denominators = denominators.by_name();
        let of_head = |place: usize| {
            let intervals = ci95[place].by_name();
            let without = without_blocks.get(place).map(Metrics::by_name).unwrap_or_default();
            let number = |(name, value): (String, &Option<f64>)| {
                let left_out = without.get(&name).copied().and_then(Option::as_ref);
                // Reports of 0.1 do not say in how many blocks a metric has a denominator.
                let known = denominators.get(&name).and_then(|denominator| usize::try_from(denominator.blocks).ok());
                let blocks = known.filter(|&blocks| blocks > 0).unwrap_or_else(|| most_blocks(sentences));
                Number {
                    part: Part::Metrics,
                    head: place,
                    of: name.split_once('.').map_or(name.as_str(), |(metric, _)| metric).to_owned(),
                    value: *value,
                    ci95: intervals.get(&name).copied().copied().flatten(),
                    blocks: left_out.map_or(blocks, LeftOut::blocks),
                    trials: None,
                    enough: true,
                    left_out,
                    name,
                }
            };
            heads[place].cells().map(number).collect::<Vec<_>>()
        };
        let metrics = (0..heads.len()).flat_map(of_head);
        metrics.chain(self.sections.iter().flat_map(|(_, section)| section.numbers(policy))).collect()
    }
}
