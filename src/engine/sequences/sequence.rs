//! A sequence of tokens as it goes through the encoder.

use std::ops::Range;
use std::sync::Arc;

use itertools::Itertools as _;

use super::span::WordSpan;
use crate::corpus::{Annotation, LinkSet, SentenceGroup, TreeHead};
use crate::model::files::Pooling;
use crate::model::forward::batch::{ContextExchange, TokenClass};

/// The tokens of one sentence, or of several sentences that run together, with everything known about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequence {
    /// Number of the sequence's first sentence in the corpus, counted from 0; skipped sentences are counted too.
    pub index: u64,
    /// Number in the corpus, counted from 0, of the sentence that begins the sequence's document. A document never
    /// crosses the end of a segment of sentences, so that shards are independent.
    pub document: u64,
    /// Number of the sequence's document in the corpus; `None` unless documents are the sampling unit.
    pub document_number: Option<u64>,
    /// Group of related sentences that count as one observation; all sentences of a group fall into one jackknife block.
    pub family: SentenceGroup,
    /// Token ids, `[tokens]`, special tokens included.
    pub ids: Vec<u32>,
    /// Segment id of each token, `[tokens]`: the number of the text of a pair to which the token belongs.
    pub segments: Vec<u32>,
    /// Kind of each token, `[tokens]`.
    pub kinds: Vec<TokenKind>,
    /// The tokens of each word, in order. Special tokens belong to no word; neighbouring words may share a token.
    pub words: Vec<WordSpan>,
    /// The token range of each text of a sequence that a [frame](super::frame) made of several, or of each sentence of a
    /// [window](super::derived::windows). Empty for a single sentence.
    pub texts: Vec<Range<usize>>,
    /// Gold dependency tree, one arc per word; `None` if the corpus does not annotate it.
    pub tree: Option<Vec<GoldArc>>,
    /// Form of each word in the corpus, `[words]`; empty for running text.
    pub forms: Vec<String>,
    /// Spelling of each word that the tokenizer found in running text, `[words]`; empty if the corpus gives words.
    pub spellings: Vec<String>,
    /// The annotations of each word, `[words]`; empty for running text.
    pub annotations: Vec<Annotation>,
    /// Links between words, one set for each link type and sentence.
    pub links: Vec<LinkSet>,
    /// Field names of [`Annotation::entity`] that the corpus declares; `None` without a declaration.
    pub entity_fields: Option<Arc<str>>,
    /// Tokens that the model is to predict, ascending by position; empty for a sequence without predictions.
    pub predictions: Vec<PredictedToken>,
    /// Ids of the tokens for whose logits the direct effects of heads are computed.
    pub compared_tokens: Vec<u32>,
    /// The item of a [task](super::derived::task) to which the sequence belongs; `None` for text of a corpus.
    pub item: Option<ItemPart>,
}

impl Sequence {
    /// Group for a longer sequence, such as a window, whose first sentence is this one. If documents are the sampling unit, the
    /// group has the number of the document.
    pub fn text_group(&self) -> SentenceGroup {
        SentenceGroup { number: self.document_number.unwrap_or(self.family.number), ..self.family }
    }

    /// The tokens of text, without special tokens.
    pub fn text_tokens(&self) -> impl Iterator<Item = Token> {
        let tokens = self.ids.iter().zip(&self.kinds).map(|(&id, &kind)| Token { id, kind });
        tokens.filter(|token| !token.kind.is_special())
    }

    /// Form of a word in the corpus, or its spelling in running text; empty if both are unknown.
    pub fn form(&self, word: usize) -> &str {
        self.forms.get(word).or_else(|| self.spellings.get(word)).map_or("", String::as_str)
    }

    /// Whether the sequence is the second or third text of a triple, which is scored together with the text before it. Both
    /// must then run in one pack.
    pub fn continues_triple(&self) -> bool {
        let is_later = |rule| matches!(rule, ScoreRule::Embedding(TripleRole::Positive | TripleRole::Negative, _));
        self.item.as_ref().is_some_and(|item| is_later(item.rule))
    }

