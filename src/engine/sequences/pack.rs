//! Packing: whole sentences side by side, in corpus order, without padding. Matrix products run over a pack's tokens together;
//! attention stays within each sentence.

use crate::corpus::SEGMENT_SENTENCES;
use crate::model::forward::batch::{Batch, BatchInput, TokenClass};
use crate::sequences::sequence::Sequence;

/// Maximum number of tokens in a pack, unless a single sentence is longer. A sentence that would exceed it begins the next
/// pack. The fastest of 64, 256, 512 and 1024 (docs/PERFORMANCE.md, "The limit: matrix products").
pub const PACK_TOKENS: usize = 512;

/// Sequences that run together, side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pack {
    pub sequences: Vec<Sequence>,
}

impl Pack {
    pub fn token_count(&self) -> usize {
        self.sequences.iter().map(|sentence| sentence.ids.len()).sum()
    }

    /// The sequences in the form that an encoder takes, without the classes of their tokens.
    pub fn batch(&self) -> Batch<'_> {
        let inputs = self.sequences.iter().map(|sentence| BatchInput {
            sentence_number: sentence.index,
            ids: &sentence.ids,
            segments: &sentence.segments,
            compared_tokens: &sentence.compared_tokens,
            exchange: sentence.context_exchange(),
            ..BatchInput::default()
        });
        Batch { inputs: inputs.collect() }
    }

    /// The class of each token, `[tokens]`, one sequence after the other, for [`Batch::with_classes`].
    pub fn token_classes(&self) -> Vec<TokenClass> {
        self.sequences.iter().flat_map(Sequence::token_classes).collect()
    }

    /// The positions of the predicted tokens in each sequence, for [`Batch::with_predicted`].
    pub fn predicted_positions(&self) -> Vec<Vec<usize>> {
        self.sequences.iter().map(|sentence| sentence.predicted_positions().collect()).collect()
    }
}

/// Iterator that groups sequences into packs, in the order in which they come. The grouping depends on the corpus alone.
pub struct Packs<I> {
    sentences: I,
    /// The sequence that did not fit into the latest pack and begins the next one.
    next_pack: Option<Sequence>,
}

impl<I> Packs<I> {
    pub fn new(sentences: I) -> Self {
        Self { sentences, next_pack: None }
    }
}

impl<I, E> Iterator for Packs<I>
where
    I: Iterator<Item = Result<Sequence, E>>,
{
    type Item = Result<Pack, E>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut pack = Pack::default();
        let mut tokens = 0;
        loop {
            let sentence = match self.next_pack.take().map(Ok).or_else(|| self.sentences.next()) {
                None => break,
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(sentence)) => sentence,
            };
            // Sequences that exchange contexts, or are scored together, go through the model together.
            let is_second = pack.sequences.last().is_some_and(|last| last.context_exchange().is_some());
            let fits = is_second
                || sentence.continues_triple()
                || pack.sequences.first().is_none_or(|first| {
                    tokens + sentence.ids.len() <= PACK_TOKENS
                        && first.index / SEGMENT_SENTENCES == sentence.index / SEGMENT_SENTENCES
                });
            if !fits {
                self.next_pack = Some(sentence);
                break;
            }
            tokens += sentence.ids.len();
            pack.sequences.push(sentence);
        }
        (!pack.sequences.is_empty()).then_some(Ok(pack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::sequence::{PredictedToken, TokenKind};
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn sentence(index: u64, tokens: usize) -> Sequence {
        let kinds = vec![TokenKind::Text; tokens];
        Sequence { index, ids: vec![0; tokens], segments: vec![0; tokens], kinds, ..Sequence::default() }
    }

    fn packs(sentences: &[(u64, usize)]) -> Vec<Vec<u64>> {
        let encoded = sentences.iter().map(|&(index, tokens)| Ok::<_, Infallible>(sentence(index, tokens)));
        let indices = |pack: Result<Pack, Infallible>| pack.unwrap().sequences.iter().map(|s| s.index).collect();
        Packs::new(encoded).map(indices).collect()
    }

    #[test]
    fn a_pack_holds_as_many_whole_sentences_as_fit() {
        assert_eq!(packs(&[(0, 200), (1, 312), (2, 1), (3, 511)]), [vec![0, 1], vec![2, 3]]);
    }

    #[test]
    fn a_sentence_longer_than_a_pack_is_a_pack() {
        assert_eq!(packs(&[(0, 1), (1, 600), (2, 1)]), [vec![0], vec![1], vec![2]]);
    }

    #[test]
    fn packs_end_with_their_segment() {
        assert_eq!(packs(&[(254, 1), (255, 1), (256, 1), (1000, 1)]), [vec![254, 255], vec![256], vec![1000]]);
    }

    #[test]
    fn a_pack_as_a_batch() {
        let mut first = sentence(7, 3);
        first.kinds = vec![TokenKind::FirstSpecial, TokenKind::Punctuation, TokenKind::Separator];
        let masked = |position, truth| PredictedToken::masked(position, 0, truth);
        let second = Sequence { predictions: vec![masked(0, Some(3)), masked(1, None)], ..sentence(8, 2) };
        let pack = Pack { sequences: vec![first, second] };
        assert_eq!(pack.predicted_positions(), [vec![], vec![0]]);
        let classes = pack.token_classes();
        assert_eq!(classes[..3], [TokenClass::FirstSpecial, TokenClass::Text, TokenClass::OtherSpecial]);
        let batch = pack.batch().with_classes(&classes);
        assert_eq!((batch.tokens(), pack.token_count()), (5, 5));
        let numbers: Vec<_> = batch.inputs.iter().map(|input| (input.sentence_number, input.ids.len())).collect();
        assert_eq!(numbers, [(7, 3), (8, 2)]);
        assert_eq!(batch.inputs[1].classes, [TokenClass::Mask; 2]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_reordered(lengths in prop::collection::vec(1..700_usize, 0..60)) {
            let sentences: Vec<(u64, usize)> = (250..).zip(lengths).collect();
            let indices: Vec<u64> = sentences.iter().map(|&(index, _)| index).collect();
            prop_assert_eq!(packs(&sentences).concat(), indices);
        }
    }
}
