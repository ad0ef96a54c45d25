//! A corpus: its files one after the other, as one iterator of sentences.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::vec;

use anyhow::{Context as _, Result};
use itertools::Itertools as _;

pub use self::identity::{CorpusIdentity, FileIdentity, TakenDocuments};
use super::family::{FamilyAssigner, MIN_UNMARKED_DOCUMENTS, RepeatCounts, Unit, UnitMarks};
use super::files::input::{FileKind, Input};
use super::files::{self, CorpusFile};
use super::formats::Format;
use super::formats::reader::{FileContext, ParsedSentence};
use super::index::{Index, IndexedFile, SEGMENT_SENTENCES};
use super::lines::Lines;
use super::sentence::Sentence;
use super::sentence::links::LinkTypes;
use crate::system::errors::{ErrorClass, ErrorExt};

mod identity;
pub(super) mod indexing;
pub(super) mod links;
mod position;
pub(super) mod scope;
mod selected_segments;

use links::{ExternalLinks, LinkOptions};
use position::ReadingPosition;
use scope::{CorpusScope, PartToRead, ReadAhead, ScopeDecision, equal_shares};
use selected_segments::{SelectedSegments, SelectedSentence};

/// A corpus opened for reading: an iterator of its sentences in order. After an error it ends.
#[derive(Default)]
pub struct Corpus {
    name: String,
    files: vec::IntoIter<CorpusFile>,
    /// Name, format and lines of the open file.
    open_file: Option<(String, Format, Lines)>,
    /// Files read to their ends.
    finished_files: Vec<FileIdentity>,
    /// Number of ignored entries in the input folders, which are no corpus files.
    ignored_entry_count: u64,
    /// Stored size of all files; `None` if a size is unknown before reading.
    bytes: Option<u64>,
    /// Index of the first sentence of the open file in the corpus.
    first_index: u64,
    /// Number of documents begun so far, documents outside the scope included.
    documents_met: u64,
    /// Number of sentences parsed so far, sentences outside the scope included.
    sentences_met: u64,
    links: ExternalLinks,
    position: ReadingPosition,
    scope: CorpusScope,
    /// Number of sentences still to read from the open file.
    sentences_left: u64,
    families: FamilyAssigner,
    index: Option<Arc<Index>>,
    selected: Option<SelectedSegments>,
    failed: bool,
}

/// Options for reading sentences besides words and trees: requested columns, links and word classes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnotationOptions<'a> {
    pub requested_columns: &'a [String],
    pub links: Option<&'a LinkOptions>,
    /// Column or key that holds the class of each word; `None` if the run names none.
    pub class_column: Option<&'a str>,
}

impl Corpus {
    /// Opens the inputs, to be read in order. Fails if a folder has no corpus file, or a file is given twice.
    pub fn open(inputs: &[Input]) -> Result<Self> {
        let (files, passed_over) = files::from_inputs(inputs).class(ErrorClass::Input)?;
        let name = inputs.iter().map(Input::name).join(" + ");
        Ok(Self::from_files(name, files, passed_over))
    }

    /// Opens the inputs with a scope, annotation options and an index. Fails as [`Corpus::open`] and
    /// [`Corpus::with_index`], or if there is an index and an input can be read only once.
    pub fn open_with(
        inputs: &[Input],
        scope: &CorpusScope,
        columns: AnnotationOptions<'_>,
        index: Option<&Arc<Index>>,
    ) -> Result<Self> {
        if index.is_some() {
            Input::ensure_files(inputs).class(ErrorClass::Input)?;
        }
        let AnnotationOptions { requested_columns: requested, links, class_column: classes } = columns;
        let none = LinkOptions::default();
        let links = links.unwrap_or(&none);
        let mut corpus = Self::open(inputs)?.with_scope(scope).with_columns(&links.columns(requested));
        corpus.position.context.links_from.clone_from(&links.conllu_column);
        corpus.position.context.link_types = LinkTypes::new(links.types.clone());
        corpus.links = ExternalLinks::new(links, requested.len());
        (corpus.position.context.reads_classes, corpus.position.context.class_column) = (true, classes.map(Into::into));
        corpus.with_index(index)
    }

    pub fn with_scope(self, scope: &CorpusScope) -> Self {
        Self { scope: scope.clone(), ..self }
    }

    /// Names the columns (CoNLL-U), entries of columns (`feats.Number`) or keys (JSON lines) whose values are read into
    /// [`Annotation::requested`](super::Annotation::requested).
    pub fn with_columns(mut self, requested: &[String]) -> Self {
        self.position.context.requested_columns = requested.into();
        self
    }

