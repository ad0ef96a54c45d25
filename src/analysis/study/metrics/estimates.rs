//! Estimates: the metrics of all attention heads from the sums of blocks, with chance levels, intervals and standard errors.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::by_block::MetricByBlock;
use super::metric::{Column, Denominator, Fraction, Intervals, Jackknives, Metrics, StandardErrors, Values};
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::block_test::{Estimate, Jackknife, Scale, effective_blocks};
use crate::stats::blocks::{BLOCKS, Blocks, Merge, PerBlock};
use crate::stats::interval::Interval;
use crate::system::parallel::parallel_map;

/// The model, and the options with which metrics are estimated.
pub struct EstimationContext {
    pub grid: HeadGrid,
    pub threads: NonZeroUsize,
    /// Whether to keep leave-one-out values of every metric, for the block test that compares two analyses.
    pub keeps_replicates: bool,
    /// The heads that the checkpoint was saved without, ascending.
    pub absent_heads: Vec<HeadPlace>,
    /// The heads that the run removed. Removed heads still attend, but write nothing.
    pub removed_heads: Vec<HeadPlace>,
    /// Number of consecutive query heads that share one key–value head; `None` if each query head has its own.
    pub query_heads_per_group: Option<usize>,
}

impl EstimationContext {
    /// A context in which all heads take part, none share keys and values, and leave-one-out values are not kept.
    pub fn new(grid: HeadGrid, threads: NonZeroUsize) -> Self {
        Self {
            grid,
            threads,
            keeps_replicates: false,
            absent_heads: Vec::new(),
            removed_heads: Vec::new(),
            query_heads_per_group: None,
        }
    }

    /// Whether the checkpoint was saved with the head at index `place`.
    pub fn has_head(&self, place: usize) -> bool {
        !self.absent_heads.contains(&self.grid.head_place(place))
    }

    /// Whether the head at index `place` takes part: the model has it, and the run did not remove it.
    pub fn is_active_head(&self, place: usize) -> bool {
        self.has_head(place) && !self.removed_heads.contains(&self.grid.head_place(place))
    }

    /// Number of heads that take part, which are neither absent nor removed.
    pub fn active_head_count(&self) -> usize {
        (0..self.grid.head_count()).filter(|&place| self.is_active_head(place)).count()
    }
}

/// The metrics of all heads, with chance levels, intervals and standard errors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimates {
    /// The metrics of each head, `[layers * heads]`.
    pub heads: Vec<Values>,
    /// The 95 % intervals of `heads`, `[layers * heads]`.
    pub ci95: Vec<Intervals>,
    /// The standard errors of `heads`, `[layers * heads]`.
    pub standard_errors: Vec<StandardErrors>,
    /// Chance levels of each head, for metrics whose chance level depends on the head, `[layers * heads]`.
    pub own_chance: Vec<Values>,
    /// Chance level of each metric that has one level for all heads.
    pub chance: Values,
    /// 95 % intervals of `chance`.
    pub chance_ci95: Intervals,
    /// Denominators of each metric, for all heads. If classes of layers (by the keys that their queries see) have
    /// different denominators, these are the largest.
    pub denominators: Metrics<Denominator>,
    /// Denominators of each head that differ from `denominators`, `[layers * heads]`.
    pub own_denominators: Vec<Metrics<Option<Denominator>>>,
    /// The metrics of each head with one block left out, for each block, `[layers * heads]`; empty unless
    /// `EstimationContext::keeps_replicates`.
    pub without_blocks: Vec<Jackknives>,
    /// Block sums, by metric id, of the metrics with which other studies rank-correlate their own.
    pub metrics_by_block: BTreeMap<&'static str, MetricByBlock>,
}

impl Estimates {
    /// Estimates for this number of heads, without any metric.
    pub fn without_metrics(heads: usize) -> Self {
        Self {
            heads: vec![Values::default(); heads],
            ci95: vec![Intervals::default(); heads],
            standard_errors: vec![StandardErrors::default(); heads],
            own_chance: vec![Values::default(); heads],
            own_denominators: vec![Metrics::default(); heads],
            ..Self::default()
        }
    }

