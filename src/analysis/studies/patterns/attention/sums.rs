//! Sums of the study `attention` per jackknife block of sentences.

use serde::{Deserialize, Serialize};

use super::tokens::{self, RowBuffers, TokenExposure, TokenSums};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::even::{UniformAttention, UniformRows};
use crate::sequences::fold::roles::TokenRoles;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;

/// Sums of the study over the sentences of one jackknife block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionBlock {
    /// Denominators of the metrics.
    pub exposure: TokenExposure,
    /// Sums under uniform attention, the chance level. Query `i` sees `v(i)` keys, and gives each the weight `1/v(i)`.
    pub uniform: TokenSums<ExactSum>,
    /// Sums of each attention head, `[layers * heads]`.
    pub heads: Vec<TokenSums<ExactSum>>,
}

merge_fields!(AttentionBlock { exposure, uniform, heads });

/// Attention sums of each jackknife block, over the layers with one attention mask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttentionSums {
    grid: HeadGrid,
    visibility: Visibility,
    pub blocks: Blocks<AttentionBlock>,
    #[serde(skip)]
    row: RowBuffers,
    /// Rows of uniform attention, kept from sentence to sentence.
    #[serde(skip)]
    even: UniformRows,
}

impl AttentionSums {
    pub fn new(grid: HeadGrid, visibility: Visibility) -> Self {
        let heads = vec![TokenSums::default(); grid.head_count()];
        let blocks = Blocks::new(AttentionBlock { heads, ..AttentionBlock::default() });
        Self { grid, visibility, blocks, row: RowBuffers::default(), even: UniformRows::default() }
    }
}

/// The sequence being observed: index of its jackknife block, and the roles of its tokens.
#[derive(Debug)]
pub struct AttentionState {
    block: usize,
    roles: TokenRoles,
}

merge_fields!(AttentionSums[grid, visibility] { blocks });

impl Sums for AttentionSums {
    type SequenceState = AttentionState;

    fn begin(&mut self, sequence: &Sequence) -> Option<AttentionState> {
        let (block, roles) = (block_of(sequence.family.number), TokenRoles::new(sequence));
        let sums = &mut self.blocks[block];
        sums.exposure.count_sentence(&roles, self.visibility);
        let even = self.even.view(UniformAttention::new(self.visibility, sequence.ids.len()));
        sums.uniform.add(&tokens::sum_token_attention(&roles, even, &mut self.row));
        Some(AttentionState { block, roles })
    }

    fn observe(&mut self, state: &mut AttentionState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let view = input.attention();
        let head = self.grid.index(view.layer, view.head);
        self.blocks[state.block].heads[head].add(&tokens::sum_token_attention(&state.roles, view, &mut self.row));
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        self.grid == grid
            && classes.visibilities() == [self.visibility]
            && self.blocks.is_valid(|block| block.heads.len() == grid.head_count())
    }
}
