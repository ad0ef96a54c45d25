//! Tokenises sentences into sequences, and skips the sentences that cannot be analysed.

mod spans;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Error, Result, anyhow, bail, ensure};
use tokenizers::Encoding;

use super::reading::{Context as Reads, Spacing};
use super::sequence::{GoldArc, Sequence, TokenKind};
use super::span::WordSpan;
use super::tally::{LeftOutWords, SkipReason, Tally, WordSkip};
use crate::corpus::{
    Annotation, Content, LinkSet, MAX_SENTENCE_BYTES, Origin, SEGMENT_SENTENCES, Sentence, TreeHead, Word, WordClass,
    WrittenText,
};
use crate::model::tokenizer::ModelTokenizer;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::time_limit;

#[cfg(test)]
mod tests;

/// Classification of the word classes that are made of a small vocabulary: each token is a class.
pub const TOKEN_CLASS_KEY: &str = "token";

/// The sequence of a sentence, or the reason for skipping the sentence.
pub type Tokenized = Result<Sequence, SkipReason>;

/// Tokenises sentences into sequences, and counts both.
pub struct SentenceTokenizer<'a> {
    tokenizer: &'a ModelTokenizer,
    max_tokens: usize,
    truncate: bool,
    strict: bool,
    /// The text that runs as one sequence: a sentence, or a window of a document.
    context: Reads,
    /// How the words of a sentence are given to the tokenizer: in their written text, or one by one.
    spacing: Spacing,
    /// Highest segment id of the model; higher ones are replaced by it.
    last_segment: u32,
    /// Word class that stands for each token of a small vocabulary, by token id; empty for other vocabularies.
    token_classes: BTreeMap<u32, Arc<WordClass>>,
    tally: Tally,
}

impl<'a> SentenceTokenizer<'a> {
    /// Makes a tokenizer that skips sentences of more than `max_tokens` tokens. With `truncate`, it cuts running text to
    /// that length instead.
    pub fn new(tokenizer: &'a ModelTokenizer, max_tokens: usize, truncate: bool) -> Self {
        let key: Arc<str> = TOKEN_CLASS_KEY.into();
        let class = |(id, token): &(u32, String)| {
            (*id, Arc::new(WordClass { key: Arc::clone(&key), name: token.as_str().into() }))
        };
        Self {
            token_classes: tokenizer.small_vocabulary.iter().map(class).collect(),
            tokenizer,
            max_tokens,
            truncate,
            strict: false,
            context: Reads::default(),
            spacing: Spacing::default(),
            last_segment: u32::MAX,
            tally: Tally::default(),
        }
    }

    pub fn with_spacing(self, spacing: Spacing) -> Self {
        Self { spacing, ..self }
    }

    /// Adapts sequences to a model with `count` segments: higher segment ids become `count - 1`.
    pub fn with_segments(self, count: usize) -> Self {
        Self { last_segment: u32::try_from(count).unwrap_or(u32::MAX).saturating_sub(1), ..self }
    }

    /// Sets whether it is an error if a sentence is skipped, or if the tokenizer makes no token of a word.
    pub fn with_strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Sets the text that runs as one sequence. A sentence within its document is tokenised after a space, which some
    /// tokenizers join to the next token. Special tokens then belong to windows, and are not counted with sentences.
    pub fn with_context(self, context: Reads) -> Self {
        Self { context, ..self }
    }

    /// Tokenises a sentence and counts it, or skips it and counts the reason. Errors name the file and the line.
    pub fn encode(&mut self, sentence: Sentence) -> Result<Tokenized> {
        self.try_encode(sentence).class(ErrorClass::Input)
    }

