//! The sums of the token level, per block of sentences.

use serde::{Deserialize, Serialize};

use super::tokens::{self, RowBuffers, TokenExposure, TokenSums};
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::roles::TokenRoles;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;

/// The sums of one block of sentences, or of several pooled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionBlock {
    /// The denominators.
    pub exposure: TokenExposure,
    /// The sums of a head that attends uniformly, `A = 1/n`: the chance level.
    pub uniform: TokenSums<ExactSum>,
    /// The sums of each head; `[layers * heads]`.
    pub heads: Vec<TokenSums<ExactSum>>,
}

impl AttentionBlock {
    fn new(grid: HeadGrid) -> Self {
        Self { heads: vec![TokenSums::default(); grid.count()], ..Self::default() }
    }
}

merge_fields!(AttentionBlock { exposure, uniform, heads });

/// The sums of all blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttentionSums {
    grid: HeadGrid,
    /// The sums of each block.
    pub blocks: Blocks<AttentionBlock>,
    #[serde(skip)]
    row: RowBuffers,
    #[serde(skip)]
    uniform: Uniform,
}

/// The attention of a head without any preference: `A = 1/n`, whose entropy is `ln n`.
#[derive(Clone, Debug, Default)]
struct Uniform {
    weights: Vec<f32>,
    entropies: Vec<f32>,
}

impl Uniform {
    #[expect(clippy::cast_possible_truncation, reason = "attention is f32")]
    fn view(&mut self, tokens: usize) -> AttentionView<'_> {
        let n = tokens as f64;
        self.weights.clear();
        self.weights.resize(tokens * tokens, (1.0 / n) as f32);
        self.entropies.clear();
        self.entropies.resize(tokens, n.ln() as f32);
        AttentionView::strided(0, 0, tokens, &self.weights, &self.entropies)
    }
}

impl AttentionSums {
    /// Empty sums for a model with `grid` heads.
    pub fn new(grid: HeadGrid) -> Self {
        Self::of(grid, Blocks::new(AttentionBlock::new(grid)))
    }

    /// Sums with these blocks.
    pub fn of(grid: HeadGrid, blocks: Blocks<AttentionBlock>) -> Self {
        Self { grid, blocks, row: RowBuffers::default(), uniform: Uniform::default() }
    }
}

/// A sequence as the token level sees it.
#[derive(Debug)]
pub struct AttentionState {
    block: usize,
    roles: TokenRoles,
}

merge_fields!(AttentionSums[grid] { blocks });

impl Sums for AttentionSums {
    type SequenceState = AttentionState;

    fn begin(&mut self, sequence: &Sequence) -> AttentionState {
        let (block, roles) = (block_of(sequence.family.number), TokenRoles::new(sequence));
        let sums = &mut self.blocks[block];
        sums.exposure.add(&roles);
        sums.uniform.add(&tokens::observe(&roles, self.uniform.view(sequence.ids.len()), &mut self.row));
        AttentionState { block, roles }
    }

    fn observe(&mut self, state: &mut AttentionState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let view = input.attention();
        let head = self.grid.index(view.layer, view.head);
        self.blocks[state.block].heads[head].add(&tokens::observe(&state.roles, view, &mut self.row));
    }

    fn pooled(&self) -> Self {
        let mut pooled = Self::new(self.grid);
        pooled.blocks = self.blocks.pooled(AttentionBlock::new(self.grid));
        pooled
    }

    fn fits(&self, grid: HeadGrid, _: FromToken) -> bool {
        self.grid == grid && self.blocks.fit(|block| block.heads.len() == grid.count())
    }
}