    /// Positions of the text tokens, ascending, which are the queries of most metrics.
    pub fn text_positions(&self) -> impl Iterator<Item = usize> {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter(|(_, kind)| !kind.is_special()).map(|(place, _)| place)
    }

    /// Marks the first token of the sequence, special or not, as [`TokenKind::First`], for a decoder.
    pub fn with_decoder_first_token(mut self) -> Self {
        if let Some(first) = self.kinds.first_mut() {
            *first = TokenKind::First;
        }
        self
    }

    /// Whether the word contains the first token of a decoder's sequence. Attention to it may be due to the position rather
    /// than to the word.
    pub fn begins_with_word(&self, word: usize) -> bool {
        self.words[word].start() == 0 && self.kinds[0] == TokenKind::First
    }

    /// The words that metrics count, as queries and as keys: all words but those that [contain](Self::begins_with_word) the
    /// first token of a decoder's sequence.
    pub fn counted_words(&self) -> Range<usize> {
        let begin = (0..self.words.len()).take_while(|&word| self.begins_with_word(word)).count();
        begin..self.words.len()
    }

    /// Word of each token, `[tokens]`; `None` outside words. A shared token belongs to the word with most of its
    /// characters, on a tie to the first.
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

    /// Number of tokens that belong to several words.
    pub fn shared_token_count(&self) -> u64 {
        let neighbours = self.words.iter().tuple_windows().filter(|(word, next)| word.end() > next.start());
        neighbours.map(|(_, next)| next.start()).dedup().count() as u64
    }

    /// Positions at which heads exchange their contexts between this sequence and the next; `None` if no contexts are
    /// exchanged.
    pub fn context_exchange(&self) -> Option<ContextExchange> {
        Some(self.item.as_ref()?.corruption.as_ref()?.exchange)
    }

    /// Number of sentences in the sequence.
    pub fn sentence_count(&self) -> usize {
        self.texts.len().max(1)
    }

    /// The range of [counted](Self::counted_words) words in each sentence, in order. Only words of one range can be each
    /// other's syntactic heads.
    pub fn counted_words_by_sentence(&self) -> Vec<Range<usize>> {
        let counted = self.counted_words();
        let of_sentences = self.words_by_sentence().into_iter();
        of_sentences.map(|Range { start, end }| start.max(counted.start)..end).collect()
    }

    /// The range of words in each sentence, in order.
    pub fn words_by_sentence(&self) -> Vec<Range<usize>> {
        if self.texts.len() < 2 {
            return std::iter::once(0..self.words.len()).collect();
        }
        let before = |token: usize| self.words.partition_point(|word| word.start() < token);
        self.texts.iter().map(|text| before(text.start)..before(text.end)).collect()
    }

    /// The positions of the text tokens in each sentence, in order.
    pub fn text_positions_by_sentence(&self) -> Vec<Vec<usize>> {
        if self.texts.len() < 2 {
            return vec![self.text_positions().collect()];
        }
        let of_sentence = |text: &Range<usize>| text.clone().filter(|&place| !self.kinds[place].is_special()).collect();
        self.texts.iter().map(of_sentence).collect()
    }

    /// The words that can be the syntactic head of each word, `[words]`, the word itself included; empty for a word that
    /// metrics do not count.
    pub fn syntactic_head_candidates(&self) -> Vec<Range<usize>> {
        let mut of_words = vec![0..0; self.words.len()];
        self.counted_words_by_sentence().into_iter().for_each(|sentence| of_words[sentence.clone()].fill(sentence));
        of_words
    }

    /// Class of each token, `[tokens]`, which selects the vector that replaces a removed head's context.
    pub fn token_classes(&self) -> Vec<TokenClass> {
        let mut classes: Vec<TokenClass> = self.kinds.iter().map(|&kind| kind.into()).collect();
        for token in self.predictions.iter().filter(|token| token.input == InputToken::Mask) {
            classes[token.position] = TokenClass::Mask;
        }
        classes
    }

