//! Sequences of two segments, `[CLS] A [SEP] B [SEP]`, made of consecutive sentences as the released
//! `preprocess_unlabeled.py` makes them of a document.

use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::sequences::encode::{Sequence, TokenKind};
use crate::sequences::pack::SEGMENT_SENTENCES;

/// The longest sequence, special tokens included: `--max_sequence_length` of the released code.
pub const MAX_TOKENS: usize = 128;

/// `[CLS]`, `[SEP]` and `[SEP]`.
const SPECIAL: usize = 3;

const NO_SPECIAL_TOKENS: &str = "--preset clark2019 packs [CLS] A [SEP] B [SEP], and the tokenizer adds no such tokens";

/// The seed of the released code; its random numbers are those of Python, these of [`ChaCha8Rng`].
const SEED: u64 = 0;

/// Packs sentences into pairs.
///
/// A document of the released code is here a run of [`SEGMENT_SENTENCES`] sentences, so that shards can be packed
/// apart; where a document ends a reader does not say.
pub struct Pairs<I: Iterator> {
    sentences: Peekable<I>,
    max_tokens: usize,
    /// Sentences that are in no sequence.
    dropped: Arc<AtomicU64>,
}

/// A token of text.
#[derive(Clone, Copy)]
struct Token {
    id: u32,
    kind: TokenKind,
}

impl<I: Iterator<Item = Result<Sequence>>> Pairs<I> {
    /// Packs `sentences` into sequences of at most `max_tokens` tokens, and counts those that are in none.
    pub fn new(sentences: I, max_tokens: usize, dropped: Arc<AtomicU64>) -> Self {
        Self { sentences: sentences.peekable(), max_tokens, dropped }
    }

    /// The next sentence, if it is in the same document as the one before.
    fn next_in(&mut self, document: Option<u64>) -> Option<Result<Sequence>> {
        let same = |sentence: &Result<Sequence>| match sentence {
            Ok(sentence) => document.is_none_or(|document| sentence.index / SEGMENT_SENTENCES == document),
            Err(_) => true,
        };
        self.sentences.next_if(same)
    }

    /// Consecutive sentences until they fill a sequence or their document ends.
    fn chunk(&mut self) -> Result<Vec<Sequence>> {
        let mut chunk: Vec<Sequence> = Vec::new();
        let mut length = 0;
        while length < self.max_tokens - SPECIAL {
            let document = chunk.first().map(|first| first.index / SEGMENT_SENTENCES);
            let Some(sentence) = self.next_in(document) else { break };
            let sentence = sentence?;
            length += sentence.kinds.iter().filter(|kind| !kind.is_special()).count();
            chunk.push(sentence);
        }
        Ok(chunk)
    }

