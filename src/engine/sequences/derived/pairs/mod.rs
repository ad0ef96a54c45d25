//! Sequences of two segments, `[CLS] A [SEP] B [SEP]`, packed from consecutive sentences as the `preprocess_unlabeled.py` of
//! Clark et al. 2019 does.

use std::iter::Peekable;

use anyhow::{Context, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::sequences::sequence::{Sequence, Token, TokenKind};

#[cfg(test)]
mod tests;

/// Maximum length of a sequence in tokens, special tokens included: `--max_sequence_length` in the code of Clark et al.
/// 2019.
pub const MAX_PAIR_TOKENS: usize = 128;

/// Number of special tokens in a sequence: `[CLS]`, `[SEP]` and `[SEP]`.
const SPECIAL_TOKEN_COUNT: usize = 3;

/// Seed of the random choices. The code of Clark et al. 2019 uses it for Python's random numbers; here it seeds
/// [`ChaCha8Rng`].
const SEED: u64 = 0;

/// Iterator that packs consecutive sentences of a document ([`Sequence::document`]) into pairs of segments.
pub struct PairPacker<I: Iterator> {
    sentences: Peekable<I>,
    max_tokens: usize,
    /// Number of sentences so far that are in no sequence; complete once the iterator has ended.
    pub left_out: u64,
}

impl<I: Iterator<Item = Result<Sequence>>> PairPacker<I> {
    pub fn new(sentences: I, max_tokens: usize) -> Self {
        Self { sentences: sentences.peekable(), max_tokens, left_out: 0 }
    }

    /// Takes the next sentence, if it is in `document`, or any sentence for `None`.
    fn next_in_document(&mut self, document: Option<u64>) -> Option<Result<Sequence>> {
        let is_in = |sentence: &Sequence| document.is_none_or(|document| sentence.document == document);
        self.sentences.next_if(|sentence| sentence.as_ref().map_or(true, is_in))
    }

    /// Takes consecutive sentences until they fill a sequence or their document ends.
    fn take_chunk(&mut self) -> Result<Vec<Sequence>> {
        let mut chunk: Vec<Sequence> = Vec::new();
        let mut length = 0;
        while length < self.max_tokens - SPECIAL_TOKEN_COUNT {
            let document = chunk.first().map(|first| first.document);
            let Some(sentence) = self.next_in_document(document) else { break };
            let sentence = sentence?;
            length += sentence.kinds.iter().filter(|kind| !kind.is_special()).count();
            chunk.push(sentence);
        }
        Ok(chunk)
    }

    /// Splits a chunk into two segments. A chunk of one sentence gives `None`, and the remainder of its document is
    /// dropped, as in the code of Clark et al. 2019.
    fn split_into_pair(&mut self, chunk: &[Sequence]) -> Result<Option<Sequence>> {
        let first = &chunk[0];
        if chunk.len() == 1 {
            self.left_out += 1;
            while let Some(sentence) = self.next_in_document(Some(first.document)) {
                sentence?;
                self.left_out += 1;
            }
            return Ok(None);
        }
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        random.set_stream(first.index);
        let (a, b) = chunk.split_at(random.random_range(1..chunk.len()));
        let text =
            |sentences: &[Sequence]| -> Vec<Token> { sentences.iter().flat_map(Sequence::text_tokens).collect() };
        let (mut a, mut b) = (text(a), text(b));
        while a.len() + b.len() > self.max_tokens - SPECIAL_TOKEN_COUNT {
            let longer = if a.len() > b.len() { &mut a } else { &mut b };
            if random.random_bool(0.5) {
                longer.remove(0);
            } else {
                longer.pop();
            }
        }
        let special = |kind: TokenKind| {
            let position = first.kinds.iter().position(|&other| other == kind);
            let token = position.map(|position| Token { id: first.ids[position], kind });
            token.context("--preset clark2019 packs [CLS] A [SEP] B [SEP], and the tokenizer adds no such tokens")
        };
        let separator = special(TokenKind::Separator)?;
        let tokens = [vec![special(TokenKind::FirstSpecial)?], a, vec![separator], b, vec![separator]].concat();
        Ok(Some(Sequence {
            index: first.index,
            document: first.document,
            family: first.text_group(),
            ids: tokens.iter().map(|token| token.id).collect(),
            // `extract_attention.py` gives both segments the id 0.
            segments: vec![0; tokens.len()],
            kinds: tokens.iter().map(|token| token.kind).collect(),
            ..Sequence::default()
        }))
    }
}

impl<I: Iterator<Item = Result<Sequence>>> Iterator for PairPacker<I> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let chunk = match self.take_chunk() {
                Ok(chunk) if chunk.is_empty() => return None,
                Ok(chunk) => chunk,
                Err(error) => return Some(Err(error)),
            };
            if let Some(pair) = self.split_into_pair(&chunk).transpose() {
                return Some(pair);
            }
        }
    }
}
