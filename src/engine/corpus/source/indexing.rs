//! Builds the index of a corpus: reads it once from beginning to end, as a run without an index does.

use anyhow::{Context as _, Result};

use super::{Corpus, FileIdentity, read_ahead};
use crate::corpus::files::input::Input;
use crate::corpus::index::{IndexWriter, IndexedFile, Piece, SEGMENT_SENTENCES, Segment};
use crate::corpus::lines::Compression;
use crate::corpus::sentence::SentenceGroup;
use crate::system::errors::{ErrorClass, ErrorExt};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexCounts {
    pub files: usize,
    pub sentences: u64,
    pub segments: usize,
}

/// Indexes a corpus; `write` receives the parts of the index in order. Fails if an input can be read only once.
pub fn write_index(inputs: &[Input], write: impl FnMut(&[u8]) -> Result<()>) -> Result<IndexCounts> {
    Input::ensure_files(inputs).class(ErrorClass::Input)?;
    let corpus = Corpus::open(inputs)?;
    index(corpus, write).class(ErrorClass::Input)
}

fn index(mut corpus: Corpus, write: impl FnMut(&[u8]) -> Result<()>) -> Result<IndexCounts> {
    let about = corpus.files.as_slice().iter().map(|file| {
        let only_once = || format!("`{}` can be read only once: an index is of files", file.path);
        Ok((file.bytes.with_context(only_once).with_file(&file.path)?, file.kind.compression != Compression::None))
    });
    let about: Vec<(u64, bool)> = about.collect::<Result<_>>()?;
    let marks = read_ahead(corpus.files.as_slice(), false).marks;
    corpus.scope = corpus.scope.with_all_sentences(marks.unit());
    let mut records = IndexWriter::new(write)?;
    let (mut segment, mut families_before) = (Segment::new(0), 0);
    while corpus.open_next_file()? {
        while let Some((piece, families)) = corpus.read_piece()? {
            // The lines after the last sentence of a file belong to the segment of that sentence.
            if segment.is_full() && !families.is_empty() {
                records.add_segment(&std::mem::replace(&mut segment, Segment::new(families_before)))?;
            }
            families_before = segment.add_piece(piece, &families, families_before);
        }
        corpus.close_file()?;
    }
    if !segment.pieces.is_empty() {
        records.add_segment(&segment)?;
    }
    let (repeats, files) = (corpus.families.counts, std::mem::take(&mut corpus.finished_files));
    let file = |(file, (bytes, is_compressed)): (FileIdentity, (u64, bool))| {
        let FileIdentity { name, format, sha256, generated } = file;
        IndexedFile { name, format, is_compressed, bytes, sha256, generated }
    };
    let files: Vec<IndexedFile> = files.into_iter().zip(about).map(file).collect();
    let (count, sentences) = (files.len(), repeats.read);
    Ok(IndexCounts { files: count, sentences, segments: records.finish(&files, repeats, marks)? })
}

impl Corpus {
    /// Reads the open file up to the end of the file or of the segment. Returns a description of the lines read, and
    /// the group of each sentence in them; `None` at the end of the file.
    fn read_piece(&mut self) -> Result<Option<(Piece, Vec<SentenceGroup>)>> {
        let (file, documents_before) = (self.finished_files.len(), self.position.documents);
        // A file begins a document.
        let document = if self.position.begins_file { self.position.next_index } else { self.position.document };
        let Some((_, _, lines)) = &mut self.open_file else { return Ok(None) };
        let (start, lines_before) = lines.start_digest();
        let before = self.position.next_index - self.first_index;
        let entity_fields = self.position.context.file.entity_fields.as_deref().map(Box::from);
        let document_name = self.position.context.file.previous_document.clone();
        let most = SEGMENT_SENTENCES - self.position.next_index % SEGMENT_SENTENCES;
        let mut families = Vec::new();
        while (families.len() as u64) < most
            && let Some((parsed, index)) = self.parse_next_in_file()?
        {
            families.push(self.finish_sentence(parsed, index).family);
        }
        let (bytes, sha256) = self.open_file.as_mut().context("the file is open")?.2.finish_digest();
        let sentences = families.len() as u64;
        let piece = Piece {
            file,
            sentences,
            before,
            start,
            bytes,
            lines_before,
            sha256,
            document,
            documents_before,
            entity_fields,
            document_name,
        };
        Ok((bytes > 0).then_some((piece, families)))
    }
}
