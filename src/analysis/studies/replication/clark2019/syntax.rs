//! Dependency relations, by the rules of the released `Syntax_Analysis.ipynb`: every word is scored, roots and
//! punctuation included, and fixed offsets are clipped at the ends of the sentence.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::corpus::TreeHead;
use crate::corpus::relation::POOLED_RELATION;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::sequences::derived::pairs::MAX_PAIR_TOKENS;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{GoldArc, Sequence};
use crate::stats::blocks::{Merge, merge_fields};

/// Fixed offsets of the baseline, in words: `range(-3, 3)` in the notebook.
pub const OFFSETS: [i32; 6] = [-3, -2, -1, 0, 1, 2];

/// Number of words with one relation, and of right predictions of their syntactic heads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationHits {
    /// Number of words with the relation.
    pub count: u64,
    /// Number of words whose syntactic head each offset of [`OFFSETS`] predicts. Predictions beyond the sentence are
    /// clipped to the root before it, or to its last word.
    pub offset_hits: [u64; OFFSETS.len()],
    /// Number of words whose syntactic head each attention head predicts, `[layers * heads]`, as `[the word is the
    /// query, the syntactic head is the query]`.
    pub hits: Vec<[u64; 2]>,
}

merge_fields!(RelationHits { count, offset_hits, hits });

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SyntaxHits {
    grid: HeadGrid,
    /// Counts of each relation, by name; the entry `all` has all words.
    pub relations: BTreeMap<String, RelationHits>,
}

impl SyntaxHits {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, relations: BTreeMap::new() }
    }
}

/// Number of a word's syntactic head as in the released `Syntax_Analysis.ipynb`: 0 for the root, 1 for the first word.
/// `None` if the syntactic head is unknown.
fn notebook_head_number(head: TreeHead) -> Option<usize> {
    match head {
        TreeHead::Root => Some(0),
        TreeHead::Word(head) => Some(head + 1),
        TreeHead::Unknown => None,
    }
}

/// Predicts the number of the syntactic head at an `offset` from a word, clipped to 0 (the root) and to the last
/// word. `word` is counted from 0, the result from 1.
fn head_number_at_offset(word: usize, offset: i32, words: usize) -> usize {
    (word + 1).saturating_add_signed(offset as isize).min(words)
}

merge_fields!(SyntaxHits[grid] { relations });

impl Sums for SyntaxHits {
    /// Dependency tree of a sentence with at most [`MAX_PAIR_TOKENS`] tokens. The released code leaves out longer
    /// sentences.
    type SequenceState = Vec<GoldArc>;

    fn begin(&mut self, sentence: &Sequence) -> Option<Self::SequenceState> {
        let tree = sentence.tree.as_ref().filter(|_| sentence.ids.len() <= MAX_PAIR_TOKENS)?;
        let heads = self.grid.head_count();
        for (word, GoldArc { head, relation }) in tree.iter().enumerate() {
            let Some(head) = notebook_head_number(*head) else { continue };
            for name in [POOLED_RELATION, relation] {
                let sums = self.relations.entry(name.to_owned()).or_default();
                sums.hits.resize(heads, [0; 2]);
                sums.count += 1;
                for (hits, offset) in sums.offset_hits.iter_mut().zip(OFFSETS) {
                    *hits += u64::from(head_number_at_offset(word, offset, tree.len()) == head);
                }
            }
        }
        Some(tree.clone())
    }

