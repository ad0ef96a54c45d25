//! Sentences for a model's own prediction task: with whole words masked or replaced, or intact (docs/methodology/effect.md).

use std::sync::Arc;
use std::vec;

use anyhow::Result;
use sha2::{Digest, Sha256};

use crate::corpus::SentenceGroup;
use crate::sequences::counts::Unigrams;
use crate::sequences::sequence::{InputToken, PredictedToken, Sequence};

/// One in this many words is corrupted: 14 %, close to the 15 % of BERT's training (Devlin et al. 2019, section 3.1).
pub const CORRUPTION_PERIOD: u8 = 7;

/// The number of variants of a sentence, and the replacement for corrupted tokens.
#[derive(Clone, Debug)]
pub struct CorruptionSettings {
    /// Number of variants of each sentence, each with other words corrupted.
    pub phases: u8,
    pub noise: Noise,
    /// Id of the unknown token; `None` if the vocabulary has none.
    pub unknown: Option<u32>,
}

/// The replacement for corrupted tokens.
#[derive(Clone, Debug)]
pub enum Noise {
    /// Mask token, given by its id. The model predicts the true token at each mask.
    Mask(u32),
    /// Tokens drawn in proportion to their frequency (Clark et al. 2020, section 3.2). The model predicts of every token
    /// whether it was replaced.
    Replace(Arc<Unigrams>),
    /// No corruption, for a decoder: it predicts every token but the first from the tokens before it, in a single run.
    Nothing,
}

impl CorruptionSettings {
    /// Variant number `phase` of a sentence. Its corrupted words are those whose index `u` satisfies
    /// `(u + s) mod 7 = phase`, with `s` the number of the sentence. `None` if there is no such word, or no token to score.
    fn variant(&self, sentence: &Sequence, phase: u8) -> Option<Sequence> {
        if matches!(self.noise, Noise::Nothing) {
            return with_next_token_predictions(sentence, self.unknown);
        }
        let period = u64::from(CORRUPTION_PERIOD);
        let is_chosen = |word: usize| (word as u64 + sentence.index % period) % period == u64::from(phase);
        let mut variant = sentence.clone();
        for (word, span) in sentence.words.iter().enumerate() {
            for position in span.tokens.clone() {
                // A token that words share is corrupted with each of them, and predicted once.
                if variant.predictions.last().is_some_and(|last| last.position >= position) {
                    if !is_chosen(word) {
                        continue;
                    }
                    variant.predictions.pop();
                }
                let own = sentence.ids[position];
                let is_known = Some(own) != self.unknown;
                let (id, shown, truth) = match &self.noise {
                    Noise::Mask(mask) if is_chosen(word) => (*mask, InputToken::Mask, Some(own)),
                    Noise::Mask(_) | Noise::Nothing => continue,
                    Noise::Replace(unigrams) if is_chosen(word) => match draw_id(unigrams, sentence.index, position) {
                        // A draw of the true token counts as not replaced (Clark et al. 2020, section 2).
                        id if id == own => (own, InputToken::Original, Some(ORIGINAL_CLASS)),
                        id => (id, InputToken::Replacement, Some(REPLACED_CLASS)),
                    },
                    Noise::Replace(_) => (own, InputToken::Original, Some(ORIGINAL_CLASS)),
                };
                variant.ids[position] = id;
                variant.predictions.push(PredictedToken {
                    position,
                    word,
                    input: shown,
                    truth: truth.filter(|_| is_known),
                });
            }
        }
        let is_scored = |token: &PredictedToken| token.input != InputToken::Original && token.truth.is_some();
        variant.predictions.iter().any(is_scored).then_some(variant)
    }

    /// Variants of a sentence, in the order of their numbers (`phase`). At most the first variant begins a sentence
    /// group, since variants of one sentence are dependent.
    fn variants(&self, sentence: &Sequence) -> Vec<Sequence> {
        let mut variants: Vec<_> = (0..self.phases).filter_map(|phase| self.variant(sentence, phase)).collect();
        for variant in variants.iter_mut().skip(1) {
            variant.family = SentenceGroup { is_first: false, ..variant.family };
        }
        variants
    }
}

