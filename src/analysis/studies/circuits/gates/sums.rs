//! Gate fits on one half of the sample, and the loss with only the kept heads.

use std::collections::BTreeSet;

use itertools::Itertools;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::PassConditions;
use crate::passes::gate_fits::{FittedLoss, GateFit, GateFits, STARTING_POINTS};
use crate::passes::observer::requests::{HeadSet, all_heads, head_set_at};
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;
use crate::studies::ablation::losses::{Items, Losses};
use crate::studies::ablation::removal::{RemovalSums, Removals};
use crate::study::upstream::Obstacle;

/// Losses of tokens with only the heads of a kept set.
pub type KeptHeadLossSums = RemovalSums<KeptHeadSets, Losses>;

/// Scores of task items with only the heads of a kept set.
pub type KeptHeadItemSums = RemovalSums<KeptHeadSets, Items>;

/// Minimum number of a fold's five gate fits that must keep a head for it to be in the fold's kept set: all but one.
pub const MIN_FITS_PER_KEPT_HEAD: usize = 4;

/// Number of random sets of equal size for each kept set. Three sets show how far random sets differ from each
/// other.
pub const RANDOM_SETS: u64 = 3;

/// Gates of all heads, fitted to one fold of the corpus: its even-numbered or its odd-numbered blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldFits {
    grid: HeadGrid,
    pub conditions: PassConditions,
    /// The gate fits, one from each starting point.
    fits: GateFits,
}

merge_fields!(FoldFits[grid] { conditions, fits });

impl FoldFits {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, conditions: PassConditions::default(), fits: GateFits::default() }
    }

    /// Losses of the fold with all and without any heads, and the price of an open gate; zeros before the fits
    /// exist.
    pub fn fitted_loss(&self) -> FittedLoss {
        self.fits.known.unwrap_or_default()
    }

    /// The gate fits as `(number of the starting point, fit)`. Starting points are numbered from 0.
    pub fn fits_by_start(&self) -> impl Iterator<Item = (u64, &GateFit)> {
        self.fits.fits.iter().map(|(&start, fit)| (start, fit))
    }

    pub fn gate_fits(&self) -> impl Iterator<Item = &GateFit> + Clone {
        self.fits.fits.values()
    }

    /// Number of fits that keep the head with index `place`. `None` if the head has no gate, or if there is no fit.
    pub fn count_fits_keeping(&self, place: usize) -> Option<usize> {
        let keeps: Option<Vec<bool>> = self.gate_fits().map(|fit| fit.keeps_head(place)).collect();
        keeps.filter(|keeps| !keeps.is_empty()).map(|keeps| keeps.into_iter().filter(|&keeps| keeps).count())
    }

    /// Indices of the gated heads that at least `min_fits` fits keep. With 0, they are all heads with a gate.
    fn heads_kept_by_fits(&self, min_fits: usize) -> Vec<usize> {
        (0..self.grid.head_count())
            .filter(|&place| self.count_fits_keeping(place).is_some_and(|kept| kept >= min_fits))
            .collect()
    }
}

impl Sums for FoldFits {
    type SequenceState = ();

    fn demands(&self) -> Demands {
        Demands::default()
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.conditions = known.conditions;
        if let Some(fits) = &known.gate_fits {
            self.fits = fits.clone();
        }
    }

    fn begin(&mut self, _: &Sequence) -> Option<()> {
        None
    }

    fn observe(&mut self, (): &mut (), _: &mut Event<'_>) {}

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let is_gate = |gate: &f64| (0.0..=1.0).contains(gate);
        let fits = |(start, fit): (u64, &GateFit)| {
            start < STARTING_POINTS && fit.gates.len() == grid.head_count() && fit.gates.iter().flatten().all(is_gate)
        };
        self.grid == grid && self.fits_by_start().all(fits)
    }
}

