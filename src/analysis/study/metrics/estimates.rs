//! Estimates: the metrics of all heads, computed from the sums of blocks, with chance levels, intervals and standard
//! errors.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::by_block::ByBlock;
use super::metric::{Column, Denominator, Fraction, Intervals, Metrics, StandardErrors, Values, WithoutBlocks};
use crate::model::grid::HeadGrid;
use crate::stats::block_test::{Jackknife, Scale, effective_blocks};
use crate::stats::blocks::{BLOCKS, PerBlock};
use crate::system::parallel::in_parallel;

/// The context for computing ratios.
pub struct EstimationContext {
    /// The heads.
    pub grid: HeadGrid,
    /// Threads.
    pub threads: NonZeroUsize,
    /// Whether every ratio without each block is kept, for the block test of two analyses.
    pub leaves_out: bool,
}

/// The metrics of all heads, with their chance levels and uncertainty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimates {
    /// The metrics of each head, `[layers * heads]`.
    pub heads: Vec<Values>,
    /// Their 95 % intervals, `[layers * heads]`.
    pub ci95: Vec<Intervals>,
    /// Their standard errors, `[layers * heads]`.
    pub standard_errors: Vec<StandardErrors>,
    /// The chance levels that differ between heads, `[layers * heads]`, from all studies that have such metrics.
    pub own_chance: Vec<Values>,
    /// The metrics of a head without any preference.
    pub chance: Values,
    /// The 95 % intervals of the chance metrics.
    pub chance_ci95: Intervals,
    /// The denominators of each metric; the same for all heads.
    pub denominators: Metrics<Denominator>,
    /// The metrics of each head without each block, `[layers * heads]`; empty unless the context leaves blocks out.
    pub without_blocks: Vec<WithoutBlocks>,
    /// Metrics that others may be held against, by their ids.
    pub by_block: BTreeMap<&'static str, ByBlock>,
}

impl Estimates {
    /// No metrics of this many heads.
    pub fn none(heads: usize) -> Self {
        Self {
            heads: vec![Values::default(); heads],
            ci95: vec![Intervals::default(); heads],
            standard_errors: vec![StandardErrors::default(); heads],
            own_chance: vec![Values::default(); heads],
            ..Self::default()
        }
    }

    /// Computes the ratios, and leaves out one block at a time: what all blocks have less what that block has.
    ///
    /// `of_head` gives the cells of `columns` of a head (by its place) in a block, or in all of them where that is
    /// `None`. `of_chance` gives the cells of a head without any preference, and so the denominators of all heads.
    pub fn new(
        columns: &[Column],
        context: &EstimationContext,
        of_head: impl Fn(Option<usize>, usize) -> Vec<Fraction> + Sync,
        of_chance: impl Fn(Option<usize>) -> Vec<Fraction>,
    ) -> Self {
        let by_block = |of: &dyn Fn(Option<usize>) -> Vec<Fraction>| -> Vec<Vec<Fraction>> {
            (0..BLOCKS).map(|block| of(Some(block))).collect()
        };
        let scales: Vec<Scale> = columns.iter().flat_map(|column| column.keys.places().map(|_| column.scale)).collect();
        let estimate = |of: &dyn Fn(Option<usize>) -> Vec<Fraction>| {
            let whole = of(None);
            let values = whole.iter().map(Fraction::value);
            let without = left_out(&whole, &by_block(of), &scales);
            let estimates = || without.iter().map(|without| without.as_ref().and_then(Jackknife::estimate));
            let errors = estimates().map(|estimate| estimate.map(|estimate| estimate.standard_error));
            let ci95 = estimates().map(|estimate| estimate.map(|estimate| estimate.interval()));
            let (errors, ci95) = (Metrics::new(columns, errors), Metrics::new(columns, ci95));
            (Metrics::new(columns, values), ci95, errors, Metrics::new(columns, without.iter().cloned()))
        };
        let grid = context.grid;
        let (chance, chance_ci95, ..) = estimate(&of_chance);
        let heads = in_parallel(context.threads, 0..grid.count(), |place| estimate(&|block| of_head(block, place)));
        let mut found = Self { chance, chance_ci95, ..Self::default() };
        for (values, ci95, errors, without) in heads {
            found.heads.push(values);
            found.ci95.push(ci95);
            found.standard_errors.push(errors);
            if context.leaves_out {
                found.without_blocks.push(without);
            }
        }
        let blocks = by_block(&of_chance);
        let denominator = |(cell, fraction): (usize, &Fraction)| {
            let of_blocks: PerBlock = std::array::from_fn(|block| blocks[block][cell].denominator());
            let present = of_blocks.iter().filter(|&&denominator| denominator != 0.0).count();
            let effective_blocks = effective_blocks(&of_blocks);
            Denominator { blocks: present as u64, effective_blocks, ..fraction.basis() }
        };
        found.own_chance = vec![Values::default(); grid.count()];
        found.denominators = Metrics::new(columns, of_chance(None).iter().enumerate().map(denominator));
        found
    }

