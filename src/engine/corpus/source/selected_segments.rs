//! Reads selected segments of a corpus by its index, and checks the bytes read against the index. From an uncompressed file it
//! reads only the selected bytes; it reads a compressed file from beginning to end.

use std::sync::Arc;
use std::vec;

use anyhow::{Context as _, Result};

use super::position::ReadingPosition;
use crate::corpus::files::CorpusFile;
use crate::corpus::formats::Format;
use crate::corpus::formats::reader::{FileContext, ParsedSentence, ReaderContext};
use crate::corpus::index::{Index, Piece, SEGMENT_SENTENCES};
use crate::corpus::lines::{Compression, Lines};
use crate::corpus::sentence::{Sentence, SentenceGroup};
use crate::system::errors::ErrorExt;
use crate::system::files::digest::hex;

/// Reader of selected segments. It updates the [`ReadingPosition`]'s numbers of sentences and documents.
pub(super) struct SelectedSegments {
    index: Arc<Index>,
    files: Vec<CorpusFile>,
    segments: vec::IntoIter<u64>,
    /// Unread pieces of the current segment; a piece is the part of the segment in one file.
    pieces_left: vec::IntoIter<Piece>,
    /// Group of related sentences of each unread sentence in the current segment.
    families_left: vec::IntoIter<SentenceGroup>,
    /// The open file; `None` between files.
    open_file: Option<OpenFile>,
}

/// A sentence of a selected segment, before it gets its place in the corpus.
pub(super) struct SelectedSentence {
    pub sentence: Sentence,
    /// Index of the sentence in the corpus.
    pub index: u64,
    pub family: SentenceGroup,
    pub format: Format,
}

/// The open file. An uncompressed file is open at the current piece, a compressed one from its beginning.
struct OpenFile {
    /// Number of the file in the corpus, counted from 0.
    file: usize,
    lines: Lines,
    /// Expected SHA-256, from the index: of the current piece, or of the complete file if it is compressed.
    sha256: String,
    /// Index in the file of the next sentence to read.
    sentences_before: u64,
    /// Number of sentences of the current piece that are not read yet.
    sentences_left: u64,
}

impl SelectedSegments {
    pub(super) fn new(index: Arc<Index>, files: Vec<CorpusFile>, segments: Vec<u64>) -> Self {
        let (pieces, families) = Default::default();
        Self {
            index,
            files,
            segments: segments.into_iter(),
            pieces_left: pieces,
            families_left: families,
            open_file: None,
        }
    }

    /// Reads the next sentence of the selected segments, with the format of its file; `None` after the last one. Fails if
    /// the bytes read differ from the indexed bytes.
    pub(super) fn next(&mut self, position: &mut ReadingPosition) -> Result<Option<SelectedSentence>> {
        while self.open_file.as_ref().is_none_or(|open| open.sentences_left == 0) {
            if !self.move_to_next_piece(position)? {
                return Ok(None);
            }
        }
        let ParsedSentence { sentence, begins_document, .. } = self.read(&mut position.context)?;
        let format = self.files[sentence.origin.file].kind.format;
        let index = position.number_sentence(begins_document);
        let family = self.families_left.next().context("a segment has a family for each sentence")?;
        Ok(Some(SelectedSentence { sentence, index, family, format }))
    }

    /// Reads a sentence of the open file. On failure, a change of the file since indexing is reported in preference to
    /// other errors.
    fn read(&mut self, context: &mut ReaderContext) -> Result<ParsedSentence> {
        let open = self.open_file.as_mut().context("a piece is open")?;
        let format = self.files[open.file].kind.format;
        match (format.reader().read)(&mut open.lines, context) {
            Ok(Some(parsed)) => {
                open.sentences_left = open.sentences_left.saturating_sub(1);
                open.sentences_before += 1;
                Ok(parsed)
            }
            Ok(None) => Err(self.index.changed_error(&self.files[open.file].path)),
            Err(error) => {
                self.close()?;
                Err(error)
            }
        }
    }

    /// Moves to the next piece of the selected segments, and opens its file if necessary; false after the last piece.
    fn move_to_next_piece(&mut self, position: &mut ReadingPosition) -> Result<bool> {
        let Some(piece) = self.take_next_piece(position)? else {
            self.close()?;
            return Ok(false);
        };
        let compression = self.files[piece.file].kind.compression;
        let is_open = self
            .open_file
            .as_ref()
            .is_some_and(|open| open.file == piece.file && open.sentences_before <= piece.before);
        if compression == Compression::None || !is_open {
            self.close()?;
            self.open(&piece, compression, position)?;
        }
        // In a compressed file, the sentences between two pieces are read too.
        while let Some(open) = self.open_file.as_mut().filter(|open| open.sentences_before < piece.before) {
            open.sentences_left = 1;
            self.read(&mut position.context)?;
        }
        (position.document, position.documents) = (piece.document, piece.documents_before);
        position.begins_file = piece.before == 0;
        self.open_file.as_mut().context("a piece is open")?.sentences_left = piece.sentences;
        Ok(true)
    }

    /// Takes the next piece, the part of a selected segment in one file; `None` after the last piece.
    fn take_next_piece(&mut self, position: &mut ReadingPosition) -> Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.pieces_left.next() {
                return Ok(Some(piece));
            }
            let Some(number) = self.segments.next() else { return Ok(None) };
            let segment = self.index.read_segment(number)?;
            position.next_index = number * SEGMENT_SENTENCES;
            self.families_left = segment.families().into_iter();
            self.pieces_left = segment.pieces.into_iter();
        }
    }

    /// Opens an uncompressed file at the beginning of `piece`, or a compressed file at its own beginning.
    fn open(&mut self, piece: &Piece, compression: Compression, position: &mut ReadingPosition) -> Result<()> {
        let (number, file) = (piece.file, &self.files[piece.file]);
        let is_plain = compression == Compression::None;
        let (start, bytes) = if is_plain { (piece.start, piece.bytes) } else { (0, u64::MAX) };
        let (path, read) = (Arc::clone(&file.path), Arc::clone(&position.bytes_read));
        let lines =
            file.source.open_at(start, bytes).and_then(|source| Lines::new(number, path, source, compression, read));
        let lines = lines.cannot("open corpus", &file.path)?;
        position.context.file = FileContext::default();
        self.open_file = Some(if is_plain {
            position.context.file.entity_fields = piece.entity_fields.as_deref().map(Arc::from);
            position.context.file.previous_document.clone_from(&piece.document_name);
            let (lines, sha256) = (lines.with_preceding_lines(piece.lines_before), hex(&piece.sha256));
            OpenFile { file: number, lines, sha256, sentences_before: piece.before, sentences_left: 0 }
        } else {
            let sha256 = self.index.indexed_files[number].sha256.clone();
            OpenFile { file: number, lines, sha256, sentences_before: 0, sentences_left: 0 }
        });
        Ok(())
    }

    /// Closes the open file. Fails if the bytes read differ from the indexed bytes.
    fn close(&mut self) -> Result<()> {
        let Some(OpenFile { file, lines, sha256, .. }) = self.open_file.take() else { return Ok(()) };
        if lines.into_sha256()? == sha256 { Ok(()) } else { Err(self.index.changed_error(&self.files[file].path)) }
    }
}