    /// Computes the metrics of all heads over all blocks, and with each block left out.
    ///
    /// A metric with keys has a cell for each key, other metrics have one cell. `head_cells(block, place)` returns the
    /// ratios of a head in all cells of `columns`, over one block or over all (`None`). `chance_cells(block)` returns
    /// the ratios of a head without any preference; all heads get its denominators.
    pub fn new(
        columns: &[Column],
        context: &EstimationContext,
        head_cells: impl Fn(Option<usize>, usize) -> Vec<Fraction> + Sync,
        chance_cells: impl Fn(Option<usize>) -> Vec<Fraction>,
    ) -> Self {
        let one_class = LayerClasses::default();
        Self::new_by_class(columns, context, &one_class, head_cells, |block, _| chance_cells(block))
    }

    /// As [`Estimates::new`], from the sums of `blocks`. `values` returns the ratios of a head, or of a head without
    /// any preference for `None`.
    pub fn from_blocks<B: Merge + Clone + Sync>(
        columns: &[Column],
        context: &EstimationContext,
        blocks: &Blocks<B>,
        values: impl Fn(&B, Option<usize>) -> Vec<Fraction> + Sync,
    ) -> Self {
        let blocks = blocks.with_total();
        let head_cells = |number: Option<usize>, place: usize| values(blocks.sums(number), Some(place));
        Self::new(columns, context, head_cells, |number| values(blocks.sums(number), None))
    }

    /// A metric of the head at index `place`: its value, its 95 % interval, and its value with standard error for
    /// tests. The last is `None` if there are too few blocks for a test.
    pub fn metric_estimate(&self, place: usize, metric: &str) -> (Option<f64>, Option<Interval>, Option<Estimate>) {
        let (value, ci95) = (self.heads[place].value(metric, None), self.ci95[place].value(metric, None));
        let error = self.standard_errors[place].value(metric, None);
        let known = self.denominators.get(metric, None).copied().unwrap_or_default();
        let estimate = value.zip(error).and_then(|(value, error)| known.estimate(value, error, Scale::Real));
        (value, ci95, estimate)
    }

    /// As [`Estimates::new`], with chance levels and denominators for each class of layers. The second argument of
    /// `chance_cells` is the index of the class.
    pub fn new_by_class(
        columns: &[Column],
        context: &EstimationContext,
        classes: &LayerClasses,
        head_cells: impl Fn(Option<usize>, usize) -> Vec<Fraction> + Sync,
        chance_cells: impl Fn(Option<usize>, usize) -> Vec<Fraction>,
    ) -> Self {
        let grid = context.grid;
        let class_chances = (0..classes.visibilities().len())
            .map(|class| ClassChance::new(columns, |block| chance_cells(block, class)));
        let class_chances: Vec<ClassChance> = class_chances.collect();
        let common = ClassChance::from_classes(&class_chances);
        let (own_chance, own_denominators): (Vec<Values>, Vec<_>) = if class_chances.len() == 1 {
            (vec![Values::default(); grid.head_count()], vec![Metrics::default(); grid.head_count()])
        } else {
            let differences: Vec<_> = class_chances.iter().map(|class| class.differences_from(&common)).collect();
            grid.head_places().map(|place| differences[classes.class_index(place.layer)].clone()).unzip()
        };
        let ClassChance { values: chance, ci95: chance_ci95, denominators } = common;
        let mut estimates = Self { own_chance, chance, chance_ci95, denominators, own_denominators, ..Self::default() };
        let scales = cell_scales(columns);
        let estimate = |place: usize| {
            let estimate = CellEstimates::new(&scales, |block| head_cells(block, place));
            let without = Metrics::new(columns, estimate.jackknives.iter().cloned());
            (
                Metrics::new(columns, estimate.values()),
                estimate.intervals(columns),
                estimate.standard_errors(columns),
                without,
            )
        };
        for (values, ci95, errors, without) in parallel_map(context.threads, 0..grid.head_count(), estimate) {
            estimates.heads.push(values);
            estimates.ci95.push(ci95);
            estimates.standard_errors.push(errors);
            if context.keeps_replicates {
                estimates.without_blocks.push(without);
            }
        }
        estimates
    }

    /// Sets all numbers of the head at index `place` to `None`, since the model lacks this head.
    pub fn clear_absent_head(&mut self, place: usize) {
        for values in [&mut self.heads[place], &mut self.own_chance[place], &mut self.standard_errors[place]] {
            values.clear_values();
        }
        self.ci95[place].clear_values();
        self.without_blocks.get_mut(place).into_iter().for_each(Metrics::clear_values);
    }