    fn observe(&mut self, tree: &mut Self::SequenceState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let place = self.grid.index(input.view.layer, input.view.head);
        let folded = input.word_attention(FromToken::First);
        for (word, GoldArc { head, relation }) in tree.iter().enumerate() {
            let Some(head) = notebook_head_number(*head) else { continue };
            let predicted = [
                most_attended(tree.len(), word, |other| folded.get(word, other)),
                most_attended(tree.len(), word, |other| folded.get(other, word)),
            ];
            let right = predicted.map(|predicted| u64::from(predicted + 1 == head));
            for name in [POOLED_RELATION, relation] {
                let sums = self.relations.get_mut(name).expect("counted when the sentence was begun");
                sums.hits[place].merge(&right);
            }
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.relations.values().all(|relation| relation.hits.len() == grid.head_count())
    }
}

/// The word with the largest weight. The weight of `word` itself counts as 0; ties go to the first word.
fn most_attended(words: usize, word: usize, weight: impl Fn(usize) -> f64) -> usize {
    let weight = |other: usize| if other == word { 0.0 } else { weight(other) };
    (1..words).fold(0, |best, other| if weight(other) > weight(best) { other } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::attention::AttentionView;
    use crate::passes::observer::FoldBuffers;
    use crate::sequences::sequence::TokenKind::{FirstSpecial, Separator, Text};
    use crate::sequences::span::WordSpan;

    /// `[CLS] cats sleep . [SEP]`: cats <- sleep, sleep is the root, the stop <- sleep.
    fn sentence() -> Sequence {
        let arc = |head, relation: &str| GoldArc { head, relation: relation.to_owned() };
        Sequence {
            index: 0,
            ids: vec![0; 5],
            segments: vec![0; 5],
            kinds: vec![FirstSpecial, Text, Text, Text, Separator],
            words: WordSpan::whole_words([1..2, 2..3, 3..4]),
            tree: Some(vec![
                arc(TreeHead::Word(1), "nsubj"),
                arc(TreeHead::Root, "root"),
                arc(TreeHead::Word(1), "punct"),
            ]),
            ..Sequence::default()
        }
    }

    #[test]
    fn every_word_is_scored() {
        let mut sums = SyntaxHits::new(HeadGrid { layers: 1, heads: 1 });
        let (sentence, mut panel) = (sentence(), FoldBuffers::default());
        let mut state = sums.begin(&sentence).unwrap();
        let weights = [
            0.2, 0.2, 0.2, 0.2, 0.2, //
            0.0, 0.5, 0.25, 0.25, 0.0, // cats: sleep and the stop are equal, the first is taken
            0.0, 0.0, 1.0, 0.0, 0.0, // sleep: all others have 0, and so has the word itself: the first word
            0.0, 0.0, 0.75, 0.25, 0.0, // the stop: sleep
            0.2, 0.2, 0.2, 0.2, 0.2,
        ];
        sums.observe(
            &mut state,
            &mut Event::Head(panel.head_input(&sentence, AttentionView::new(0, 0, 5, &weights).into())),
        );
        let [all, nsubj, root] = ["all", "nsubj", "root"].map(|name| &sums.relations[name]);
        // Into cats from others: 0 and 0, so the first word, itself; into the stop: 1/4 from cats.
        assert_eq!((all.count, all.hits[0]), (3, [2, 0]));
        assert_eq!((nsubj.count, nsubj.hits[0]), (1, [1, 0]));
        assert_eq!((root.count, root.hits[0]), (1, [0, 0]));
        // -3 and -2 take the second word, of number 2, to 0, the root; -1 takes the stop to sleep; +1 takes cats there.
        assert_eq!(root.offset_hits, [1, 1, 0, 0, 0, 0]);
        assert_eq!(all.offset_hits, [1, 1, 1, 0, 1, 0]);
    }

    #[test]
    fn offsets_end_with_the_sentence() {
        // Numbers from 1; the third of four words.
        assert_eq!(OFFSETS.map(|offset| head_number_at_offset(2, offset, 4)), [0, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn long_sentences_and_sentences_without_a_tree_are_left_out() {
        let mut sums = SyntaxHits::new(HeadGrid { layers: 1, heads: 1 });
        assert_eq!(sums.begin(&Sequence { ids: vec![0; MAX_PAIR_TOKENS + 1], ..sentence() }), None);
        assert_eq!(sums.begin(&Sequence { tree: None, ..sentence() }), None);
        assert!(sums.relations.is_empty());
    }
}