/// Adds a prediction for each token that belongs to a word, except for the first token of the sequence. Predictions of the
/// `unknown` token are not scored; `None` if no token is scored.
pub fn with_next_token_predictions(sequence: &Sequence, unknown: Option<u32>) -> Option<Sequence> {
    let words = sequence.words_by_token().into_iter().enumerate().skip(1);
    let predicted = words.filter_map(|(place, word)| {
        let truth = Some(sequence.ids[place]).filter(|&id| Some(id) != unknown);
        Some(PredictedToken { position: place - 1, word: word?, input: InputToken::NoInput, truth })
    });
    let predictions: Vec<_> = predicted.collect();
    let is_scored = predictions.iter().any(|token| token.truth.is_some());
    is_scored.then(|| Sequence { predictions, ..sequence.clone() })
}

/// Class of a token that was not replaced.
const ORIGINAL_CLASS: u32 = 0;

/// Class of a token that was replaced.
const REPLACED_CLASS: u32 = 1;

/// Draws the replacement for the token at `position` by the first 8 bytes, big-endian, of a SHA-256, which any program can
/// reproduce.
fn draw_id(unigrams: &Unigrams, sentence: u64, position: usize) -> u32 {
    let hash = Sha256::digest(format!("headscope/replacement/0/{sentence}/{position}"));
    let number = hash.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte));
    unigrams.token_at(number)
}

/// Iterator of all variants of all sentences.
pub struct CorruptedSentences<I> {
    sentences: I,
    corruption: CorruptionSettings,
    /// Variants of the current sentence that are still to come.
    variants_left: vec::IntoIter<Sequence>,
    /// Number of sentences so far that were left out because no token can be scored.
    pub left_out: u64,
}

impl<I: Iterator<Item = Result<Sequence>>> CorruptedSentences<I> {
    pub fn new(sentences: I, corruption: CorruptionSettings) -> Self {
        Self { sentences, corruption, variants_left: Vec::new().into_iter(), left_out: 0 }
    }
}

