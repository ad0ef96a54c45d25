//! The losses of masked words while a head's attention to their partner is kept, and while it is exchanged for that to a
//! word as far away.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::exchange::Exchange;
use crate::corpus::TreeHead;
use crate::corpus::relation::scored_as;
use crate::model::forward::gates::AttentionRows;
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::observer::requests::PatchedRun;
use crate::passes::observer::{Demands, Event, FurtherRuns, HeadInput, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{GoldArc, InputToken, PredictedToken, Sequence};
use crate::stats::blocks::{Blocks, Merge, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::stats::surprisal::surprisal;
use crate::study::upstream::ArcClaim;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    pub arcs: u64,
    /// The loss while the partner keeps its weight, in nats, summed over the query word's tokens and all arcs.
    pub kept: ExactSum,
    pub exchanged: ExactSum,
}

merge_fields!(Losses { arcs, kept, exchanged });

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimLosses {
    /// Losses of arcs at the relation's best offset.
    pub at_offset: Losses,
    pub off_offset: Losses,
}

merge_fields!(ClaimLosses { at_offset, off_offset });

impl Losses {
    pub fn more(&self) -> f64 {
        self.exchanged.value() - self.kept.value()
    }
}

impl ClaimLosses {
    pub fn all(&self) -> Losses {
        let mut all = self.at_offset;
        all.merge(&self.off_offset);
        all
    }
}

/// The losses of each claim; `[claims]`.
pub type ByClaim = Vec<ClaimLosses>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnockoutSums {
    grid: HeadGrid,
    #[serde(skip)]
    pub classes: LayerClasses,
    pub claims: Vec<ArcClaim>,
    pub blocks: Blocks<ByClaim>,
}

impl KnockoutSums {
    pub fn new(grid: HeadGrid, claims: Vec<ArcClaim>) -> Self {
        let blocks = Blocks::new(vec![ClaimLosses::default(); claims.len()]);
        Self { grid, classes: LayerClasses::default(), claims, blocks }
    }

    fn head(&mut self, state: &mut KnockoutState, input: &HeadInput<'_>) {
        let place = self.grid.index(input.view.layer, input.view.head);
        for arc in state.arcs.iter_mut().filter(|arc| self.claims[arc.claim].place == place) {
            arc.rows = Some(arc.exchange.rows(input.attention(), &state.words));
        }
    }

    fn losses(&mut self, block: usize, arc: &Arc) -> &mut Losses {
        let ClaimLosses { at_offset, off_offset } = &mut self.blocks[block][arc.claim];
        if arc.is_at_offset { at_offset } else { off_offset }
    }

    /// Two runs for each arc: the partner keeps its weight, then it is exchanged.
    pub(super) fn patched_runs(&mut self, state: &mut KnockoutState) -> Vec<PatchedRun> {
        let mut patched_runs = Vec::new();
        for arc in &mut state.arcs {
            self.losses(state.block, arc).arcs += 1;
            let (layer, head) = self.grid.at(self.claims[arc.claim].place);
            let predicted: Vec<usize> = arc.truths.iter().map(|&(position, _)| position).collect();
            let run = |rows| PatchedRun { place: HeadPlace { layer, head }, rows, predicted: predicted.clone() };
            patched_runs.extend(arc.rows.take().expect("its head was shown").map(run));
        }
        patched_runs
    }

    pub(super) fn patched_logits(&mut self, state: &mut KnockoutState, number: usize, position: usize, logits: &[f32]) {
        let arc = &state.arcs[number / 2];
        let truth = arc.truths.iter().find(|(at, _)| *at == position).expect("a position that was asked for").1;
        let losses = self.losses(state.block, arc);
        let sum = if number.is_multiple_of(2) { &mut losses.kept } else { &mut losses.exchanged };
        *sum += surprisal(logits, truth);
    }
}

#[derive(Debug)]
pub struct KnockoutState {
    block: usize,
    words: Vec<Range<usize>>,
    arcs: Vec<Arc>,
}

/// An arc of a claim whose query word is masked and whose partner is not.
#[derive(Debug)]
struct Arc {
    claim: usize,
    is_at_offset: bool,
    exchange: Exchange,
    /// The query word's rows while its partner keeps its weight, then while that is exchanged, once its head was shown.
    rows: Option<[AttentionRows; 2]>,
    /// The positions of the query word that are scored, with the true tokens.
    truths: Vec<(usize, u32)>,
}

/// The arcs of a tree that a claim is about: the query word, its partner, and whether they are at the relation's best offset.
fn arcs_of<'a>(claim: &'a ArcClaim, tree: &'a [GoldArc]) -> impl Iterator<Item = (usize, usize, bool)> + 'a {
    tree.iter().enumerate().filter_map(|(dependent, arc)| {
        let TreeHead::Word(head) = arc.head else { return None };
        let is_at_offset = dependent.checked_add_signed(claim.offset as isize) == Some(head);
        let (query, partner) = if claim.direction.is_forward() { (dependent, head) } else { (head, dependent) };
        scored_as(&arc.relation).any(|name| name == claim.relation).then_some((query, partner, is_at_offset))
    })
}

merge_fields!(KnockoutSums[grid, claims] { blocks });

impl Sums for KnockoutSums {
    type SequenceState = KnockoutState;

    fn demands(&self) -> Demands {
        Demands {
            further_runs: if self.claims.is_empty() { FurtherRuns::None } else { FurtherRuns::Patched },
            ..Demands::ATTENTION
        }
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<KnockoutState> {
        let block = block_of(sequence.family.number);
        let tree = sequence.tree.as_deref().unwrap_or_default();
        let hidden = || sequence.predictions.iter().filter(|token| token.shown != InputToken::Itself);
        let is_hidden = |word: usize| hidden().any(|token| token.word == word);
        // Words that share a token keep their attention: what one of them gave away would be taken from the other.
        let is_apart = |word: usize| sequence.words[word].is_whole();
        let truths = |word: usize| -> Vec<(usize, u32)> {
            let own = hidden().filter(|token| token.word == word);
            own.filter_map(|&PredictedToken { position, truth, .. }| Some((position, truth?))).collect()
        };
        let mut arcs = Vec::new();
        for (claim, claimed) in self.claims.iter().enumerate() {
            let can_be_exchanged = |query, partner| is_apart(query) && is_apart(partner) && !is_hidden(partner);
            let arcs_of = arcs_of(claimed, tree).filter(|&(query, partner, _)| can_be_exchanged(query, partner));
            for (query, partner, is_at_offset) in arcs_of {
                let truths = truths(query);
                let visibility = self.classes.of_layer(self.grid.at(claimed.place).0);
                let tokens = |word: usize| &sequence.words[word].tokens;
                let sees = |word: &usize| visibility.sees_all(tokens(query), tokens(*word)) && is_apart(*word);
                let seen = || (0..tree.len()).filter(sees).collect::<Vec<_>>();
                let exchange = || Exchange::new(sequence.index, query, partner, &seen());
                if !truths.is_empty()
                    && let Some(exchange) = exchange()
                {
                    arcs.push(Arc { claim, is_at_offset, exchange, rows: None, truths });
                }
            }
        }
        let words = || sequence.words.iter().map(|word| word.tokens.clone()).collect();
        (!arcs.is_empty()).then(|| KnockoutState { block, words: words(), arcs })
    }

    fn observe(&mut self, state: &mut KnockoutState, event: &mut Event<'_>) {
        match event {
            Event::Head(input) => self.head(state, input),
            Event::BaselineOver(runs) => *runs = self.patched_runs(state),
            Event::PatchedLogits { run, position, logits } => self.patched_logits(state, *run, *position, logits),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid
            && self.claims.iter().all(|claim| claim.place < grid.count())
            && self.blocks.fit(|block| block.len() == self.claims.len())
    }
}
