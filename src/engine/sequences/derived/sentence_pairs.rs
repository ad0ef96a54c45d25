//! Pairs of neighbouring sentences, encoded as the tokenizer encodes a pair of texts: the first and second sentence of a
//! document, the third and fourth, and so on. Pairs of longer segments are made by [`pairs`](super::pairs).

use std::iter::Peekable;

use anyhow::Result;

use crate::sequences::frame::Frame;
use crate::sequences::sequence::{Sequence, Token};

/// Iterator of pairs of neighbouring sentences, each in one sequence.
pub struct SentencePairs<I: Iterator> {
    sentences: Peekable<I>,
    /// Special tokens around a pair; `None` if the tokenizer cannot encode pairs.
    frame: Option<Frame>,
    max_tokens: usize,
    /// Number of sentences so far that are in no pair: those without a partner in their document, and both of a pair that
    /// is too long.
    pub left_out: u64,
}

impl<I: Iterator<Item = Result<Sequence>>> SentencePairs<I> {
    /// Makes pairs of `sentences` with the special tokens of `frame`, at most `max_tokens` tokens long; no pairs without a
    /// frame.
    pub fn new(sentences: I, frame: Option<Frame>, max_tokens: usize) -> Self {
        Self { sentences: sentences.peekable(), frame, max_tokens, left_out: 0 }
    }

    /// Takes the sentence after `first`, if both form a pair; else `None`. The first sentence of a pair has an even number
    /// in its document, counted from 0.
    fn take_partner(&mut self, first: &Sequence) -> Result<Option<Sequence>> {
        let wanted = (first.index - first.document).is_multiple_of(2).then_some(first.index + 1);
        let is_wanted = |next: &Sequence| Some(next.index) == wanted && next.document == first.document;
        self.sentences.next_if(|next| next.as_ref().map_or(true, is_wanted)).transpose()
    }

    /// Joins both sentences into one sequence, in the jackknife block of the first; `None` if it would be too long.
    fn join_pair(&self, first: &Sequence, second: &Sequence) -> Option<Sequence> {
        let texts = [first, second].map(|sentence| sentence.text_tokens().collect::<Vec<Token>>());
        let pair = self.frame.as_ref()?.surround(&texts);
        (pair.ids.len() <= self.max_tokens).then_some(Sequence {
            index: first.index,
            document: first.document,
            family: first.text_group(),
            ..pair
        })
    }

    fn next_pair(&mut self) -> Result<Option<Sequence>> {
        while let Some(first) = self.sentences.next().transpose()? {
            let Some(second) = self.take_partner(&first)? else {
                self.left_out += 1;
                continue;
            };
            match self.join_pair(&first, &second) {
                Some(pair) => return Ok(Some(pair)),
                None => self.left_out += 2,
            }
        }
        Ok(None)
    }
}

impl<I: Iterator<Item = Result<Sequence>>> Iterator for SentencePairs<I> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_pair().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::test_support::sentence;
    use proptest::prelude::*;

    /// Sentences by index, document and number of words.
    fn pairs(sentences: &[(u64, u64, usize)], max_tokens: usize) -> (Vec<Sequence>, u64) {
        let sentences = sentences
            .iter()
            .map(|&(index, document, words)| Ok(Sequence { document, ..sentence(index, words, "dep") }));
        let mut pairs = SentencePairs::new(sentences, Some(Frame::bert_for_tests(2)), max_tokens);
        let made = pairs.by_ref().map(Result::unwrap).collect();
        (made, pairs.left_out)
    }

    fn indices(sentences: &[(u64, u64, usize)], max_tokens: usize) -> (Vec<u64>, u64) {
        let (made, left_out) = pairs(sentences, max_tokens);
        (made.iter().map(|pair| pair.index).collect(), left_out)
    }

    #[test]
    fn sentences_of_a_document_go_two_by_two() {
        // Documents of three, one and two sentences.
        let documents = [(0, 0, 2), (1, 0, 3), (2, 0, 2), (3, 3, 2), (4, 4, 1), (5, 4, 1)];
        let (made, left_out) = pairs(&documents, 100);
        assert_eq!((made.len(), left_out), (2, 2));
        assert_eq!((made[0].index, made[0].ids.len(), &made[0].texts), (0, 8, &vec![1..3, 4..7]));
        assert_eq!((made[1].index, made[1].document, made[1].family.number), (4, 4, 4));
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        // Pairs of 7, 8 and 7 tokens.
        let sentences = [(0, 0, 2), (1, 0, 2), (2, 0, 2), (3, 0, 3), (4, 0, 2), (5, 0, 2)];
        assert_eq!(indices(&sentences, 8), (vec![0, 2, 4], 0));
        assert_eq!(indices(&sentences, 7), (vec![0, 4], 2));
        let without = SentencePairs::new(std::iter::once(Ok(sentence(0, 1, "dep"))), None, 100);
        assert_eq!(without.count(), 0);
    }

    #[test]
    fn a_sentence_that_is_missing_leaves_its_partner_alone() {
        // 1 was too long for the model: 2 and 3 are still a pair, 0 and 5 are none; neither are 6 and 7, of two documents.
        assert_eq!(indices(&[(0, 0, 2), (2, 0, 2), (3, 0, 2), (5, 0, 2)], 100), (vec![2], 2));
        assert_eq!(indices(&[(6, 6, 2), (7, 7, 2)], 100), (vec![], 2));
    }

    #[test]
    fn an_error_comes_through() {
        let failing = || anyhow::bail!("line 3");
        let sentences = [Ok(sentence(0, 1, "dep")), failing(), Ok(sentence(1, 1, "dep"))];
        let mut pairs = SentencePairs::new(sentences.into_iter(), Some(Frame::bert_for_tests(2)), 100);
        assert_eq!(pairs.next().unwrap().unwrap_err().to_string(), "line 3");
    }

    proptest! {
        #[test]
        fn every_sentence_is_in_a_pair_or_counted(ends in prop::collection::vec(any::<bool>(), 0..40), cut in 0..40_usize) {
            let mut document = 0;
            let sentences: Vec<(u64, u64, usize)> = (0..).zip(&ends).map(|(index, &ends)| {
                let sentence = (index, document, 2);
                if ends { document = index + 1; }
                sentence
            }).collect();
            let (made, left_out) = indices(&sentences, 100);
            prop_assert_eq!(2 * made.len() as u64 + left_out, sentences.len() as u64);
            // A new start at the end of a document loses nothing.
            let cut = ends.iter().take(cut).rposition(|&ends| ends).map_or(0, |end| end + 1);
            let (early, late) = sentences.split_at(cut);
            let parts = [indices(early, 100).0, indices(late, 100).0].concat();
            prop_assert_eq!(made, parts);
        }
    }
}
