//! Accumulators: what is seen of each head, summed per block of sentences.
//!
//! `Sums::begin` counts a sentence, `Sums::observe` adds one head's attention over it, `Sums::merge` adds another
//! worker's sums, and `Sums::pool` adds blocks up for [`crate::studies::metrics`] to divide.
//! All sums are exact (integers, or [`exact::ExactSum`]): the result does not depend on who added what when.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::model::forward::attention::AttentionView;
use crate::sequences::encode::Sequence;
use crate::sequences::words::{FromToken, WordAttention};

use super::attention::sums::{self as token, RowBuffers, TokenExposure, TokenRoles, TokenSums};
use super::dependency::sums::{self as dependency, Agreement, Predictions, RelationSums, ScoredArc};
use super::trees::sums::{GoldEdges, TreeBuffers, TreeSums};
use crate::model::grid::HeadGrid;
use crate::stats::exact::ExactSum;

/// Sentence `s` of the corpus belongs to block `s mod 64` (METHODOLOGY, "Uncertainty").
///
/// The number is even, so the parity of the block is that of the sentence: the two folds are whole blocks.
pub const BLOCKS: usize = 64;

/// What the observers must know of a sentence, worked out once for all its heads.
#[derive(Clone, Debug)]
pub struct Observed {
    block: usize,
    roles: TokenRoles,
    words: Vec<Range<usize>>,
    arcs: Vec<ScoredArc>,
    gold: GoldEdges,
}

/// The sums of one block of sentences, or of several pooled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSums {
    /// The denominators of the token level.
    pub exposure: TokenExposure,
    /// The token level of a head that attends uniformly, `A = 1/n`: the chance level.
    pub uniform: TokenSums<ExactSum>,
    /// The token level of each head; `[layers * heads]`.
    pub heads: Vec<TokenSums<ExactSum>>,
    /// Spanning trees.
    pub trees: TreeSums,
    /// Dependency relations, by their place in [`Sums::relations`]; shorter where the last ones were not met.
    pub relations: Vec<RelationSums>,
}

impl BlockSums {
    fn new(grid: HeadGrid) -> Self {
        Self {
            heads: vec![TokenSums::default(); grid.count()],
            trees: TreeSums { hits: vec![0; grid.count()], ..TreeSums::default() },
            ..Self::default()
        }
    }

    fn relation(&mut self, place: usize) -> &mut RelationSums {
        if self.relations.len() <= place {
            self.relations.resize(place + 1, RelationSums::default());
        }
        &mut self.relations[place]
    }

    /// Adds `other`; its relation at place `i` is this one's at `places[i]`.
    fn merge(&mut self, other: &Self, places: &[usize]) {
        self.exposure.merge(&other.exposure);
        self.uniform.merge(&other.uniform);
        self.heads.iter_mut().zip(&other.heads).for_each(|(sum, head)| sum.merge(head));
        self.trees.merge(&other.trees);
        for (relation, &place) in other.relations.iter().zip(places).filter(|(relation, _)| relation.count > 0) {
            self.relation(place).merge(relation);
        }
    }

    fn is_sound(&self, heads: usize, relations: usize) -> bool {
        let sound = |relation: &RelationSums| relation.hits.len() == if relation.count > 0 { heads } else { 0 };
        self.heads.len() == heads
            && self.trees.hits.len() == heads
            && self.relations.len() <= relations
            && self.relations.iter().all(sound)
    }
}

/// All sums of a run, or of a worker's or a shard's part of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sums {
    grid: HeadGrid,
    from: FromToken,
    /// The place of each relation in the blocks' lists.
    relations: BTreeMap<String, usize>,
    /// For each relation, by its place, where heads and fixed offsets are right on the same arcs.
    agreements: Vec<Agreement>,
    blocks: Vec<BlockSums>,
    #[serde(skip)]
    buffers: Buffers,
}

/// Room to look at one head of one sentence, reused.
#[derive(Clone, Debug, Default)]
struct Buffers {
    row: RowBuffers,
    folded: WordAttention,
    predictions: Predictions,
    tree: TreeBuffers,
    uniform: Uniform,
}

/// The attention of a head without any preference: `A = 1/n`, whose entropy is `ln n`.
#[derive(Clone, Debug, Default)]
struct Uniform {
    weights: Vec<f32>,
    entropies: Vec<f32>,
}