    /// Positions of the scored predictions, ascending.
    pub fn predicted_positions(&self) -> impl Iterator<Item = usize> {
        self.predictions.iter().filter(|token| token.truth.is_some()).map(|token| token.position)
    }

    /// True class of each scored prediction, in the order of positions.
    pub fn true_classes(&self) -> impl Iterator<Item = u32> {
        self.predictions.iter().filter_map(|token| token.truth)
    }
}

/// How the logits at a predicted position contribute to the score of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreRule {
    /// The logit of the true token minus the logit of the foil, whose id this is.
    VersusFoil(u32),
    /// The log-probability of the true token is added to the score: the sequence is the good text of a pair.
    GoodText,
    /// The log-probability of the true token is subtracted from the score: the sequence is the bad text of a pair.
    BadText,
    /// The log-probability of the true class, minus that of the foil class if there is one. A prediction is right if the
    /// true class is the most probable.
    Class,
    /// The cosine between the pooled states of the text and of the anchor. The score of an item is the positive text's
    /// cosine minus the negative text's.
    Embedding(TripleRole, Pooling),
}

/// Role of a text in a task item of three texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripleRole {
    /// The text that the two others are compared with.
    Anchor,
    /// The text that should be nearer to the anchor.
    Positive,
    /// The text that should be farther from the anchor.
    Negative,
}

/// The role of a sequence in an item of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemPart {
    /// How the sequence contributes to the score of the item.
    pub rule: ScoreRule,
    /// Id of the right answer, a token or a class; `None` for kinds of items without a single answer.
    pub answer: Option<u32>,
    /// Foil class of each prediction; empty if the true class is compared with all others.
    pub foils: Vec<u32>,
    /// Name of the group of items by which results are also reported; `None` without a group.
    pub group: Option<Arc<str>>,
    /// How the next sequence, the corrupted text, differs from this text; `None` without a corrupted text.
    pub corruption: Option<TextCorruption>,
}

/// How a corrupted text differs from its text; both have equally many tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextCorruption {
    /// Name of the kind of corruption; `None` if the task file gives none.
    pub name: Option<Arc<str>>,
    /// Number of tokens that differ between the text and the corrupted text.
    pub changed_tokens: u64,
    /// Positions at which heads exchange contexts between the text and the corrupted text.
    pub exchange: ContextExchange,
}

/// A token or class that the model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedToken {
    /// Position whose logits predict the token: the position of the token, or in next-token prediction the position before
    /// it.
    pub position: usize,
    /// Index of the word to which the predicted token belongs.
    pub word: usize,
    /// The input at the place of the predicted token.
    pub input: InputToken,
    /// True class: the id of a masked or next token, or for a possibly replaced token 1 (replaced) or 0 (original). `None`
    /// if the prediction is not scored.
    pub truth: Option<u32>,
}

impl PredictedToken {
    /// A masked token at its own position.
    pub fn masked(position: usize, word: usize, truth: Option<u32>) -> Self {
        Self { position, word, input: InputToken::Mask, truth }
    }
}

/// The input at the place of a predicted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputToken {
    Mask,
    Replacement,
    Original,
    /// No input: the token is predicted from the tokens before it.
    NoInput,
}

/// A token with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: u32,
    pub kind: TokenKind,
}

/// Kind of a token, by which metrics treat it (docs/methodology/units.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Text,
    /// A text token whose characters are all Unicode punctuation (general category P).
    Punctuation,
    /// The first special token of the sequence: `[CLS]`, `<s>`.
    FirstSpecial,
    /// A separator: `[SEP]`, `</s>`.
    Separator,
    OtherSpecial,
    /// The first token of a decoder's sequence, special or not. It sees only itself, and is often an attention sink.
    First,
}

impl TokenKind {
    /// Whether metrics exclude the token from text: a special token, or the first token of a decoder's sequence.
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

/// The arc from a word to its syntactic head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoldArc {
    /// Syntactic head of the word.
    pub head: TreeHead,
    /// The dependency relation with its subtype, if any.
    pub relation: String,
}
