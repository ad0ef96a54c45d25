//! Sequences in which random tokens occur twice. A head that attends to the other copy must rely on the tokens, since nothing
//! else points there (Olsson et al. 2022, "repeated random tokens").
//!
//! Each jackknife block has one sequence, `first special, r_1 .. r_P, filler, r_1 .. r_P, last special`. All tokens outside the
//! second copy differ, unless the vocabulary is too small. Lengths vary, so that no fixed offset fits all sequences. Random
//! choices order their items by the SHA-256 of `headscope/WHAT/SEED/SEQUENCE/ITEM`, lowest first, so that anyone can
//! reproduce them.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use anyhow::Result;
use sha2::{Digest, Sha256};

use crate::corpus::SentenceGroup;
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::derived::corrupted::with_next_token_predictions;
use crate::sequences::frame::Frame;
use crate::sequences::sequence::{Sequence, Token, TokenKind};
use crate::sequences::span::WordSpan;
use crate::stats::blocks::BLOCKS;

/// Numbers of tokens in a copy. A copy is long enough for other keys to be far from the target, and two copies fit into 128
/// positions.
const COPY_LENGTHS: RangeInclusive<usize> = 16..=32;

/// Numbers of filler tokens between the two copies.
const FILLER_LENGTHS: RangeInclusive<usize> = 0..=8;

/// Maximum number of tokens in the first copy and the filler, which should all differ.
const MAX_DISTINCT_WORDS: usize = *COPY_LENGTHS.end() + *FILLER_LENGTHS.end();

/// Minimum number of words in a vocabulary: the four nucleotides of a DNA model. The shortest copy, with one token
/// masked, then recurs by accident with probability 4^-15.
const MIN_WORDS: usize = 4;

/// Number of masked variants of each sequence.
const MASKED_VARIANTS: usize = 8;

/// Seed that is part of the digests by which items are ordered at random.
const SEED: u64 = 1;

/// The form of the sequences of repeated random tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatVariant {
    /// Two unchanged copies, in which nothing is predicted.
    Plain,
    /// Two copies, with one token of the second copy masked. Each sequence gives eight variants, with different tokens
    /// masked.
    Masked,
    /// Two unchanged copies, in which every token is predicted from the tokens before it.
    Predicted,
}

impl RepeatVariant {
    /// Expected number of tokens in all sequences. Each sequence has two copies and a filler of mean length, and two
    /// special tokens.
    pub fn expected_tokens(self) -> f64 {
        let mean = |of: &RangeInclusive<usize>| (of.start() + of.end()) as f64 / 2.0;
        let variants = if self == Self::Masked { MASKED_VARIANTS } else { 1 };
        (BLOCKS * variants) as f64 * (2.0 * mean(&COPY_LENGTHS) + mean(&FILLER_LENGTHS) + 2.0)
    }

