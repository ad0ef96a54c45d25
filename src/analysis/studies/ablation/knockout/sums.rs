//! Losses of masked words in two runs. One run keeps an attention head's weight on the word's syntactic partner. The
//! other run swaps it with the weight on a word about as far away.

use std::ops::Range;

use itertools::Itertools;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::corpus::TreeHead;
use crate::corpus::relation::scored_relations;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::gates::PatchedRows;
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

/// Losses of the query words of dependency arcs, with the attention on the syntactic partner kept and exchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArcLosses {
    pub arcs: u64,
    /// Loss with the attention on the syntactic partner kept, in nats, summed over the scored tokens of query words.
    pub kept: ExactSum,
    /// Loss with the attention on the partner swapped with that on another word, in nats, summed over the scored tokens
    /// of query words.
    pub exchanged: ExactSum,
}

merge_fields!(ArcLosses { arcs, kept, exchanged });

/// Losses over the dependency arcs of one head's syntactic label: arcs at the relation's best fixed offset, and other arcs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelArcLosses {
    /// Losses over arcs whose syntactic head stands at the relation's best offset from the dependent.
    pub at_offset: ArcLosses,
    /// Losses over arcs whose syntactic head stands at any offset but the relation's best.
    pub off_offset: ArcLosses,
}

merge_fields!(LabelArcLosses { at_offset, off_offset });

impl ArcLosses {
    /// Rise of the loss when the attention on the syntactic partner is exchanged with another word's, in nats, summed
    /// over tokens.
    pub fn loss_increase(&self) -> f64 {
        self.exchanged.value() - self.kept.value()
    }
}

impl LabelArcLosses {
    pub fn total(&self) -> ArcLosses {
        let mut all = self.at_offset;
        all.merge(&self.off_offset);
        all
    }
}

/// Losses over the dependency arcs of each tested label (claim), `[claims]`.
pub type LossesByLabel = Vec<LabelArcLosses>;

/// Losses of masked words over the arcs of every tested label, by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnockoutSums {
    pub grid: HeadGrid,
    #[serde(skip)]
    pub classes: LayerClasses,
    /// Labels that are tested, with the arcs that they claim.
    pub claims: Vec<ArcClaim>,
    pub blocks: Blocks<LossesByLabel>,
}

impl KnockoutSums {
    pub fn new(grid: HeadGrid, claims: Vec<ArcClaim>) -> Self {
        let blocks = Blocks::new(vec![LabelArcLosses::default(); claims.len()]);
        Self { grid, classes: LayerClasses::default(), claims, blocks }
    }

    fn observe_head(&mut self, state: &mut KnockoutState, input: &HeadInput<'_>) {
        let place = self.grid.index(input.view.layer, input.view.head);
        for arc in state.arcs.iter_mut().filter(|arc| self.claims[arc.claim].place == place) {
            arc.rows = Some(arc.exchange.changed_rows(input.attention(), &state.words));
        }
    }

    /// Sums of the block to which the arc adds: [`LabelArcLosses::at_offset`] or [`LabelArcLosses::off_offset`] of its label.
    fn losses_of_arc(&mut self, block: usize, arc: &TestedArc) -> &mut ArcLosses {
        let LabelArcLosses { at_offset, off_offset } = &mut self.blocks[block][arc.claim];
        if arc.is_at_offset { at_offset } else { off_offset }
    }

    /// Lists two patched runs for each dependency arc. The first keeps the partner's weight, the second swaps it
    /// with the weight on another word.
    pub(super) fn patched_runs(&mut self, state: &mut KnockoutState) -> Vec<PatchedRun> {
        let mut patched_runs = Vec::new();
        for arc in &mut state.arcs {
            self.losses_of_arc(state.block, arc).arcs += 1;
            let (layer, head) = self.grid.layer_and_head(self.claims[arc.claim].place);
            let predicted: Vec<usize> = arc.truths.iter().map(|&(position, _)| position).collect();
            let run = |rows| PatchedRun { place: HeadPlace { layer, head }, rows, predicted: predicted.clone() };
            patched_runs.extend(arc.rows.take().expect("its head was shown").map(run));
        }
        patched_runs
    }

