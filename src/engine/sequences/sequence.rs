//! A sequence of tokens as it goes through the encoder.

use std::ops::Range;
use std::sync::Arc;

use super::span::WordSpan;
use crate::corpus::{Annotation, LinkSet, SentenceFamily, TreeHead};
use crate::model::files::Pooling;
use crate::model::forward::batch::{Exchange, TokenClass};

/// Tokens of one sentence as the encoder reads them, or of several sentences that form one sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequence {
    /// Number of the sequence's first sentence in the corpus, from 0, skipped sentences counted.
    pub index: u64,
    /// Index of the first sentence of the sequence's document. Documents end with a segment, so that shards are independent.
    pub document: u64,
    /// Number of the sequence's document in the whole corpus; `None` if documents are not the sampling unit.
    pub document_number: Option<u64>,
    /// The group of sentences that count as one observation together with this one; all of them are in one block.
    pub family: SentenceFamily,
    /// Token ids, `[tokens]`, special tokens included.
    pub ids: Vec<u32>,
    /// Segment of each token, `[tokens]`: which text of a pair it belongs to.
    pub segments: Vec<u32>,
    /// Kind of each token, `[tokens]`.
    pub kinds: Vec<TokenKind>,
    /// The tokens of each word, in order; special tokens belong to no word, and neighbouring words may share a token.
    pub words: Vec<WordSpan>,
    /// The token range of each text, where several are put into one [frame](super::frame), or of each sentence of a
    /// [window](super::derived::windows); empty for a sentence as it is.
    pub texts: Vec<Range<usize>>,
    /// The gold dependency tree, one arc per word; `None` if the corpus has none.
    pub tree: Option<Vec<GoldArc>>,
    /// The form of each word as the corpus has it, `[words]`; empty for running text.
    pub forms: Vec<String>,
    /// The words of running text as they are written, `[words]`; empty if the corpus is given as words.
    pub spellings: Vec<String>,
    /// The annotations of each word, `[words]`; empty for running text.
    pub annotations: Vec<Annotation>,
    /// The links between words, one set for each type and sentence.
    pub links: Vec<LinkSet>,
    /// The fields of [`Annotation::entity`] as the corpus declares them.
    pub entity_fields: Option<Arc<str>>,
    /// The tokens with a prediction, ascending by position; empty for an uncorrupted sentence.
    pub predictions: Vec<PredictedToken>,
    /// The tokens on whose logits the direct effects of heads are compared.
    pub compared_tokens: Vec<u32>,
    /// The sequence's part of an item of a [task](super::derived::task); `None` for text of a corpus.
    pub item: Option<ItemPart>,
}

impl Sequence {
    /// The group of a longer text that begins with this sentence; it has the document's number if documents are the unit.
    pub fn family_of_text(&self) -> SentenceFamily {
        SentenceFamily { number: self.document_number.unwrap_or(self.family.number), ..self.family }
    }

    /// The tokens of text, without special tokens.
    pub fn text_tokens(&self) -> impl Iterator<Item = Token> {
        let tokens = self.ids.iter().zip(&self.kinds).map(|(&id, &kind)| Token { id, kind });
        tokens.filter(|token| !token.kind.is_special())
    }

    /// A word as it is written in the corpus or in the text; empty if that is unknown.
    pub fn form(&self, word: usize) -> &str {
        self.forms.get(word).or_else(|| self.spellings.get(word)).map_or("", String::as_str)
    }

    /// Whether the sequence is scored together with the one before it, so that both must run in one pack.
    pub fn continues_item(&self) -> bool {
        let is_later = |rule| matches!(rule, ScoreRule::Embedding(TripleText::Positive | TripleText::Negative, _));
        self.item.as_ref().is_some_and(|item| is_later(item.rule))
    }

    /// The positions of the tokens of text, ascending: the queries of most metrics.
    pub fn text_positions(&self) -> impl Iterator<Item = usize> {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter(|(_, kind)| !kind.is_special()).map(|(place, _)| place)
    }

