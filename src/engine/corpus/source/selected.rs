//! Reads selected segments of a corpus by its index, and checks the bytes read against the index. From an uncompressed file it
//! reads only the selected bytes; it reads a compressed file from beginning to end.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::vec;

use anyhow::{Context as _, Result};

use crate::corpus::files::CorpusFile;
use crate::corpus::formats::Format;
use crate::corpus::formats::reader::{Context, FileContext, Parsed};
use crate::corpus::index::{Index, Piece, SEGMENT_SENTENCES};
use crate::corpus::lines::{Compression, Lines};
use crate::corpus::sentence::{Sentence, SentenceFamily};
use crate::system::errors::Facts;
use crate::system::files::digest::hex;

pub(super) struct SelectedSegments {
    index: Arc<Index>,
    files: Vec<CorpusFile>,
    segments: vec::IntoIter<u64>,
    pieces: vec::IntoIter<Piece>,
    families: vec::IntoIter<SentenceFamily>,
    current: Option<OpenPiece>,
    next_index: u64,
    document: u64,
    of_documents: bool,
    documents: u64,
    begins_file: bool,
    bytes_read: Arc<AtomicU64>,
}

/// Open stretch of an uncompressed file, or open compressed file, which is read from beginning to end.
struct OpenPiece {
    file: usize,
    lines: Lines,
    sha256: String,
    /// Number of sentences in the file before the next one to read.
    passed: u64,
    /// Number of sentences of the current piece still to read.
    left: u64,
}

impl SelectedSegments {
    pub(super) fn new(
        index: Arc<Index>,
        files: Vec<CorpusFile>,
        segments: Vec<u64>,
        (of_documents, bytes_read): (bool, Arc<AtomicU64>),
    ) -> Self {
        Self {
            index,
            files,
            segments: segments.into_iter(),
            pieces: Vec::new().into_iter(),
            families: Vec::new().into_iter(),
            current: None,
            next_index: 0,
            document: 0,
            of_documents,
            documents: 0,
            begins_file: false,
            bytes_read,
        }
    }

    /// Reads the next sentence, with the format of its file; `None` after the last. Fails if the bytes read differ from the
    /// indexed ones.
    pub(super) fn next(&mut self, context: &mut Context) -> Result<Option<(Sentence, Format)>> {
        while self.current.as_ref().is_none_or(|open| open.left == 0) {
            if !self.begin_piece(context)? {
                return Ok(None);
            }
        }
        let Parsed { sentence, begins_document, .. } = self.read(context)?;
        let format = self.files[sentence.origin.file].kind.format;
        let index = self.next_index;
        self.next_index += 1;
        if begins_document {
            self.document = index;
        }
        self.documents += u64::from(begins_document || self.begins_file);
        self.begins_file = false;
        let family = self.families.next().context("a segment has a family for each sentence")?;
        let document_number = self.documents.checked_sub(1).filter(|_| self.of_documents);
        let sentence = context.file.placed(sentence, index, index.is_multiple_of(SEGMENT_SENTENCES));
        Ok(Some((Sentence { document: self.document, document_number, family, ..sentence }, format)))
    }

    /// Reads a sentence of the open file. If that fails, a change of the file since indexing is reported before other errors.
    fn read(&mut self, context: &mut Context) -> Result<Parsed> {
        let open = self.current.as_mut().context("a piece is open")?;
        let format = self.files[open.file].kind.format;
        match (format.entry().read)(&mut open.lines, context) {
            Ok(Some(parsed)) => {
                open.left = open.left.saturating_sub(1);
                open.passed += 1;
                Ok(parsed)
            }
            Ok(None) => Err(self.index.changed(&self.files[open.file].path)),
            Err(error) => {
                self.close()?;
                Err(error)
            }
        }
    }

    fn begin_piece(&mut self, context: &mut Context) -> Result<bool> {
        let Some(piece) = self.next_piece()? else {
            self.close()?;
            return Ok(false);
        };
        let Piece { file, sentences, before, .. } = piece;
        let compression = self.files[file].kind.compression;
        let is_open = self.current.as_ref().is_some_and(|open| open.file == file && open.passed <= before);
        if compression == Compression::None || !is_open {
            self.close()?;
            self.open(&piece, compression, context)?;
        }
        // In a compressed file, the sentences between two pieces are read too.
        while let Some(open) = self.current.as_mut().filter(|open| open.passed < before) {
            open.left = 1;
            self.read(context)?;
        }
        self.document = piece.document;
        self.documents = piece.documents_before;
        self.begins_file = before == 0;
        if let Some(open) = &mut self.current {
            open.left = sentences;
        }
        Ok(true)
    }

    fn next_piece(&mut self) -> Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.pieces.next() {
                return Ok(Some(piece));
            }
            let Some(number) = self.segments.next() else { return Ok(None) };
            let segment = self.index.segment(number)?;
            self.next_index = number * SEGMENT_SENTENCES;
            self.families = segment.families().into_iter();
            self.pieces = segment.pieces.into_iter();
        }
    }

    fn open(&mut self, piece: &Piece, compression: Compression, context: &mut Context) -> Result<()> {
        let (number, file) = (piece.file, &self.files[piece.file]);
        let is_plain = compression == Compression::None;
        let (start, bytes) = if is_plain { (piece.start, piece.bytes) } else { (0, u64::MAX) };
        let (path, read) = (Arc::clone(&file.path), Arc::clone(&self.bytes_read));
        let lines =
            file.source.open_at(start, bytes).and_then(|source| Lines::new(number, path, source, compression, read));
        let lines = lines.cannot("open corpus", &file.path)?;
        self.current = Some(if is_plain {
            let lines = lines.after(piece.lines_before);
            context.file = FileContext {
                entity_fields: piece.entity_fields.as_deref().map(Arc::from),
                document: piece.document_name.clone(),
                ..FileContext::default()
            };
            OpenPiece { file: number, lines, sha256: hex(&piece.sha256), passed: piece.before, left: 0 }
        } else {
            context.file = FileContext::default();
            OpenPiece { file: number, lines, sha256: self.index.files[number].sha256.clone(), passed: 0, left: 0 }
        });
        Ok(())
    }

    /// Closes the open file. Fails if its bytes differ from the indexed ones.
    fn close(&mut self) -> Result<()> {
        let Some(OpenPiece { file, lines, sha256, .. }) = self.current.take() else { return Ok(()) };
        if lines.into_sha256()? == sha256 { Ok(()) } else { Err(self.index.changed(&self.files[file].path)) }
    }
}
