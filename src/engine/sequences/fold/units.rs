//! The units of drawn attention: the words of a sentence and its special tokens.

use std::ops::Range;

use crate::sequences::sequence::{Sequence, TokenKind};

/// The words of a sentence and its special tokens, in the order of the sentence.
///
/// [`WordAttention::fold`](super::words::WordAttention::fold) folds attention to their `spans` as it does to words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// The tokens of each unit, `[units]`.
    pub spans: Vec<Range<usize>>,
    /// The word that each unit is, `[units]`; `None` of a special token.
    pub words: Vec<Option<usize>>,
    /// The unit of each word, `[words]`.
    pub of_word: Vec<usize>,
}

impl Units {
    /// The units of a sequence. Tokens of text that are of no word are in none.
    pub fn new(sequence: &Sequence) -> Self {
        let words = sequence.words.iter().enumerate().map(|(word, span)| (span.clone(), Some(word)));
        // The first token of a decoder may be of a word.
        let of_word = |token: &usize| sequence.words.iter().any(|word| word.contains(token));
        let special = (0..sequence.kinds.len()).filter(|&token| sequence.kinds[token].is_special());
        let special = special.filter(|token| sequence.kinds[*token] != TokenKind::First || !of_word(token));
        let mut units: Vec<(Range<usize>, Option<usize>)> =
            words.chain(special.map(|token| (token..token + 1, None))).collect();
        units.sort_by_key(|(span, _)| span.start);
        let (spans, words): (Vec<_>, Vec<_>) = units.into_iter().unzip();
        let mut of_word = vec![0; sequence.words.len()];
        words.iter().enumerate().for_each(|(unit, word)| {
            if let Some(word) = word {
                of_word[*word] = unit;
            }
        });
        Self { spans, words, of_word }
    }

    /// The unit that a token is of.
    pub fn of_token(&self, token: usize) -> Option<usize> {
        self.spans.iter().position(|span| span.contains(&token))
    }

    /// The text of each unit, `[units]`: words as the corpus has them, special tokens by what `special` makes of their place.
    pub fn texts(&self, sequence: &Sequence, special: impl Fn(usize) -> String) -> Vec<String> {
        let text = |(span, word): (&Range<usize>, &Option<usize>)| match word {
            Some(word) => sequence.form(*word).to_owned(),
            None => special(span.start),
        };
        self.spans.iter().zip(&self.words).map(text).collect()
    }

    /// The gold head of each unit, `[units]`, as a unit; `None` where there is none. Empty without a tree.
    pub fn heads(&self, sequence: &Sequence) -> Vec<Option<usize>> {
        let Some(tree) = &sequence.tree else { return Vec::new() };
        let head = |word: &Option<usize>| tree[(*word)?].head.word().map(|head| self.of_word[head]);
        self.words.iter().map(head).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::test_support::sentence;

    #[test]
    fn words_and_special_tokens_are_in_the_order_of_the_sentence() {
        // [CLS] un ##do it [SEP]
        let mut sequence = Sequence { words: vec![1..3, 3..4], ..sentence(0, 3, "obj") };
        sequence.tree.as_mut().unwrap().truncate(2);
        sequence.forms = vec!["undo".to_owned(), "it".to_owned()];
        let units = Units::new(&sequence);
        assert_eq!(units.spans, [0..1, 1..3, 3..4, 4..5]);
        assert_eq!(units.words, [None, Some(0), Some(1), None]);
        assert_eq!(units.of_word, [1, 2]);
        assert_eq!(units.of_token(2), Some(1));
        assert_eq!(units.texts(&sequence, |token| format!("<{token}>")), ["<0>", "undo", "it", "<4>"]);
        assert_eq!(units.heads(&sequence), [None, None, Some(1), None]);
    }
}
