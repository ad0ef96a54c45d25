//! Position of a reader in a corpus, for reading in order and for reading selected segments.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::corpus::formats::reader::ReaderContext;

/// Numbers of the next sentence and of the current document, and the context of the open file.
#[derive(Default)]
pub(super) struct ReadingPosition {
    /// Number of bytes read so far from all files, before decompression.
    pub bytes_read: Arc<AtomicU64>,
    /// Index of the next sentence.
    pub next_index: u64,
    /// Index in the corpus of the first sentence of the current document.
    pub document: u64,
    /// Number of documents begun so far; skipped documents do not count.
    pub documents: u64,
    pub begins_file: bool,
    pub context: ReaderContext,
}

impl ReadingPosition {
    /// Numbers the next sentence and returns its index. If it begins a document, as the first sentence of a file always
    /// does, the document is numbered too.
    pub fn number_sentence(&mut self, begins_document: bool) -> u64 {
        let index = self.next_index;
        self.next_index += 1;
        if std::mem::take(&mut self.begins_file) || begins_document {
            self.document = index;
            self.documents += 1;
        }
        index
    }
}
