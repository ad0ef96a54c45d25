//! Formats of corpus files: one table entry each, which its reader's module has.

use std::fmt;
use std::sync::Arc;

use anyhow::Result;

use super::lines::Lines;
use super::relation::RelationNames;
use super::{Content, Origin, conllu, jsonl, text};

/// A corpus file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// CoNLL-U, Universal Dependencies' ten columns.
    Conllu,
    /// One sentence per line, a blank line between documents.
    Text,
    /// One JSON object per line: words, with or without heads and relations, or text.
    Jsonl,
}

/// A format's table entry.
pub(super) struct Entry {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// The file extensions that it is told by, in lower case.
    pub extensions: &'static [&'static str],
    /// Whether a file may have running text, which can be cut.
    pub may_have_text: bool,
    /// Reads the next sentence of a file, or `None` at its end; errors name the file, the line and the value.
    pub read: fn(&mut Lines, &mut Context) -> Result<Option<Parsed>>,
}

/// A sentence as a reader hands it over, not yet numbered.
pub(super) struct Parsed {
    pub origin: Origin,
    pub content: Content,
    /// Whether a document begins with it, as far as the file says; the first of a file begins one in any case.
    pub begins_document: bool,
}

/// What readers remember from sentence to sentence.
#[derive(Default)]
pub(super) struct Context {
    /// Of the whole corpus.
    pub relations: RelationNames,
    /// Of the file.
    pub file: FileContext,
}

/// What readers remember of the file that they read.
#[derive(Default)]
pub(super) struct FileContext {
    /// The fields of [`Annotation::entity`](super::Annotation::entity) in the order that the file declares.
    pub entity_fields: Option<Arc<str>>,
    /// The document of the sentence before, where sentences name theirs.
    pub document: Option<jsonl::DocumentId>,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Conllu, Self::Text, Self::Jsonl];

    pub(super) fn entry(self) -> &'static Entry {
        match self {
            Self::Conllu => &conllu::ENTRY,
            Self::Text => &text::ENTRY,
            Self::Jsonl => &jsonl::ENTRY,
        }
    }

    /// The file extensions that a format is told by, in lower case.
    #[must_use]
    pub fn extensions(self) -> &'static [&'static str] {
        self.entry().extensions
    }

    /// The name that the command line and the report have for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