    /// As [`SentenceTokenizer::encode`], but errors have no class.
    fn try_encode(&mut self, sentence: Sentence) -> Result<Tokenized> {
        let Sentence { index, origin, document, document_number, family, .. } = sentence;
        let Sentence { entity_fields, content, mut links, first_text_word_count: first_text, .. } = sentence;
        let cannot = move |error: Error, Origin { path, line, .. }: &Origin| {
            error.context(format!("cannot tokenise sentence {index}")).at_line(path, *line)
        };
        let place = {
            let origin = origin.clone();
            move |error: Error| cannot(error, &origin).class(ErrorClass::Input)
        };
        let is_later = self.context == Reads::Document && index != document;
        let follows_a_space = is_later && !sentence.follows_without_space && self.tokenizer.needs_joining_space;
        let before = if follows_a_space { " " } else { "" };
        let mut left_out = LeftOutWords::default();
        // Only the beginning of a longer text is tokenised.
        let bytes = content.bytes().min(MAX_SENTENCE_BYTES as u64);
        let residues = match &content {
            Content::Text(residues) if !links.is_empty() => Some(residues.len()),
            Content::Text(_) | Content::Words(_) => None,
        };
        let tokenized = time_limit::within_time_limit(bytes, place, || match (content, self.spacing) {
            (Content::Text(text), _) => self.tokenize_text(&format!("{before}{text}")),
            (Content::Words(words), spacing)
                if spacing == Spacing::Spaced || first_text.is_some() || self.tokenizer.reads_words_separately() =>
            {
                self.tokenize_spaced(words, first_text)
            }
            (Content::Words(words), _) => {
                let written = sentence
                    .written
                    .unwrap_or_else(|| WrittenText::join_by_spaces(words.iter().map(|word| &*word.form)));
                self.tokenize_written((words, &mut links), &written, before, &mut left_out)
            }
        });
        // A skip must get no facts before this downcast, which would not find it.
        let sequence = match tokenized.map_err(Error::downcast::<SkipReason>) {
            Ok(sequence) => sequence,
            Err(Ok(reason)) if self.strict => {
                let error = anyhow!("sentence {index}, one {reason}, would be skipped, and --strict skips none");
                return Err(reason.with_hint(error).at_line(&origin.path, origin.line));
            }
            Err(Ok(reason)) => {
                self.tally.count_skip(origin.file, reason);
                return Ok(Err(reason));
            }
            Err(Err(error)) => return Err(cannot(error, &origin)),
        };
        if let Some((word, form)) = left_out.unread.as_ref().filter(|_| self.strict) {
            let (reason, shown) = (WordSkip::NoTokens.describe(), form.escape_default());
            let error = anyhow!("word {} of sentence {index}, `{shown}`, is one {reason}", word + 1);
            let error = error.with_value(shown).hint("take it out of the corpus, or run without --strict");
            return Err(error.at_line(&origin.path, origin.line));
        }
        if let Some(residues) = residues {
            self.link_residues(&mut links, residues, &sequence).at_line(&origin.path, origin.line)?;
        }
        let document = document.max(index / SEGMENT_SENTENCES * SEGMENT_SENTENCES);
        let sequence = Sequence { index, document, document_number, family, links, entity_fields, ..sequence };
        let counts_special = self.context == Reads::Sentence;
        self.tally.count_sequence(origin.file, &sequence, (counts_special, self.tokenizer.unknown), &left_out);
        self.tally.legibility.add(&sequence, self.tokenizer);
        Ok(Ok(sequence))
    }

    /// Turns links between residues into links between the words of a sequence, which may have been cut. Fails unless each
    /// word is one residue.
    fn link_residues(&self, links: &mut [LinkSet], residues: usize, sequence: &Sequence) -> Result<()> {
        let words = sequence.words.len();
        let is_cut = self.truncate && sequence.ids.len() == self.max_tokens && words < residues;
        let mismatch = || anyhow!("links are between the {residues} residues, and the model reads {words} words");
        let way_out = "name a model with a token for each residue, or another `--residues` parting";
        ensure!(is_cut || words == residues, mismatch().hint(way_out));
        links.iter_mut().for_each(|links| *links = links.remapped(|word| (word < words).then_some(word)));
        Ok(())
    }

    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    pub fn into_tally(self) -> Tally {
        self.tally
    }

    /// Tokenises running text.
    fn tokenize_text(&mut self, text: &str) -> Result<Sequence> {
        if let Some(program) = self.tokenizer.required_word_splitter() {
            let error =
                anyhow!("it is running text, and the model's tokenizer cuts the words that {program} finds in it");
            return Err(error.hint("give a corpus of words: a treebank in CoNLL-U, or `words` of JSON lines"));
        }
        let split = self.tokenizer.split_residues(text);
        let text = &*split;
        // A line of megabytes that is left out or cut anyway is not encoded whole.
        let text = match self.tokenizer.prefix_with_tokens(text, self.max_tokens + 1) {
            Some(_) if !self.truncate => bail!(SkipReason::TooManyTokens),
            Some(end) => &text[..end],
            None => text,
        };
        ensure_tokenisable(text)?;
        let mut encoding = self.tokenizer.encode_text(text, true)?;
        if encoding.len() > self.max_tokens && self.truncate {
            // Cut the text, not the special tokens around it.
            let special = encoding.get_special_tokens_mask().iter().filter(|&&mask| mask == 1).count();
            let room = self.max_tokens.checked_sub(special).filter(|&room| room > 0);
            let room = room.ok_or(SkipReason::TooManyTokens)?;
            encoding = self.tokenizer.truncate_encoding(self.tokenizer.encode_text(text, false)?, room)?;
            self.tally.truncated += 1;
        }
        let sequence = self.finish(&encoding, None)?;
        let offsets = encoding.get_offsets();
        // Tokens of one word follow each other; some begin with the space before it.
        let spelling =
            |word: &WordSpan| text.get(offsets[word.start()].0..offsets[word.end() - 1].1).unwrap_or_default();
        let spelled = sequence.words.iter().map(|word| spelling(word).trim().to_owned()).collect();
        Ok(Sequence { spellings: spelled, ..sequence })
    }

