//! The cells of the metrics from the sums of a class of layers.

use super::metrics::METRICS;
use super::observe::Queries;
use super::sums::{WordHeadSums, WordInputs, WordsBlock, WordsSums};
use crate::stats::blocks::{BLOCKS, WithTotal};
use crate::study::instruments::position::Rates;
use crate::study::metrics::metric::{Fraction, Metric};

/// The sums of a class of layers, and how offsets alone find what its queries see.
pub(super) struct WordsOfClass<'a> {
    blocks: WithTotal<'a, WordsBlock>,
    /// Without each block, and last without none.
    rates: Vec<Vec<Rates>>,
}

impl<'a> WordsOfClass<'a> {
    pub fn new(sums: &'a WordsSums) -> Self {
        let blocks = sums.blocks.with_total();
        let left_out = sums.blocks.iter().map(Some).chain([None]);
        let rates = left_out.map(|block| blocks.total().rates(block)).collect();
        Self { blocks, rates }
    }

    /// The cells of a head in a block, or in all of them.
    pub fn of_head(&self, number: Option<usize>, place: usize) -> Vec<Fraction> {
        self.cells(number, [&self.blocks.at(number).heads[place], &self.blocks.total().heads[place]], false)
    }

    /// The ratios of a head without any preference.
    pub fn of_chance(&self, number: Option<usize>) -> Vec<Fraction> {
        let block = self.blocks.at(number);
        let likened = block.exposure.queries[Queries::Likened as usize];
        let even = WordHeadSums { masses: block.uniform, likened, ..WordHeadSums::default() };
        self.cells(number, [&even, &even], true)
    }

    /// How many queries of a set the corpus has.
    pub fn queries(&self, queries: Queries) -> u64 {
        self.blocks.total().exposure.queries[queries as usize]
    }

    fn cells(&self, number: Option<usize>, [sums, whole]: [&WordHeadSums; 2], of_chance: bool) -> Vec<Fraction> {
        let (block, corpus) = (self.blocks.at(number), &self.blocks.total().exposure);
        let rates = &self.rates[number.unwrap_or(BLOCKS)];
        let seen = WordInputs { exposure: &block.exposure, corpus, sums, whole, uniform: &block.uniform, rates };
        let value = |metric: &'static Metric<_>| match metric.chance {
            Some(chance) if of_chance => chance,
            _ => metric.value,
        };
        METRICS
            .iter()
            .flat_map(|metric| metric.keys.places().map(|cell| value(metric)(&seen, cell)).collect::<Vec<_>>())
            .collect()
    }
}
