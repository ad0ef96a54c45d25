//! Sequences for the tests of several modules.

use super::sequence::{GoldArc, Sequence, TokenKind};
use crate::corpus::{SentenceGroup, TreeHead};

/// Makes a sequence of tokens of these kinds, in which each token of text is a word.
pub fn sequence(kinds: &[TokenKind]) -> Sequence {
    Sequence {
        ids: vec![0; kinds.len()],
        segments: vec![0; kinds.len()],
        kinds: kinds.to_vec(),
        words: (0..kinds.len())
            .filter(|&token| !kinds[token].is_special())
            .map(|token| (token..token + 1).into())
            .collect(),
        ..Sequence::default()
    }
}

/// Makes a sentence of `words` words between two special tokens. The syntactic head of each word is the word before it.
pub fn sentence(index: u64, words: usize, relation: &str) -> Sequence {
    let text = std::iter::repeat_n(TokenKind::Text, words);
    let kinds: Vec<_> = [TokenKind::FirstSpecial].into_iter().chain(text).chain([TokenKind::Separator]).collect();
    let head = |word: usize| word.checked_sub(1).map_or(TreeHead::Root, TreeHead::Word);
    let arc = |word| GoldArc { head: head(word), relation: relation.to_owned() };
    let family = SentenceGroup::new(index);
    Sequence { index, family, tree: Some((0..words).map(arc).collect()), ..sequence(&kinds) }
}