    /// Reads the corpus by `index`, if given. The index goes unused under a sentence limit, or if it was made for another
    /// sampling unit. Fails if it is the index of other files.
    pub fn with_index(mut self, index: Option<&Arc<Index>>) -> Result<Self> {
        if let Some(index) = index {
            index.ensure_matches(self.files.as_slice()).class(ErrorClass::Input)?;
            if !self.scope.is_limited() {
                self.scope = self.scope.with_all_sentences(index.marks.unit());
                self.index = (self.sampling_unit() == index.marks.unit()).then(|| Arc::clone(index));
            }
        }
        Ok(self)
    }

    /// Fails if the bytes that were indexed differ from those that were read; `read` is the corpus identity after reading
    /// all files to their ends.
    pub fn ensure_index_matches(&self, read: &CorpusIdentity) -> Result<()> {
        let Some(index) = &self.index else { return Ok(()) };
        let mut files = self.files.as_slice().iter().zip(&index.indexed_files).zip(&read.files);
        match files.find(|((_, known), read)| known.sha256 != read.sha256) {
            Some(((file, _), _)) => Err(index.changed_error(&file.path)).class(ErrorClass::Input),
            None => Ok(()),
        }
    }

    /// Link types whose rule (`--link-rules`) has made no link so far.
    pub fn unused_rules(&self) -> Vec<&str> {
        self.links.unused_rules()
    }

    pub fn index(&self) -> Option<&Arc<Index>> {
        self.index.as_ref()
    }

    /// Reads only the segments whose range of sentence numbers satisfies `wanted`. Without an index, all segments are read.
    pub fn with_selected_segments(mut self, wanted: impl Fn(Range<u64>) -> bool) -> Self {
        // The unit is decided before the files go to the selection.
        self.scope_decision();
        let Some(index) = &self.index else { return self };
        let sentences = |segment: u64| segment * SEGMENT_SENTENCES..(segment + 1) * SEGMENT_SENTENCES;
        let segments: Vec<u64> = (0..index.segment_count()).filter(|&segment| wanted(sentences(segment))).collect();
        // An estimate by the share of segments, since segments of compressed files share their bytes.
        let (count, all) = (segments.len() as u128, u128::from(index.segment_count().max(1)));
        self.bytes = self.bytes.map(|bytes| u64::try_from(u128::from(bytes) * count / all).unwrap_or(bytes));
        let files = std::mem::take(&mut self.files).collect();
        self.selected = Some(SelectedSegments::new(Arc::clone(index), files, segments));
        self
    }

    /// Makes a corpus of one file in memory, which reports and messages call `name`.
    pub fn from_bytes(name: &str, bytes: impl Into<Cow<'static, [u8]>>, format: Format) -> Self {
        let file = CorpusFile::from_bytes(name, bytes.into(), FileKind::uncompressed(format));
        Self::from_files(name.to_owned(), vec![file], 0)
    }

    fn from_files(name: String, files: Vec<CorpusFile>, passed_over: u64) -> Self {
        let bytes = files.iter().map(|file| file.bytes).sum();
        Self { name, files: files.into_iter(), ignored_entry_count: passed_over, bytes, ..Self::default() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of entries in the input folders that are not corpus files, counted when the corpus is opened.
    pub fn ignored_entries(&self) -> u64 {
        self.ignored_entry_count
    }

    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    pub fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.position.bytes_read)
    }

    /// Reads the corpus to its end, so that the file hashes cover all bytes, and returns its identity. If segments were
    /// selected by an index, only the remaining selected ones are read, and the identity comes from the index.
    pub fn into_identity(mut self) -> Result<CorpusIdentity> {
        if let Some(index) = self.index.clone().filter(|_| self.selected.is_some()) {
            while self.read().class(ErrorClass::Input)?.is_some() {}
            let file = |file: &IndexedFile| FileIdentity {
                name: file.name.clone(),
                format: file.format,
                sha256: file.sha256.clone(),
                generated: file.generated.clone(),
            };
            let (files, repeats, unit) =
                (index.indexed_files.iter().map(file).collect(), index.repeats, self.sampling_unit());
            return Ok(CorpusIdentity { name: self.name, files, repeats, unit, documents: None });
        }
        let decided = self.scope_decision();
        let documents = match &decided.part {
            PartToRead::Documents { taken, of, .. } => Some(TakenDocuments { taken: taken.len() as u64, of: *of }),
            PartToRead::All | PartToRead::First(_) | PartToRead::FirstOfFiles(_) => None,
        };
        self.close_file().class(ErrorClass::Input)?;
        while self.open_next_file().class(ErrorClass::Input)? {
            self.close_file().class(ErrorClass::Input)?;
        }
        let repeats = self.families.counts;
        let units = self.scope.half.map_or(repeats.units, |half| half.count(repeats.units));
        let repeats = RepeatCounts { units, ..repeats };
        Ok(CorpusIdentity { name: self.name, files: self.finished_files, repeats, unit: decided.unit, documents })
    }

