//! Controls: the same analysis with something taken away that labels are thought to rest on (METHODOLOGY, "Controls").

use std::fmt;
use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::corpus::TreeHead;
use crate::sequences::encode::{GoldArc, Sequence};

/// A control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// What is taken away.
    #[serde(rename = "control")]
    pub kind: ControlKind,
    /// The seed of what is random about it.
    pub seed: u64,
}

/// What a control takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlKind {
    /// What was learned: the weights are those of an untrained model.
    RandomInit,
    /// The order of words: each sentence's words are shuffled, and their arcs go with them.
    ShuffledWords,
}

impl ControlKind {
    /// All controls.
    pub const ALL: [Self; 2] = [Self::RandomInit, Self::ShuffledWords];

    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RandomInit => "random-init",
            Self::ShuffledWords => "shuffled-words",
        }
    }
}

impl fmt::Display for ControlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The sentence with its words in random order; each word keeps its tokens, in their order, and its arc.
///
/// The order depends on the seed and the sentence's number alone. Special tokens stay where they are, around the text.
/// A token of text that belongs to no word goes with the word before it.
#[must_use]
pub fn shuffled(sentence: &Sequence, seed: u64) -> Sequence {
    let pieces = pieces(sentence);
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(sentence.index);
    order.shuffle(&mut random);

    // The places in the sentence that tokens of words have, and the tokens that come there.
    let places: Vec<usize> = pieces.iter().cloned().flatten().collect();
    let tokens = order.iter().flat_map(|&word| pieces[word].clone());
    let mut shuffled = sentence.clone();
    for (&place, token) in places.iter().zip(tokens) {
        shuffled.ids[place] = sentence.ids[token];
        shuffled.segments[place] = sentence.segments[token];
        shuffled.kinds[place] = sentence.kinds[token];
    }
    let mut start = 0;
    shuffled.words = order
        .iter()
        .map(|&word| {
            let first = places[start];
            start += pieces[word].len();
            first..first + sentence.words[word].len()
        })
        .collect();
    if let Some(tree) = &sentence.tree {
        let mut now_at = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &word)| now_at[word] = place);
        let moved = |arc: &GoldArc| match arc.head {
            TreeHead::Word(head) => GoldArc { head: TreeHead::Word(now_at[head]), ..arc.clone() },
            TreeHead::Root | TreeHead::Unknown => arc.clone(),
        };
        shuffled.tree = Some(order.iter().map(|&word| moved(&tree[word])).collect());
    }
    shuffled
}

/// Each word with the tokens of text after it that belong to none.
fn pieces(sentence: &Sequence) -> Vec<Range<usize>> {
    let is_loose =
        |token: &usize| !sentence.kinds[*token].is_special() && !sentence.words.iter().any(|word| word.contains(token));
    let with_loose = |word: &Range<usize>| {
        word.start..(word.end..sentence.kinds.len()).find(|token| !is_loose(token)).unwrap_or(sentence.kinds.len())
    };
    sentence.words.iter().map(with_loose).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::sequences::encode::TokenKind::{self, FirstSpecial, Punctuation, Separator, Text};
    use proptest::prelude::*;

    /// `[CLS] un ##do it . [SEP]`, ids 0 to 5; undo is the root, it and the stop depend on it.
    fn sentence(index: u64) -> Sequence {
        let arc = |head, relation: &str| GoldArc { head, relation: relation.to_owned() };
        Sequence {
            index,
            ids: (0..6).collect(),
            segments: vec![0; 6],
            kinds: vec![FirstSpecial, Text, Text, Text, Punctuation, Separator],
            words: vec![1..3, 3..4, 4..5],
            tree: Some(vec![
                arc(TreeHead::Root, "root"),
                arc(TreeHead::Word(0), "obj"),
                arc(TreeHead::Word(0), "punct"),
            ]),
        }
    }

    /// A word's token ids and kinds, its relation, and the token ids of its head.
    type Moved = (Vec<u32>, Vec<TokenKind>, String, Option<Vec<u32>>);

    fn arcs(sentence: &Sequence) -> Vec<Moved> {
        let ids = |word: usize| sentence.ids[sentence.words[word].clone()].to_vec();
        let mut arcs: Vec<_> = sentence
            .tree
            .iter()
            .flatten()
            .enumerate()
            .map(|(word, arc)| {
                let head = match arc.head {
                    TreeHead::Word(head) => Some(ids(head)),
                    TreeHead::Root | TreeHead::Unknown => None,
                };
                (ids(word), sentence.kinds[sentence.words[word].clone()].to_vec(), arc.relation.clone(), head)
            })
            .collect();
        arcs.sort_by(|a, b| a.0.cmp(&b.0));
        arcs
    }

    #[test]
    fn words_move_with_their_tokens_and_arcs() {
        let orders: BTreeSet<Vec<u32>> = (0..50)
            .map(|index| {
                let shuffled = shuffled(&sentence(index), 7);
                assert_eq!(arcs(&shuffled), arcs(&sentence(index)));
                assert_eq!((shuffled.ids[0], shuffled.ids[5]), (0, 5));
                shuffled.ids
            })
            .collect();
        // All six orders of three words come up.
        assert_eq!(orders.len(), 6);
        assert!(orders.contains(&vec![0, 4, 3, 1, 2, 5]));
    }

    #[test]
    fn the_order_is_that_of_seed_and_sentence() {
        let long = |index| Sequence {
            ids: (0..40).collect(),
            segments: vec![0; 40],
            kinds: vec![Text; 40],
            words: (0..40).map(|token| token..token + 1).collect(),
            tree: None,
            ..sentence(index)
        };
        assert_eq!(shuffled(&long(3), 1), shuffled(&long(3), 1));
        assert_ne!(shuffled(&long(3), 1).ids, shuffled(&long(3), 2).ids);
        assert_ne!(shuffled(&long(3), 1).ids, shuffled(&long(4), 1).ids);
    }

    proptest! {
        /// Whatever the lengths of words, and where tokens belong to none: words stay whole, and nothing is lost.
        #[test]
        fn nothing_is_lost(lengths in prop::collection::vec((1..4_usize, 0..3_usize), 1..8), seed: u64) {
            let mut kinds = vec![FirstSpecial];
            let mut words = Vec::new();
            for (length, loose) in lengths {
                words.push(kinds.len()..kinds.len() + length);
                kinds.extend(std::iter::repeat_n(Text, length + loose));
            }
            kinds.push(Separator);
            let count = kinds.len();
            let ids: Vec<u32> = (0..).take(count).collect();
            let before = Sequence { index: 1, ids, segments: vec![0; count], kinds, words, tree: None };
            let after = shuffled(&before, seed);
            let words = |sentence: &Sequence| -> BTreeSet<Vec<u32>> {
                sentence.words.iter().map(|word| sentence.ids[word.clone()].to_vec()).collect()
            };
            prop_assert_eq!(words(&before), words(&after));
            let all = |sentence: &Sequence| sentence.ids.iter().copied().collect::<BTreeSet<u32>>();
            prop_assert_eq!(all(&before), all(&after));
            prop_assert_eq!(&before.kinds, &after.kinds);
        }
    }
}
