//! The tokens of a word, and the word's share of each token that several words share.

use std::ops::Range;

/// The tokens of a word. A token that crosses the end of a word (`didn't` as one token, for did and n't) belongs to all
/// words in it. The words share it in proportion to characters, and their shares sum to 1. Only the first and the last
/// token of a word can be shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WordSpan {
    /// Positions of the word's tokens, at least one.
    pub tokens: Range<usize>,
    /// The word's share of its first token, above 0 and at most 1.
    pub first_share: f64,
    /// The word's share of its last token, above 0 and at most 1; equal to `first_share` if the word has one token.
    pub last_share: f64,
}

impl From<Range<usize>> for WordSpan {
    fn from(tokens: Range<usize>) -> Self {
        Self { tokens, first_share: 1.0, last_share: 1.0 }
    }
}

impl PartialEq<Range<usize>> for WordSpan {
    fn eq(&self, tokens: &Range<usize>) -> bool {
        self.is_whole() && self.tokens == *tokens
    }
}

impl WordSpan {
    /// Makes spans of words that share no token.
    pub fn whole_words(spans: impl IntoIterator<Item = Range<usize>>) -> Vec<Self> {
        spans.into_iter().map(Self::from).collect()
    }

    #[expect(clippy::len_without_is_empty, reason = "a word has a token")]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn start(&self) -> usize {
        self.tokens.start
    }

    pub fn end(&self) -> usize {
        self.tokens.end
    }

    /// Whether the word shares no token with another word.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.first_share == 1.0 && self.last_share == 1.0
    }

    /// Position of each token of the word, with the word's share of the token: 1 unless other words share the token.
    pub fn shares(&self) -> impl ExactSizeIterator<Item = (usize, f64)> + use<> {
        let Self { tokens, first_share: first, last_share: last } = self.clone();
        let Range { start, end } = tokens;
        (start..end).map(move |token| {
            let share = if token == start { first } else { 1.0 };
            (token, if token + 1 == end { share.min(last) } else { share })
        })
    }

    /// Number of tokens of the word, where a shared token counts as the word's share of the token.
    pub fn share_sum(&self) -> f64 {
        self.share_in(self.tokens.clone())
    }

    /// Number of tokens of the word within a range, where a shared token counts as the word's share of the token.
    pub fn share_in(&self, tokens: Range<usize>) -> f64 {
        let overlap = self.tokens.start.max(tokens.start)..self.tokens.end.min(tokens.end);
        if self.is_whole() {
            return overlap.len() as f64;
        }
        self.shares().filter(|(token, _)| overlap.contains(token)).map(|(_, share)| share).sum()
    }

    /// Moves the span by the distance between the positions `from` and `to`.
    #[must_use]
    pub fn shifted(self, from: usize, to: usize) -> Self {
        let Range { start, end } = self.tokens;
        Self { tokens: start - from + to..end - from + to, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_ends() {
        let span = WordSpan { tokens: 3..6, first_share: 0.5, last_share: 0.25 };
        assert_eq!(span.shares().collect::<Vec<_>>(), [(3, 0.5), (4, 1.0), (5, 0.25)]);
        assert_eq!(
            (span.share_sum(), span.share_in(0..5), span.share_in(5..9), span.share_in(6..9)),
            (1.75, 1.5, 0.25, 0.0)
        );
        let single = WordSpan { tokens: 3..4, first_share: 0.5, last_share: 0.5 };
        assert_eq!((single.shares().collect::<Vec<_>>(), single.share_sum()), (vec![(3, 0.5)], 0.5));
        let whole = WordSpan::from(3..5);
        assert_eq!(
            (whole.share_sum(), whole.share_in(4..9), whole.is_whole(), span.is_whole()),
            (2.0, 1.0, true, false)
        );
        assert_eq!(span.shifted(3, 1).tokens, 1..4);
    }
}
