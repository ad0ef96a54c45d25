//! Readers of corpus files: the shape that each format's has, and what they remember.

use std::sync::Arc;

use anyhow::Result;
use serde::Deserialize;

use super::lines::Lines;
use super::relation::RelationNames;
use super::sentence::{Content, Origin};

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

/// The memory of readers from sentence to sentence.
#[derive(Default)]
pub(super) struct Context {
    /// Of the whole corpus.
    pub relations: RelationNames,
    /// Of the file.
    pub file: FileContext,
}

/// The memory of readers of the file that they read.
#[derive(Default)]
pub(super) struct FileContext {
    /// The fields of [`Annotation::entity`](super::Annotation::entity) in the order that the file declares.
    pub entity_fields: Option<Arc<str>>,
    /// The document of the sentence before, where sentences name theirs.
    pub document: Option<DocumentId>,
}

/// The name of a document: sentences that follow each other under one name are of one document.
#[derive(Deserialize, PartialEq)]
#[serde(untagged, expecting = "`document` is a string or a whole number")]
pub(super) enum DocumentId {
    Name(Box<str>),
    Number(i64),
}
