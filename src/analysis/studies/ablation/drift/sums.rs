//! How far the last hidden states move when heads are removed, summed by block.

use serde::{Deserialize, Serialize};

use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::passes::ablation::Conditions;
use crate::passes::beforehand::Beforehand;
use crate::passes::observer::{Event, FurtherRuns, Sums};
use crate::passes::run::variants::{each_head_and_all, without_any};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, block_of};
use crate::studies::ablation::drifts::{Drifts, States};

/// The drifts of some sentences.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Tokens of text.
    pub tokens: u64,
    /// Sentences with any.
    pub sequences: u64,
    /// The first of each family among them.
    pub sentences: u64,
    /// Without each head, `[heads]`.
    pub without: Vec<Drifts>,
    /// Without any.
    pub bare: Drifts,
}

impl Merge for Moved {
    fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.sequences += other.sequences;
        self.sentences += other.sentences;
        self.without.iter_mut().zip(&other.without).for_each(|(drifts, more)| drifts.merge(more));
        self.bare.merge(&other.bare);
    }
}

/// The sums of all blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftSums {
    grid: HeadGrid,
    conditions: Conditions,
    blocks: Blocks<Moved>,
}

impl DriftSums {
    /// Empty sums for a model with `grid` heads.
    pub fn new(grid: HeadGrid) -> Self {
        let empty = Moved { without: vec![Drifts::default(); grid.count()], ..Moved::default() };
        Self { grid, conditions: Conditions::default(), blocks: Blocks::new(empty) }
    }

    /// The sums of each block.
    pub fn blocks(&self) -> &Blocks<Moved> {
        &self.blocks
    }

    /// How heads were removed, once the pass has begun.
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }
}

/// The state of a sequence.
#[derive(Debug)]
pub struct DriftState {
    block: usize,
    /// The variant of these sums that runs; `None` in the baseline, with all heads.
    variant: Option<usize>,
    /// The tokens of text.
    text: Vec<usize>,
    /// Its last hidden states with all heads, once they were shown.
    whole: States,
}

impl Sums for DriftSums {
    type SequenceState = DriftState;

    fn needs(&self) -> Needs {
        Needs { hidden_states: true, ..Needs::default() }
    }

    fn begin_pass(&mut self, known: &Beforehand<'_>) {
        self.conditions = known.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> DriftState {
        let block = block_of(sequence.family.number);
        let text: Vec<usize> = sequence.text_places().collect();
        if !text.is_empty() {
            let sums = &mut self.blocks[block];
            sums.tokens += text.len() as u64;
            sums.sequences += 1;
            sums.sentences += u64::from(sequence.family.is_first);
        }
        DriftState { block, variant: None, text, whole: States::default() }
    }

    fn is_relevant(state: &DriftState) -> bool {
        !state.text.is_empty()
    }

    fn further_runs(&self) -> FurtherRuns {
        FurtherRuns::Without(each_head_and_all(self.grid))
    }

    fn observe(&mut self, state: &mut DriftState, event: &mut Event<'_>) {
        match event {
            Event::Variant(variant) => state.variant = Some(*variant),
            Event::HiddenStates { layer, states } => self.hidden_states(state, *layer, *states),
            _ => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        assert_eq!(self.grid, other.grid, "sums of one analysis");
        self.conditions = self.conditions.or(other.conditions);
        self.blocks.merge(&other.blocks);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken) -> bool {
        self.grid == grid && self.blocks.fit(|block| block.without.len() == grid.count())
    }
}

impl DriftSums {
    fn hidden_states(&mut self, state: &mut DriftState, layer: usize, states: Rows<'_>) {
        if layer != self.grid.layers || state.text.is_empty() {
            return;
        }
        let seen = States::new(states, &state.text);
        let sums = &mut self.blocks[state.block];
        let Some(variant) = state.variant else {
            state.whole = seen;
            return;
        };
        let drifts = seen.drifts(&state.whole, states.width());
        if let Some(without) = sums.without.get_mut(variant) {
            without.merge(&drifts);
        }
        if variant == without_any(self.grid) {
            sums.bare.merge(&drifts);
        }
    }
}
