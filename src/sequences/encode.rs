//! From sentences to token ids: which tokens are special, which word each belongs to, and what cannot be encoded.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokenizers::Encoding;

use crate::corpus::{Content, Sentence, TreeHead, Word};
use crate::model::Model;
use crate::model::tokenizer::ModelTokenizer;

/// A sentence ready for the encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// 0-based position in the corpus, skipped sentences counted.
    pub index: u64,
    /// Token ids, `[tokens]`, special tokens included.
    pub ids: Vec<u32>,
    /// Segment (token type) ids, `[tokens]`.
    pub segments: Vec<u32>,
    /// What kind each token is, `[tokens]`.
    pub kinds: Vec<TokenKind>,
    /// The token range of each word, in order; special tokens belong to none.
    pub words: Vec<Range<usize>>,
    /// The gold tree, one arc per word, where the corpus has one.
    pub tree: Option<Vec<GoldArc>>,
}

/// What a token is to the metrics (METHODOLOGY, "Notation").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An ordinary token.
    Text,
    /// An ordinary token whose surface is all Unicode punctuation (general category P).
    Punctuation,
    /// The sequence's first special token: `[CLS]`, `<s>`.
    FirstSpecial,
    /// A separator: `[SEP]`, `</s>`.
    Separator,
    /// Any other special token.
    OtherSpecial,
}

impl TokenKind {
    /// Whether the tokenizer added this token around the text.
    #[must_use]
    pub fn is_special(self) -> bool {
        !matches!(self, Self::Text | Self::Punctuation)
    }
}

/// The arc of one word to its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoldArc {
    /// What the word depends on.
    pub head: TreeHead,
    /// The relation with its subtype, if any.
    pub relation: String,
}

/// Why a sentence was left out of the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// More tokens than the limit.
    TooManyTokens,
    /// Some word has no token of its own: the tokenizer made nothing of it.
    WordWithoutTokens,
    /// The sentence has no word, or the tokenizer made nothing of all of it.
    NoTokens,
}

impl SkipReason {
    /// All reasons, in the order of the report.
    pub const ALL: [Self; 3] = [Self::TooManyTokens, Self::WordWithoutTokens, Self::NoTokens];

    /// The reason in words, to follow a number of sentences.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::TooManyTokens => "with more tokens than the limit",
            Self::WordWithoutTokens => "with a word that the tokenizer makes nothing of",
            Self::NoTokens => "without any token of text",
        }
    }

    /// What can be done about it, to follow the reason; empty where nothing can.
    #[must_use]
    pub fn way_out(self) -> &'static str {
        match self {
            Self::TooManyTokens => ": cut it, or raise --max-tokens if the model has more positions",
            Self::WordWithoutTokens | Self::NoTokens => "",
        }
    }
}

/// What was encoded and what was not: the corpus in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Sentences encoded.
    pub sentences: u64,
    /// Tokens of those, special tokens included.
    pub tokens: u64,
    /// Words of those.
    pub words: u64,
    /// Tokens of the longest of those.
    pub longest: u64,
    /// Sentences left out, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Sentences of plain text that were cut to the limit.
    pub truncated: u64,
    /// Sentences encoded that were given as words of which not every one has an annotated head.
    pub unannotated: u64,
    /// The same by file of the corpus.
    pub files: Vec<FileTally>,
}

/// What was encoded of one file and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTally {
    /// Sentences encoded.
    pub sentences: u64,
    /// Tokens of those, special tokens included.
    pub tokens: u64,
    /// Words of those.
    pub words: u64,
    /// Sentences left out.
    pub skipped: u64,
}

impl Tally {
    /// Adds what was counted over other sentences.
    pub fn merge(&mut self, other: &Self) {
        self.sentences += other.sentences;
        self.tokens += other.tokens;
        self.words += other.words;
        self.longest = self.longest.max(other.longest);
        self.truncated += other.truncated;
        self.unannotated += other.unannotated;
        for (reason, count) in &other.skipped {
            *self.skipped.entry(*reason).or_default() += count;
        }
        for (number, other) in other.files.iter().enumerate() {
            let file = self.file(number);
            file.sentences += other.sentences;
            file.tokens += other.tokens;
            file.words += other.words;
            file.skipped += other.skipped;
        }
    }

    fn file(&mut self, number: usize) -> &mut FileTally {
        if self.files.len() <= number {
            self.files.resize(number + 1, FileTally::default());
        }
        &mut self.files[number]
    }

    fn count(&mut self, file: usize, encoded: &Sequence) {
        let (tokens, words) = (encoded.ids.len() as u64, encoded.words.len() as u64);
        self.sentences += 1;
        self.tokens += tokens;
        self.words += words;
        self.longest = self.longest.max(tokens);
        let unknown = |arc: &GoldArc| arc.head == TreeHead::Unknown;
        self.unannotated += u64::from(encoded.tree.as_ref().is_some_and(|tree| tree.iter().any(unknown)));
        let file = self.file(file);
        file.sentences += 1;
        file.tokens += tokens;
        file.words += words;
    }

    fn skip(&mut self, file: usize, reason: SkipReason) {
        *self.skipped.entry(reason).or_default() += 1;
        self.file(file).skipped += 1;
    }
}

impl Model {
    /// The tokenizer of sentences for this model; see [`SentenceTokenizer::new`].
    #[must_use]
    pub fn sentence_tokenizer(&self, max_tokens: usize, truncate: bool) -> SentenceTokenizer<'_> {
        SentenceTokenizer::new(&self.tokenizer, max_tokens, truncate)
    }
}