    pub(super) fn patched_logits(&mut self, state: &mut KnockoutState, number: usize, position: usize, logits: &[f32]) {
        let arc = &state.arcs[number / 2];
        let truth = arc.truths.iter().find(|(at, _)| *at == position).expect("a position that was asked for").1;
        let losses = self.losses_of_arc(state.block, arc);
        let sum = if number.is_multiple_of(2) { &mut losses.kept } else { &mut losses.exchanged };
        *sum += surprisal(logits, truth);
    }
}

/// State of a sequence and of the arcs that are tested in it.
#[derive(Debug)]
pub struct KnockoutState {
    block: usize,
    /// Token range of each word.
    words: Vec<Range<usize>>,
    arcs: Vec<TestedArc>,
}

/// A dependency arc that a tested label is about. Its query word is masked or replaced, and its partner is visible.
#[derive(Debug)]
struct TestedArc {
    /// Index of the tested label in `KnockoutSums::claims`.
    claim: usize,
    is_at_offset: bool,
    exchange: AttentionExchange,
    /// Attention rows of the query word in the two runs, `[partner's weight kept, partner's weight swapped]`.
    /// `None` until the attention head was observed.
    rows: Option<[PatchedRows; 2]>,
    /// Position and true token id of each scored token of the query word.
    truths: Vec<(usize, u32)>,
}

/// Lists the dependency arcs that a claim covers, as `(query word, partner, is_at_best_offset)`.
fn claimed_arcs<'a>(claim: &'a ArcClaim, tree: &'a [GoldArc]) -> impl Iterator<Item = (usize, usize, bool)> + 'a {
    tree.iter().enumerate().filter_map(|(dependent, arc)| {
        let TreeHead::Word(head) = arc.head else { return None };
        let is_at_offset = dependent.checked_add_signed(claim.offset as isize) == Some(head);
        let (query, partner) = if claim.direction.is_forward() { (dependent, head) } else { (head, dependent) };
        scored_relations(&arc.relation).any(|name| name == claim.relation).then_some((query, partner, is_at_offset))
    })
}

merge_fields!(KnockoutSums[grid, claims] { blocks });

impl Sums for KnockoutSums {
    type SequenceState = KnockoutState;

