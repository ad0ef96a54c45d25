//! The derivatives of each sentence's loss by the gates of all heads, summed by block.

use serde::{Deserialize, Serialize};

use crate::model::forward::gradient::GateGradient;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::passes::ablation::Conditions;
use crate::passes::observer::{Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;

/// The derivatives of some sequences.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Derivatives {
    /// Masked tokens that were scored.
    pub tokens: u64,
    /// Sequences with any: of a sentence as many as there are phases.
    pub sequences: u64,
    /// Sentences with any, the first of each family alone.
    pub sentences: u64,
    /// The loss of these tokens, in nats.
    pub loss: ExactSum,
    /// `[heads]`: the size of the derivative of a sequence's mean loss.
    pub sizes: Vec<ExactSum>,
    /// `[heads]`: the derivative of a sequence's summed loss.
    pub signed: Vec<ExactSum>,
}

impl Derivatives {
    fn new(heads: usize) -> Self {
        Self { sizes: vec![ExactSum::default(); heads], signed: vec![ExactSum::default(); heads], ..Self::default() }
    }
}

merge_fields!(Derivatives { tokens, sequences, sentences, loss, sizes, signed });

/// The sums of all blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientSums {
    grid: HeadGrid,
    /// How heads were removed, once the pass has begun.
    pub conditions: Conditions,
    /// The sums of each block.
    pub blocks: Blocks<Derivatives>,
}

impl GradientSums {
    /// Empty sums for a model with `grid` heads.
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, conditions: Conditions::default(), blocks: Blocks::new(Derivatives::new(grid.count())) }
    }
}

/// The state of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct GradientState {
    block: usize,
    /// Masked tokens that are scored.
    tokens: usize,
}

merge_fields!(GradientSums[grid] { conditions, blocks });

impl Sums for GradientSums {
    type SequenceState = GradientState;

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.conditions = known.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> GradientState {
        let state = GradientState { block: block_of(sequence.family.number), tokens: sequence.targets().count() };
        if state.tokens > 0 {
            let sums = &mut self.blocks[state.block];
            sums.tokens += state.tokens as u64;
            sums.sequences += 1;
            sums.sentences += u64::from(sequence.family.is_first);
        }
        state
    }

    fn is_relevant(state: &GradientState) -> bool {
        state.tokens > 0
    }

    fn observe(&mut self, state: &mut GradientState, event: &mut Event<'_>) {
        if let Event::Gradient(gradient) = event {
            self.gradient(state, gradient);
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken) -> bool {
        let heads = grid.count();
        self.grid == grid && self.blocks.fit(|block| block.sizes.len() == heads && block.signed.len() == heads)
    }
}

impl GradientSums {
    fn gradient(&mut self, state: &mut GradientState, gradient: &GateGradient) {
        let Derivatives { loss, sizes, signed, .. } = &mut self.blocks[state.block];
        *loss += gradient.loss;
        for ((size, signed), derivative) in sizes.iter_mut().zip(signed).zip(&gradient.gates) {
            *size += derivative.abs() / state.tokens as f64;
            *signed += *derivative;
        }
    }
}