impl Uniform {
    #[expect(clippy::cast_possible_truncation, reason = "attention is f32")]
    fn view(&mut self, tokens: usize) -> AttentionView<'_> {
        let n = tokens as f64;
        self.weights.clear();
        self.weights.resize(tokens * tokens, (1.0 / n) as f32);
        self.entropies.clear();
        self.entropies.resize(tokens, n.ln() as f32);
        AttentionView::strided(0, 0, tokens, &self.weights, &self.entropies)
    }
}

impl Sums {
    /// Empty sums for a model with `grid` heads.
    #[must_use]
    pub fn new(grid: HeadGrid, from: FromToken) -> Self {
        Self {
            grid,
            from,
            relations: BTreeMap::new(),
            agreements: Vec::new(),
            blocks: vec![BlockSums::new(grid); BLOCKS],
            buffers: Buffers::default(),
        }
    }

    /// The heads that are summed.
    #[must_use]
    pub fn grid(&self) -> HeadGrid {
        self.grid
    }

    /// The relations that were met, by name, with their place in [`BlockSums::relations`].
    #[must_use]
    pub fn relations(&self) -> &BTreeMap<String, usize> {
        &self.relations
    }

    /// The sums of each block; `[BLOCKS]`.
    #[must_use]
    pub fn blocks(&self) -> &[BlockSums] {
        &self.blocks
    }

    /// Where heads and fixed offsets agree, over all blocks; by the places of [`Sums::relations`].
    #[must_use]
    pub fn agreements(&self) -> &[Agreement] {
        &self.agreements
    }

    /// Makes room for every relation that has a place.
    fn resize_agreements(&mut self) {
        self.agreements.resize(self.relations.len(), Agreement::default());
        self.agreements.iter_mut().for_each(|agreement| agreement.resize(self.grid.count()));
    }

    /// Counts a sentence and all that does not depend on a head: denominators, chance, baselines.
    pub fn begin(&mut self, sentence: &Sequence) -> Observed {
        let block = usize::try_from(sentence.index % BLOCKS as u64).expect("less than BLOCKS");
        let roles = TokenRoles::new(sentence);
        let tree = sentence.tree.as_deref().unwrap_or_default();
        let relations = &mut self.relations;
        let arcs = dependency::scored_arcs(tree, |name| place(relations, name));
        self.resize_agreements();
        let gold = GoldEdges::new(tree);

        let sums = &mut self.blocks[block];
        sums.exposure.add(&roles);
        let Buffers { row, uniform, .. } = &mut self.buffers;
        sums.uniform.add(&token::observe(&roles, uniform.view(sentence.ids.len()), row));
        sums.trees.edges += gold.count();
        sums.trees.chain_hits += gold.in_chain();
        for arc in &arcs {
            for &relation in &arc.relations {
                sums.relation(relation).count(arc, self.grid.count());
            }
        }
        Observed { block, roles, words: sentence.words.clone(), arcs, gold }
    }

    /// Adds what one head does in a sentence that was begun.
    pub fn observe(&mut self, sentence: &Observed, view: AttentionView<'_>) {
        let head = self.grid.index(view.layer, view.head);
        let block = &mut self.blocks[sentence.block];
        let Buffers { row, folded, predictions, tree, .. } = &mut self.buffers;
        block.heads[head].add(&token::observe(&sentence.roles, view, row));
        if sentence.arcs.is_empty() {
            return;
        }
        folded.fold(view, &sentence.words, self.from);
        block.trees.hits[head] += sentence.gold.in_spanning_tree(folded, tree);
        let predicted = predictions.of(folded);
        for arc in &sentence.arcs {
            let right = predicted[arc.dependent].map(|predicted| u64::from(predicted == arc.head));
            for &relation in &arc.relations {
                let hits = &mut block.relations[relation].hits[head];
                hits[0] += right[0];
                hits[1] += right[1];
                if let Some(offset) = arc.offset {
                    let both = &mut self.agreements[relation].both[head];
                    both[0][offset] += right[0];
                    both[1][offset] += right[1];
                }
            }
        }
    }

