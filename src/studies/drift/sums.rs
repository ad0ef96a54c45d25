//! How far the last hidden states move when heads are removed, summed by block.

use serde::{Deserialize, Serialize};

use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::passes::ablation::Conditions;
use crate::passes::beforehand::Beforehand;
use crate::passes::observer::{Lent, Sums};
use crate::passes::turns::{Missing, each_head_and_all, without_any};
use crate::sequences::sequence::Sequence;
use crate::sequences::words::FromToken;
use crate::stats::blocks::{Blocks, Merge, block_of};
use crate::stats::exact::ExactSum;

/// `1 - cos` of vectors with all heads and without some, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The sum.
    pub sum: ExactSum,
    /// The vectors, of which neither is zero.
    pub vectors: u64,
}

impl Drift {
    /// Adds a vector with all heads and the same without some.
    fn add(&mut self, whole: &[f64], without: &[f64]) {
        if let Some(drift) = one_less_cosine(whole, without) {
            self.sum += drift;
            self.vectors += 1;
        }
    }
}

impl Merge for Drift {
    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.vectors += other.vectors;
    }
}

/// The drift of tokens of text and of sentences when some heads are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drifts {
    /// Of the last hidden states of tokens of text.
    pub output: Drift,
    /// Of the mean of each sentence's last hidden states, special tokens included.
    pub pooled: Drift,
}

impl Merge for Drifts {
    fn merge(&mut self, other: &Self) {
        self.output.merge(&other.output);
        self.pooled.merge(&other.pooled);
    }
}

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
    #[must_use]
    pub fn new(grid: HeadGrid) -> Self {
        let empty = Moved { without: vec![Drifts::default(); grid.count()], ..Moved::default() };
        Self { grid, conditions: Conditions::default(), blocks: Blocks::new(empty) }
    }

    /// The sums of each block.
    #[must_use]
    pub fn blocks(&self) -> &Blocks<Moved> {
        &self.blocks
    }

    /// How heads were removed, once the pass has begun.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }
}

/// A sequence as these sums see it.
#[derive(Debug)]
pub struct Begun {
    block: usize,
    /// The turn, of those that these sums ask for; `None` in the first, with all heads.
    turn: Option<usize>,
    /// The tokens of text.
    text: Vec<usize>,
    /// Its last hidden states with all heads, once they were shown.
    whole: States,
}

/// The last hidden states of a sequence.
#[derive(Debug, Default)]
struct States {
    /// Those of tokens of text, one after the other.
    text: Vec<f64>,
    /// The mean of all.
    pooled: Vec<f64>,
}

impl States {
    fn new(states: Rows<'_>, text: &[usize]) -> Self {
        let mut pooled = vec![0.0; states.width()];
        for row in states.iter() {
            pooled.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        pooled.iter_mut().for_each(|sum| *sum /= states.count() as f64);
        Self { text: text.iter().flat_map(|&token| states.row(token)).copied().map(f64::from).collect(), pooled }
    }
}

/// `1 - cos` of two vectors, from 0 to 2; `None` where one of them is zero and has no direction.
///
/// As half of the squared distance of the vectors scaled to length 1, so that it is exactly 0 of equal vectors, and what is
/// small is not lost in the rounding of a cosine near 1.
#[must_use]
pub fn one_less_cosine(a: &[f64], b: &[f64]) -> Option<f64> {
    let [a_length, b_length] = [a, b].map(|vector| vector.iter().map(|value| value * value).sum::<f64>().sqrt());
    if a_length == 0.0 || b_length == 0.0 {
        return None;
    }
    let squares = a.iter().zip(b).map(|(a, b)| (a / a_length - b / b_length).powi(2)).sum::<f64>();
    Some((squares / 2.0).min(2.0))
}

impl Sums for DriftSums {
    type Begun = Begun;

    fn needs(&self) -> Needs {
        Needs { hidden_states: true, ..Needs::default() }
    }

    fn begin_pass(&mut self, known: &Beforehand) {
        self.conditions = known.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> Begun {
        let block = block_of(sequence.family.number);
        let text: Vec<usize> = sequence.text_places().collect();
        if !text.is_empty() {
            let sums = &mut self.blocks[block];
            sums.tokens += text.len() as u64;
            sums.sequences += 1;
            sums.sentences += u64::from(sequence.family.is_first);
        }
        Begun { block, turn: None, text, whole: States::default() }
    }

    fn looks(begun: &Begun) -> bool {
        !begun.text.is_empty()
    }

    fn turns(&self) -> Vec<Missing> {
        each_head_and_all(self.grid)
    }

    fn turn(&mut self, begun: &mut Begun, number: usize) {
        begun.turn = Some(number);
    }

    fn head(&mut self, _: &mut Begun, _: &mut Lent<'_>) {}

    fn hidden_states(&mut self, begun: &mut Begun, layer: usize, states: Rows<'_>) {
        if layer != self.grid.layers || begun.text.is_empty() {
            return;
        }
        let seen = States::new(states, &begun.text);
        let sums = &mut self.blocks[begun.block];
        let Some(turn) = begun.turn else {
            begun.whole = seen;
            return;
        };
        let width = states.width();
        let mut drifts = Drifts::default();
        let pairs = begun.whole.text.chunks_exact(width).zip(seen.text.chunks_exact(width));
        pairs.for_each(|(whole, without)| drifts.output.add(whole, without));
        drifts.pooled.add(&begun.whole.pooled, &seen.pooled);
        if let Some(without) = sums.without.get_mut(turn) {
            without.merge(&drifts);
        }
        if turn == without_any(self.grid) {
            sums.bare.merge(&drifts);
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