/// Sets of heads that gate fits keep, one set for each fold. Each set is scored with all other gated heads removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptHeadSets {
    /// Kept set of each fold, even-numbered blocks first; empty if no set can be scored.
    pub folds: Vec<KeptHeadSet>,
    /// Reason why no set can be scored on the task; `None` if the sets can be scored.
    pub obstacle: Option<Obstacle>,
}

/// The heads that the fits to one fold keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptHeadSet {
    /// Indices of the kept heads, ascending.
    pub kept: Vec<usize>,
    /// Indices of all heads with a gate, ascending.
    pub gated: Vec<usize>,
    /// Random head sets that are scored for comparison, each with at least as many heads as `kept`.
    pub random: Vec<Vec<usize>>,
}

impl KeptHeadSet {
    /// Indices of the heads to remove so that only `kept` remain of the gated heads.
    pub fn heads_to_remove(&self, kept: &[usize]) -> Vec<usize> {
        self.gated.iter().copied().filter(|place| !kept.contains(place)).collect()
    }
}

impl KeptHeadSets {
    /// Builds the kept sets of both folds, with random sets for comparison. There are no sets if a fold has no fits, or
    /// if an `obstacle` keeps them from being scored.
    ///
    /// Heads that share weights are drawn together. `first_layers` has, for each layer, the first layer with equal
    /// weights.
    pub fn new(folds: [&FoldFits; 2], obstacle: Option<Obstacle>, first_layers: &[usize]) -> Self {
        let is_fitted = |fold: &FoldFits| fold.gate_fits().next().is_some();
        if obstacle.is_some() || !folds.into_iter().all(is_fitted) {
            return Self { folds: Vec::new(), obstacle };
        }
        let set = |fold: &FoldFits| {
            // `heads_kept_by_fits(0)` lists every head with a gate.
            let (kept, gated) = (fold.heads_kept_by_fits(MIN_FITS_PER_KEPT_HEAD), fold.heads_kept_by_fits(0));
            let random = (0..RANDOM_SETS).map(|seed| random_set(&gated, kept.len(), seed, fold.grid, first_layers));
            KeptHeadSet { random: random.collect(), kept, gated }
        };
        Self { folds: folds.map(set).into(), obstacle }
    }
}

/// Draws a random set of at least `count` gated heads. Heads that share weights are drawn together.
fn random_set(gated: &[usize], count: usize, seed: u64, grid: HeadGrid, first_layers: &[usize]) -> Vec<usize> {
    let group_of = |place: usize| {
        let (layer, head) = grid.layer_and_head(place);
        (first_layers.get(layer).copied().unwrap_or(layer), head)
    };
    let mut groups: Vec<_> = gated.iter().map(|&place| group_of(place)).collect::<BTreeSet<_>>().into_iter().collect();
    groups.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut drawn = BTreeSet::new();
    for group in groups {
        if drawn.len() >= count {
            break;
        }
        drawn.extend(gated.iter().copied().filter(|&place| group_of(place) == group));
    }
    drawn.into_iter().collect()
}

impl Removals for KeptHeadSets {
    /// The sets of heads to remove: all gated heads but a kept or random set, for each such set; and all heads.
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        let of_fold = |set: &KeptHeadSet| -> Vec<HeadSet> {
            set.random.iter().chain([&set.kept]).map(|kept| head_set_at(grid, &set.heads_to_remove(kept))).collect()
        };
        let all = (!self.folds.is_empty()).then(|| all_heads(grid));
        let sets = self.folds.iter().flat_map(of_fold).filter(|removed| !removed.is_empty());
        sets.chain(all).sorted().dedup().collect()
    }

    fn fits_grid(&self, grid: HeadGrid) -> bool {
        let are_places = |places: &Vec<usize>| places.iter().all(|&place| place < grid.head_count());
        let fits = |set: &KeptHeadSet| {
            let lists = set.random.iter().chain([&set.kept, &set.gated]);
            set.random.len() as u64 == RANDOM_SETS && lists.into_iter().all(are_places)
        };
        [0, 2].contains(&self.folds.len()) && self.folds.iter().all(fits)
    }
}