    pub fn scope(&mut self) -> &CorpusScope {
        self.scope_decision();
        &self.scope
    }

    /// Sampling unit, decided once, before the first file is opened.
    pub fn sampling_unit(&mut self) -> Unit {
        self.scope_decision().unit
    }

    /// Sampling unit and part of the corpus to read, decided at the first call.
    fn scope_decision(&mut self) -> Arc<ScopeDecision> {
        if self.scope.decision.is_none() {
            let files = self.files.as_slice();
            self.scope =
                self.scope.decide(|to_the_end| read_ahead(files, to_the_end), |limit| sentences_per_file(files, limit));
        }
        Arc::clone(self.scope.decision.as_ref().expect("it is decided"))
    }

    /// Opens the next file of the corpus; false after the last one.
    fn open_next_file(&mut self) -> Result<bool> {
        let Some(CorpusFile { name, path, kind, source, .. }) = self.files.next() else { return Ok(false) };
        let shown = Arc::clone(&path);
        let lines = source
            .open()
            .and_then(|source| Lines::new(self.finished_files.len(), path, source, kind.compression, self.bytes_read()))
            .cannot("open corpus", &shown)?;
        self.sentences_left = match self.scope.part() {
            Some(PartToRead::First(limit)) => limit.saturating_sub(self.position.next_index),
            Some(PartToRead::FirstOfFiles(shares)) => shares[self.finished_files.len()],
            None | Some(PartToRead::All | PartToRead::Documents { .. }) => u64::MAX,
        };
        self.open_file = Some((name, kind.format, lines));
        self.position.begins_file = true;
        self.first_index = self.position.next_index;
        self.position.context.file = FileContext::default();
        Ok(true)
    }

    fn close_file(&mut self) -> Result<()> {
        if let Some((name, format, lines)) = self.open_file.take() {
            let generated = self.position.context.file.generator.take().map(String::from);
            self.finished_files.push(FileIdentity { name, format, sha256: lines.into_sha256()?, generated });
        }
        Ok(())
    }

    /// Reads the next sentence of the scope; `None` at the end of the corpus.
    fn read(&mut self) -> Result<Option<Sentence>> {
        if let Some(selected) = &mut self.selected {
            let Some(SelectedSentence { sentence, index, family, format }) = selected.next(&mut self.position)? else {
                return Ok(None);
            };
            let mut sentence = Sentence { family, ..self.with_corpus_place(sentence, index) };
            self.links.add(&mut sentence, index, format, &mut self.position.context.link_types)?;
            return Ok(Some(sentence));
        }
        let is_whole = self.scope_decision().part == PartToRead::All;
        loop {
            let Some((parsed, index)) = self.parse_next()? else {
                if is_whole {
                    self.links.ensure_used(&self.position.context.link_types)?;
                }
                return Ok(None);
            };
            let format = self.open_file.as_ref().context("the file of a sentence is open")?.1;
            let mut sentence = self.finish_sentence(parsed, index);
            self.links.add(&mut sentence, self.sentences_met - 1, format, &mut self.position.context.link_types)?;
            match self.scope.half {
                None => return Ok(Some(sentence)),
                Some(half) if half.contains(sentence.family.number) => {
                    sentence.family.number /= 2;
                    return Ok(Some(sentence));
                }
                Some(_) => {}
            }
        }
    }

    /// Parses the next sentence, opening files as needed, and gives its index; `None` at the end of the corpus.
    fn parse_next(&mut self) -> Result<Option<(ParsedSentence, u64)>> {
        loop {
            if self.open_file.is_none() && !self.open_next_file()? {
                return Ok(None);
            }
            if let Some(parsed) = self.parse_next_in_file()? {
                return Ok(Some(parsed));
            }
            self.close_file()?;
        }
    }

