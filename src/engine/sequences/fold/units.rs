//! The units in drawings of attention: the words of a sentence and its special tokens.

use crate::sequences::sequence::{Sequence, TokenKind};
use crate::sequences::span::WordSpan;

/// The units of attention in a drawing: the words of a sentence and its special tokens, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Units {
    /// The tokens of each unit, `[units]`.
    pub spans: Vec<WordSpan>,
    /// The word that each unit is, `[units]`; `None` for a special token.
    pub words: Vec<Option<usize>>,
    /// The unit of each word, `[words]`.
    pub unit_of_word: Vec<usize>,
}

impl Units {
    /// The units of a sequence. Text tokens outside words are in no unit.
    pub fn new(sequence: &Sequence) -> Self {
        let words = sequence.words.iter().enumerate().map(|(word, span)| (span.clone(), Some(word)));
        // The first token of a decoder may belong to a word.
        let of_word = |token: &usize| sequence.words.iter().any(|word| word.tokens.contains(token));
        let special = (0..sequence.kinds.len()).filter(|&token| sequence.kinds[token].is_special());
        let special = special.filter(|token| sequence.kinds[*token] != TokenKind::First || !of_word(token));
        let mut units: Vec<(WordSpan, Option<usize>)> =
            words.chain(special.map(|token| ((token..token + 1).into(), None))).collect();
        units.sort_by_key(|(span, _)| span.start());
        Self::from_units(units, vec![0; sequence.words.len()])
    }

    pub fn words_only(sequence: &Sequence) -> Self {
        let words = sequence.words.iter().enumerate().map(|(word, span)| (span.clone(), Some(word)));
        Self::from_units(words.collect(), vec![0; sequence.words.len()])
    }

    /// The units of one sentence in a window: the window's first token, everything between it and the sentence as one unit, and
    /// the words.
    pub fn sentence_in_window(sequence: &Sequence, sentence: usize) -> Self {
        let (text, words) = (&sequence.texts[sentence], sequence.words_by_sentence().swap_remove(sentence));
        let before = [0..text.start.min(1), 1..text.start.max(1)].into_iter().filter(|span| !span.is_empty());
        let before = before.map(|span| (span.into(), None));
        let units: Vec<(WordSpan, Option<usize>)> =
            before.chain(words.map(|word| (sequence.words[word].clone(), Some(word)))).collect();
        let last_before = units.iter().take_while(|(_, word)| word.is_none()).count().saturating_sub(1);
        Self::from_units(units, vec![last_before; sequence.words.len()])
    }

    /// Collects units with their words. `of_word` has the unit of each word that is outside `units`.
    fn from_units(units: Vec<(WordSpan, Option<usize>)>, mut of_word: Vec<usize>) -> Self {
        let (spans, words): (Vec<_>, Vec<_>) = units.into_iter().unzip();
        words.iter().enumerate().for_each(|(unit, word)| {
            if let Some(word) = word {
                of_word[*word] = unit;
            }
        });
        Self { spans, words, unit_of_word: of_word }
    }

    /// The first unit that has this token; `None` if no unit has it.
    pub fn unit_at(&self, token: usize) -> Option<usize> {
        self.spans.iter().position(|span| span.tokens.contains(&token))
    }

    /// The text of each unit, `[units]`: words as the corpus has them, special tokens as `special` names their position.
    pub fn texts(&self, sequence: &Sequence, special: impl Fn(usize) -> String) -> Vec<String> {
        let text = |(span, word): (&WordSpan, &Option<usize>)| match word {
            Some(word) => sequence.form(*word).to_owned(),
            None => special(span.start()),
        };
        self.spans.iter().zip(&self.words).map(text).collect()
    }

    /// The gold syntactic head of each unit, as a unit's index, `[units]`; `None` for a unit without one. Empty without a tree.
    pub fn heads(&self, sequence: &Sequence) -> Vec<Option<usize>> {
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
        let units = Units::sentence_in_window(&window, 1);
        assert_eq!(units.spans, WordSpan::whole_words([0..1, 1..3, 3..4, 4..5]));
        assert_eq!(units.words, [None, None, Some(2), Some(3)]);
        assert_eq!(units.unit_of_word, [1, 1, 2, 3]);
        assert_eq!((units.unit_at(2), units.unit_at(4)), (Some(1), Some(3)));
        let first = Units::sentence_in_window(&window, 0);
        assert_eq!((&first.spans, &first.unit_of_word[..2]), (&WordSpan::whole_words([0..1, 1..2, 2..3]), &[1, 2][..]));
        // Without a special token in front there is nothing before the first sentence.
        let mut bare = window;
        (bare.words, bare.texts) = (WordSpan::whole_words([0..1, 1..2, 2..3, 3..4]), vec![0..2, 2..4]);
        assert_eq!(Units::sentence_in_window(&bare, 0).spans, WordSpan::whole_words([0..1, 1..2]));
        assert_eq!(Units::sentence_in_window(&bare, 1).spans, WordSpan::whole_words([0..1, 1..2, 2..3, 3..4]));
    }

    #[test]
    fn words_and_special_tokens_are_in_the_order_of_the_sentence() {
        // [CLS] un ##do it [SEP]
        let mut sequence = Sequence { words: WordSpan::whole_words([1..3, 3..4]), ..sentence(0, 3, "obj") };
        sequence.tree.as_mut().unwrap().truncate(2);
        sequence.forms = vec!["undo".to_owned(), "it".to_owned()];
        let units = Units::new(&sequence);
        assert_eq!(units.spans, WordSpan::whole_words([0..1, 1..3, 3..4, 4..5]));
        assert_eq!(units.words, [None, Some(0), Some(1), None]);
        assert_eq!(units.unit_of_word, [1, 2]);
        assert_eq!(units.unit_at(2), Some(1));
        assert_eq!(units.texts(&sequence, |token| format!("<{token}>")), ["<0>", "undo", "it", "<4>"]);
        assert_eq!(units.heads(&sequence), [None, None, Some(1), None]);
    }
}
