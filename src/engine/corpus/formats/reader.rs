//! The interface of corpus readers, and the context that they keep between sentences.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::corpus::lines::Lines;
use crate::corpus::relation::RelationNames;
use crate::corpus::sentence::Sentence;
use crate::corpus::sentence::links::{ConlluLinkColumn, LinkTypes};
use crate::system::errors::ErrorExt;

/// A corpus format: its name, its file extensions and its reader.
pub(in crate::corpus) struct FormatReader {
    pub name: &'static str,
    /// File extensions of the format, in lower case.
    pub extensions: &'static [&'static str],
    /// Whether a file may hold running text. Only running text can be truncated (`--truncate`).
    pub may_have_text: bool,
    /// Reads the next sentence of a file, or `None` at its end; errors name the file, the line and the value.
    pub read: fn(&mut Lines, &mut ReaderContext) -> Result<Option<ParsedSentence>>,
}

/// A sentence as a format's reader returns it. Its index, document and group of related sentences are assigned later.
pub(in crate::corpus) struct ParsedSentence {
    pub sentence: Sentence,
    /// Whether the file marks the beginning of a document here. The first sentence of a file always begins one.
    pub begins_document: bool,
    /// Name of the sentence's family, a group of related sentences, if the file gives one; never empty.
    pub family: Option<Box<str>>,
}

impl From<Sentence> for ParsedSentence {
    fn from(sentence: Sentence) -> Self {
        Self { sentence, begins_document: false, family: None }
    }
}

/// Parses the next line that is not blank, and records its file and line in the sentence; `None` at the end of the file.
pub(super) fn next_line(
    lines: &mut Lines,
    mut parse: impl FnMut(&str) -> Result<ParsedSentence>,
) -> Result<Option<ParsedSentence>> {
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        let parsed = parse(line);
        let mut parsed = parsed.at_line(lines.path(), lines.number())?;
        parsed.sentence.origin = lines.origin();
        return Ok(Some(parsed));
    }
    Ok(None)
}

/// State that a reader of corpus files keeps from sentence to sentence.
#[derive(Default)]
pub(in crate::corpus) struct ReaderContext {
    pub relations: RelationNames,
    pub link_types: LinkTypes,
    /// Names of the columns or keys that are read into [`Annotation::requested`](crate::corpus::Annotation::requested).
    pub requested_columns: Arc<[String]>,
    /// Column of CoNLL-U from which links are read; `None` if links are not read from columns.
    pub links_from: Option<ConlluLinkColumn>,
    /// Whether word classes are read. If a line has classes under several keys, the run must name one key.
    pub reads_classes: bool,
    /// Column or key of the word classes, if the run names one.
    pub class_column: Option<Arc<str>>,
    pub file: FileContext,
}

/// Declarations of the current file that apply to its later sentences.
#[derive(Default)]
pub(in crate::corpus) struct FileContext {
    /// Field names of [`Annotation::entity`](crate::corpus::Annotation::entity), in the order that the file declares.
    pub entity_fields: Option<Arc<str>>,
    /// Name of the preceding sentence's document, in formats that name the document of each sentence.
    pub previous_document: Option<DocumentName>,
    /// Name of the program that generated the corpus, from `# global.generated`; `None` without that comment.
    pub generator: Option<Box<str>>,
    pub is_glued: bool,
}

impl FileContext {
    /// Sets a sentence's index and entity fields, and whether it is glued to the sentence before: no white space separates
    /// the two. The first sentence of a segment is never glued, since a shard may not read the sentence before it.
    pub(in crate::corpus) fn with_file_context(
        &mut self,
        sentence: Sentence,
        index: u64,
        begins_segment: bool,
    ) -> Sentence {
        let is_glued = self.is_glued && !begins_segment;
        self.is_glued = sentence.written.as_ref().is_some_and(|written| !written.space_after);
        Sentence { index, follows_without_space: is_glued, entity_fields: self.entity_fields.clone(), ..sentence }
    }
}

/// Name of a document, or of a family of sentences, in JSON lines.
///
/// Consecutive sentences with one document name form a document. All sentences with one family name form a family.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`document` and `family` are a string or a whole number each")]
pub(crate) enum JsonName {
    Text(Box<str>),
    Number(i64),
}

impl JsonName {
    pub(crate) fn into_text(self) -> Box<str> {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string().into(),
        }
    }
}

/// Name of a document, tagged as text or number, in the form that the binary index stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::corpus) enum DocumentName {
    Text(Box<str>),
    Number(i64),
}

impl From<JsonName> for DocumentName {
    fn from(name: JsonName) -> Self {
        match name {
            JsonName::Text(text) => Self::Text(text),
            JsonName::Number(number) => Self::Number(number),
        }
    }
}