    /// Reads the next sentence of the open file, with its index in the corpus; `None` at the end of the file.
    fn parse_next_in_file(&mut self) -> Result<Option<(ParsedSentence, u64)>> {
        let Some((_, format, lines)) = &mut self.open_file else { return Ok(None) };
        while self.sentences_left > 0 {
            let Some(parsed) = (format.reader().read)(lines, &mut self.position.context)? else { return Ok(None) };
            self.sentences_met += 1;
            let begins_document = std::mem::take(&mut self.position.begins_file) || parsed.begins_document;
            self.documents_met += u64::from(begins_document);
            if let Some(PartToRead::Documents { taken, .. }) = self.scope.part() {
                let number = self.documents_met - 1;
                if taken.last().is_none_or(|last| *last < number) {
                    self.sentences_left = 0;
                    break;
                }
                if taken.binary_search(&number).is_err() {
                    continue;
                }
            }
            self.sentences_left -= 1;
            return Ok(Some((parsed, self.position.number_sentence(begins_document))));
        }
        let is_cut = matches!(self.scope.part(), Some(PartToRead::FirstOfFiles(_)));
        // Sentences cut off by a limit still count in the sentence numbers of later files.
        while is_cut
            && self.links.uses_sentence_numbers()
            && (format.reader().read)(lines, &mut self.position.context)?.is_some()
        {
            self.sentences_met += 1;
        }
        Ok(None)
    }

    /// Sets the fields of a sentence that depend on its place in the corpus, such as index, document and entity fields. Only
    /// its family (group of related sentences) is not set.
    fn with_corpus_place(&mut self, sentence: Sentence, index: u64) -> Sentence {
        let sentence =
            self.position.context.file.with_file_context(sentence, index, index.is_multiple_of(SEGMENT_SENTENCES));
        let document_number =
            self.position.documents.checked_sub(1).filter(|_| self.sampling_unit() == Unit::Documents);
        Sentence { document: self.position.document, document_number, ..sentence }
    }

    /// Sets the fields of a sentence that depend on its place in the corpus, including its family (group of related
    /// sentences).
    fn finish_sentence(&mut self, ParsedSentence { sentence, family, .. }: ParsedSentence, index: u64) -> Sentence {
        let sentence = self.with_corpus_place(sentence, index);
        let family = family.filter(|_| !self.scope.has_sentence_unit());
        let family = self.families.assign(&sentence.content, family.as_deref(), sentence.document_number);
        Sentence { family, ..sentence }
    }
}

impl Iterator for Corpus {
    type Item = Result<Sentence>;

    fn next(&mut self) -> Option<Self::Item> {
        // The next line may be the middle of a broken sentence, so reading ends here.
        let read = if self.failed { None } else { self.read().class(ErrorClass::Input).transpose() };
        self.failed |= matches!(read, Some(Err(_)));
        read
    }
}

/// Reads the files ahead until they decide the sampling unit. With `to_the_end`, reads on and counts all documents, unless a
/// sentence read until then names its family (group of related sentences). Reads nothing if a file can be read only once.
fn read_ahead(files: &[CorpusFile], to_the_end: bool) -> ReadAhead {
    let again: Option<Vec<CorpusFile>> = files.iter().map(CorpusFile::copy_for_rereading).collect();
    let Some(again) = again else { return ReadAhead::default() };
    let mut corpus = Corpus::from_files(String::new(), again, 0);
    let (mut marks, mut documents) = (UnitMarks::default(), Vec::new());
    while let Ok(Some((parsed, _))) = corpus.parse_next() {
        documents.resize(usize::try_from(corpus.position.documents).unwrap_or(usize::MAX), 0);
        *documents.last_mut().expect("a sentence is in a document") += 1;
        if marks.documents < MIN_UNMARKED_DOCUMENTS {
            marks.documents = corpus.position.documents;
            marks.marks_documents |= parsed.begins_document;
            marks.names_families |= parsed.family.is_some();
        }
        if marks.names_families || marks.documents >= MIN_UNMARKED_DOCUMENTS && !to_the_end {
            break;
        }
    }
    ReadAhead { marks, documents }
}

/// Number of sentences to take from each file, `[files]`, if the run takes `limit` sentences. `None` for a single file,
/// or if a file can be read only once. Files are read ahead up to their shares; a broken file counts up to its error,
/// which the run itself reports.
fn sentences_per_file(files: &[CorpusFile], limit: u64) -> Option<Vec<u64>> {
    if files.len() < 2 || files.iter().any(|file| file.copy_for_rereading().is_none()) {
        return None;
    }
    Some(equal_shares(files.len(), limit, |file, most| {
        let again = files[file].copy_for_rereading().expect("a file that can be read again");
        let mut ahead = Corpus::from_files(String::new(), vec![again], 0);
        (0..most).take_while(|_| matches!(ahead.parse_next(), Ok(Some(_)))).count() as u64
    }))
}
