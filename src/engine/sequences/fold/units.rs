//! The units in drawings of attention: the words of a sentence and its special tokens.

use crate::sequences::sequence::{Sequence, TokenKind};
use crate::sequences::span::WordSpan;

/// The units that a drawing of attention shows: the words of a sentence and its special tokens, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DisplayUnits {
    /// The tokens of each unit, `[units]`.
    pub spans: Vec<WordSpan>,
    /// Index of each unit's word, `[units]`; `None` for a unit that is no word.
    pub words: Vec<Option<usize>>,
    /// Index of the unit that contains each word, `[words]`.
    pub unit_of_word: Vec<usize>,
}

impl DisplayUnits {
    /// The words and special tokens of a sequence as units. Text tokens outside words are in no unit.
    pub fn new(sequence: &Sequence) -> Self {
        let words = sequence.words.iter().enumerate().map(|(word, span)| (span.clone(), Some(word)));
        // The first token of a decoder may belong to a word.
        let of_word = |token: &usize| sequence.words.iter().any(|word| word.tokens.contains(token));
        let special = (0..sequence.kinds.len()).filter(|&token| sequence.kinds[token].is_special());
        let special = special.filter(|token| sequence.kinds[*token] != TokenKind::First || !of_word(token));
        let mut units: Vec<(WordSpan, Option<usize>)> =
            words.chain(special.map(|token| ((token..token + 1).into(), None))).collect();
        units.sort_by_key(|(span, _)| span.start());
        Self::from_parts(units, vec![0; sequence.words.len()])
    }

    /// The words of a sequence as units.
    pub fn words_only(sequence: &Sequence) -> Self {
        let words = sequence.words.iter().enumerate().map(|(word, span)| (span.clone(), Some(word)));
        Self::from_parts(words.collect(), vec![0; sequence.words.len()])
    }

    /// The units of one sentence in a window: the first token of the window, all text between it and the sentence as one
    /// unit, and the words of the sentence.
    pub fn sentence_in_window(sequence: &Sequence, sentence: usize) -> Self {
        let (text, words) = (&sequence.texts[sentence], sequence.words_by_sentence().swap_remove(sentence));
        let before = [0..text.start.min(1), 1..text.start.max(1)].into_iter().filter(|span| !span.is_empty());
        let before = before.map(|span| (span.into(), None));
        let units: Vec<(WordSpan, Option<usize>)> =
            before.chain(words.map(|word| (sequence.words[word].clone(), Some(word)))).collect();
        let last_before = units.iter().take_while(|(_, word)| word.is_none()).count().saturating_sub(1);
        Self::from_parts(units, vec![last_before; sequence.words.len()])
    }

    /// Makes the units from `(span, word)`, where `word` is `None` for a unit that is no word. On entry, `unit_of_word` has the
    /// unit for each word that is no unit itself.
    fn from_parts(units: Vec<(WordSpan, Option<usize>)>, mut unit_of_word: Vec<usize>) -> Self {
        let (spans, words): (Vec<_>, Vec<_>) = units.into_iter().unzip();
        words.iter().enumerate().for_each(|(unit, word)| {
            if let Some(word) = word {
                unit_of_word[*word] = unit;
            }
        });
        Self { spans, words, unit_of_word }
    }

    /// Index of the first unit that contains the token; `None` if no unit does.
    pub fn unit_at(&self, token: usize) -> Option<usize> {
        self.spans.iter().position(|span| span.tokens.contains(&token))
    }

    /// Text of each unit, `[units]`: the form of a word, or the result of `special` for the position of a special token.
    pub fn texts(&self, sequence: &Sequence, special: impl Fn(usize) -> String) -> Vec<String> {
        let text = |(span, word): (&WordSpan, &Option<usize>)| match word {
            Some(word) => sequence.form(*word).to_owned(),
            None => special(span.start()),
        };
        self.spans.iter().zip(&self.words).map(text).collect()
    }

    /// Gold syntactic head of each unit, as the index of a unit, `[units]`; `None` for a unit without one. Empty without a
    /// dependency tree.
    pub fn syntactic_heads(&self, sequence: &Sequence) -> Vec<Option<usize>> {
        let Some(tree) = &sequence.tree else { return Vec::new() };
        let head = |word: &Option<usize>| tree[(*word)?].head.word().map(|head| self.unit_of_word[head]);
        self.words.iter().map(head).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::test_support::sentence;

    #[test]
    fn what_stands_before_a_sentence_in_its_window_is_one_unit() {
        // [CLS] a b | c d [SEP], as a decoder reads it.
        let window = Sequence { texts: vec![1..3, 3..5], ..sentence(0, 4, "obj") }.with_decoder_first_token();
        let units = DisplayUnits::sentence_in_window(&window, 1);
        assert_eq!(units.spans, WordSpan::whole_words([0..1, 1..3, 3..4, 4..5]));
        assert_eq!(units.words, [None, None, Some(2), Some(3)]);
        assert_eq!(units.unit_of_word, [1, 1, 2, 3]);
        assert_eq!((units.unit_at(2), units.unit_at(4)), (Some(1), Some(3)));
        let first = DisplayUnits::sentence_in_window(&window, 0);
        assert_eq!((&first.spans, &first.unit_of_word[..2]), (&WordSpan::whole_words([0..1, 1..2, 2..3]), &[1, 2][..]));
        // Without a special token in front there is nothing before the first sentence.
        let mut bare = window;
        (bare.words, bare.texts) = (WordSpan::whole_words([0..1, 1..2, 2..3, 3..4]), vec![0..2, 2..4]);
        assert_eq!(DisplayUnits::sentence_in_window(&bare, 0).spans, WordSpan::whole_words([0..1, 1..2]));
        assert_eq!(DisplayUnits::sentence_in_window(&bare, 1).spans, WordSpan::whole_words([0..1, 1..2, 2..3, 3..4]));
    }

    #[test]
    fn words_and_special_tokens_are_in_the_order_of_the_sentence() {
        // [CLS] un ##do it [SEP]
        let mut sequence = Sequence { words: WordSpan::whole_words([1..3, 3..4]), ..sentence(0, 3, "obj") };
        sequence.tree.as_mut().unwrap().truncate(2);
        sequence.forms = vec!["undo".to_owned(), "it".to_owned()];
        let units = DisplayUnits::new(&sequence);
        assert_eq!(units.spans, WordSpan::whole_words([0..1, 1..3, 3..4, 4..5]));
        assert_eq!(units.words, [None, Some(0), Some(1), None]);
        assert_eq!(units.unit_of_word, [1, 2]);
        assert_eq!(units.unit_at(2), Some(1));
        assert_eq!(units.texts(&sequence, |token| format!("<{token}>")), ["<0>", "undo", "it", "<4>"]);
        assert_eq!(units.syntactic_heads(&sequence), [None, None, Some(1), None]);
    }
}