    /// Adds the chance levels of each head, in the order of `columns`: what a head without any preference for
    /// keys, but with this head's values, would score.
    pub fn with_own_chance(self, columns: &[Column], of_heads: impl Iterator<Item = Vec<Fraction>>) -> Self {
        let chance = |cells: Vec<Fraction>| Metrics::new(columns, cells.iter().map(Fraction::value));
        Self { own_chance: of_heads.map(chance).collect(), ..self }
    }

    /// The same, with a metric by block as well, for others to be held against.
    pub fn with_blocks(mut self, metric: &'static str, blocks: ByBlock) -> Self {
        self.by_block.insert(metric, blocks);
        self
    }

    /// Adds the metrics of another study after these.
    /// Panics if the two are of different numbers of heads.
    pub fn extend(&mut self, other: Self) {
        assert_eq!((self.heads.len(), self.ci95.len()), (other.heads.len(), other.ci95.len()), "the same heads");
        self.heads.iter_mut().zip(other.heads).for_each(|(head, other)| head.extend(other));
        self.ci95.iter_mut().zip(other.ci95).for_each(|(head, other)| head.extend(other));
        self.standard_errors.iter_mut().zip(other.standard_errors).for_each(|(head, other)| head.extend(other));
        self.own_chance.iter_mut().zip(other.own_chance).for_each(|(head, other)| head.extend(other));
        self.chance.extend(other.chance);
        self.chance_ci95.extend(other.chance_ci95);
        self.denominators.extend(other.denominators);
        self.by_block.extend(other.by_block);
        if self.without_blocks.is_empty() {
            self.without_blocks = other.without_blocks;
        } else {
            self.without_blocks.iter_mut().zip(other.without_blocks).for_each(|(head, other)| head.extend(other));
        }
    }
}

/// The numerators and the denominators of a cell, by block; `blocks` are `[BLOCKS][cells]`.
fn columns_of(blocks: &[Vec<Fraction>], cell: usize) -> [PerBlock; 2] {
    [Fraction::numerator, Fraction::denominator]
        .map(|part: fn(&Fraction) -> f64| std::array::from_fn(|block| part(&blocks[block][cell])))
}

/// Each cell that has a value without each block; `blocks` are `[BLOCKS][cells]`.
fn left_out(whole: &[Fraction], blocks: &[Vec<Fraction>], scales: &[Scale]) -> Vec<Option<Jackknife>> {
    let cell = |(cell, (whole, &scale)): (usize, (&Fraction, &Scale))| {
        let [above, below] = columns_of(blocks, cell);
        let all = [whole.numerator(), whole.denominator()];
        whole.value().map(|_| Jackknife::of_parts(all, &above, &below).on(scale))
    };
    whole.iter().zip(scales).enumerate().map(cell).collect()
}
