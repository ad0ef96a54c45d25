//! Losses and drifts without clusters of heads, by block.

use serde::{Deserialize, Serialize};

use super::sets::{are_clusters, sets};
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::passes::ablation::Conditions;
use crate::passes::beforehand::Beforehand;
use crate::passes::observer::{Event, FurtherRuns, Sums};
use crate::passes::run::variants::{HeadSet, heads_at};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{BLOCKS, Blocks, Merge, block_of};
use crate::stats::bootstrap::PerBlock;
use crate::studies::ablation::drifts;
use crate::studies::ablation::losses;
use crate::studies::ablation::losses::LossesWithout;

/// What removal changes, summed by block.
pub trait Changes {
    /// The clusters, by the places of their heads.
    fn clusters(&self) -> &[Vec<usize>];

    /// What the changes are means over.
    fn counts(&self) -> PerBlock;

    /// The change without these heads, summed.
    /// Panics if these heads were never removed together.
    fn without(&self, places: &[usize]) -> PerBlock;
}

/// Losses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectSums {
    clusters: Vec<Vec<usize>>,
    losses: LossesWithout,
}

impl EffectSums {
    /// Empty sums of a model with `grid` heads, without these clusters.
    pub fn new(grid: HeadGrid, clusters: Vec<Vec<usize>>) -> Self {
        Self { losses: LossesWithout::new(grid, sets(grid, &clusters)), clusters }
    }

    /// The losses.
    pub fn losses(&self) -> &LossesWithout {
        &self.losses
    }
}

impl Changes for EffectSums {
    fn clusters(&self) -> &[Vec<usize>] {
        &self.clusters
    }

    fn counts(&self) -> PerBlock {
        std::array::from_fn(|block| self.losses.blocks()[block].tokens as f64)
    }

    fn without(&self, places: &[usize]) -> PerBlock {
        let variant = self.losses.variant_without(places);
        std::array::from_fn(|block| {
            let losses = &self.losses.blocks()[block];
            losses.without[variant].value() - losses.whole.value()
        })
    }
}

impl Sums for EffectSums {
    type SequenceState = (losses::LossState, bool);

    fn needs(&self) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn begin_pass(&mut self, known: &Beforehand<'_>) {
        self.losses.begin_pass(known);
    }

    fn begin(&mut self, sequence: &Sequence) -> Self::SequenceState {
        (self.losses.begin(sequence), !self.clusters.is_empty())
    }

    fn is_relevant((state, there_are_clusters): &Self::SequenceState) -> bool {
        *there_are_clusters && state.is_relevant()
    }

    fn further_runs(&self) -> FurtherRuns {
        FurtherRuns::Without(self.losses.variants().to_vec())
    }

    fn observe(&mut self, state: &mut Self::SequenceState, event: &mut Event<'_>) {
        match event {
            Event::Variant(variant) => state.0.begin_variant(*variant),
            Event::Logits { position, logits } => self.logits(state, *position, logits),
            _ => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.losses.merge(&other.losses);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken) -> bool {
        are_clusters(&self.clusters, grid) && self.losses.fit(grid, &sets(grid, &self.clusters))
    }
}

impl EffectSums {
    fn logits(&mut self, (state, _): &mut (losses::LossState, bool), position: usize, logits: &[f32]) {
        self.losses.logits(state, position, logits);
    }
}

/// The drifts of some sentences.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Tokens of text.
    pub tokens: u64,
    /// Sentences with any, the first of each family alone.
    pub sentences: u64,
    /// The sums of each variant, without its heads; `[variants]`.
    pub without: Vec<drifts::Drifts>,
}

impl Merge for Moved {
    fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.sentences += other.sentences;
        self.without.iter_mut().zip(&other.without).for_each(|(drifts, more)| drifts.merge(more));
    }
}

/// Drifts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftSums {
    grid: HeadGrid,
    clusters: Vec<Vec<usize>>,
    conditions: Conditions,
    blocks: Blocks<Moved>,
    /// The sets of heads that are removed, ascending.
    variants: Vec<HeadSet>,
}

impl DriftSums {
    /// Empty sums of a model with `grid` heads, without these clusters.
    pub fn new(grid: HeadGrid, clusters: Vec<Vec<usize>>) -> Self {
        let variants: Vec<HeadSet> = sets(grid, &clusters).into_iter().collect();
        let empty = Moved { without: vec![drifts::Drifts::default(); variants.len()], ..Moved::default() };
        Self { grid, clusters, conditions: Conditions::default(), blocks: Blocks::new(empty), variants }
    }

    /// The sums of each block.
    pub fn blocks(&self) -> &Blocks<Moved> {
        &self.blocks
    }
}

impl Changes for DriftSums {
    fn clusters(&self) -> &[Vec<usize>] {
        &self.clusters
    }

    fn counts(&self) -> PerBlock {
        std::array::from_fn(|block| self.blocks[block].tokens as f64)
    }

    fn without(&self, places: &[usize]) -> PerBlock {
        let variant = self.variants.binary_search(&heads_at(self.grid, places)).expect("a turn of these sums");
        let moved: [f64; BLOCKS] = std::array::from_fn(|block| self.blocks[block].without[variant].output.sum.value());
        moved
    }
}

/// A sequence as the drift sees it.
#[derive(Debug)]
pub struct ClusterDriftState {
    block: usize,
    variant: Option<usize>,
    /// The tokens of text; none where there are no clusters.
    text: Vec<usize>,
    whole: drifts::States,
}

impl Sums for DriftSums {
    type SequenceState = ClusterDriftState;

    fn needs(&self) -> Needs {
        Needs { hidden_states: true, ..Needs::default() }
    }

    fn begin_pass(&mut self, known: &Beforehand<'_>) {
        self.conditions = known.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> ClusterDriftState {
        let block = block_of(sequence.family.number);
        let text: Vec<usize> = if self.clusters.is_empty() { Vec::new() } else { sequence.text_places().collect() };
        let moved = &mut self.blocks[block];
        moved.tokens += text.len() as u64;
        moved.sentences += u64::from(sequence.family.is_first && !text.is_empty());
        ClusterDriftState { block, variant: None, text, whole: drifts::States::default() }
    }

    fn is_relevant(state: &ClusterDriftState) -> bool {
        !state.text.is_empty()
    }

    fn further_runs(&self) -> FurtherRuns {
        FurtherRuns::Without(self.variants.clone())
    }

    fn observe(&mut self, state: &mut ClusterDriftState, event: &mut Event<'_>) {
        match event {
            Event::Variant(variant) => state.variant = Some(*variant),
            Event::HiddenStates { layer, states } => self.hidden_states(state, *layer, *states),
            _ => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        assert_eq!((self.grid, &self.variants), (other.grid, &other.variants), "sums of one analysis");
        self.conditions = self.conditions.or(other.conditions);
        self.blocks.merge(&other.blocks);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken) -> bool {
        self.grid == grid
            && are_clusters(&self.clusters, grid)
            && self.variants.iter().eq(&sets(grid, &self.clusters))
            && self.blocks.fit(|moved| moved.without.len() == self.variants.len())
    }
}

impl DriftSums {
    fn hidden_states(&mut self, state: &mut ClusterDriftState, layer: usize, states: Rows<'_>) {
        if layer != self.grid.layers || state.text.is_empty() {
            return;
        }
        let seen = drifts::States::new(states, &state.text);
        match state.variant {
            None => state.whole = seen,
            Some(variant) => {
                let drifts = seen.drifts(&state.whole, states.width());
                self.blocks[state.block].without[variant].merge(&drifts);
            }
        }
    }
}
