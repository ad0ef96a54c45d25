//! The loss of masked tokens without sets of heads, by block.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::forward::visitor::Needs;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::Conditions;
use crate::passes::beforehand::Beforehand;
use crate::passes::observer::{Lent, Sums};
use crate::passes::turns::Missing;
use crate::sequences::sequence::Sequence;
use crate::sequences::words::FromToken;
use crate::stats::blocks::{Blocks, Merge, block_of};
use crate::stats::exact::ExactSum;
use crate::stats::surprisal::surprisal;
use crate::studies::found::Ranking;

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

/// The sums of all blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PruningSums {
    grid: HeadGrid,
    orders: Vec<Ranking>,
    /// Heads that are called negligible.
    negligible: Vec<usize>,
    /// The sets of heads that are removed, ascending, each once.
    turns: Vec<Missing>,
    conditions: Conditions,
    blocks: Blocks<Losses>,
}

impl PruningSums {
    /// Empty sums for a model with `grid` heads that go in these orders; those at the places `negligible` also go one by one,
    /// and together.
    #[must_use]
    pub fn new(grid: HeadGrid, orders: Vec<Ranking>, negligible: Vec<usize>) -> Self {
        let prefixes =
            |order: &Ranking| (1..=order.places.len()).map(|count| heads_at(grid, &order.places[..count])).collect();
        let mut turns: BTreeSet<Missing> =
            orders.iter().flat_map(|order| -> Vec<Missing> { prefixes(order) }).collect();
        turns.extend(negligible.iter().map(|&place| heads_at(grid, &[place])));
        turns.extend((!negligible.is_empty()).then(|| heads_at(grid, &negligible)));
        let turns: Vec<Missing> = turns.into_iter().collect();
        let empty = ExactSum::default();
        let losses = Losses { tokens: 0, sentences: 0, whole: empty, without: vec![empty; turns.len()] };
        Self { grid, orders, negligible, turns, conditions: Conditions::default(), blocks: Blocks::new(losses) }
    }

    /// The orders in which heads go.
    #[must_use]
    pub fn orders(&self) -> &[Ranking] {
        &self.orders
    }

    /// The places of the heads that are called negligible.
    #[must_use]
    pub fn negligible(&self) -> &[usize] {
        &self.negligible
    }

    /// How heads were removed, once the pass has begun.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }

    /// The sums of each block.
    #[must_use]
    pub fn blocks(&self) -> &Blocks<Losses> {
        &self.blocks
    }

    /// The place of the turn without these heads in [`Losses::without`].
    ///
    /// # Panics
    ///
    /// If there is no such turn.
    #[must_use]
    pub fn turn_without(&self, places: &[usize]) -> usize {
        self.turns.binary_search(&heads_at(self.grid, places)).expect("a turn of these sums")
    }
}

/// The heads at these places.
fn heads_at(grid: HeadGrid, places: &[usize]) -> Missing {
    let place = |&place: &usize| {
        let (layer, head) = grid.at(place);
        HeadPlace { layer, head }
    };
    places.iter().map(place).collect()
}

/// A sequence as these sums see it.
#[derive(Debug)]
pub struct Begun {
    block: usize,
    turn: Option<usize>,
    /// The positions that are scored, ascending, with the true tokens.
    truths: Vec<(usize, u32)>,
}

impl Sums for PruningSums {
    type Begun = Begun;

    fn needs(&self) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn begin_pass(&mut self, known: &Beforehand) {
        self.conditions = known.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> Begun {
        let block = block_of(sequence.family.number);
        let truths: Vec<_> =
            sequence.predictions.iter().filter_map(|token| Some((token.position, token.truth?))).collect();
        let losses = &mut self.blocks[block];
        losses.tokens += truths.len() as u64;
        losses.sentences += u64::from(sequence.family.is_first && !truths.is_empty());
        Begun { block, turn: None, truths }
    }

    fn looks(begun: &Begun) -> bool {
        !begun.truths.is_empty()
    }

    fn turns(&self) -> Vec<Missing> {
        self.turns.clone()
    }

    fn turn(&mut self, begun: &mut Begun, number: usize) {
        begun.turn = Some(number);
    }

    fn head(&mut self, _: &mut Begun, _: &mut Lent<'_>) {}

    fn logits(&mut self, begun: &mut Begun, position: usize, logits: &[f32]) {
        let Ok(at) = begun.truths.binary_search_by_key(&position, |&(position, _)| position) else { return };
        let losses = &mut self.blocks[begun.block];
        let sum = match begun.turn {
            None => &mut losses.whole,
            Some(turn) => &mut losses.without[turn],
        };
        *sum += surprisal(logits, begun.truths[at].1);
    }

    fn merge(&mut self, other: &Self) {
        assert_eq!((self.grid, &self.turns), (other.grid, &other.turns), "sums of one analysis");
        self.conditions = self.conditions.or(other.conditions);
        self.blocks.merge(&other.blocks);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken) -> bool {
        let rebuilt = || Self::new(grid, self.orders.clone(), self.negligible.clone()).turns;
        self.grid == grid
            && self.orders.iter().all(|order| is_an_order(&order.places, grid.count()))
            && self.negligible.iter().all(|&place| place < grid.count())
            && rebuilt() == self.turns
            && self.blocks.fit(|losses| losses.without.len() == self.turns.len())
    }
}

/// Whether these are all places once.
fn is_an_order(places: &[usize], heads: usize) -> bool {
    places.len() == heads && places.iter().collect::<BTreeSet<_>>().into_iter().copied().eq(0..heads)
}