    /// Adds another worker's or shard's sums: afterwards it is as if all its sentences had been added here.
    ///
    /// # Panics
    ///
    /// If the two are of models with different heads, or fold words differently.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.grid, self.from), (other.grid, other.from), "sums of one analysis");
        let mut places = vec![0; other.relations.len()];
        for (name, &theirs) in &other.relations {
            places[theirs] = place(&mut self.relations, name);
        }
        self.resize_agreements();
        for (agreement, &place) in other.agreements.iter().zip(&places) {
            self.agreements[place].merge(agreement);
        }
        for (block, theirs) in self.blocks.iter_mut().zip(&other.blocks) {
            block.merge(theirs, &places);
        }
    }

    /// The same sums with the relations numbered by name and not as they were met: equal sums are then equal bytes.
    #[must_use]
    pub fn in_order(&self) -> Self {
        let mut ordered = Self::new(self.grid, self.from);
        ordered.relations = self.relations.keys().cloned().zip(0..).collect();
        ordered.merge(self);
        ordered
    }

    /// The same sums with all blocks in the first one, where nothing depends on blocks.
    #[must_use]
    pub fn pooled(&self) -> Self {
        let mut pooled = Self { blocks: vec![BlockSums::new(self.grid); BLOCKS], ..self.clone() };
        pooled.blocks[0] = self.pool(0..BLOCKS);
        pooled
    }

    /// Whether these are sums of such heads and words, and all lists have the lengths that this implies:
    /// what was read from a file may be anything.
    #[must_use]
    pub fn fits(&self, grid: HeadGrid, from: FromToken) -> bool {
        let Some(heads) = grid.layers.checked_mul(grid.heads).filter(|&heads| heads > 0) else {
            return false;
        };
        let mut places: Vec<usize> = self.relations.values().copied().collect();
        places.sort_unstable();
        (self.grid, self.from) == (grid, from)
            && places.into_iter().eq(0..self.relations.len())
            && self.agreements.len() == self.relations.len()
            && self.agreements.iter().all(|agreement| agreement.both.len() == heads)
            && self.blocks.len() == BLOCKS
            && self.blocks.iter().all(|block| block.is_sound(heads, self.relations.len()))
    }

    /// Adds up the blocks of the given numbers; a number may come twice.
    #[must_use]
    pub fn pool(&self, blocks: impl IntoIterator<Item = usize>) -> BlockSums {
        let places: Vec<usize> = (0..self.relations.len()).collect();
        let mut pooled = BlockSums::new(self.grid);
        if let Some(last) = places.last() {
            pooled.relation(*last);
        }
        blocks.into_iter().for_each(|block| pooled.merge(&self.blocks[block], &places));
        pooled
    }
}

#[cfg(test)]
impl Sums {
    /// Sums that were drawn, not observed; `blocks` and `agreements` list the relations by their places.
    pub(crate) fn simulated(
        grid: HeadGrid,
        relations: BTreeMap<String, usize>,
        blocks: Vec<BlockSums>,
        agreements: Vec<Agreement>,
    ) -> Self {
        Self { relations, agreements, blocks, ..Self::new(grid, FromToken::Mean) }
    }
}

/// What workers fill, each its own, and then add up.
pub trait Accumulator: Clone + Send + Sync {
    /// What is known of a sentence before its attention comes.
    type Begun;

    /// Counts a sentence.
    fn begin(&mut self, sentence: &Sequence) -> Self::Begun;

    /// Adds what one head does in a sentence that was begun.
    fn observe(&mut self, sentence: &Self::Begun, view: AttentionView<'_>);

    /// Adds what another worker or shard has: afterwards it is as if all had been added here.
    fn merge(&mut self, other: &Self);
}

impl Accumulator for Sums {
    type Begun = Observed;

    fn begin(&mut self, sentence: &Sequence) -> Observed {
        Self::begin(self, sentence)
    }

    fn observe(&mut self, sentence: &Observed, view: AttentionView<'_>) {
        Self::observe(self, sentence, view);
    }

    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }
}

/// The place of a relation in the table, a new one at the end.
fn place(relations: &mut BTreeMap<String, usize>, name: &str) -> usize {
    if let Some(&place) = relations.get(name) {
        return place;
    }
    let place = relations.len();
    relations.insert(name.to_owned(), place);
    place
}

#[cfg(test)]
pub(crate) mod test_support {
    use crate::sequences::encode::{Sequence, TokenKind};