    /// Adds the chance levels of each head, in the order of `columns`. A head's chance level is the score of uniform
    /// attention with the head's value vectors.
    pub fn with_own_chance(self, columns: &[Column], of_heads: impl Iterator<Item = Vec<Fraction>>) -> Self {
        let chance = |cells: Vec<Fraction>| Metrics::new(columns, cells.iter().map(Fraction::value));
        Self { own_chance: of_heads.map(chance).collect(), ..self }
    }

    /// Adds denominators for each head, in the order of `columns`, for metrics whose scored queries or words differ
    /// between heads.
    pub fn with_own_denominators(
        mut self,
        columns: &[Column],
        head_cells: impl Fn(Option<usize>, usize) -> Vec<Fraction>,
    ) -> Self {
        for (place, own) in self.own_denominators.iter_mut().enumerate() {
            let cells = CellEstimates::new(&cell_scales(columns), |block| head_cells(block, place));
            let differing = |own: &Denominator, common: Option<&Denominator>| (common != Some(own)).then_some(*own);
            *own = Metrics::new(columns, cells.denominators()).zip_map(&self.denominators, differing);
        }
        self
    }

    /// Denominators of all metrics of the head at index `place`: its own where it has one, else the shared one.
    pub fn denominators_of(&self, place: usize) -> Metrics<Denominator> {
        let own = |common: &Denominator, own: Option<&Option<Denominator>>| own.copied().flatten().unwrap_or(*common);
        self.denominators.zip_map(&self.own_denominators[place], own)
    }

    /// Adds the sums of `metric` in each block, for rank correlations with metrics of other studies.
    pub fn with_block_sums(mut self, metric: &'static str, blocks: MetricByBlock) -> Self {
        self.metrics_by_block.insert(metric, blocks);
        self
    }

    /// Adds the metrics of another study. Panics if the two have different numbers of heads.
    pub fn extend(&mut self, other: Self) {
        assert_eq!((self.heads.len(), self.ci95.len()), (other.heads.len(), other.ci95.len()), "the same heads");
        self.heads.iter_mut().zip(other.heads).for_each(|(head, other)| head.extend(other));
        self.ci95.iter_mut().zip(other.ci95).for_each(|(head, other)| head.extend(other));
        self.standard_errors.iter_mut().zip(other.standard_errors).for_each(|(head, other)| head.extend(other));
        self.own_chance.iter_mut().zip(other.own_chance).for_each(|(head, other)| head.extend(other));
        self.own_denominators.iter_mut().zip(other.own_denominators).for_each(|(head, other)| head.extend(other));
        self.chance.extend(other.chance);
        self.chance_ci95.extend(other.chance_ci95);
        self.denominators.extend(other.denominators);
        self.metrics_by_block.extend(other.metrics_by_block);
        if self.without_blocks.is_empty() {
            self.without_blocks = other.without_blocks;
        } else {
            self.without_blocks.iter_mut().zip(other.without_blocks).for_each(|(head, other)| head.extend(other));
        }
    }
}

/// Ratios in all cells of a list of columns, for one head or for chance: a head that prefers no key.
struct CellEstimates {
    /// Ratio of each cell over all blocks, `[cells]`. A metric has one cell, or one for each of its keys.
    overall_ratios: Vec<Fraction>,
    /// Ratios in each block, `[BLOCKS][cells]`.
    block_ratios: Vec<Vec<Fraction>>,
    /// Jackknife of each cell over blocks, `[cells]`; `None` for a cell without a value.
    jackknives: Vec<Option<Jackknife>>,
}

impl CellEstimates {
    fn new(scales: &[Scale], cells_in: impl Fn(Option<usize>) -> Vec<Fraction>) -> Self {
        let whole = cells_in(None);
        let blocks: Vec<Vec<Fraction>> = (0..BLOCKS).map(|block| cells_in(Some(block))).collect();
        let cell = |(cell, (whole, &scale))| jackknife_fractions(whole, |block| &blocks[block][cell], scale);
        let without = whole.iter().zip(scales).enumerate().map(cell).collect();
        Self { overall_ratios: whole, block_ratios: blocks, jackknives: without }
    }

    fn values(&self) -> impl Iterator<Item = Option<f64>> {
        self.overall_ratios.iter().map(Fraction::value)
    }

    fn estimates(&self) -> impl Iterator<Item = Option<Estimate>> {
        self.jackknives.iter().map(|without| without.as_ref().and_then(Jackknife::estimate))
    }