/// Encodes sentences with a model's own tokenizer, and keeps the tally.
pub struct SentenceTokenizer<'a> {
    tokenizer: &'a ModelTokenizer,
    max_tokens: usize,
    truncate: bool,
    strict: bool,
    tally: Tally,
}

impl<'a> SentenceTokenizer<'a> {
    /// An encoder that leaves out sentences of more than `max_tokens` tokens, or cuts plain text to them.
    #[must_use]
    pub fn new(tokenizer: &'a ModelTokenizer, max_tokens: usize, truncate: bool) -> Self {
        Self { tokenizer, max_tokens, truncate, strict: false, tally: Tally::default() }
    }

    /// Makes it an error, if `strict`, that a sentence must be left out.
    #[must_use]
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Encodes one sentence; a sentence that must be left out is counted and gives its reason.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails, or the sentence must be left out and that is an error; both name file and line.
    pub fn encode(&mut self, sentence: Sentence) -> Result<Result<Sequence, SkipReason>> {
        let Sentence { index, origin, content } = sentence;
        let at = || format!("{origin}: cannot tokenise sentence {index}");
        let outcome = match content {
            Content::Text(text) => self.encode_text(index, &text).with_context(at)?,
            Content::Words(words) => self.encode_words(index, words).with_context(at)?,
        };
        match &outcome {
            Ok(encoded) => self.tally.count(origin.file, encoded),
            Err(reason) if self.strict => {
                bail!("{origin}: sentence {index} would be skipped, it is one {} (--strict)", reason.describe())
            }
            Err(reason) => self.tally.skip(origin.file, *reason),
        }
        Ok(outcome)
    }

    /// What was encoded and left out so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The tally, once all is encoded.
    #[must_use]
    pub fn into_tally(self) -> Tally {
        self.tally
    }

    fn encode_text(&mut self, index: u64, text: &str) -> Result<Result<Sequence, SkipReason>> {
        // A line of megabytes that is left out or cut anyway is not encoded whole.
        let text = match self.tokenizer.enough(text, self.max_tokens + 1) {
            Some(_) if !self.truncate => return Ok(Err(SkipReason::TooManyTokens)),
            Some(end) => &text[..end],
            None => text,
        };
        let mut encoding = self.tokenizer.encode_text(text, true)?;
        if encoding.len() > self.max_tokens && self.truncate {
            // Cut the text, not the special tokens around it.
            let special = encoding.get_special_tokens_mask().iter().filter(|&&mask| mask == 1).count();
            let Some(room) = self.max_tokens.checked_sub(special).filter(|&room| room > 0) else {
                return Ok(Err(SkipReason::TooManyTokens));
            };
            encoding = self.tokenizer.cut(self.tokenizer.encode_text(text, false)?, room)?;
            self.tally.truncated += 1;
        }
        Ok(self.finish(index, &encoding, None, None))
    }

    fn encode_words(&mut self, index: u64, words: Vec<Word>) -> Result<Result<Sequence, SkipReason>> {
        if words.is_empty() {
            return Ok(Err(SkipReason::NoTokens));
        }
        // Each word has a token of its own, or the sentence is left out for that.
        if words.len() > self.max_tokens {
            return Ok(Err(SkipReason::TooManyTokens));
        }
        let forms: Vec<&str> = words.iter().map(|word| word.form.as_str()).collect();
        let encoding = self.tokenizer.encode_words(&forms)?;
        let count = words.len();
        let tree = words.into_iter().map(|Word { head, relation, .. }| GoldArc { head, relation }).collect();
        Ok(self.finish(index, &encoding, Some(count), Some(tree)))
    }

    /// `expected_words` is the number of words that were given to the tokenizer, where it was given words.
    fn finish(
        &self,
        index: u64,
        encoding: &Encoding,
        expected_words: Option<usize>,
        tree: Option<Vec<GoldArc>>,
    ) -> Result<Sequence, SkipReason> {
        let kinds = self.kinds(encoding);
        let words = word_spans(encoding);
        if words.is_empty() {
            return Err(SkipReason::NoTokens);
        }
        if expected_words.is_some_and(|expected| expected != words.len()) {
            return Err(SkipReason::WordWithoutTokens);
        }
        if encoding.len() > self.max_tokens {
            return Err(SkipReason::TooManyTokens);
        }
        Ok(Sequence {
            index,
            ids: encoding.get_ids().to_vec(),
            segments: encoding.get_type_ids().to_vec(),
            kinds,
            words,
            tree,
        })
    }

    fn kinds(&self, encoding: &Encoding) -> Vec<TokenKind> {
        let special = encoding.get_special_tokens_mask();
        let first = special.iter().position(|&mask| mask == 1);
        let kind = |(position, &id): (usize, &u32)| {
            if special[position] == 0 {
                if self.tokenizer.is_punctuation(id) { TokenKind::Punctuation } else { TokenKind::Text }
            } else if Some(id) == self.tokenizer.separator() {
                TokenKind::Separator
            } else if Some(position) == first {
                TokenKind::FirstSpecial
            } else {
                TokenKind::OtherSpecial
            }
        };
        encoding.get_ids().iter().enumerate().map(kind).collect()
    }
}

/// The token range of each word that has tokens, in order.
fn word_spans(encoding: &Encoding) -> Vec<Range<usize>> {
    let special = encoding.get_special_tokens_mask();
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut last = None;
    for (position, word) in encoding.get_word_ids().iter().enumerate() {
        let Some(word) = word.filter(|_| special[position] == 0) else { continue };
        match spans.last_mut() {
            Some(span) if last == Some(word) => span.end = position + 1,
            _ => spans.push(position..position + 1),
        }
        last = Some(word);
    }
    spans
}