    fn demands(&self) -> Demands {
        Demands {
            further_runs: if self.claims.is_empty() { FurtherRuns::None } else { FurtherRuns::PatchedRuns },
            ..Demands::ATTENTION
        }
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<KnockoutState> {
        let block = block_of(sequence.family.number);
        let tree = sequence.tree.as_deref().unwrap_or_default();
        let hidden_tokens = || sequence.predictions.iter().filter(|token| token.input != InputToken::Original);
        let is_hidden = |word: usize| hidden_tokens().any(|token| token.word == word);
        // Words that share a token are left out: exchanging the attention of one word would change the other's.
        let has_own_tokens = |word: usize| sequence.words[word].is_whole();
        let truths = |word: usize| -> Vec<(usize, u32)> {
            let own = hidden_tokens().filter(|token| token.word == word);
            own.filter_map(|&PredictedToken { position, truth, .. }| Some((position, truth?))).collect()
        };
        let mut arcs = Vec::new();
        for (claim, claimed) in self.claims.iter().enumerate() {
            let visibility = self.classes.layer_visibility(self.grid.layer_and_head(claimed.place).0);
            for (query, partner, is_at_offset) in claimed_arcs(claimed, tree) {
                let truths = truths(query);
                if !has_own_tokens(query) || !has_own_tokens(partner) || is_hidden(partner) || truths.is_empty() {
                    continue;
                }
                let tokens = |word: usize| &sequence.words[word].tokens;
                let sees = |word: &usize| visibility.sees_all(tokens(query), tokens(*word)) && has_own_tokens(*word);
                let visible: Vec<usize> = (0..tree.len()).filter(sees).collect();
                let exchange = AttentionExchange::new(sequence.index, query, partner, &visible);
                arcs.extend(exchange.map(|exchange| TestedArc { claim, is_at_offset, exchange, rows: None, truths }));
            }
        }
        let words = || sequence.words.iter().map(|word| word.tokens.clone()).collect();
        (!arcs.is_empty()).then(|| KnockoutState { block, words: words(), arcs })
    }

    fn observe(&mut self, state: &mut KnockoutState, event: &mut Event<'_>) {
        match event {
            Event::Head(input) => self.observe_head(state, input),
            Event::BaselineEnd(runs) => *runs = self.patched_runs(state),
            Event::PatchedLogits { run, position, logits } => self.patched_logits(state, *run, *position, logits),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid
            && self.claims.iter().all(|claim| claim.place < grid.head_count())
            && self.blocks.is_valid(|block| block.len() == self.claims.len())
    }
}

/// A change of a query word's attention (docs/methodology/knockout.md). The masses on words other than query and
/// partner are rotated among these words. The mass on the partner is kept, or swapped with the mass on a word about
/// as far away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionExchange {
    /// Index of the query word.
    query: usize,
    /// Index of the partner, the word at the other end of the arc.
    partner: usize,
    /// Index of the word whose mass is swapped with the partner's. It is the visible word, other than query and partner,
    /// whose distance from the query is nearest to the partner's distance; ties go to the first.
    distance_match: usize,
    /// Visible words other than query and partner, in the order of the rotation. Each takes over the mass of the
    /// word before it; the first takes that of the last.
    rotation: Vec<usize>,
}

impl AttentionExchange {
    /// Plans the exchange for an arc; `visible` lists the words that the query word sees, ascending. `None` if the
    /// partner is not visible, or if no third word is.
    pub fn new(sentence: u64, query: usize, partner: usize, visible: &[usize]) -> Option<Self> {
        if !visible.contains(&partner) {
            return None;
        }
        let mut rotation: Vec<usize> =
            visible.iter().copied().filter(|&word| word != query && word != partner).collect();
        let distance = |word: usize| word.abs_diff(query);
        let distance_match = rotation.iter().copied().min_by_key(|&word| distance(word).abs_diff(distance(partner)))?;
        rotation.sort_by_cached_key(|word| Sha256::digest(format!("headscope/use/0/{sentence}/{query}/{word}")));
        Some(Self { query, partner, distance_match, rotation })
    }

    /// The query word's attention rows in the two runs, `[partner's mass kept, partner's mass exchanged]`. In both runs,
    /// each word of `rotation` first takes over the mass of the word before it.
    ///
    /// The mass of a word is divided equally among its tokens. The masses on special tokens and on the query word
    /// stay, so a row keeps its sum.
    pub fn changed_rows(&self, attention: AttentionView<'_>, words: &[Range<usize>]) -> [PatchedRows; 2] {
        let mut rows = [PatchedRows::new(), PatchedRows::new()];
        for token in words[self.query].clone() {
            let own = attention.row(token);
            let mass = |word: &Range<usize>| own[word.clone()].iter().map(|&weight| f64::from(weight)).sum::<f64>();
            let mut masses = words.iter().map(mass).collect_vec();
            let before = masses.clone();
            let last = self.rotation.iter().cycle().skip(self.rotation.len() - 1);
            self.rotation.iter().zip(last).for_each(|(&word, &last)| masses[word] = before[last]);
            rows[0].insert(token, self.spread_over_tokens(own, &masses, words));
            masses.swap(self.partner, self.distance_match);
            rows[1].insert(token, self.spread_over_tokens(own, &masses, words));
        }
        rows
    }

