use std::collections::BTreeSet;

use super::*;
use crate::corpus::TreeHead;
use crate::corpus::{Annotation, Upos};
use crate::sequences::sequence::TokenKind::{self, FirstSpecial, Punctuation, Separator, Text};
use proptest::prelude::*;

/// `[CLS] un ##do it . [SEP]`, ids 0 to 5; undo is the root, it and the stop depend on it.
fn sentence(index: u64) -> Sequence {
    let tagged = |upos| Annotation { upos: Some(upos), ..Annotation::default() };
    let arc = |head, relation: &str| GoldArc { head, relation: relation.to_owned() };
    Sequence {
        index,
        ids: (0..6).collect(),
        segments: vec![0; 6],
        kinds: vec![FirstSpecial, Text, Text, Text, Punctuation, Separator],
        words: WordSpan::whole_words([1..3, 3..4, 4..5]),
        tree: Some(vec![arc(TreeHead::Root, "root"), arc(TreeHead::Word(0), "obj"), arc(TreeHead::Word(0), "punct")]),
        annotations: [Upos::Verb, Upos::Pron, Upos::Punct].map(tagged).to_vec(),
        ..Sequence::default()
    }
}

/// A word's token ids and kinds, its annotation, its relation, and the token ids of its head.
type ShuffledWord = (Vec<u32>, Vec<TokenKind>, Annotation, String, Option<Vec<u32>>);

fn arcs(sentence: &Sequence) -> Vec<ShuffledWord> {
    let ids = |word: usize| sentence.ids[sentence.words[word].tokens.clone()].to_vec();
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
            let annotation = sentence.annotations[word].clone();
            (
                ids(word),
                sentence.kinds[sentence.words[word].tokens.clone()].to_vec(),
                annotation,
                arc.relation.clone(),
                head,
            )
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
        words: WordSpan::whole_words((0..40).map(|token| token..token + 1)),
        tree: None,
        annotations: Vec::new(),
        ..sentence(index)
    };
    assert_eq!(shuffled(&long(3), 1), shuffled(&long(3), 1));
    assert_ne!(shuffled(&long(3), 1).ids, shuffled(&long(3), 2).ids);
    assert_ne!(shuffled(&long(3), 1).ids, shuffled(&long(4), 1).ids);
}

proptest! {
    /// Words stay whole and nothing is lost, whatever the lengths of words, and where tokens belong to none or to two.
    #[test]
    fn nothing_is_lost(
        lengths in prop::collection::vec((1..4_usize, 0..3_usize, any::<bool>()), 1..8),
        seed: u64,
    ) {
        let mut kinds = vec![FirstSpecial];
        let mut words: Vec<WordSpan> = Vec::new();
        for (length, loose, shares) in lengths {
            let start = match words.last() {
                Some(last) if shares => last.end() - 1,
                _ => kinds.len(),
            };
            // A shared token is the last but for loose ones.
            if start < kinds.len() {
                kinds.truncate(start + 1);
            }
            words.push((start..kinds.len() + length).into());
            kinds.extend(std::iter::repeat_n(Text, length + loose));
        }
        kinds.push(Separator);
        let count = kinds.len();
        let ids: Vec<u32> = (0..).take(count).collect();
        let before = Sequence { index: 1, ids, segments: vec![0; count], kinds, words, ..Sequence::default() };
        let after = shuffled(&before, seed);
        let words = |sentence: &Sequence| -> BTreeSet<Vec<u32>> {
            sentence.words.iter().map(|word| sentence.ids[word.tokens.clone()].to_vec()).collect()
        };
        prop_assert_eq!(words(&before), words(&after));
        prop_assert_eq!(before.shared_token_count(), after.shared_token_count());
        let all = |sentence: &Sequence| sentence.ids.iter().copied().collect::<BTreeSet<u32>>();
        prop_assert_eq!(all(&before), all(&after));
        prop_assert_eq!(&before.kinds, &after.kinds);
    }
}
