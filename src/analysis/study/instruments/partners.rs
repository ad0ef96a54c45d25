//! The word that an attention head predicts as the other end of a word's arc (docs/methodology/dependency.md).

use std::ops::Range;
use std::sync::Arc;

use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::lifts::LiftFactors;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::study::labels::evidence::Direction;

/// Candidates for each word's partner (the other end of its dependency arc), and the factors that make their weights
/// comparable: in a decoder, they turn weights between words into ratios to uniform attention; in an encoder, all are 1.
#[derive(Clone, Debug)]
pub struct Partners {
    /// Whether no query sees a later word, as in a decoder.
    pub is_causal: bool,
    /// Range of word indices among which each word's partner is searched, `[words]`: the words of its sentence.
    candidate_ranges: Vec<Range<usize>>,
    /// Factors for the weights between words. In a decoder, they turn a weight into its ratio to uniform attention; in an
    /// encoder, all are 1. They are shared by the sentences of a window.
    lifts: Arc<LiftFactors>,
}

impl Partners {
    pub fn new(sequence: &Sequence, visibility: Visibility, from: FromToken) -> Self {
        Self {
            is_causal: visibility.is_causal(),
            candidate_ranges: sequence.syntactic_head_candidates(),
            lifts: Arc::new(LiftFactors::new(sequence, visibility, from)),
        }
    }

    /// Predicts the other end of a word's arc. Forward, it is the word that `word` attends to most; backward, the
    /// word that attends to it most.
    ///
    /// The word itself is no candidate. In a decoder, the candidates are the words before it (forward) or after it
    /// (backward). Ties go to the first candidate.
    pub fn predict_partner(&self, attention: &WordAttention, direction: Direction, word: usize) -> Option<usize> {
        let Range { start, end } = self.candidate_ranges[word].clone();
        let candidates = match direction.is_forward() {
            _ if !self.is_causal => start..end,
            true => start..word.min(end),
            false => word + 1..end,
        };
        index_of_largest(candidates.filter(|&other| other != word), |other| {
            self.weight(attention, direction, word, other)
        })
    }

    /// The largest weight of `word` on a candidate. In a decoder, [`Self::predict_partner`] may predict a word with a
    /// smaller weight, since it compares ratios to uniform attention.
    pub fn largest_weight(&self, attention: &WordAttention, word: usize) -> f64 {
        let Range { start, end } = self.candidate_ranges[word].clone();
        let end = if self.is_causal { word.min(end) } else { end };
        let weights = (start..end).filter(|&other| other != word).map(|other| attention.get(word, other));
        weights.fold(0.0, f64::max)
    }

    /// Weight between `word` and `other` in one direction; in a decoder, the ratio of the weight to uniform
    /// attention.
    pub fn weight(&self, attention: &WordAttention, direction: Direction, word: usize, other: usize) -> f64 {
        let (query, key) = if direction.is_forward() { (word, other) } else { (other, word) };
        attention.get(query, key) * self.lifts.get(query, key)
    }
}

/// The index among `places` with the largest weight; ties go to the first. `None` if `places` is empty.
pub fn index_of_largest(places: impl IntoIterator<Item = usize>, weight: impl Fn(usize) -> f64) -> Option<usize> {
    let weights = places.into_iter().map(|place| (place, weight(place)));
    weights.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::attention::AttentionView;
    use crate::sequences::test_support::sentence;

    #[test]
    fn a_decoder_looks_before_a_word_for_its_head_and_after_it_for_its_dependents_row() {
        // The first token, four words and a last special token, row by row.
        let weights = [
            1.0, 0.0, 0.0, 0.0, 0.0, 0.0, //
            0.5, 0.5, 0.0, 0.0, 0.0, 0.0, // w0
            0.5, 0.25, 0.25, 0.0, 0.0, 0.0, // w1: 1/4 of 3 keys
            0.125, 0.25, 0.5, 0.125, 0.0, 0.0, // w2: 1/4 of 4
            0.25, 0.25, 0.125, 0.375, 0.0, 0.0, // w3: 1/4 of 5
            0.25, 0.25, 0.125, 0.125, 0.125, 0.125,
        ];
        let sequence = sentence(0, 4, "dep").with_decoder_first_token();
        let mut words = WordAttention::default();
        words.fold(AttentionView::new(0, 0, 6, &weights), &sequence.words, FromToken::Mean);
        let found = |visibility, direction, word| {
            Partners::new(&sequence, visibility, FromToken::Mean).predict_partner(&words, direction, word)
        };
        let (causal, all) = (Visibility::CAUSAL, Visibility::ALL);
        assert_eq!(found(causal, Direction::DependentToHead, 3), Some(2));
        assert_eq!(found(causal, Direction::DependentToHead, 0), None);
        // Times the keys that each row sees: 3/4, 1 and 5/4.
        assert_eq!(found(causal, Direction::HeadToDependent, 0), Some(3));
        assert_eq!(found(all, Direction::HeadToDependent, 0), Some(1));
        assert_eq!(found(causal, Direction::HeadToDependent, 3), None);
    }
}
