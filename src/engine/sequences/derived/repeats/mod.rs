//! Sequences of random tokens, twice: a head that attends to the other copy must rely on the tokens, since nothing else points
//! there (Olsson et al. 2022, "repeated random tokens"). Each block has one sequence,
//! `first special, r_1 .. r_P, filler, r_1 .. r_P, last special`. All tokens outside the second copy differ, unless the
//! vocabulary is too small, and the lengths vary, so that no fixed offset fits. Random choices order their items by the SHA-256
//! of `headscope/WHAT/SEED/SEQUENCE/ITEM`, lowest first, so that anyone can reproduce them.

use std::ops::{Range, RangeInclusive};

use anyhow::Result;
use sha2::{Digest, Sha256};

use crate::corpus::SentenceFamily;
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::derived::corrupted::with_next_token_predictions;
use crate::sequences::frame::Frame;
use crate::sequences::sequence::{Sequence, Token, TokenKind};
use crate::sequences::span::WordSpan;
use crate::stats::blocks::BLOCKS;

/// Range of the number of tokens of a copy: enough for null keys far from the target, few enough for 128 positions.
const COPY_LENGTHS: RangeInclusive<usize> = 16..=32;

/// Range of the number of tokens between the copies.
const FILLER_LENGTHS: RangeInclusive<usize> = 0..=8;

/// Most tokens of a sequence without its second copy: the number of words that should differ.
const MAX_DISTINCT_WORDS: usize = *COPY_LENGTHS.end() + *FILLER_LENGTHS.end();

/// Fewest words of a vocabulary that repeats are made of, as of nucleotides: the shortest copy, with one token masked, recurs by
/// accident with a chance of 4^-15.
const MIN_WORDS: usize = 4;

/// Number of masked variants of a sequence.
const MASKED_VARIANTS: usize = 8;

/// Seed in the digests that order random choices.
const SEED: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatVariant {
    Plain,
    /// The two copies, with a token of the second one masked: eight variants of each sequence, each with one mask.
    Masked,
    /// The two copies as they are; every token is predicted from the tokens before it.
    Predicted,
}

impl RepeatVariant {
    /// Expected number of tokens in all sequences: two copies of the mean length, the mean filler, two special tokens.
    pub fn expected_tokens(self) -> f64 {
        let mean = |of: &RangeInclusive<usize>| (of.start() + of.end()) as f64 / 2.0;
        let variants = if self == Self::Masked { MASKED_VARIANTS } else { 1 };
        (BLOCKS * variants) as f64 * (2.0 * mean(&COPY_LENGTHS) + mean(&FILLER_LENGTHS) + 2.0)
    }

    /// The sequences for a model with this many positions; none if positions or words are too few, or the mask is missing.
    pub fn sequences(self, tokenizer: &ModelTokenizer, positions: usize) -> Result<Vec<Sequence>> {
        let Some(frame) = Frame::for_text(tokenizer)? else { return Ok(Vec::new()) };
        let words = ordered_by_digest("repeat-token", "all", tokenizer.word_start_ids());
        let longest = frame.special_count() + COPY_LENGTHS.end() + MAX_DISTINCT_WORDS;
        if words.len() < MIN_WORDS || longest > positions {
            return Ok(Vec::new());
        }
        let mut all = words.iter().copied().cycle();
        let drawn = (0..BLOCKS).map(|number| {
            let draw = DrawnLengths::new(number);
            let count = draw.length + draw.filler;
            let again =
                |place: usize| ordered_by_digest("repeat-token", &format!("{number}/{place}"), words.clone())[0];
            let tokens: Vec<u32> = if words.len() < MAX_DISTINCT_WORDS {
                (0..count).map(again).collect()
            } else {
                all.by_ref().take(count).collect()
            };
            (draw, tokens)
        });
        let plain = drawn.map(|(draw, tokens)| (with_two_copies(&frame, &draw, &tokens), draw));
        let plain_alone = |(sequence, _): (Sequence, DrawnLengths)| sequence;
        Ok(match (self, tokenizer.mask) {
            (Self::Plain, _) => plain.map(plain_alone).collect(),
            (Self::Predicted, _) => {
                // The ids of the first copy, and of the tokens between the copies.
                let first = |copies: Copies, ids: &[u32]| ids[copies.text.start..][..copies.shift].to_vec();
                let compared = |sequence: Sequence| Sequence {
                    compared_tokens: Copies::find(&sequence)
                        .map_or_else(Vec::new, |copies| first(copies, &sequence.ids)),
                    ..sequence
                };
                plain
                    .map(plain_alone)
                    .filter_map(|sequence| with_next_token_predictions(&sequence, None))
                    .map(compared)
                    .collect()
            }
            (Self::Masked, None) => Vec::new(),
            (Self::Masked, Some(mask)) => {
                plain.flat_map(|(sequence, draw)| masked_variants(&sequence, mask, &draw)).collect()
            }
        })
    }
}