    /// This sequence as a decoder reads it: its first token, special or not, is [`TokenKind::First`].
    pub fn with_decoder_first_token(mut self) -> Self {
        if let Some(first) = self.kinds.first_mut() {
            *first = TokenKind::First;
        }
        self
    }

    /// Whether a word has the first token of a decoder's sequence: attention to it may be to the position rather than to the
    /// word.
    pub fn begins_with_word(&self, word: usize) -> bool {
        self.words[word].start() == 0 && self.kinds[0] == TokenKind::First
    }

    /// The words that metrics count, as queries and as keys: all except the words that the sequence [begins
    /// with](Self::begins_with_word).
    pub fn counted_words(&self) -> Range<usize> {
        let begin = (0..self.words.len()).take_while(|&word| self.begins_with_word(word)).count();
        begin..self.words.len()
    }

    /// The word of each token, `[tokens]`; for a shared token the word with most of its characters, the first on a tie.
    pub fn words_by_token(&self) -> Vec<Option<usize>> {
        let mut words: Vec<Option<(usize, f64)>> = vec![None; self.ids.len()];
        for (word, span) in self.words.iter().enumerate() {
            for (token, share) in span.shares() {
                if words[token].is_none_or(|(_, most)| share > most) {
                    words[token] = Some((word, share));
                }
            }
        }
        words.into_iter().map(|word| word.map(|(word, _)| word)).collect()
    }

    /// Number of tokens that several words share.
    pub fn shared_token_count(&self) -> u64 {
        let mut shared = None;
        let neighbours = self.words.windows(2).filter(|pair| pair[0].end() > pair[1].start());
        neighbours.filter(|pair| shared.replace(pair[1].start()) != Some(pair[1].start())).count() as u64
    }

    /// The positions at which heads exchange their contexts between this sequence and the next; `None` if they do not.
    pub fn exchange(&self) -> Option<Exchange> {
        Some(self.item.as_ref()?.corruption.as_ref()?.exchange)
    }

    /// Number of sentences in the sequence.
    pub fn sentence_count(&self) -> usize {
        self.texts.len().max(1)
    }

    /// The [counted](Self::counted_words) words of each sentence, in order: they can be each other's syntactic heads.
    pub fn counted_words_by_sentence(&self) -> Vec<Range<usize>> {
        let counted = self.counted_words();
        let of_sentences = self.words_by_sentence().into_iter();
        of_sentences.map(|Range { start, end }| start.max(counted.start)..end).collect()
    }

    /// The words of each sentence, in order.
    pub fn words_by_sentence(&self) -> Vec<Range<usize>> {
        if self.texts.len() < 2 {
            return std::iter::once(0..self.words.len()).collect();
        }
        let before = |token: usize| self.words.partition_point(|word| word.start() < token);
        self.texts.iter().map(|text| before(text.start)..before(text.end)).collect()
    }

    /// The positions of the text tokens of each sentence, in order.
    pub fn text_positions_by_sentence(&self) -> Vec<Vec<usize>> {
        if self.texts.len() < 2 {
            return vec![self.text_positions().collect()];
        }
        let of_sentence = |text: &Range<usize>| text.clone().filter(|&place| !self.kinds[place].is_special()).collect();
        self.texts.iter().map(of_sentence).collect()
    }

    /// The words that can be each word's syntactic head, itself among them, `[words]`; none for a word that is not counted.
    pub fn head_candidates(&self) -> Vec<Range<usize>> {
        let mut of_words = vec![0..0; self.words.len()];
        self.counted_words_by_sentence().into_iter().for_each(|sentence| of_words[sentence.clone()].fill(sentence));
        of_words
    }

    /// The class of each token, `[tokens]`, which selects the replacement of a removed head.
    pub fn token_classes(&self) -> Vec<TokenClass> {
        let mut classes: Vec<TokenClass> = self.kinds.iter().map(|&kind| kind.into()).collect();
        for token in self.predictions.iter().filter(|token| token.input == InputToken::Mask) {
            classes[token.position] = TokenClass::Mask;
        }
        classes
    }

