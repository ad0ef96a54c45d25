//! Sentences with whole words masked, for the loss of a masked language model (METHODOLOGY, "What removal does").

use std::vec;

use anyhow::Result;

use super::sequence::{MaskedToken, Sequence};
use crate::corpus::Family;

/// Every so many words one is masked: about the share of tokens that BERT was trained on (Devlin et al. 2019, section
/// 3.1: 15 %).
pub const PERIOD: u8 = 7;

/// Masks over the sentences of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masks {
    /// So many variants of each sentence: those of the phases from 0 on.
    pub phases: u8,
    /// The id of the mask.
    pub mask: u32,
    /// The id of the token that stands for what is not in the vocabulary, if there is one.
    pub unknown: Option<u32>,
}

impl Masks {
    /// The sentence with its words `u` masked of which `(u + s) mod 7` is the phase, `s` being the number of the sentence:
    /// all tokens of a word. `None` if no token is left to score.
    ///
    /// A variant beside another one of the same sentence is no independent evidence.
    fn variant(self, sentence: &Sequence, phase: u8) -> Option<Sequence> {
        let period = u64::from(PERIOD);
        let is_masked = |word: usize| (word as u64 + sentence.index % period) % period == u64::from(phase);
        let words = sentence.words.iter().enumerate().filter(|(word, _)| is_masked(*word));
        let masked: Vec<MaskedToken> = words
            .flat_map(|(word, span)| {
                span.clone().map(move |position| {
                    let id = sentence.ids[position];
                    MaskedToken { position, word, truth: (Some(id) != self.unknown).then_some(id) }
                })
            })
            .collect();
        masked.iter().find(|token| token.truth.is_some())?;
        let mut variant = Sequence { masked, ..sentence.clone() };
        variant.masked.iter().for_each(|token| variant.ids[token.position] = self.mask);
        Some(variant)
    }

    /// The variants of a sentence, by phase; of those the first alone begins the family, if the sentence does.
    fn variants(self, sentence: &Sequence) -> Vec<Sequence> {
        let mut variants: Vec<_> = (0..self.phases).filter_map(|phase| self.variant(sentence, phase)).collect();
        for variant in variants.iter_mut().skip(1) {
            variant.family = Family { is_first: false, ..variant.family };
        }
        variants
    }
}

/// Masks words of sentences.
pub struct Masked<I> {
    sentences: I,
    masks: Masks,
    ready: vec::IntoIter<Sequence>,
    left_out: u64,
}

impl<I: Iterator<Item = Result<Sequence>>> Masked<I> {
    /// Masks words of `sentences`.
    pub fn new(sentences: I, masks: Masks) -> Self {
        Self { sentences, masks, ready: Vec::new().into_iter(), left_out: 0 }
    }

    /// Sentences without a token to score, of those read so far.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl<I: Iterator<Item = Result<Sequence>>> Iterator for Masked<I> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(variant) = self.ready.next() {
                return Some(Ok(variant));
            }
            match self.sentences.next()? {
                Ok(sentence) => self.ready = self.masks.variants(&sentence).into_iter(),
                Err(error) => return Some(Err(error)),
            }
            self.left_out += u64::from(self.ready.len() == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::test_support::sentence;
    use proptest::prelude::*;

    const MASK: u32 = 99;

    /// Sentence `index` of words of one token each but for the second, which has two: ids are places.
    fn words(index: u64, count: usize) -> Sequence {
        let mut words = sentence(index, count + 1, "dep");
        words.ids = (0..).take(words.ids.len()).collect();
        let span = |word: usize| match word {
            0 => 1..2,
            1 => 2..4,
            _ => word + 2..word + 3,
        };
        words.words = (0..count).map(span).collect();
        words
    }

    fn masked(sentences: &[Sequence], phases: u8) -> (Vec<Sequence>, u64) {
        let masks = Masks { phases, mask: MASK, unknown: Some(3) };
        let mut masked = Masked::new(sentences.iter().cloned().map(Ok), masks);
        (masked.by_ref().map(Result::unwrap).collect(), masked.left_out())
    }

    #[test]
    fn every_seventh_word_is_masked_with_all_its_tokens() {
        let (made, left_out) = masked(&[words(6, 9), words(2, 3), words(7, 2)], 1);
        // Sentence 6: the words 1 and 8. Sentence 2 has no word 5. Sentence 7: word 0.
        assert_eq!((made.len(), left_out), (2, 1));
        assert_eq!(made[0].ids, [0, 1, MASK, MASK, 4, 5, 6, 7, 8, 9, MASK, 11][..made[0].ids.len()]);
        let token = |position, word, truth| MaskedToken { position, word, truth };
        assert_eq!(made[0].masked, [token(2, 1, Some(2)), token(3, 1, None), token(10, 8, Some(10))]);
        assert_eq!(made[0].predicted().collect::<Vec<_>>(), [2, 10]);
        assert_eq!((made[1].index, made[1].masked[0]), (7, token(1, 0, Some(1))));
    }

    #[test]
    fn a_sentence_of_which_nothing_is_scored_is_left_out() {
        let mut unknown = words(0, 1);
        unknown.ids[1] = 3;
        assert_eq!(masked(&[unknown], 1), (Vec::new(), 1));
    }

    proptest! {
        #[test]
        fn all_phases_mask_each_word_once(index in 0..30_u64, count in 2..20_usize) {
            let (made, _) = masked(&[words(index, count)], PERIOD);
            let mut seen: Vec<usize> = made.iter().flat_map(|made| &made.masked).map(|token| token.position).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (1..=count + 1).collect::<Vec<_>>());
            prop_assert_eq!(made.iter().filter(|made| made.family.is_first).count(), 1);
            prop_assert!(made.iter().all(|made| made.index == index));
        }
    }
}