    /// Tokenises words one by one, each after a space. The first `first_text` words are the first text of a pair; `None`
    /// for a single text.
    fn tokenize_spaced(&self, words: Vec<Word>, first_text: Option<usize>) -> Result<Sequence> {
        self.ensure_reads_words()?;
        ensure!(!words.is_empty(), SkipReason::NoTokens);
        // Each word has at least one token, or the sentence is skipped for that.
        ensure!(words.len() <= self.max_tokens, SkipReason::TooManyTokens);
        let forms: Vec<&str> = words.iter().map(|word| word.form.as_str()).collect();
        let encoding = match first_text {
            Some(first) => self.tokenizer.encode_word_pair([&forms[..first], &forms[first..]])?,
            None => self.tokenizer.encode_words(&forms)?,
        };
        self.finish(&encoding, Some(words))
    }

    /// Tokenises the written text of words, with `before` in front of it, and assigns tokens to the words.
    fn tokenize_written(
        &self,
        (words, links): (Vec<Word>, &mut [LinkSet]),
        written: &WrittenText,
        before: &str,
        left_out: &mut LeftOutWords,
    ) -> Result<Sequence> {
        self.ensure_reads_words()?;
        let text = format!("{before}{}", written.text);
        ensure!(self.tokenizer.prefix_with_tokens(&text, self.max_tokens + 1).is_none(), SkipReason::TooManyTokens);
        ensure_tokenisable(&text)?;
        let encoding = self.tokenizer.encode_text(&text, true)?;
        let bytes = written.word_ranges.iter().map(|word| word.start + before.len()..word.end + before.len());
        let bytes: Vec<Range<usize>> = bytes.collect();
        let spans = spans::word_spans(&encoding, &text, &bytes);
        ensure!(spans.iter().any(Option::is_some), SkipReason::NoTokens);
        ensure!(encoding.len() <= self.max_tokens, SkipReason::TooManyTokens);
        let (words, spans) = words_with_tokens((words, links), spans, &bytes, left_out);
        Ok(self.new_sequence(&encoding, spans, Some(words)))
    }

    /// Fails if the model's vocabulary has only residues and no words.
    fn ensure_reads_words(&self) -> Result<()> {
        let no_words =
            || anyhow!("it is given as words, and the model knows none: its tokens are residues of proteins");
        let way_out = "name a corpus of proteins: FASTA, or plain text with a protein a line";
        ensure!(self.tokenizer.parting.is_none() || self.tokenizer.looks_up_words, no_words().hint(way_out));
        Ok(())
    }

    /// Makes a sequence of an encoding. `given` are the words of the corpus, `None` for running text. Fails with the reason
    /// if the sentence must be skipped.
    fn finish(&self, encoding: &Encoding, given: Option<Vec<Word>>) -> Result<Sequence> {
        let words = word_spans(encoding);
        ensure!(!words.is_empty(), SkipReason::NoTokens);
        ensure!(given.as_ref().is_none_or(|given| given.len() == words.len()), SkipReason::WordWithoutTokens);
        ensure!(encoding.len() <= self.max_tokens, SkipReason::TooManyTokens);
        Ok(self.new_sequence(encoding, WordSpan::whole_words(words), given))
    }

    /// Makes a sequence of an encoding whose words have the spans `words`.
    fn new_sequence(&self, encoding: &Encoding, words: Vec<WordSpan>, given: Option<Vec<Word>>) -> Sequence {
        let split = |Word { form, head, relation, annotation }| (GoldArc { head, relation }, (form, annotation));
        let (tree, rest): (_, Option<Vec<_>>) = given.map(|words| words.into_iter().map(split).unzip()).unzip();
        let (forms, mut annotations) = rest.unwrap_or_default().into_iter().unzip();
        let kinds = token_kinds(self.tokenizer, encoding);
        self.add_token_classes((&words, encoding.get_ids(), &kinds), &mut annotations);
        Sequence {
            ids: encoding.get_ids().to_vec(),
            segments: encoding.get_type_ids().iter().map(|&segment| segment.min(self.last_segment)).collect(),
            kinds,
            words,
            tree,
            forms,
            annotations,
            ..Sequence::default()
        }
    }

