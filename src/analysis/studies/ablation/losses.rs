//! The loss of masked tokens without sets of heads, by block.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::passes::ablation::Conditions;
use crate::passes::beforehand::Beforehand;
use crate::passes::run::variants::{HeadSet, heads_at};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, block_of};
use crate::stats::exact::ExactSum;
use crate::stats::surprisal::surprisal;

/// The losses of masked tokens, `-ln p` of the true one in nats, summed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Masked tokens.
    pub tokens: u64,
    /// Sentences with any, the first of each family alone.
    pub sentences: u64,
    /// With all heads.
    pub whole: ExactSum,
    /// The sums of each variant, without its heads; `[variants]`.
    pub without: Vec<ExactSum>,
}

impl Merge for Losses {
    fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.sentences += other.sentences;
        self.whole += other.whole;
        self.without.iter_mut().zip(&other.without).for_each(|(sum, &more)| *sum += more);
    }
}

/// The losses without each of some sets of heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossesWithout {
    grid: HeadGrid,
    /// The sets of heads that are removed, ascending, each once.
    variants: Vec<HeadSet>,
    conditions: Conditions,
    blocks: Blocks<Losses>,
}

/// The state of a sequence.
#[derive(Debug)]
pub struct LossState {
    block: usize,
    variant: Option<usize>,
    /// The positions that are scored, ascending, with the true tokens.
    truths: Vec<(usize, u32)>,
}

impl LossState {
    /// Whether there is anything to score.
    pub fn is_relevant(&self) -> bool {
        !self.truths.is_empty()
    }

    /// Begins the variant at this place of [`LossesWithout::variants`].
    pub fn begin_variant(&mut self, number: usize) {
        self.variant = Some(number);
    }
}

impl LossesWithout {
    /// Empty sums for a model with `grid` heads, without each of these sets.
    pub fn new(grid: HeadGrid, removed: BTreeSet<HeadSet>) -> Self {
        let variants: Vec<HeadSet> = removed.into_iter().collect();
        let empty = ExactSum::default();
        let losses = Losses { tokens: 0, sentences: 0, whole: empty, without: vec![empty; variants.len()] };
        Self { grid, variants, conditions: Conditions::default(), blocks: Blocks::new(losses) }
    }

    /// The sets of heads.
    pub fn variants(&self) -> &[HeadSet] {
        &self.variants
    }

    /// How heads were removed, once the pass has begun.
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }

    /// The sums of each block.
    pub fn blocks(&self) -> &Blocks<Losses> {
        &self.blocks
    }

    /// The place of the variant without these heads in [`Losses::without`].
    /// Panics if there is no such variant.
    pub fn variant_without(&self, places: &[usize]) -> usize {
        self.variants.binary_search(&heads_at(self.grid, places)).expect("a turn of these sums")
    }

    /// A pass begins.
    pub fn begin_pass(&mut self, known: &Beforehand<'_>) {
        self.conditions = known.conditions;
    }

    /// Counts a sequence.
    pub fn begin(&mut self, sequence: &Sequence) -> LossState {
        let block = block_of(sequence.family.number);
        let truths: Vec<_> =
            sequence.predictions.iter().filter_map(|token| Some((token.position, token.truth?))).collect();
        let losses = &mut self.blocks[block];
        losses.tokens += truths.len() as u64;
        losses.sentences += u64::from(sequence.family.is_first && !truths.is_empty());
        LossState { block, variant: None, truths }
    }

    /// Adds the loss at a position, if that is scored.
    pub fn logits(&mut self, state: &LossState, position: usize, logits: &[f32]) {
        let Ok(at) = state.truths.binary_search_by_key(&position, |&(position, _)| position) else { return };
        let losses = &mut self.blocks[state.block];
        let sum = match state.variant {
            None => &mut losses.whole,
            Some(variant) => &mut losses.without[variant],
        };
        *sum += surprisal(logits, state.truths[at].1);
    }

    /// Adds another worker's sums.
    /// Panics if they are of other sets.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.grid, &self.variants), (other.grid, &other.variants), "sums of one analysis");
        self.conditions = self.conditions.or(other.conditions);
        self.blocks.merge(&other.blocks);
    }

    /// Whether they are of such heads and of these sets.
    pub fn fit(&self, grid: HeadGrid, removed: &BTreeSet<HeadSet>) -> bool {
        self.grid == grid
            && self.variants.iter().eq(removed)
            && self.blocks.fit(|losses| losses.without.len() == self.variants.len())
    }
}