    /// The first part of a chunk and the rest, or `None` if there is no rest: the released code then gives up the
    /// document, which this does too.
    fn pair(&mut self, chunk: &[Sequence]) -> Result<Option<Sequence>> {
        let first = &chunk[0];
        if chunk.len() == 1 {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            while let Some(sentence) = self.next_in(Some(first.index / SEGMENT_SENTENCES)) {
                sentence?;
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(None);
        }
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        random.set_stream(first.index);
        let (a, b) = chunk.split_at(random.random_range(1..chunk.len()));
        let (mut a, mut b) = (text(a), text(b));
        while a.len() + b.len() > self.max_tokens - SPECIAL {
            let longer = if a.len() > b.len() { &mut a } else { &mut b };
            if random.random_bool(0.5) {
                longer.remove(0);
            } else {
                longer.pop();
            }
        }
        let special = |wanted: TokenKind| -> Result<Token> {
            let place = first.kinds.iter().position(|&kind| kind == wanted);
            let place = place.context(NO_SPECIAL_TOKENS)?;
            Ok(Token { id: first.ids[place], kind: wanted })
        };
        let separator = special(TokenKind::Separator)?;
        let tokens = [vec![special(TokenKind::FirstSpecial)?], a, vec![separator], b, vec![separator]].concat();
        Ok(Some(Sequence {
            index: first.index,
            ids: tokens.iter().map(|token| token.id).collect(),
            // `extract_attention.py` gives both segments the id 0.
            segments: vec![0; tokens.len()],
            kinds: tokens.iter().map(|token| token.kind).collect(),
            words: Vec::new(),
            tree: None,
        }))
    }
}

fn text(sentences: &[Sequence]) -> Vec<Token> {
    let tokens = |sentence: &Sequence| -> Vec<Token> {
        let tokens = sentence.ids.iter().zip(&sentence.kinds).map(|(&id, &kind)| Token { id, kind });
        tokens.filter(|token| !token.kind.is_special()).collect()
    };
    sentences.iter().flat_map(tokens).collect()
}

impl<I: Iterator<Item = Result<Sequence>>> Iterator for Pairs<I> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let chunk = match self.chunk() {
                Ok(chunk) if chunk.is_empty() => return None,
                Ok(chunk) => chunk,
                Err(error) => return Some(Err(error)),
            };
            if let Some(pair) = self.pair(&chunk).transpose() {
                return Some(pair);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TokenKind::{FirstSpecial, Separator, Text};

    /// `[CLS]` of id 1, `tokens` tokens of the sentence's own number, `[SEP]` of id 2.
    fn sentence(index: u64, tokens: usize) -> Sequence {
        let text = std::iter::repeat_n(u32::try_from(index).unwrap() + 10, tokens);
        let ids: Vec<u32> = [1].into_iter().chain(text).chain([2]).collect();
        let kinds = [FirstSpecial].into_iter().chain(std::iter::repeat_n(Text, tokens)).chain([Separator]).collect();
        Sequence { index, segments: vec![0; ids.len()], ids, kinds, words: Vec::new(), tree: None }
    }

    fn pairs(lengths: &[(u64, usize)]) -> (Vec<Sequence>, u64) {
        let dropped = Arc::default();
        let sentences = lengths.iter().map(|&(index, tokens)| Ok(sentence(index, tokens)));
        let packed = Pairs::new(sentences, MAX_TOKENS, Arc::clone(&dropped)).map(Result::unwrap).collect();
        (packed, dropped.load(Ordering::Relaxed))
    }

    #[test]
    fn sentences_are_taken_until_a_sequence_is_full() {
        // 60 + 60 < 125, so the third is taken too; the fourth and fifth are the next sequence, at the document's end.
        let (packed, dropped) = pairs(&[(0, 60), (1, 60), (2, 60), (3, 7), (4, 8)]);
        assert_eq!(dropped, 0);
        assert_eq!(packed.len(), 2);
        assert_eq!(packed[0].ids.len(), MAX_TOKENS);
        let ids = [vec![1], vec![13; 7], vec![2], vec![14; 8], vec![2]].concat();
        assert_eq!((&packed[1].ids, packed[1].segments.len()), (&ids, ids.len()));
        assert_eq!(packed[1].kinds.iter().filter(|&&kind| kind == Separator).count(), 2);
    }

    #[test]
    fn the_longer_segment_loses_tokens_at_random_ends() {
        let orders: std::collections::BTreeSet<Vec<u32>> = (0..20)
            .map(|index| pairs(&[(2 * index, 100), (2 * index + 1, 30)]).0.remove(0))
            .map(|pair| {
                assert_eq!(pair.ids.len(), MAX_TOKENS);
                // 130 - 125 tokens are lost, all of the longer segment.
                assert_eq!(pair.ids.iter().filter(|&&id| id == pair.ids[1]).count(), 95);
                pair.ids
            })
            .collect();
        assert_eq!(orders.len(), 20);
    }

    #[test]
    fn a_chunk_of_one_sentence_gives_up_its_document() {
        // 1 is a chunk by itself: the rest of the document goes, up to sentence 255.
        let (packed, dropped) = pairs(&[(1, 130), (2, 10), (3, 10), (256, 10), (257, 10)]);
        assert_eq!((packed.len(), dropped), (1, 3));
        assert_eq!(packed[0].index, 256);
        // A last sentence alone is left out.
        assert_eq!(pairs(&[(0, 70), (1, 70), (2, 10)]).1, 1);
        assert_eq!(pairs(&[]), (vec![], 0));
    }

    #[test]
    fn the_packing_depends_on_the_sentences_alone() {
        let sentences: Vec<(u64, usize)> =
            (0..300).map(|index| (index, 3 + usize::try_from(index * 7 % 40).unwrap())).collect();
        let (early, late) = sentences.split_at(256);
        assert_eq!(pairs(&sentences).0, [pairs(early).0, pairs(late).0].concat());
    }
}
