//! Estimates: the metrics of all heads, computed from the sums of blocks, with chance levels, intervals and standard
//! errors.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::by_block::ByBlock;
use super::metric::{Column, Denominator, Fraction, Intervals, Metrics, StandardErrors, Values, WithoutBlocks};
use crate::model::grid::HeadGrid;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::BLOCKS;
use crate::stats::bootstrap::{Interval, PerBlock, Resampled, Resamples};
use crate::system::parallel::in_parallel;

/// The context for computing ratios.
pub struct EstimationContext {
    /// The heads.
    pub grid: HeadGrid,
    /// Threads.
    pub threads: NonZeroUsize,
    /// The resamples that intervals are made by; empty where none are wanted.
    pub resamples: Resamples,
    /// Whether every ratio is also computed without each block, for the block test of two analyses.
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

    /// Computes the ratios, and resamples the blocks.
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
        let estimate = |divided: &mut Denominators<'_>, of: &dyn Fn(Option<usize>) -> Vec<Fraction>| {
            let (values, blocks): (Vec<Option<f64>>, _) =
                (of(None).iter().map(Fraction::value).collect(), by_block(of));
            let ci95 = divided.intervals(&values, &blocks);
            let without = left_out(&values, &blocks);
            let errors = without.iter().map(|without| without.as_ref().and_then(Jackknife::standard_error));
            let (errors, ci95) = (Metrics::new(columns, errors), Metrics::new(columns, ci95));
            (Metrics::new(columns, values), ci95, errors, Metrics::new(columns, without))
        };
        let grid = context.grid;
        let (chance, chance_ci95, ..) = estimate(&mut Denominators::new(&context.resamples), &of_chance);
        let layers = in_parallel(context.threads, 0..grid.layers, |layer| {
            let mut divided = Denominators::new(&context.resamples);
            let of_head = |head| estimate(&mut divided, &|block| of_head(block, grid.index(layer, head)));
            (0..grid.heads).map(of_head).collect::<Vec<_>>()
        });
        let mut found = Self { chance, chance_ci95, ..Self::default() };
        for (values, ci95, errors, without) in layers.into_iter().flatten() {
            found.heads.push(values);
            found.ci95.push(ci95);
            found.standard_errors.push(errors);
            if context.leaves_out {
                found.without_blocks.push(without);
            }
        }
        let blocks = by_block(&of_chance);
        let denominator = |(cell, fraction): (usize, &Fraction)| {
            let present = blocks.iter().filter(|block| block[cell].denominator() != 0.0).count();
            Denominator { blocks: present as u64, ..fraction.basis() }
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
fn left_out(values: &[Option<f64>], blocks: &[Vec<Fraction>]) -> Vec<Option<Jackknife>> {
    let cell = |(cell, value): (usize, &Option<f64>)| {
        let [above, below] = columns_of(blocks, cell);
        value.map(|_| Jackknife::new(&above, &below))
    };
    values.iter().enumerate().map(cell).collect()
}

/// The resampled denominators of the head before, by cell: most do not depend on the head.
struct Denominators<'a> {
    resamples: &'a Resamples,
    known: Vec<(PerBlock, Resampled)>,
}

impl<'a> Denominators<'a> {
    fn new(resamples: &'a Resamples) -> Self {
        Self { resamples, known: Vec::new() }
    }

    /// The interval of each cell that has a value; `blocks` are `[BLOCKS][cells]`.
    fn intervals(&mut self, values: &[Option<f64>], blocks: &[Vec<Fraction>]) -> Vec<Option<Interval>> {
        if self.resamples.is_empty() {
            return vec![None; values.len()];
        }
        let interval = |(cell, value): (usize, &Option<f64>)| {
            let [numerators, denominators] = columns_of(blocks, cell);
            match self.known.get_mut(cell) {
                Some((known, _)) if *known == denominators => {}
                Some(other) => *other = (denominators, self.resamples.sums(&denominators)),
                None => self.known.push((denominators, self.resamples.sums(&denominators))),
            }
            let numerators = self.resamples.sums(&numerators);
            value.and_then(|_| numerators.over(&self.known[cell].1))
        };
        values.iter().enumerate().map(interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_denominators_of_its_own_has_intervals_of_its_own() {
        let resamples = Resamples::new();
        // Block b has b in b mod 2 times `more`, and 1.
        let of = |more: f64| {
            let block = |block: usize| vec![Fraction::new(block as f64, 1.0 + (block % 2) as f64 * more)];
            (0..BLOCKS).map(block).collect::<Vec<_>>()
        };
        let alone = |more| Denominators::new(&resamples).intervals(&[Some(0.5)], &of(more));
        assert_ne!(alone(0.0), alone(3.0));
        let mut denominators = Denominators::new(&resamples);
        for more in [0.0, 3.0, 3.0, 0.0] {
            assert_eq!(denominators.intervals(&[Some(0.5)], &of(more)), alone(more));
        }
    }
}
