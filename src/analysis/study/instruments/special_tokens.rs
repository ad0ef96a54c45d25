//! Weights between words and special tokens. A special token is no candidate for the other end of a word's arc or link
//! (docs/methodology/links.md).

use crate::model::forward::attention::AttentionView;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::span::WordSpan;
use crate::study::labels::evidence::Direction;

/// The special tokens and the words of a sequence.
#[derive(Clone, Debug)]
pub struct SpecialTokens {
    /// Indices of the special tokens.
    tokens: Vec<usize>,
    /// Tokens of each word.
    words: Vec<WordSpan>,
    from: FromToken,
}

impl SpecialTokens {
    pub fn new(sequence: &Sequence, from: FromToken) -> Self {
        let is_special = |token: &usize| sequence.kinds[*token].is_special();
        let tokens = (0..sequence.kinds.len()).filter(is_special).collect();
        Self { tokens, words: sequence.words.clone(), from }
    }

    /// The largest weight between a word and a special token; 0 without a special token.
    ///
    /// In the forward direction, it is the word's weight on the token. Backward, it is the token's weight on the
    /// word. Without a direction, it is the mean of both.
    pub fn largest_weight(&self, view: AttentionView<'_>, word: usize, direction: Option<Direction>) -> f64 {
        let weight = |&token: &usize| match direction {
            None => f64::midpoint(self.weight_on_token(view, word, token), self.weight_from_token(view, word, token)),
            Some(direction) if direction.is_forward() => self.weight_on_token(view, word, token),
            Some(_) => self.weight_from_token(view, word, token),
        };
        self.tokens.iter().map(weight).fold(0.0, f64::max)
    }

    /// Weight of a word on a token, pooled over the word's tokens.
    fn weight_on_token(&self, view: AttentionView<'_>, word: usize, token: usize) -> f64 {
        let word = &self.words[word];
        if self.from == FromToken::First || is_one_token(word) {
            return f64::from(view.row(word.start())[token]);
        }
        let shares = word.shares().map(|(query, share)| share * f64::from(view.row(query)[token]));
        shares.sum::<f64>() / word.share_sum()
    }

    /// Weight of a token on a word, summed over the word's tokens.
    fn weight_from_token(&self, view: AttentionView<'_>, word: usize, token: usize) -> f64 {
        let (word, row) = (&self.words[word], view.row(token));
        if is_one_token(word) {
            return f64::from(row[word.start()]);
        }
        word.shares().map(|(key, share)| share * f64::from(row[key])).sum()
    }
}

/// Whether the word has a single token, and shares it with no other word.
fn is_one_token(word: &WordSpan) -> bool {
    word.len() == 1 && word.is_whole()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::sequence::TokenKind;

    #[test]
    fn the_largest_weight_by_hand() {
        // [CLS], a word of two tokens, [SEP].
        let weights = [
            0.1, 0.2, 0.3, 0.4, //
            0.4, 0.1, 0.1, 0.4, //
            0.2, 0.1, 0.1, 0.6, //
            0.1, 0.2, 0.1, 0.6,
        ];
        let kinds = [TokenKind::FirstSpecial, TokenKind::Text, TokenKind::Text, TokenKind::Separator].to_vec();
        let sequence = Sequence {
            ids: vec![0; 4],
            kinds,
            words: WordSpan::whole_words(std::iter::once(1..3)),
            ..Sequence::default()
        };
        let view = AttentionView::new(0, 0, 4, &weights);
        let most = |from, direction| SpecialTokens::new(&sequence, from).largest_weight(view, 0, direction);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-7, "{a} {b}");
        // Its tokens give [CLS] .4 and .2, [SEP] .4 and .6; [CLS] gives it .2 + .3, [SEP] .2 + .1.
        close(most(FromToken::Mean, Some(Direction::From)), 0.5);
        close(most(FromToken::First, Some(Direction::From)), 0.4);
        close(most(FromToken::Mean, Some(Direction::To)), 0.5);
        close(most(FromToken::Mean, None), f64::midpoint(0.3, 0.5));
    }
}
