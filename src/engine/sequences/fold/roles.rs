//! The roles of a sequence's tokens in metrics: queries, sinks, offsets between text tokens.

use std::ops::Range;

use crate::linalg::lanes::LANES;
use crate::model::grid::visibility::Visibility;
use crate::sequences::sequence::{Sequence, TokenKind};

/// The largest offset, in tokens, that is counted separately: metrics by offset run over -8..=8.
pub const MAX_OFFSET: i32 = 8;

/// [`MAX_OFFSET`] as a number of tokens.
pub const MAX_OFFSET_TOKENS: usize = MAX_OFFSET as usize;

/// Largest distance, in tokens, that counts as nearby.
pub const NEIGHBOUR_DISTANCE: usize = 2;

/// Number of offsets from -8 to 8.
pub const OFFSET_COUNT: usize = 2 * MAX_OFFSET_TOKENS + 1;

/// The offset, in tokens, of a slot of the counts by offset; slot 0 is offset -8.
pub fn offset_at(slot: usize) -> i32 {
    i32::try_from(slot).expect("one of few slots") - MAX_OFFSET
}

/// The roles of a sentence's tokens in the token-level metrics, computed once for all heads.
#[derive(Clone, Debug)]
pub struct TokenRoles {
    pub tokens: usize,
    pub is_first_of_family: bool,
    /// The runs of tokens that are not special: one in a single sentence, two in a pair.
    pub text_runs: Vec<Range<usize>>,
    pub first_special: Option<usize>,
    /// Position of the first token of a decoder's sequence; `None` in an encoder.
    pub first_token: Option<usize>,
    pub separators: Vec<usize>,
    pub punctuation: Vec<usize>,
    /// 1 for tokens of text, 0 for others; `[tokens]` rounded up to whole vectors.
    pub is_text: Vec<f32>,
    /// 1 for tokens that are not separators, 0 for others; `[tokens]` rounded up to whole vectors.
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
            text_runs: runs(sentence.text_positions()),
            first_special: kinds.iter().position(|&kind| kind == TokenKind::FirstSpecial),
            first_token: kinds.iter().position(|&kind| kind == TokenKind::First),
            separators: positions(TokenKind::Separator),
            punctuation: positions(TokenKind::Punctuation),
            is_text: indicator(kinds, |kind| !kind.is_special()),
            is_not_separator: indicator(kinds, |kind| kind != TokenKind::Separator),
        }
    }

    /// The text tokens, which are the queries of most metrics.
    pub fn queries(&self) -> impl Iterator<Item = usize> {
        self.text_runs.iter().cloned().flatten()
    }

    /// The ranges of text tokens within `distance` tokens of `query`, itself included.
    pub fn neighbours(&self, query: usize, distance: usize) -> impl Iterator<Item = Range<usize>> {
        let near = query.saturating_sub(distance)..query + distance + 1;
        self.text_runs
            .iter()
            .map(move |run| run.start.max(near.start)..run.end.min(near.end))
            .filter(|overlap| overlap.start < overlap.end)
    }

    /// The number of queries that see a text token at each offset, from -8 to 8.
    pub fn offset_queries(&self, visibility: Visibility) -> [u64; OFFSET_COUNT] {
        let mut counts = [0; OFFSET_COUNT];
        for query in self.queries() {
            let keys = self.neighbours(query, MAX_OFFSET_TOKENS).flatten().filter(|&key| visibility.sees(query, key));
            keys.for_each(|key| counts[offset_slot(query, key)] += 1);
        }
        counts
    }
}

/// The slot of the offset from `query` to `key`: slot 0 is offset -8.
pub fn offset_slot(query: usize, key: usize) -> usize {
    key + MAX_OFFSET_TOKENS - query
}

/// 1 for tokens of a wanted kind, 0 for others and for the padding of the last vector.
fn indicator(kinds: &[TokenKind], wanted: impl Fn(TokenKind) -> bool) -> Vec<f32> {
    let mut mask: Vec<f32> = kinds.iter().map(|&kind| if wanted(kind) { 1.0 } else { 0.0 }).collect();
    mask.resize(kinds.len().next_multiple_of(LANES), 0.0);
    mask
}

/// Ranges of consecutive positions.
fn runs(positions: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let positions: Vec<usize> = positions.collect();
    positions.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[0] + run.len()).collect()
}