    /// The positions of the scored predictions, ascending.
    pub fn predicted_positions(&self) -> impl Iterator<Item = usize> {
        self.predictions.iter().filter(|token| token.truth.is_some()).map(|token| token.position)
    }

    /// The true class of each scored prediction.
    pub fn true_classes(&self) -> impl Iterator<Item = u32> {
        self.predictions.iter().filter_map(|token| token.truth)
    }
}

/// How the logits at a predicted position add to the score of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreRule {
    /// The logit of the true token minus the logit of this token.
    VersusFoil(u32),
    /// The log-probability of the text is added: the good text of a pair.
    GoodText,
    /// The log-probability of the text is subtracted: the bad text of a pair.
    BadText,
    /// The log-probability of the true class, less that of its foil if there is one. The prediction is right if the true class is
    /// the most probable.
    Class,
    /// The cosine of the text's pooled states with the anchor's; an item scores the positive text's cosine minus the negative
    /// text's.
    Embedding(TripleText, Pooling),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripleText {
    /// The text that the two others are compared with.
    Anchor,
    /// The text that should be nearer to the anchor.
    Positive,
    /// The text that should be farther from the anchor.
    Negative,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemPart {
    /// How the sequence adds to the score of the item.
    pub rule: ScoreRule,
    /// The right answer, a token or a class; `None` for kinds of items without a single one.
    pub answer: Option<u32>,
    /// The foil class of each prediction; empty if the true class is compared with all others.
    pub foils: Vec<u32>,
    pub group: Option<Arc<str>>,
    /// How the next sequence corrupts this text; `None` without a corrupted text.
    pub corruption: Option<TextCorruption>,
}

/// A corruption of a text that keeps its number of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextCorruption {
    pub name: Option<Arc<str>>,
    /// Number of tokens that differ from the text.
    pub changed_tokens: u64,
    /// Positions at which heads exchange contexts between the text and its corrupted text.
    pub exchange: Exchange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedToken {
    /// The position whose logits predict the token: the token's own, or for next-token prediction the one before.
    pub position: usize,
    /// Index of the word that has the token.
    pub word: usize,
    /// Token that stands in the input in its place.
    pub input: InputToken,
    /// The true class: the id of the token behind a mask, or whether the token was replaced (1) or not (0); `None` if not scored.
    pub truth: Option<u32>,
}

impl PredictedToken {
    pub fn masked(position: usize, word: usize, truth: Option<u32>) -> Self {
        Self { position, word, input: InputToken::Mask, truth }
    }
}

/// What the input has in the place of a predicted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputToken {
    Mask,
    Replacement,
    /// The original token.
    Original,
    /// No input: the token is predicted from the tokens before it.
    NoInput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: u32,
    pub kind: TokenKind,
}

/// The kind of a token in metrics (docs/methodology/units.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Text,
    /// An ordinary token whose surface is all Unicode punctuation (general category P).
    Punctuation,
    /// The sequence's first special token: `[CLS]`, `<s>`.
    FirstSpecial,
    /// A separator: `[SEP]`, `</s>`.
    Separator,
    OtherSpecial,
    /// The first token of a sequence that a decoder reads, special or not: it sees itself alone, and is often a sink.
    First,
}

impl TokenKind {
    /// Whether metrics do not count the token as text: it stands around the text, or a decoder's sequence begins with it.
    pub fn is_special(self) -> bool {
        !matches!(self, Self::Text | Self::Punctuation)
    }
}

impl From<TokenKind> for TokenClass {
    fn from(kind: TokenKind) -> Self {
        match kind {
            TokenKind::FirstSpecial => Self::FirstSpecial,
            TokenKind::Separator | TokenKind::OtherSpecial => Self::OtherSpecial,
            TokenKind::Text | TokenKind::Punctuation => Self::Text,
            TokenKind::First => Self::First,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoldArc {
    pub head: TreeHead,
    /// The dependency relation with its subtype, if any.
    pub relation: String,
}
