//! The losses of masked words whose attention to their partner is cut, and of the same words with an equal weight cut
//! elsewhere.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::corpus::TreeHead;
use crate::corpus::relation::scored_as;
use crate::model::forward::visitor::Needs;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::observer::{Event, FurtherRuns, HeadInput, Sums};
use crate::passes::run::patches::PatchedRun;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::{GoldArc, InputToken, PredictedToken, Sequence};
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::stats::surprisal::surprisal;
use crate::study::labels::evidence::Direction;
use crate::study::upstream::ArcClaim;

/// The effect of cutting on the masked words of a claim, in a block of sentences or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cuts {
    /// Arcs that were tried.
    pub arcs: u64,
    /// The loss of the query word without the weight to its partner, in nats, summed over its tokens and all arcs.
    pub without_partner: ExactSum,
    /// The same without the weight to another word.
    pub without_other: ExactSum,
}

/// The cuts of each claim; `[claims]`.
pub type ByClaim = Vec<Cuts>;

merge_fields!(Cuts { arcs, without_partner, without_other });

/// The sums of all claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UseSums {
    grid: HeadGrid,
    from: FromToken,
    /// The claims that are put to the test.
    pub claims: Vec<ArcClaim>,
    /// The sums of each block.
    pub blocks: Blocks<ByClaim>,
}

impl UseSums {
    /// Empty sums for these claims of heads of a model with `grid`; words attend by `from`.
    pub fn new(grid: HeadGrid, from: FromToken, claims: Vec<ArcClaim>) -> Self {
        let blocks = Blocks::new(vec![Cuts::default(); claims.len()]);
        Self { grid, from, claims, blocks }
    }
}

/// The state of a sequence.
#[derive(Debug)]
pub struct ArcUseState {
    block: usize,
    /// The tokens of each word.
    words: Vec<Range<usize>>,
    arcs: Vec<Arc>,
}

/// An arc of a claim whose query word is masked and whose partner is not.
#[derive(Debug)]
struct Arc {
    claim: usize,
    query: usize,
    partner: usize,
    /// The word besides these two whose weight from the query word is nearest to that of the partner, once seen.
    other: Option<usize>,
    /// The positions of the query word that are scored, with the true tokens.
    truths: Vec<(usize, u32)>,
}

/// The arcs of a tree that a claim is about: the query word and its partner.
///
/// Arcs at the relation's best offset are left out: a head that looks there is peaked there, so no other word has an equal
/// weight (METHODOLOGY, "Use of an arc").
fn arcs_of<'a>(claim: &'a ArcClaim, tree: &'a [GoldArc]) -> impl Iterator<Item = (usize, usize)> + 'a {
    tree.iter().enumerate().filter_map(|(dependent, arc)| {
        let TreeHead::Word(head) = arc.head else { return None };
        let is_at_offset = dependent.checked_add_signed(claim.offset as isize) == Some(head);
        let is_of_claim = scored_as(&arc.relation).any(|name| name == claim.relation);
        (is_of_claim && !is_at_offset).then_some(match claim.direction {
            Direction::DependentToHead => (dependent, head),
            Direction::HeadToDependent => (head, dependent),
        })
    })
}

/// The word whose weight in the row of `query` is nearest to that of `partner`, the first of equally near ones.
fn nearest_weight(attention: &WordAttention, query: usize, partner: usize) -> Option<usize> {
    let row = attention.row(query);
    let distance = |word: &usize| (row[*word] - row[partner]).abs();
    let others = (0..row.len()).filter(|&word| word != query && word != partner);
    others.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

merge_fields!(UseSums[grid, claims] { blocks });

impl Sums for UseSums {
    type SequenceState = ArcUseState;

    fn needs(&self) -> Needs {
        Needs::ATTENTION
    }

    fn begin(&mut self, sequence: &Sequence) -> ArcUseState {
        let block = block_of(sequence.family.number);
        let tree = sequence.tree.as_deref().unwrap_or_default();
        let hidden = || sequence.predictions.iter().filter(|token| token.shown != InputToken::Itself);
        let is_hidden = |word: usize| hidden().any(|token| token.word == word);
        let truths = |word: usize| -> Vec<(usize, u32)> {
            let own = hidden().filter(|token| token.word == word);
            own.filter_map(|&PredictedToken { position, truth, .. }| Some((position, truth?))).collect()
        };
        let mut arcs = Vec::new();
        for (claim, claimed) in self.claims.iter().enumerate() {
            for (query, partner) in arcs_of(claimed, tree).filter(|&(_, partner)| !is_hidden(partner)) {
                let truths = truths(query);
                if !truths.is_empty() && tree.len() > 2 {
                    arcs.push(Arc { claim, query, partner, other: None, truths });
                }
            }
        }
        let words = if arcs.is_empty() { Vec::new() } else { sequence.words.clone() };
        ArcUseState { block, words, arcs }
    }

    fn is_relevant(state: &ArcUseState) -> bool {
        !state.arcs.is_empty()
    }

    fn observe(&mut self, state: &mut ArcUseState, event: &mut Event<'_>) {
        match event {
            Event::Head(input) => self.head(state, input),
            Event::BaselineOver(runs) => *runs = self.patched_runs(state),
            Event::PatchedLogits { run, position, logits } => self.patched_logits(state, *run, *position, logits),
            _ => {}
        }
    }

    fn further_runs(&self) -> FurtherRuns {
        if self.claims.is_empty() { FurtherRuns::None } else { FurtherRuns::Patched }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken) -> bool {
        (self.grid, self.from) == (grid, from)
            && self.claims.iter().all(|claim| claim.place < grid.count())
            && self.blocks.fit(|block| block.len() == self.claims.len())
    }
}

impl UseSums {
    fn head(&mut self, state: &mut ArcUseState, input: &mut HeadInput<'_>) {
        let place = self.grid.index(input.view.layer, input.view.head);
        for arc in state.arcs.iter_mut().filter(|arc| self.claims[arc.claim].place == place) {
            arc.other = nearest_weight(input.words(self.from), arc.query, arc.partner);
        }
    }

    /// Two runs for each arc: without the weight to the partner, then without the weight to the other word.
    pub(super) fn patched_runs(&mut self, state: &mut ArcUseState) -> Vec<PatchedRun> {
        let mut patched_runs = Vec::new();
        for Arc { claim, query, partner, other, truths } in &state.arcs {
            let other = other.expect("its head was shown, and there is a third word");
            let (layer, head) = self.grid.at(self.claims[*claim].place);
            self.blocks[state.block][*claim].arcs += 1;
            patched_runs.extend([*partner, other].map(|word| PatchedRun {
                place: HeadPlace { layer, head },
                queries: state.words[*query].clone(),
                keys: state.words[word].clone(),
                predicted: truths.iter().map(|&(position, _)| position).collect(),
            }));
        }
        patched_runs
    }

    pub(super) fn patched_logits(&mut self, state: &mut ArcUseState, number: usize, position: usize, logits: &[f32]) {
        let Arc { claim, truths, .. } = &state.arcs[number / 2];
        let truth = truths.iter().find(|(at, _)| *at == position).expect("a position that was asked for").1;
        let cuts = &mut self.blocks[state.block][*claim];
        let sum = if number.is_multiple_of(2) { &mut cuts.without_partner } else { &mut cuts.without_other };
        *sum += surprisal(logits, truth);
    }
}