    /// A sentence of tokens of these kinds, each ordinary token a word of its own.
    pub(crate) fn sentence(kinds: &[TokenKind]) -> Sequence {
        Sequence {
            index: 0,
            ids: vec![0; kinds.len()],
            segments: vec![0; kinds.len()],
            kinds: kinds.to_vec(),
            words: (0..kinds.len()).filter(|&token| !kinds[token].is_special()).map(|token| token..token + 1).collect(),
            ..Sequence::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::TreeHead;
    use crate::sequences::encode::{GoldArc, TokenKind};
    use proptest::prelude::*;

    /// A sentence of `words` words between two special tokens, each word's head the one before it.
    fn sentence(index: u64, words: usize, relation: &str) -> Sequence {
        let kinds: Vec<_> = [TokenKind::FirstSpecial]
            .into_iter()
            .chain(std::iter::repeat_n(TokenKind::Text, words))
            .chain([TokenKind::Separator])
            .collect();
        let head = |word: usize| word.checked_sub(1).map_or(TreeHead::Root, TreeHead::Word);
        let arc = |word| GoldArc { head: head(word), relation: relation.to_owned() };
        Sequence { index, tree: Some((0..words).map(arc).collect()), ..test_support::sentence(&kinds) }
    }

    fn add(sums: &mut Sums, sentence: &Sequence, weights: &[f32]) {
        let observed = sums.begin(sentence);
        let tokens = sentence.ids.len();
        for head in 0..2 {
            // Head 1 sees the transpose: another matrix of the same size.
            let transposed: Vec<f32> =
                (0..tokens * tokens).map(|i| weights[i % tokens * tokens + i / tokens]).collect();
            let weights = if head == 0 { &weights[..tokens * tokens] } else { &transposed };
            sums.observe(&observed, AttentionView::new(0, head, tokens, weights));
        }
    }

    fn empty() -> Sums {
        Sums::new(HeadGrid { layers: 1, heads: 2 }, FromToken::Mean)
    }

    proptest! {
        /// merge(left, right) == whole, whatever the order, and however the relations are numbered on each side.
        #[test]
        fn merged_parts_equal_the_whole(
            lengths in prop::collection::vec((1..6_usize, 0..3_usize), 1..12),
            weights in prop::collection::vec(0.0..1.0_f32, 64),
            cut in 0..12_usize,
        ) {
            let relations = ["nsubj", "obl:tmod", "punct"];
            let sentences: Vec<Sequence> = lengths
                .iter()
                .zip(60..)
                .map(|(&(words, relation), index)| sentence(index, words, relations[relation]))
                .collect();
            let sum = |part: &[Sequence]| {
                let mut sums = empty();
                part.iter().for_each(|sentence| add(&mut sums, sentence, &weights));
                sums
            };
            let whole = sum(&sentences);
            let (left, right) = sentences.split_at(cut.min(sentences.len()));
            for (first, second) in [(left, right), (right, left)] {
                let mut merged = sum(first);
                merged.merge(&sum(second));
                prop_assert_eq!(named(&merged), named(&whole));
            }
        }
    }

    /// The pooled sums with relations by name, since their places depend on who met which first.
    fn named(sums: &Sums) -> (BlockSums, BTreeMap<String, (RelationSums, Agreement)>) {
        let mut pooled = sums.pool(0..BLOCKS);
        let relations = std::mem::take(&mut pooled.relations);
        let of = |place: usize| (relations[place].clone(), sums.agreements()[place].clone());
        (pooled, sums.relations().iter().map(|(name, &place)| (name.clone(), of(place))).collect())
    }

    #[test]
    fn agreements_are_right_predictions_by_the_offset_that_is_right_too() {
        let mut sums = empty();
        // Words at tokens 1..=4; each word but the first attends most to the one before it, its head.
        let mut weights = [0.125; 36];
        (2..5).for_each(|token| weights[token * 6 + token - 1] = 0.5);
        add(&mut sums, &sentence(0, 4, "nsubj"), &weights);
        let agreement = &sums.agreements()[sums.relations()["nsubj"]];
        let minus_one = dependency::baseline_offsets().position(|offset| offset == -1).unwrap();
        assert_eq!(agreement.both[0][0][minus_one], 3);
        let hits = &sums.pool([0]).relations[sums.relations()["nsubj"]].hits;
        for (both, hits) in agreement.both.iter().zip(hits) {
            assert_eq!(both.map(|by_offset| by_offset.iter().sum::<u64>()), *hits);
        }
    }

    #[test]
    fn a_sentence_goes_to_the_block_of_its_number() {
        let mut sums = empty();
        add(&mut sums, &sentence(64 + 3, 4, "nsubj"), &[0.1; 64]);
        // Four words, three with a head.
        assert_eq!(sums.pool([3]).exposure.queries, 4);
        assert_eq!(sums.pool([3]).relations[0].count, 3);
        assert_eq!(sums.pool((0..BLOCKS).filter(|&block| block != 3)).exposure.queries, 0);
    }
}
