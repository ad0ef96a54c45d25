//! What heads write on the second copy of random tokens: whether it raises the logit of the token that they attend to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::forward::Encoder;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{Needs, ResidualPart};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, HeadInput, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::derived::repeats::Copies;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;

/// The sums of one head over the queries of the second copy whose largest weight is on another token of text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadCopies {
    pub queries: u64,
    pub sequences: u64,
    /// The direct effect on the logit of the token of largest weight less the mean over the other tokens of the copy.
    pub logit: ExactSum,
    /// The share of those tokens whose logit is raised less.
    pub rank: ExactSum,
}

merge_fields!(HeadCopies { queries, sequences, logit, rank });

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiesBlock {
    pub queries: u64,
    pub sequences: u64,
    /// The sums of each head; `[layers * heads]`.
    pub heads: Vec<HeadCopies>,
}

merge_fields!(CopiesBlock { queries, sequences, heads });

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyingSums {
    grid: HeadGrid,
    pub blocks: Blocks<CopiesBlock>,
    /// Whether heads have direct effects on the logits of these weights.
    #[serde(skip)]
    has_direct_effects: bool,
}

merge_fields!(CopyingSums[grid] { blocks });

impl CopyingSums {
    pub fn new(grid: HeadGrid) -> Self {
        let empty = CopiesBlock { heads: vec![HeadCopies::default(); grid.count()], ..CopiesBlock::default() };
        Self { grid, blocks: Blocks::new(empty), has_direct_effects: false }
    }

    #[cfg(test)]
    pub fn with_direct_effects(self) -> Self {
        Self { has_direct_effects: true, ..self }
    }

    fn head(&self, state: &mut CopyingState, input: &HeadInput<'_>) {
        let copies = &state.copies;
        let second = copies.text.start + copies.shift;
        let target = |query: usize| {
            let row = &input.attention().row(query)[..=query];
            // The first of equal weights.
            let largest = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1)).map(|(key, _)| key);
            let key = largest.filter(|key| copies.text.contains(key) && *key != query)?;
            Some((query, copies.place(key)))
        };
        let queries = (second..second + copies.length).filter_map(target).collect();
        state.queries.insert(self.grid.index(input.view.layer, input.view.head), queries);
    }

    fn direct(&mut self, state: &mut CopyingState, place: usize, effects: Rows<'_>) {
        let sums = &mut self.blocks[state.block].heads[place];
        let first_copy = &state.tokens[..state.copies.length];
        let before = sums.queries;
        for (query, target) in state.queries.remove(&place).unwrap_or_default() {
            let effects = effects.row(query);
            let own = f64::from(effects[target]);
            // A token that comes twice in a copy is no other token.
            let is_other = |(token, _): &(&u32, &f32)| **token != state.tokens[target];
            let others: Vec<f64> =
                first_copy.iter().zip(effects).filter(is_other).map(|(_, &effect)| f64::from(effect)).collect();
            if others.is_empty() {
                continue;
            }
            let count = others.len() as f64;
            // Of a head that writes nothing all are raised alike.
            let below = |other: &f64| if *other < own { 1.0 } else { f64::from(u8::from(*other == own)) / 2.0 };
            sums.queries += 1;
            sums.rank += others.iter().map(below).sum::<f64>() / count;
            state.effects.push((place, query, own - others.iter().sum::<f64>() / count));
        }
        sums.sequences += u64::from(sums.queries > before);
    }
}

#[derive(Debug)]
pub struct CopyingState {
    block: usize,
    copies: Copies,
    /// The tokens whose logits are looked at: of the first copy, and between the copies.
    tokens: Vec<u32>,
    /// The queries of each head of the layer at hand, each with the place in the copy of the token of its largest weight.
    queries: BTreeMap<usize, Vec<(usize, usize)>>,
    /// Head, query and effect before the scale of the final norm.
    effects: Vec<(usize, usize, f64)>,
}

impl Sums for CopyingSums {
    type SequenceState = CopyingState;

    fn demands(&self) -> Demands {
        Demands::of(Needs { attention: self.has_direct_effects, direct: self.has_direct_effects, ..Needs::default() })
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.has_direct_effects = known.encoder.is_some_and(Encoder::has_direct_effects);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<CopyingState> {
        let block = block_of(sequence.family.number);
        let copies = Copies::of(sequence).filter(|_| self.has_direct_effects)?;
        self.blocks[block].queries += copies.length as u64;
        self.blocks[block].sequences += 1;
        let tokens = sequence.compared.clone();
        Some(CopyingState { block, copies, tokens, queries: BTreeMap::new(), effects: Vec::new() })
    }

    fn observe(&mut self, state: &mut CopyingState, event: &mut Event<'_>) {
        match event {
            Event::Head(input) => self.head(state, input),
            Event::DirectEffects { part: ResidualPart::Head { layer, head }, effects } => {
                self.direct(state, self.grid.index(*layer, *head), *effects);
            }
            Event::FinalNorm(norm) => {
                for (place, query, effect) in state.effects.drain(..) {
                    self.blocks[state.block].heads[place].logit += effect / f64::from(norm.scales[query]);
                }
            }
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.blocks.fit(|block| block.heads.len() == grid.count())
    }
}
