//! The losses of random tokens in the first copy and in the second.

use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::Conditions;
use crate::passes::observer::{Demands, Event, Sums};
use crate::sequences::derived::repeats::Copies;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::studies::ablation::losses::{Losses, ScoredToken, loss_at, scored_of};
use crate::studies::ablation::removal::{EachHead, Loss, Quantity, RemovalSums};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopySums {
    grid: HeadGrid,
    pub blocks: Blocks<CopyLosses>,
}

merge_fields!(CopySums[grid] { blocks });

impl CopySums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, blocks: Blocks::new(CopyLosses::new(0)) }
    }
}

impl Sums for CopySums {
    /// The block, and the tokens that are scored.
    type SequenceState = (usize, Vec<ScoredToken<usize>>);

    fn demands(&self) -> Demands {
        Demands::of(CopyLosses::needs(&Conditions::default()))
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let block = block_of(sequence.family.number);
        Some((block, self.blocks[block].begin(sequence, 0)?))
    }

    fn observe(&mut self, (block, scored): &mut Self::SequenceState, event: &mut Event<'_>) {
        if let Event::Logits { position, logits } = event {
            self.blocks[*block].logits(scored, None, *position, logits);
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.blocks.fit(|losses| losses.fits(0))
    }
}

pub type RemovalCopySums = RemovalSums<EachHead, CopyLosses>;

/// The losses of the tokens of each copy that stand behind the same token in both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyLosses {
    pub copies: [Losses; 2],
}

merge_fields!(CopyLosses { copies });

impl CopyLosses {
    /// The summed loss of the first copy less that of the second, nats, with all heads or in the variant at this place.
    pub fn gain(&self, variant: Option<usize>) -> f64 {
        let [first, second] = self.losses(variant);
        first - second
    }

    /// The losses of both copies, nats, summed.
    pub fn losses(&self, variant: Option<usize>) -> [f64; 2] {
        self.copies.each_ref().map(|copy| copy.loss(variant))
    }

    pub fn tokens(&self) -> u64 {
        self.copies[1].tokens
    }
}

impl Quantity for CopyLosses {
    type State = Vec<ScoredToken<usize>>;

    fn new(variants: usize) -> Self {
        Self { copies: [Losses::new(variants), Losses::new(variants)] }
    }

    fn begin(&mut self, sequence: &Sequence, _: usize) -> Option<Self::State> {
        let copies = Copies::of(sequence)?;
        let scored = scored_of(sequence, |word| copies.of_token(sequence.words[word].start()));
        for token in &scored {
            self.copies[token.of].tokens += 1;
        }
        self.copies.iter_mut().for_each(|copy| copy.sentences += 1);
        (!scored.is_empty()).then_some(scored)
    }

    fn logits(&mut self, state: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        if let Some((loss, &copy)) = loss_at(state, position, logits) {
            self.copies[copy].add(variant, loss);
        }
    }

    fn fits(&self, variants: usize) -> bool {
        let [first, second] = &self.copies;
        self.copies.iter().all(|copy| copy.fits(variants)) && first.tokens == second.tokens
    }
}