/// Random lengths of the sequence with this number: of a copy, and of the filler between the copies.
struct DrawnLengths {
    number: usize,
    length: usize,
    filler: usize,
}

impl DrawnLengths {
    fn new(number: usize) -> Self {
        let first =
            |what, items: RangeInclusive<usize>| ordered_by_digest(what, &number.to_string(), items.collect())[0];
        Self { number, length: first("repeat-length", COPY_LENGTHS), filler: first("repeat-filler", FILLER_LENGTHS) }
    }
}

/// Orders items by their digests (see the module), for random choices that anyone can reproduce.
fn ordered_by_digest<T: ToString>(what: &str, sequence: &str, items: Vec<T>) -> Vec<T> {
    let key = |item: &T| Sha256::digest(format!("headscope/{what}/{SEED}/{sequence}/{}", item.to_string()));
    let mut keyed: Vec<_> = items.into_iter().map(|item| (key(&item), item)).collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, item)| item).collect()
}

/// A sequence of two copies with the filler between them, in the frame; `tokens` are the tokens of a copy and then of the filler.
fn with_two_copies(frame: &Frame, draw: &DrawnLengths, tokens: &[u32]) -> Sequence {
    let (copy, filler) = tokens.split_at(draw.length);
    let text: Vec<Token> =
        [copy, filler, copy].concat().into_iter().map(|id| Token { id, kind: TokenKind::Text }).collect();
    let sequence = frame.surround(&[text]);
    Sequence {
        index: draw.number as u64,
        family: SentenceFamily::new(draw.number as u64),
        words: WordSpan::whole_words(sequence.texts[0].clone().map(|token| token..token + 1)),
        ..sequence
    }
}

/// [`MASKED_VARIANTS`] variants of the sequence, each with another token of the second copy masked.
fn masked_variants(sequence: &Sequence, mask: u32, draw: &DrawnLengths) -> Vec<Sequence> {
    let second = sequence.texts[0].start + draw.length + draw.filler;
    let places = ordered_by_digest("repeat-mask", &draw.number.to_string(), (0..draw.length).collect());
    let variant = |place: usize| {
        let mut variant = sequence.clone();
        variant.ids[second + place] = mask;
        variant
    };
    places.into_iter().take(MASKED_VARIANTS).map(variant).collect()
}

/// The copies in a sequence that [`RepeatVariant`] made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// The tokens of the text, both copies and the tokens between them.
    pub text: Range<usize>,
    /// Number of tokens of one copy.
    pub length: usize,
    /// Distance of the second copy from the first, in tokens.
    pub shift: usize,
    /// Position of the masked token; `None` if no token is masked.
    pub masked_token: Option<usize>,
}

impl Copies {
    /// Finds the copies by the smallest shift at which all tokens recur, except for a mask; `None` if there is none.
    pub fn find(sequence: &Sequence) -> Option<Self> {
        let is_text = |&token: &usize| !sequence.kinds[token].is_special();
        let start = (0..sequence.ids.len()).find(is_text)?;
        let end = (start..sequence.ids.len()).rfind(is_text)? + 1;
        let ids = &sequence.ids[start..end];
        let is_shift = |shift: &usize| {
            let equal = ids.iter().zip(&ids[*shift..]).filter(|(a, b)| a == b).count();
            equal > 0 && equal + 1 >= ids.len() - shift
        };
        let shift = (1..ids.len()).find(is_shift)?;
        let length = ids.len() - shift;
        let masked = (0..length).find(|place| ids[*place] != ids[place + shift]);
        Some(Self { text: start..end, length, shift, masked_token: masked.map(|place| start + shift + place) })
    }

    /// The copy, 0 or 1, of a token that follows equal tokens in both copies: every token of a copy except its first.
    pub fn copy_of_token(&self, token: usize) -> Option<usize> {
        let copy = |start: usize| start + 1..start + self.length;
        [self.text.start, self.text.start + self.shift].into_iter().position(|start| copy(start).contains(&token))
    }

    /// The index of a token in the first copy with filler; a token of the second copy has the index of its twin.
    pub fn index_in_first_copy(&self, token: usize) -> usize {
        let place = token - self.text.start;
        if place < self.shift { place } else { place - self.shift }
    }

    /// `(token, twin)` for each token of both copies; the twin is the equal token of the other copy.
    pub fn twins(&self) -> impl Iterator<Item = (usize, usize)> {
        let (start, shift) = (self.text.start, self.shift);
        let first = (start..start + self.length).map(move |token| (token, token + shift));
        first.clone().chain(first.map(|(token, twin)| (twin, token)))
    }
}

#[cfg(test)]
mod tests;
