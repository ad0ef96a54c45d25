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
    /// In each turn, without its heads; `[turns]`.
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
    turns: Vec<HeadSet>,
    conditions: Conditions,
    blocks: Blocks<Losses>,
}

/// A sequence as these sums see it.
#[derive(Debug)]
pub struct LossState {
    block: usize,
    turn: Option<usize>,
    /// The positions that are scored, ascending, with the true tokens.
    truths: Vec<(usize, u32)>,
}

impl LossState {
    /// Whether there is anything to score.
    pub fn looks(&self) -> bool {
        !self.truths.is_empty()
    }

    /// What is shown from here on is of the turn at this place of [`LossesWithout::turns`].
    pub fn turn(&mut self, number: usize) {
        self.turn = Some(number);
    }
}

impl LossesWithout {
    /// Empty sums for a model with `grid` heads, without each of these sets.
    pub fn new(grid: HeadGrid, missing: BTreeSet<HeadSet>) -> Self {
        let turns: Vec<HeadSet> = missing.into_iter().collect();
        let empty = ExactSum::default();
        let losses = Losses { tokens: 0, sentences: 0, whole: empty, without: vec![empty; turns.len()] };
        Self { grid, turns, conditions: Conditions::default(), blocks: Blocks::new(losses) }
    }

    /// The sets of heads.
    pub fn turns(&self) -> &[HeadSet] {
        &self.turns
    }

    /// How heads were removed, once the pass has begun.
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }

    /// The sums of each block.
    pub fn blocks(&self) -> &Blocks<Losses> {
        &self.blocks
    }

    /// The place of the turn without these heads in [`Losses::without`].
    /// Panics if there is no such turn.
    pub fn turn_without(&self, places: &[usize]) -> usize {
        self.turns.binary_search(&heads_at(self.grid, places)).expect("a turn of these sums")
    }

    /// A pass begins.
    pub fn begin_pass(&mut self, known: &Beforehand) {
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
        LossState { block, turn: None, truths }
    }

    /// Adds the loss at a position, if that is scored.
    pub fn logits(&mut self, begun: &LossState, position: usize, logits: &[f32]) {
        let Ok(at) = begun.truths.binary_search_by_key(&position, |&(position, _)| position) else { return };
        let losses = &mut self.blocks[begun.block];
        let sum = match begun.turn {
            None => &mut losses.whole,
            Some(turn) => &mut losses.without[turn],
        };
        *sum += surprisal(logits, begun.truths[at].1);
    }

    /// Adds another worker's sums.
    /// Panics if they are of other sets.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.grid, &self.turns), (other.grid, &other.turns), "sums of one analysis");
        self.conditions = self.conditions.or(other.conditions);
        self.blocks.merge(&other.blocks);
    }

    /// Whether they are of such heads and of these sets.
    pub fn fit(&self, grid: HeadGrid, missing: &BTreeSet<HeadSet>) -> bool {
        self.grid == grid
            && self.turns.iter().eq(missing)
            && self.blocks.fit(|losses| losses.without.len() == self.turns.len())
    }
}