    /// Returns the attention row `own` with new `masses` on the partner and on the rotated words. Each mass is divided
    /// equally among the word's tokens.
    #[expect(clippy::cast_possible_truncation, reason = "weights are float32")]
    fn spread_over_tokens(&self, own: &[f32], masses: &[f64], words: &[Range<usize>]) -> Vec<f32> {
        let mut row = own.to_vec();
        for &word in self.rotation.iter().chain([&self.partner]) {
            let tokens = words[word].clone();
            row[tokens.clone()].fill((masses[word] / tokens.len() as f64) as f32);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[CLS] a b1 b2 c d [SEP]`, words 0 to 3.
    const WORDS: [Range<usize>; 4] = [1..2, 2..4, 4..5, 5..6];
    const ROW: [f32; 7] = [0.1, 0.2, 0.05, 0.15, 0.3, 0.08, 0.12];

    fn rows(exchange: &AttentionExchange) -> [Vec<(usize, Vec<f32>)>; 2] {
        let weights = ROW.repeat(7);
        let both = exchange.changed_rows(AttentionView::new(0, 0, 7, &weights), &WORDS);
        both.map(|rows| rows.into_iter().collect())
    }

    fn assert_near(found: &[f32], expected: &[f32]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-7), "{found:?} {expected:?}");
    }

    #[test]
    fn an_example_by_hand() {
        // hashlib.sha256(b"headscope/use/0/7/0/2") begins with 0e17d9, that of word 3 with be7df0.
        let exchange = AttentionExchange::new(7, 0, 1, &[0, 1, 2, 3]).unwrap();
        // Of the words 2 and 3, both farther from word 0 than word 1, word 2 is nearer.
        assert_eq!(exchange, AttentionExchange { query: 0, partner: 1, distance_match: 2, rotation: vec![2, 3] });
        let [kept, exchanged] = rows(&exchange);
        // Word 1 keeps its mass of 0.2, now even over its tokens; the words 2 and 3 swap 0.3 and 0.08.
        assert_eq!((kept[0].0, kept.len(), exchanged.len()), (1, 1, 1));
        assert_near(&kept[0].1, &[0.1, 0.2, 0.1, 0.1, 0.08, 0.3, 0.12]);
        // Then word 1 has the 0.08 of word 2, and that its 0.2.
        assert_near(&exchanged[0].1, &[0.1, 0.2, 0.04, 0.04, 0.2, 0.3, 0.12]);
    }

    #[test]
    fn all_tokens_of_a_query_word_are_patched() {
        // Word 0 is as far from word 1 as word 2 is.
        let exchange = AttentionExchange::new(7, 1, 2, &[0, 1, 2, 3]).unwrap();
        assert_eq!(exchange.distance_match, 0);
        let [kept, exchanged] = rows(&exchange);
        let tokens = |rows: &[(usize, Vec<f32>)]| rows.iter().map(|(token, _)| *token).collect::<Vec<_>>();
        assert_eq!((tokens(&kept), tokens(&exchanged)), (vec![2, 3], vec![2, 3]));
        for row in 0..2 {
            // Its own two weights are uneven and stay so. Word 0 has the mass of word 3 and then that of word 2.
            assert_near(&kept[row].1, &[0.1, 0.08, 0.05, 0.15, 0.3, 0.2, 0.12]);
            assert_near(&exchanged[row].1, &[0.1, 0.3, 0.05, 0.15, 0.08, 0.2, 0.12]);
        }
    }

    #[test]
    fn masses_go_round_in_the_order_of_their_hashes() {
        let exchange = AttentionExchange::new(12, 1, 4, &[0, 1, 2, 3, 4, 5]).unwrap();
        // The hashes of the words 0, 3, 5 and 2 begin with 1565bf, 899aad, e2fe94 and eb8abd.
        assert_eq!(exchange.rotation, [0, 3, 5, 2]);
        let words: Vec<Range<usize>> = (0..6).map(|word| word..word + 1).collect();
        let weights = [0.1, 0.1, 0.2, 0.3, 0.05, 0.25].repeat(6);
        let [kept, _] = exchange.changed_rows(AttentionView::new(0, 0, 6, &weights), &words);
        // Each has the mass of the one before it, the first that of the last.
        assert_near(&kept[&1], &[0.2, 0.1, 0.25, 0.1, 0.05, 0.3]);
    }

    #[test]
    fn a_third_word_is_needed() {
        assert_eq!(AttentionExchange::new(0, 0, 1, &[0, 1]), None);
        assert_eq!(AttentionExchange::new(0, 0, 1, &[0, 1, 2]).unwrap().rotation, [2]);
        // What the query does not see takes no part, and a partner that it does not see has no weight to lose.
        assert_eq!(AttentionExchange::new(0, 0, 2, &[0, 1, 3]), None);
        assert_eq!(AttentionExchange::new(0, 0, 1, &[0, 1, 3]).unwrap().rotation, [3]);
    }
}