    /// Gives each word that is one whole token the class of that token, if the vocabulary is small and no word has a class.
    /// Punctuation gets no class, since there is a separate label for it.
    fn add_token_classes(
        &self,
        (words, ids, kinds): (&[WordSpan], &[u32], &[TokenKind]),
        annotations: &mut Vec<Annotation>,
    ) {
        if self.token_classes.is_empty() || annotations.iter().any(|annotation| annotation.class.is_some()) {
            return;
        }
        annotations.resize(words.len(), Annotation::default());
        for (word, annotation) in words.iter().zip(annotations) {
            if word.len() == 1 && word.is_whole() && kinds[word.start()] == TokenKind::Text {
                annotation.class = self.token_classes.get(&ids[word.start()]).cloned();
            }
        }
    }
}

fn ensure_tokenisable(text: &str) -> Result<()> {
    let bytes = text.len();
    let too_long = || anyhow!("it has {bytes} bytes of text, and no more than {MAX_SENTENCE_BYTES} can be tokenised");
    ensure!(bytes <= MAX_SENTENCE_BYTES, too_long().hint("split it into sentences"));
    Ok(())
}

/// Keeps the words that have tokens, with their spans and links; `bytes` has the byte range of each word. Counts the other
/// words by reason, and the words whose syntactic head is lost, which becomes unknown.
fn words_with_tokens(
    (words, links): (Vec<Word>, &mut [LinkSet]),
    spans: Vec<Option<WordSpan>>,
    bytes: &[Range<usize>],
    left_out: &mut LeftOutWords,
) -> (Vec<Word>, Vec<WordSpan>) {
    if spans.iter().all(Option::is_some) {
        return (words, spans.into_iter().flatten().collect());
    }
    let mut new_positions: Vec<Option<usize>> = Vec::with_capacity(words.len());
    let mut count = 0;
    for ((word, bytes), span) in words.iter().zip(bytes).zip(&spans) {
        new_positions.push(span.is_some().then_some(count));
        match span {
            Some(_) => count += 1,
            None if bytes.is_empty() => left_out.add(WordSkip::NoCharacters),
            None => {
                left_out.add(WordSkip::NoTokens);
                left_out.unread.get_or_insert_with(|| (new_positions.len() - 1, word.form.clone()));
            }
        }
    }
    links.iter_mut().for_each(|links| *links = links.remapped(|word| new_positions[word]));
    let pairs = words.into_iter().zip(spans).filter_map(|(mut word, span)| {
        let span = span?;
        if let TreeHead::Word(head) = word.head {
            let head = new_positions[head].map(TreeHead::Word);
            left_out.heads += u64::from(head.is_none());
            word.head = head.unwrap_or(TreeHead::Unknown);
        }
        Some((word, span))
    });
    pairs.unzip()
}

/// Kind of each token of an encoding, `[tokens]`.
pub fn token_kinds(tokenizer: &ModelTokenizer, encoding: &Encoding) -> Vec<TokenKind> {
    let special = encoding.get_special_tokens_mask();
    // A special token only at the end, as T5's `</s>`, is no first one.
    let first = special.first().filter(|&&mask| mask == 1).map(|_| 0);
    let kind = |(position, &id): (usize, &u32)| {
        if special[position] == 0 {
            if tokenizer.is_punctuation(id) { TokenKind::Punctuation } else { TokenKind::Text }
        } else if Some(id) == tokenizer.separator {
            TokenKind::Separator
        } else if Some(position) == first {
            TokenKind::FirstSpecial
        } else {
            TokenKind::OtherSpecial
        }
    };
    encoding.get_ids().iter().enumerate().map(kind).collect()
}

/// Token range of each word that has tokens, in order.
fn word_spans(encoding: &Encoding) -> Vec<Range<usize>> {
    let (words, special) = (encoding.get_word_ids().iter(), encoding.get_special_tokens_mask());
    let of_text = words.enumerate().filter(|(token, _)| special[*token] == 0);
    // Words of each text of a pair are counted from 0.
    let tokens: Vec<_> =
        of_text.filter_map(|(token, word)| Some((token, (encoding.token_to_sequence(token), (*word)?)))).collect();
    let of_words = tokens.chunk_by(|(_, word), (_, next)| word == next);
    of_words.map(|tokens| tokens[0].0..tokens[tokens.len() - 1].0 + 1).collect()
}
