//! The special tokens that a tokenizer puts around a text, or around and between both texts of a pair.

use anyhow::Result;
use tokenizers::Encoding;

use super::sequence::{Sequence, Token};
use super::tokenize::token_kinds;
use crate::model::tokenizer::ModelTokenizer;

/// A text that is one token; encoding it shows the special tokens around any text.
const ONE_TOKEN_TEXT: &str = "a";

/// The special tokens that a tokenizer puts around one or several texts, with the segment ids of all tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The special tokens before each text and after the last text, each with its segment id, `[texts + 1]`.
    special_tokens: Vec<Vec<(Token, u32)>>,
    /// The segment id of each text, `[texts]`.
    segments: Vec<u32>,
}

impl Frame {
    /// The special tokens around a single text; `None` if the tokenizer's output is not special tokens and one text.
    pub fn for_text(tokenizer: &ModelTokenizer) -> Result<Option<Self>> {
        Ok(Self::from_encoding(tokenizer, &tokenizer.encode_text(ONE_TOKEN_TEXT, true)?, 1))
    }

    /// The special tokens around a pair of texts, such as `[CLS] A [SEP] B [SEP]` or `<s> A </s></s> B </s>`; `None` if
    /// the tokenizer's output does not have both texts.
    pub fn for_pair(tokenizer: &ModelTokenizer) -> Result<Option<Self>> {
        Ok(Self::from_encoding(tokenizer, &tokenizer.encode_pair(ONE_TOKEN_TEXT, ONE_TOKEN_TEXT)?, 2))
    }

    /// Finds the special tokens around one-token texts in an encoding of the texts. `None` if the encoding does not have
    /// `texts` texts.
    fn from_encoding(tokenizer: &ModelTokenizer, encoding: &Encoding, texts: usize) -> Option<Self> {
        let mut frame = Self { special_tokens: vec![Vec::new()], segments: Vec::new() };
        let tokens = encoding.get_ids().iter().zip(token_kinds(tokenizer, encoding));
        for (place, ((&id, kind), &segment)) in tokens.zip(encoding.get_type_ids()).enumerate() {
            if kind.is_special() {
                frame.special_tokens.last_mut()?.push((Token { id, kind }, segment));
            } else if encoding.token_to_sequence(place)? == frame.segments.len() {
                frame.segments.push(segment);
                frame.special_tokens.push(Vec::new());
            }
        }
        (frame.segments.len() == texts).then_some(frame)
    }

    pub fn special_count(&self) -> usize {
        self.special_tokens.iter().map(Vec::len).sum()
    }

    /// Adapts the frame to a model with `count` segments: higher segment ids become `count - 1`.
    pub fn with_segments(mut self, count: usize) -> Self {
        let last = u32::try_from(count).unwrap_or(u32::MAX).saturating_sub(1);
        let segments = self.special_tokens.iter_mut().flatten().map(|(_, segment)| segment).chain(&mut self.segments);
        segments.for_each(|segment| *segment = last.min(*segment));
        self
    }

    /// The texts with special tokens around and between them. Panics unless there are as many texts as the frame has places
    /// for.
    pub fn surround(&self, texts: &[Vec<Token>]) -> Sequence {
        assert_eq!(texts.len(), self.segments.len(), "a frame of so many texts");
        let (mut tokens, mut ranges) = (self.special_tokens[0].clone(), Vec::new());
        for ((text, &segment), special) in texts.iter().zip(&self.segments).zip(&self.special_tokens[1..]) {
            ranges.push(tokens.len()..tokens.len() + text.len());
            tokens.extend(text.iter().map(|&token| (token, segment)));
            tokens.extend(special);
        }
        Sequence {
            ids: tokens.iter().map(|(token, _)| token.id).collect(),
            kinds: tokens.iter().map(|(token, _)| token.kind).collect(),
            segments: tokens.iter().map(|(_, segment)| *segment).collect(),
            texts: ranges,
            ..Sequence::default()
        }
    }

    /// BERT's frame with the ids 1 for `[CLS]` and 2 for `[SEP]`, for tests: `[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]`.
    #[doc(hidden)]
    pub fn bert_for_tests(texts: u32) -> Self {
        use super::sequence::TokenKind::{FirstSpecial, Separator};
        let after = |segment| vec![(Token { id: 2, kind: Separator }, segment)];
        let before = vec![(Token { id: 1, kind: FirstSpecial }, 0)];
        Self {
            special_tokens: [before].into_iter().chain((0..texts).map(after)).collect(),
            segments: (0..texts).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::sequence::TokenKind::{FirstSpecial, Separator, Text};

    #[test]
    fn a_pair_in_its_frame() {
        let text = |ids: &[u32]| ids.iter().map(|&id| Token { id, kind: Text }).collect::<Vec<_>>();
        let pair = Frame::bert_for_tests(2).surround(&[text(&[10, 11]), text(&[12])]);
        assert_eq!(pair.ids, [1, 10, 11, 2, 12, 2]);
        assert_eq!(pair.segments, [0, 0, 0, 0, 1, 1]);
        assert_eq!(pair.kinds, [FirstSpecial, Text, Text, Separator, Text, Separator]);
        assert_eq!(pair.texts, [1..3, 4..5]);
        assert_eq!(Frame::bert_for_tests(2).special_count(), 3);
        let one = Frame::bert_for_tests(2).with_segments(1).surround(&[text(&[10]), text(&[12])]);
        assert_eq!(one.segments, [0; 5]);
        let two = Frame::bert_for_tests(2).with_segments(2).surround(&[text(&[10]), text(&[12])]);
        assert_eq!(two.segments, [0, 0, 0, 1, 1]);
    }
}