impl<I: Iterator<Item = Result<Sequence>>> Iterator for CorruptedSentences<I> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(variant) = self.variants_left.next() {
                return Some(Ok(variant));
            }
            match self.sentences.next()? {
                Ok(sentence) => self.variants_left = self.corruption.variants(&sentence).into_iter(),
                Err(error) => return Some(Err(error)),
            }
            self.left_out += u64::from(self.variants_left.len() == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::span::WordSpan;
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
        words.words = WordSpan::whole_words((0..count).map(span));
        words
    }

    fn corrupted(sentences: &[Sequence], phases: u8, noise: Noise) -> (Vec<Sequence>, u64) {
        let corruption = CorruptionSettings { phases, noise, unknown: Some(3) };
        let mut corrupted = CorruptedSentences::new(sentences.iter().cloned().map(Ok), corruption);
        (corrupted.by_ref().map(Result::unwrap).collect(), corrupted.left_out)
    }

    fn masked(sentences: &[Sequence], phases: u8) -> (Vec<Sequence>, u64) {
        corrupted(sentences, phases, Noise::Mask(MASK))
    }

    #[test]
    fn every_seventh_word_is_masked_with_all_its_tokens() {
        let (made, left_out) = masked(&[words(6, 9), words(2, 3), words(7, 2)], 1);
        // Sentence 6: the words 1 and 8. Sentence 2 has no word 5. Sentence 7: word 0.
        assert_eq!((made.len(), left_out), (2, 1));
        assert_eq!(made[0].ids, [0, 1, MASK, MASK, 4, 5, 6, 7, 8, 9, MASK, 11][..made[0].ids.len()]);
        let token = PredictedToken::masked;
        assert_eq!(made[0].predictions, [token(2, 1, Some(2)), token(3, 1, None), token(10, 8, Some(10))]);
        assert_eq!(made[0].predicted_positions().collect::<Vec<_>>(), [2, 10]);
        assert_eq!((made[1].index, made[1].predictions[0]), (7, token(1, 0, Some(1))));
    }

    /// A corpus with the token 50 alone replaces every chosen token by it; all tokens of the text have a class except
    /// the unknown one.
    #[test]
    fn every_seventh_word_is_replaced_and_every_token_told() {
        let always = |id| Noise::Replace(Arc::new(Unigrams::new([(id, 4)])));
        let (made, left_out) = corrupted(&[words(6, 9), words(2, 3)], 1, always(50));
        assert_eq!((made.len(), left_out), (1, 1));
        assert_eq!(made[0].ids[..11], [0, 1, 50, 50, 4, 5, 6, 7, 8, 9, 50]);
        let token = |position, word, shown, truth| PredictedToken { position, word, input: shown, truth };
        assert_eq!(made[0].predictions.len(), 10);
        assert_eq!(
            made[0].predictions[..4],
            [
                token(1, 0, InputToken::Original, Some(0)),
                token(2, 1, InputToken::Replacement, Some(1)),
                token(3, 1, InputToken::Replacement, None),
                token(4, 2, InputToken::Original, Some(0)),
            ]
        );
        assert_eq!(made[0].true_classes().collect::<Vec<_>>(), [0, 1, 0, 0, 0, 0, 0, 0, 1]);
        // The token that was there is no replacement; word 8 is still one.
        let (made, _) = corrupted(&[words(6, 9)], 1, always(2));
        assert_eq!(made[0].predictions[1], token(2, 1, InputToken::Original, Some(0)));
        assert_eq!(made[0].predictions[9], token(10, 8, InputToken::Replacement, Some(1)));
    }

    /// Sentence 6, whose words 1 and 2 share a token; word 2 has no other token.
    #[test]
    fn a_shared_token_is_corrupted_with_each_of_its_words_and_predicted_once() {
        let mut shared = words(6, 9);
        shared.ids[3] = 33;
        (shared.words[1].last_share, shared.words[2]) =
            (0.5, WordSpan { tokens: 3..4, first_share: 0.5, last_share: 0.5 });
        let places =
            |made: &Sequence| made.predictions.iter().map(|token| (token.position, token.word)).collect::<Vec<_>>();
        let (made, _) = masked(&[shared.clone()], 2);
        // Phase 0 is of the words 1 and 8, phase 1 of word 2.
        assert_eq!(made.iter().map(places).collect::<Vec<_>>(), [vec![(2, 1), (3, 1), (10, 8)], vec![(3, 2)]]);
        let always = Noise::Replace(Arc::new(Unigrams::new([(50, 4)])));
        let (made, _) = corrupted(&[shared.clone()], 2, always);
        let expected = [(1, 0), (2, 1), (3, 2), (5, 3)];
        assert_eq!(places(&made[1])[..4], expected);
        assert_eq!((made[1].predictions[2].input, made[1].ids[3]), (InputToken::Replacement, 50));
        let (made, _) = corrupted(&[shared], 1, Noise::Nothing);
        assert_eq!(places(&made[0])[..4], [(0, 0), (1, 1), (2, 1), (4, 3)]);
    }

    #[test]
    fn a_decoder_predicts_every_token_but_the_first() {
        let (made, left_out) = corrupted(&[words(0, 2)], 1, Noise::Nothing);
        assert_eq!((made.len(), left_out), (1, 0));
        let token = |position, word, truth| PredictedToken { position, word, input: InputToken::NoInput, truth };
        // The token 3 is the unknown one; the last, a special one, is no word.
        assert_eq!(made[0].predictions, [token(0, 0, Some(1)), token(1, 1, Some(2)), token(2, 1, None)]);
        assert_eq!(made[0].ids, words(0, 2).ids);
        // Without a special token in front nothing predicts the first word.
        let mut bare = words(0, 2);
        bare.words = WordSpan::whole_words([0..1, 1..3]);
        let (made, _) = corrupted(&[bare.clone()], 1, Noise::Nothing);
        assert_eq!(made[0].predictions, [token(0, 1, Some(1)), token(1, 1, Some(2))]);
        bare.words.truncate(1);
        assert_eq!(corrupted(&[bare], 1, Noise::Nothing), (Vec::new(), 1));
    }

    #[test]
    fn draws_are_by_frequency_and_can_be_repeated() {
        let unigrams = Unigrams::new([(7, 3), (8, 0), (9, 1)]);
        assert_eq!([0, 1, 2, 3, 4, 7].map(|number| unigrams.token_at(number)), [7, 7, 7, 9, 7, 9]);
        // sha256("headscope/replacement/0/12/3") begins with 6d7988359874a2f9.
        assert_eq!(draw_id(&unigrams, 12, 3), unigrams.token_at(0x6d79_8835_9874_a2f9));
        let common = (0..2000).filter(|&position| draw_id(&unigrams, 0, position) == 7).count();
        // Three quarters of them; the standard deviation is 19.
        assert!((1400..1600).contains(&common), "{common}");
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
            let (made, _) = masked(&[words(index, count)], CORRUPTION_PERIOD);
            let mut seen: Vec<usize> = made.iter().flat_map(|made| &made.predictions).map(|token| token.position).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (1..=count + 1).collect::<Vec<_>>());
            prop_assert_eq!(made.iter().filter(|made| made.family.is_first).count(), 1);
            prop_assert!(made.iter().all(|made| made.index == index));
        }
    }
}
