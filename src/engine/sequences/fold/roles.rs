//! The roles of a sequence's tokens in metrics: queries, sinks, offsets between text tokens.

use std::ops::Range;

use crate::linalg::lanes::LANES;
use crate::model::grid::visibility::Visibility;
use crate::sequences::sequence::{Sequence, TokenKind};

/// Maximum distance, in tokens, of the offsets that are counted separately: from -8 to 8.
pub const MAX_OFFSET: i32 = 8;

pub const MAX_OFFSET_TOKENS: usize = MAX_OFFSET as usize;

/// Maximum distance at which a token counts as a neighbour, in tokens.
pub const MAX_NEIGHBOUR_DISTANCE: usize = 2;

/// Number of offsets from -8 to 8.
pub const OFFSET_COUNT: usize = 2 * MAX_OFFSET_TOKENS + 1;

/// Offset, in tokens, that slot number `slot` counts; slot 0 is offset -8.
pub fn offset_at(slot: usize) -> i32 {
    i32::try_from(slot).expect("one of few slots") - MAX_OFFSET
}

/// Roles of a sequence's tokens in token-level metrics, computed once for all heads.
#[derive(Clone, Debug)]
pub struct TokenRoles {
    pub tokens: usize,
    /// Whether the sequence is the first of its group of related sentences.
    pub is_first_of_family: bool,
    /// Ranges of consecutive text tokens: one in a single sentence, two in a pair.
    pub text_runs: Vec<Range<usize>>,
    /// Position of the first special token; `None` without one.
    pub first_special: Option<usize>,
    /// Position of the first token of a decoder's sequence; `None` for an encoder.
    pub first_token: Option<usize>,
    /// Positions of the separators.
    pub separators: Vec<usize>,
    /// Positions of the punctuation tokens.
    pub punctuation: Vec<usize>,
    /// Mask of the text tokens: 1 for text, 0 for other tokens, `[tokens]` padded with 0 to whole vectors.
    pub is_text: Vec<f32>,
    /// Mask of the tokens other than separators: 0 for separators, 1 for other tokens, `[tokens]` padded with 0 to whole
    /// vectors.
    pub is_not_separator: Vec<f32>,
}

impl TokenRoles {
    pub fn new(sentence: &Sequence) -> Self {
        let kinds = &sentence.kinds;
        let positions =
            |wanted: TokenKind| -> Vec<usize> { (0..kinds.len()).filter(|&token| kinds[token] == wanted).collect() };
        Self {
            tokens: kinds.len(),
            is_first_of_family: sentence.family.is_first,
            text_runs: consecutive_ranges(sentence.text_positions()),
            first_special: kinds.iter().position(|&kind| kind == TokenKind::FirstSpecial),
            first_token: kinds.iter().position(|&kind| kind == TokenKind::First),
            separators: positions(TokenKind::Separator),
            punctuation: positions(TokenKind::Punctuation),
            is_text: kind_mask(kinds, |kind| !kind.is_special()),
            is_not_separator: kind_mask(kinds, |kind| kind != TokenKind::Separator),
        }
    }

    /// Positions of the text tokens, which are the queries of most metrics.
    pub fn queries(&self) -> impl Iterator<Item = usize> {
        self.text_runs.iter().cloned().flatten()
    }

    /// Ranges of the text tokens within `distance` tokens of `query`, which is one of them.
    pub fn neighbours(&self, query: usize, distance: usize) -> impl Iterator<Item = Range<usize>> {
        let near = query.saturating_sub(distance)..query + distance + 1;
        self.text_runs
            .iter()
            .map(move |run| run.start.max(near.start)..run.end.min(near.end))
            .filter(|overlap| overlap.start < overlap.end)
    }

    /// Number of queries that see a text token at each offset (key minus query) from -8 to 8.
    pub fn query_counts_by_offset(&self, visibility: Visibility) -> [u64; OFFSET_COUNT] {
        let mut counts = [0; OFFSET_COUNT];
        for query in self.queries() {
            let keys = self.neighbours(query, MAX_OFFSET_TOKENS).flatten().filter(|&key| visibility.sees(query, key));
            keys.for_each(|key| counts[offset_slot(query, key)] += 1);
        }
        counts
    }
}

/// Slot that counts the offset from `query` to `key`; slot 0 is offset -8.
pub fn offset_slot(query: usize, key: usize) -> usize {
    key + MAX_OFFSET_TOKENS - query
}

/// Mask of the tokens of a wanted kind: 1 for these, 0 for others, padded with 0 to whole vectors.
fn kind_mask(kinds: &[TokenKind], wanted: impl Fn(TokenKind) -> bool) -> Vec<f32> {
    let mut mask: Vec<f32> = kinds.iter().map(|&kind| if wanted(kind) { 1.0 } else { 0.0 }).collect();
    mask.resize(kinds.len().next_multiple_of(LANES), 0.0);
    mask
}

/// Groups ascending positions into ranges of consecutive ones.
fn consecutive_ranges(positions: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let positions: Vec<usize> = positions.collect();
    positions.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[0] + run.len()).collect()
}
