//! The derivatives of each sentence's loss by the gates of all heads, summed by block.

use serde::{Deserialize, Serialize};

use crate::model::forward::gradient::{GateGradient, PathGradient};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::Conditions;
use crate::passes::observer::{Demands, Event, FurtherRuns, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Derivatives {
    pub tokens: u64,
    /// Sequences with any: of a sentence as many as there are phases.
    pub sequences: u64,
    pub sentences: u64,
    /// The loss of these tokens, in nats.
    pub loss: ExactSum,
    /// `[heads]`: the size of the derivative of a sequence's mean loss.
    pub sizes: Vec<ExactSum>,
    /// `[heads]`: the derivative of a sequence's summed loss.
    pub signed: Vec<ExactSum>,
    /// Points of the path on which all heads come in together, of all sequences; 0 where it was not followed.
    pub points: u64,
    /// The loss at its beginning, without any head.
    pub closed_loss: ExactSum,
    /// `[heads]`: the mean derivative of a sequence's summed loss along it.
    pub along_path: Vec<ExactSum>,
}

impl Derivatives {
    fn new(heads: usize) -> Self {
        let none = || vec![ExactSum::default(); heads];
        Self { sizes: none(), signed: none(), along_path: none(), ..Self::default() }
    }

    /// Masked tokens whose loss was followed along the path: all of them, or none.
    pub fn tokens_on_path(&self) -> u64 {
        if self.points > 0 { self.tokens } else { 0 }
    }
}

merge_fields!(Derivatives { tokens, sequences, sentences, loss, sizes, signed, points, closed_loss, along_path });

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientSums {
    grid: HeadGrid,
    pub conditions: Conditions,
    pub blocks: Blocks<Derivatives>,
}

impl GradientSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, conditions: Conditions::default(), blocks: Blocks::new(Derivatives::new(grid.count())) }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct GradientState {
    block: usize,
    tokens: usize,
}

merge_fields!(GradientSums[grid] { conditions, blocks });

impl Sums for GradientSums {
    type SequenceState = GradientState;

    fn demands(&self) -> Demands {
        Demands { further_runs: FurtherRuns::AlongPath, ..Demands::default() }
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.conditions = known.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<GradientState> {
        let state = GradientState { block: block_of(sequence.family.number), tokens: sequence.targets().count() };
        if state.tokens == 0 {
            return None;
        }
        let sums = &mut self.blocks[state.block];
        sums.tokens += state.tokens as u64;
        sums.sequences += 1;
        sums.sentences += u64::from(sequence.family.is_first);
        Some(state)
    }

    fn observe(&mut self, state: &mut GradientState, event: &mut Event<'_>) {
        match event {
            Event::Gradient(gradient) => self.gradient(state, gradient),
            Event::PathGradient(path) => self.along_path(state, path),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let heads = grid.count();
        let fits = |block: &Derivatives| {
            [&block.sizes, &block.signed, &block.along_path].into_iter().all(|sums| sums.len() == heads)
        };
        self.grid == grid && self.blocks.fit(fits)
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

    fn along_path(&mut self, state: &GradientState, path: &PathGradient) {
        let Derivatives { points, closed_loss, along_path, .. } = &mut self.blocks[state.block];
        *points += u64::from(path.steps.get());
        *closed_loss += path.closed_loss;
        along_path.iter_mut().zip(&path.gates).for_each(|(sum, derivative)| *sum += *derivative);
    }
}