    fn intervals(&self, columns: &[Column]) -> Intervals {
        let ends = columns.iter().flat_map(|column| column.keys.indices().map(|_| column.bounds));
        let interval = |(estimate, [least, most]): (Option<Estimate>, [f64; 2])| {
            let interval = estimate?.interval();
            Some(Interval(interval.low().max(least), interval.high().min(most)))
        };
        Metrics::new(columns, self.estimates().zip(ends).map(interval))
    }

    /// Denominator of each ratio, with the number of blocks in which it is not 0.
    fn denominators(&self) -> impl Iterator<Item = Denominator> {
        self.overall_ratios.iter().enumerate().map(|(cell, fraction)| {
            let of_blocks: PerBlock = std::array::from_fn(|block| self.block_ratios[block][cell].denominator());
            let present = of_blocks.iter().filter(|&&denominator| denominator != 0.0).count();
            let effective_blocks = effective_blocks(&of_blocks);
            Denominator { blocks: present as u64, effective_blocks, ..fraction.evidence() }
        })
    }

    fn standard_errors(&self, columns: &[Column]) -> StandardErrors {
        Metrics::new(columns, self.estimates().map(|estimate| estimate.map(|estimate| estimate.standard_error)))
    }
}

/// Chance levels and denominators in the layers of one class (with one attention mask). They are the estimates for a head
/// without any preference.
#[derive(Clone)]
struct ClassChance {
    /// Chance level of each metric.
    values: Values,
    ci95: Intervals,
    denominators: Metrics<Denominator>,
}

impl ClassChance {
    fn new(columns: &[Column], chance_cells: impl Fn(Option<usize>) -> Vec<Fraction>) -> Self {
        let cells = CellEstimates::new(&cell_scales(columns), chance_cells);
        let denominators = Metrics::new(columns, cells.denominators());
        Self { values: Metrics::new(columns, cells.values()), ci95: cells.intervals(columns), denominators }
    }

    /// Chance levels that are equal in all classes of layers (`None` where they differ). Each denominator is the largest
    /// in any class.
    fn from_classes(classes: &[Self]) -> Self {
        let Self { mut values, mut ci95, mut denominators } = classes[0].clone();
        for class in &classes[1..] {
            ci95 = ci95.zip_map(&class.ci95, |interval, other| interval.filter(|_| other == Some(interval)));
            values = values.zip_map(&class.values, |value, other| value.filter(|_| other == Some(value)));
            denominators = denominators.zip_map(&class.denominators, |known, other| {
                *other.filter(|other| other.count > known.count).unwrap_or(known)
            });
        }
        ci95 = ci95.zip_map(&values, |interval, value| interval.filter(|_| value.is_some_and(Option::is_some)));
        Self { values, ci95, denominators }
    }

    /// Chance levels and denominators of this class of layers; `None` for a value that `common` already has.
    fn differences_from(&self, common: &Self) -> (Values, Metrics<Option<Denominator>>) {
        let chance = self.values.zip_map(&common.values, |own, common| own.filter(|_| common == Some(&None)));
        let denominators =
            self.denominators.zip_map(&common.denominators, |own, common| (common != Some(own)).then_some(*own));
        (chance, denominators)
    }
}

/// Jackknife of a ratio over blocks. `ratio(Some(block))` is the ratio in one block, and `ratio(None)` the ratio
/// over all blocks. `None` if the ratio has no value.
pub fn jackknife_ratio(ratio: impl Fn(Option<usize>) -> Fraction, scale: Scale) -> Option<Jackknife> {
    let blocks: Vec<Fraction> = (0..BLOCKS).map(|block| ratio(Some(block))).collect();
    jackknife_fractions(&ratio(None), |block| &blocks[block], scale)
}

/// The scale on which each cell is tested, cell by cell. All cells of a column have the column's scale.
pub fn cell_scales(columns: &[Column]) -> Vec<Scale> {
    columns.iter().flat_map(|column| column.keys.indices().map(|_| column.scale)).collect()
}

/// Jackknife of a ratio over blocks, from the ratio over all blocks (`whole`) and in each block. `None` if `whole`
/// has no value.
fn jackknife_fractions<'a>(whole: &Fraction, block: impl Fn(usize) -> &'a Fraction, scale: Scale) -> Option<Jackknife> {
    let numerators: PerBlock = std::array::from_fn(|number| block(number).numerator());
    let denominators: PerBlock = std::array::from_fn(|number| block(number).denominator());
    let all = [whole.numerator(), whole.denominator()];
    whole.value().map(|_| Jackknife::from_totals(all, &numerators, &denominators).with_scale(scale))
}