    /// Makes the sequences for a model with this many positions. There are none if positions or words are too few, or if a
    /// mask is needed and missing.
    pub fn sequences(self, tokenizer: &ModelTokenizer, positions: usize) -> Result<Vec<Sequence>> {
        let Some(frame) = Frame::for_text(tokenizer)? else { return Ok(Vec::new()) };
        let words = order_by_digest("repeat-token", "all", tokenizer.word_start_ids());
        let longest = frame.special_count() + COPY_LENGTHS.end() + MAX_DISTINCT_WORDS;
        if words.len() < MIN_WORDS || longest > positions {
            return Ok(Vec::new());
        }
        let mut all = words.iter().copied().cycle();
        let drawn = (0..BLOCKS).map(|number| {
            let draw = DrawnLengths::new(number);
            let count = draw.copy_length + draw.filler_length;
            let again = |place: usize| order_by_digest("repeat-token", &format!("{number}/{place}"), words.clone())[0];
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
                let first = |copies: Copies, ids: &[u32]| ids[copies.text.start..][..copies.copy_distance].to_vec();
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

/// Random lengths of one sequence, in tokens.
struct DrawnLengths {
    /// Number of the sequence, counted from 0.
    sequence_number: usize,
    /// Number of tokens of one copy.
    copy_length: usize,
    /// Number of tokens of the filler between the copies.
    filler_length: usize,
}

impl DrawnLengths {
    fn new(number: usize) -> Self {
        let first = |what, items: RangeInclusive<usize>| order_by_digest(what, &number.to_string(), items.collect())[0];
        Self {
            sequence_number: number,
            copy_length: first("repeat-length", COPY_LENGTHS),
            filler_length: first("repeat-filler", FILLER_LENGTHS),
        }
    }
}

/// Orders items at random by their SHA-256 digests, lowest first, as the module documentation describes.
fn order_by_digest<T: Display>(what: &str, sequence: &str, mut items: Vec<T>) -> Vec<T> {
    items.sort_by_cached_key(|item| Sha256::digest(format!("headscope/{what}/{SEED}/{sequence}/{item}")));
    items
}

/// Makes a sequence of two copies with the filler between them, within the special tokens of `frame`; `tokens` has one
/// copy, followed by the filler.
fn with_two_copies(frame: &Frame, draw: &DrawnLengths, tokens: &[u32]) -> Sequence {
    let (copy, filler) = tokens.split_at(draw.copy_length);
    let text: Vec<Token> =
        [copy, filler, copy].concat().into_iter().map(|id| Token { id, kind: TokenKind::Text }).collect();
    let sequence = frame.surround(&[text]);
    Sequence {
        index: draw.sequence_number as u64,
        family: SentenceGroup::new(draw.sequence_number as u64),
        words: WordSpan::whole_words(sequence.texts[0].clone().map(|token| token..token + 1)),
        ..sequence
    }
}

/// Makes [`MASKED_VARIANTS`] variants of a sequence, each with a different token of the second copy masked.
fn masked_variants(sequence: &Sequence, mask: u32, draw: &DrawnLengths) -> Vec<Sequence> {
    let second = sequence.texts[0].start + draw.copy_length + draw.filler_length;
    let places = order_by_digest("repeat-mask", &draw.sequence_number.to_string(), (0..draw.copy_length).collect());
    let variant = |place: usize| {
        let mut variant = sequence.clone();
        variant.ids[second + place] = mask;
        variant
    };
    places.into_iter().take(MASKED_VARIANTS).map(variant).collect()
}

/// Location of the two copies in a sequence that [`RepeatVariant`] made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Positions of the text: both copies and the filler between them.
    pub text: Range<usize>,
    /// Number of tokens of one copy.
    pub copy_length: usize,
    /// Distance of the second copy from the first, in tokens.
    pub copy_distance: usize,
    /// Position of the masked token; `None` if no token is masked.
    pub masked_token: Option<usize>,
}

impl Copies {
    /// Finds the copies. Their distance is the smallest at which every token recurs, except for at most one masked
    /// token. `None` if no distance fits.
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
        Some(Self {
            text: start..end,
            copy_length: length,
            copy_distance: shift,
            masked_token: masked.map(|place| start + shift + place),
        })
    }

    /// Number of the copy, 0 or 1, that contains the token. `None` for tokens outside the copies, and for the first token of
    /// a copy, which follows different tokens in the two copies.
    pub fn copy_of_token(&self, token: usize) -> Option<usize> {
        let copy = |start: usize| start + 1..start + self.copy_length;
        [self.text.start, self.text.start + self.copy_distance]
            .into_iter()
            .position(|start| copy(start).contains(&token))
    }

    /// Index of a token in the first copy and the filler after it, counted from 0. A token of the second copy has the
    /// index of the equal token in the first copy.
    pub fn index_in_first_copy(&self, token: usize) -> usize {
        let place = token - self.text.start;
        if place < self.copy_distance { place } else { place - self.copy_distance }
    }

    /// Position of each token of both copies, with the position of the equal token in the other copy.
    pub fn equal_token_pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let (start, shift) = (self.text.start, self.copy_distance);
        let first = (start..start + self.copy_length).map(move |token| (token, token + shift));
        first.clone().chain(first.map(|(token, twin)| (twin, token)))
    }
}

#[cfg(test)]
mod tests;
